"""Find, load and check method plugins.

Entry points are loaded one by one, because pluggy's own loader skips a taken name in silence and
aborts on the first broken import.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from importlib.metadata import EntryPoint, entry_points
from typing import Any

import attrs
import pluggy

from specbench import hookspecs
from specbench.errors import PluginError
from specbench.methods import Method

GROUP = "specbench"
RESTRICTION = "SPECBENCH_PLUGINS"


@attrs.frozen(kw_only=True)
class LoadedMethod:
    """A method and the distribution that gave it."""

    method: Method[Any]
    distribution: str
    version: str


Methods = Mapping[str, LoadedMethod]


def load_methods(points: Iterable[EntryPoint] | None = None) -> Methods:
    """Give every installed method by name, sorted.

    `SPECBENCH_PLUGINS=a,b` restricts loading to the entry points named a and b.

    Raises:
        PluginError: A plugin does not import, has a hook of an unknown name, gives something that
            is no method, or gives a name that another distribution gives too.
    """
    wanted = [name for name in os.environ.get(RESTRICTION, "").split(",") if name]
    found = entry_points(group=GROUP) if points is None else points
    methods: dict[str, LoadedMethod] = {}
    for point in sorted(found, key=lambda point: (_distribution(point), point.name)):
        if wanted and point.name not in wanted:
            continue
        for loaded in _methods_of(point):
            name = loaded.method.name
            if name in methods:
                other = methods[name]
                raise PluginError(
                    f"method {name!r} is provided by both {other.distribution} {other.version} "
                    f"and {loaded.distribution} {loaded.version}",
                    f"uninstall one, or name the plugins to load in {RESTRICTION}",
                )
            methods[name] = loaded
    return dict(sorted(methods.items()))


def _methods_of(point: EntryPoint) -> list[LoadedMethod]:
    label = f"plugin {point.name!r} of distribution {_distribution(point)} {_version(point)}"
    host = pluggy.PluginManager("specbench")
    host.add_hookspecs(hookspecs)
    try:
        host.register(point.load())
        host.check_pending()
        given = [method for methods in host.hook.specbench_methods() for method in methods]
    except Exception as error:  # plugin code may raise anything; its distribution is named
        raise PluginError(
            f"{label} could not be loaded: {type(error).__name__}: {error}",
            f"mend or uninstall it, or name the plugins to load in {RESTRICTION}",
        ) from error
    if not host.hook.specbench_methods.get_hookimpls():
        raise PluginError(
            f"{label} implements no hook", "define specbench_methods() with @hookimpl"
        )
    return [_checked(method, label, point) for method in given]


def _checked(method: object, label: str, point: EntryPoint) -> LoadedMethod:
    if not isinstance(method, Method):
        raise PluginError(f"{label} gave {method!r}, which is no specbench.Method")
    if not isinstance(getattr(method, "name", None), str) or not attrs.has(
        getattr(method, "options", type(None))
    ):
        raise PluginError(
            f"{label} gave {type(method).__name__}, which lacks a name or an attrs options class"
        )
    return LoadedMethod(method=method, distribution=_distribution(point), version=_version(point))


def _distribution(point: EntryPoint) -> str:
    return point.dist.name if point.dist else "unknown"


def _version(point: EntryPoint) -> str:
    return point.dist.version if point.dist else "?"
