"""The chart library's JavaScript, which makes a page work without a network."""

from __future__ import annotations

import hashlib
from importlib.metadata import version

import vl_convert

from specbench.whole_files import cache_folder, write_text


def javascript(snippet: str) -> str:
    """Give Vega, Vega-Lite and a snippet as one script.

    Bundling takes two seconds and always gives the same, so one is kept for each version.
    """
    key = f"{version('vl-convert-python')} {snippet}"
    name = f"vega-{hashlib.sha256(key.encode()).hexdigest()[:16]}.js"
    kept = cache_folder() / name
    try:
        return kept.read_text(encoding="utf-8")
    except (OSError, ValueError):
        bundle: str = vl_convert.javascript_bundle(snippet)
    try:
        kept.parent.mkdir(parents=True, exist_ok=True)
        write_text(kept, bundle)
    except OSError:
        # A home that cannot be written costs two seconds next time.
        pass
    return bundle
