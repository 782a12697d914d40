"""What a checkpoint holds, by digests: the same files have to be served in every deployment."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from specbench.errors import DeploymentError

TOKENIZER_FILES = (
    "tokenizer.json",
    "tokenizer_config.json",
    "tokenizer.model",
    "chat_template.jinja",
)
CONFIG_FILES = ("config.json", "generation_config.json")
PARTS = ("config", "tokenizer", "weights")
READERS = 4
"""Files of weights that are read at once; one alone gives about 1 GB/s."""

Checkpoint = dict[str, Any]


def checkpoint(path: str) -> Checkpoint:
    """Give the SHA-256 of a local checkpoint's configuration, tokenizer and weights, by file name.

    A hub id gives only its name: what it resolves to is the engine's business.
    """
    folder = Path(path)
    if not folder.is_dir():
        return {"path": path, "local": False}
    weights = sorted(folder.glob("*.safetensors"))
    with ThreadPoolExecutor(READERS) as readers:
        digests = list(readers.map(_sha256, weights))
    return {
        "path": path,
        "local": True,
        "config": {name: _sha256(folder / name) for name in CONFIG_FILES},
        "tokenizer": {name: _sha256(folder / name) for name in TOKENIZER_FILES},
        "weights": {item.name: digest for item, digest in zip(weights, digests, strict=True)},
    }


def require_equal(found: Iterable[Checkpoint], recorded: Mapping[str, Any]) -> None:
    """Refuse to serve a checkpoint that is another one than the run's provenance states.

    Raises:
        DeploymentError: kind `checkpoint_changed`, naming the files that differ.
    """
    known = {item["path"]: item for item in (recorded["target"], *recorded["assets"].values())}
    changed = [name for item in found for name in _changed(item, known.get(item["path"], {}))]
    if changed:
        raise DeploymentError(
            f"other files than this run began with: {', '.join(changed)}",
            kind="checkpoint_changed",
            hint="put them back, or measure the new ones in a run of their own (--again)",
        )


def _changed(found: Checkpoint, known: Mapping[str, Any]) -> Iterator[str]:
    for part in PARTS:
        now, before = found.get(part, {}), known.get(part, {})
        for name in sorted({*now, *before}):
            if now.get(name) != before.get(name):
                yield f"{found['path']}/{name}"


def _sha256(path: Path) -> str | None:
    if not path.is_file():
        return None
    state = path.stat()
    return _digest(path, state.st_dev, state.st_ino, state.st_size, state.st_ctime_ns)


@functools.cache
def _digest(path: Path, *_identity: int) -> str:
    """Read a file once for as long as the system says that it is the same one, unchanged."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
