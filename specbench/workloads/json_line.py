"""One line of JSON Lines to a value, strictly: what could mean two things is refused."""

from __future__ import annotations

import codecs
import json
from typing import Any


class NotJson(ValueError):  # noqa: N818 - it says what the line is
    """The line is no JSON, or no value that can be written again as UTF-8."""


def parse_line(line: bytes) -> Any:
    """Give the value of one line.

    Raises:
        NotJson: With what is wrong and the column, from 1.
    """
    try:
        text = line.removeprefix(codecs.BOM_UTF8).decode()
    except UnicodeDecodeError as error:
        raise NotJson(f"no UTF-8 text at byte {error.start + 1} of the line") from None
    try:
        value = json.loads(text, object_pairs_hook=_object, parse_constant=_constant)
    except json.JSONDecodeError as error:
        raise NotJson(no_valid_json(error)) from None
    except RecursionError:
        raise NotJson("no valid JSON: nested too deeply") from None
    if "\\u" in text:
        try:
            json.dumps(value, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            raise NotJson("half of a surrogate pair: no text") from None
    return value


def no_valid_json(error: json.JSONDecodeError) -> str:
    """Say what is wrong, and at which column."""
    return f"no valid JSON: {error.msg.removesuffix(' at')} at column {error.colno}"


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        double = next(name for name in names if names.count(name) > 1)
        raise NotJson(f"key {double!r} stands twice in one object")
    return found


def _constant(name: str) -> float:
    raise NotJson(f"{name} is no number of JSON")
