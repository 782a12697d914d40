from __future__ import annotations

from pathlib import Path

import pytest
import vl_convert

from specbench.report.bundle import javascript


def test_a_bundle_is_made_once_and_kept_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    made: list[str] = []

    def bundling(snippet: str) -> str:
        made.append(snippet)
        return f"bundle of {snippet}"

    monkeypatch.setattr(vl_convert, "javascript_bundle", bundling)
    assert javascript("a") == javascript("a") == "bundle of a"
    assert javascript("b") == "bundle of b"
    assert made == ["a", "b"]
    assert len(list((tmp_path / "specbench").glob("vega-*.js"))) == 2


def test_a_home_that_cannot_be_written_still_gives_a_bundle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "specbench").write_text("no folder")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(vl_convert, "javascript_bundle", lambda snippet: snippet.upper())
    assert javascript("a") == "A"
