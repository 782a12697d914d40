"""Whether the target's chat template knows thinking: a template ignores what it does not name."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

from specbench.errors import Problem
from specbench.experiment.model import AttachLauncher, Experiment, Target

_INSIDE = re.compile(r"\{[{%](.*?)[%}]\}", re.DOTALL)
_QUOTED = re.compile(r"'(?:\\.|[^'\\])*'|\"(?:\\.|[^\"\\])*\"", re.DOTALL)
_SETTING = re.compile(r"\b(?:enable_)?thinking\b")


def thinking_problems(experiment: Experiment) -> Iterator[Problem]:
    """Give samplings that ask for thinking on or off of a template that has no such setting.

    A template that is not on this machine is not judged, nor that of a server that runs already.
    """
    asked = [item.name for item in experiment.sampling if item.thinking is not None]
    if not asked or isinstance(experiment.launcher, AttachLauncher):
        return
    found = _template(experiment.target)
    if found is None or knows_thinking(found[1]):
        return
    path, _ = found
    for name in asked:
        yield Problem(
            f"sampling {name!r} sets thinking, and chat template {path} takes neither "
            "enable_thinking nor thinking",
            "leave thinking out, or name a template that does: target.flags.chat-template",
        )


def knows_thinking(template: str) -> bool:
    """Tell whether a Jinja template reads a setting of thinking; its texts do not count."""
    return any(_SETTING.search(_QUOTED.sub("", code)) for code in _INSIDE.findall(template))


def _template(target: Target) -> tuple[Path, str] | None:
    """Give the file and text of the template that the server will use, where they are here.

    A checkpoint has it in a file of its own, or in its tokenizer's configuration: as a text, or
    as a list of named texts.
    """
    named = target.flags.get("chat-template")
    own = Path(target.model) / "chat_template.jinja"
    path = Path(named) if isinstance(named, str) else own
    try:
        if named is not None or path.is_file():
            return path, path.read_text(encoding="utf-8")
        path = Path(target.model) / "tokenizer_config.json"
        held = json.loads(path.read_text(encoding="utf-8")).get("chat_template")
    except (OSError, ValueError, AttributeError):
        return None
    return None if held is None else (path, held if isinstance(held, str) else _named(held))


def _named(held: object) -> str:
    texts = held if isinstance(held, list) else []
    return "\n".join(str(item.get("template")) for item in texts if isinstance(item, dict))
