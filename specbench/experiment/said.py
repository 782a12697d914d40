"""What a field of a document says of itself: its help sentence, and its limits."""

from __future__ import annotations

from typing import Any


def said(text: str, **limits: Any) -> dict[str, Any]:
    """Give a field its help sentence and JSON Schema limits, such as `minimum=1`."""
    return {"help": text, "limits": limits}
