"""Server families by name. Not in the package itself, so that a simulated server loads no other."""

from __future__ import annotations

from collections.abc import Mapping

from specbench.engines.contract import Engine
from specbench.engines.simulated.engine import SimulatedEngine
from specbench.engines.vllm.engine import VllmEngine

ENGINES: Mapping[str, Engine] = {
    engine.name: engine for engine in (SimulatedEngine(), VllmEngine())
}
"""Every engine that specbench knows."""
