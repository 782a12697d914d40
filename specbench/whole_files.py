"""Files that are whole or absent, also after a kill or a power cut."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import cattrs

from specbench.errors import StoreError


def cache_folder() -> Path:
    """Give where specbench keeps what it could make again; XDG_CACHE_HOME moves it."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "specbench"


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON object.

    Raises:
        StoreError: The file is missing, or no whole JSON.
    """
    try:
        value: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise StoreError(f"{path} cannot be read: {error}") from error
    return value


def write_json(path: Path, value: Any) -> None:
    """Write JSON so that the file is whole or absent."""
    write_text(path, json_text(value))


def json_text(value: Any) -> str:
    """Give a value, attrs instances included, as JSON for people and machines."""
    return json.dumps(cattrs.unstructure(value), indent=1, default=str) + "\n"


def write_text(path: Path, text: str) -> None:
    """Write text so that the file is whole or absent, also after a power cut."""
    draft = path.with_name(f".{path.name}.partial")
    with draft.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)


def file_digest(path: Path) -> str:
    """Give the sha256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
