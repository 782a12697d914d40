"""Confounds of an arm to the twin of the baseline that has them too. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import attrs

from specbench.engines.contract import Engine
from specbench.methods import Confound, Launch


@attrs.frozen(kw_only=True)
class Twin:
    """The baseline with serving properties of an arm."""

    name: str
    launch: Launch
    properties: Mapping[str, str]
    """What the server must state of itself to be in effect."""


def twin(baseline: str, confounds: Iterable[Confound], engine: Engine) -> Twin | None:
    """Give the baseline's twin for a set of confounds; None where nothing of it can be set.

    Arms whose settable confounds are the same share one twin, because they share its name.
    """
    words: list[str] = []
    arguments: list[str] = []
    environment: dict[str, str] = {}
    properties: dict[str, str] = {}
    for confound in sorted(confounds, key=lambda item: item.fact):
        setting = engine.setting(confound.fact, confound.value or "")
        if setting is None or confound.value is None:
            continue
        words.append(setting.word)
        arguments += setting.launch.arguments
        environment |= setting.launch.environment
        properties[confound.fact] = confound.value
    if not words:
        return None
    launch = Launch(arguments=tuple(arguments), environment=environment)
    return Twin(name="-".join([baseline, *words]), launch=launch, properties=properties)


def left_unequal(confounds: Iterable[Confound], engine: Engine) -> tuple[str, ...]:
    """Give the confounds that no launch of the baseline can be given."""
    return tuple(
        confound.fact
        for confound in confounds
        if confound.value is None or engine.setting(confound.fact, confound.value) is None
    )
