"""Takes a capture of a running server: greedy outputs on the correctness prompts."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from specbench.experiment.load import Timeouts
from specbench.experiment.prompt import Prompt
from specbench.facts import Window
from specbench.proxy import Proxy
from specbench.traffic.drive import drive
from specbench.traffic.loops import LoadPoint
from specbench.traffic.requests import Wording, measured, shuffled


async def captured(
    prompts: Sequence[Prompt],
    wording: Wording,
    base_url: str,
    timeouts: Timeouts,
    *,
    proxy: Proxy | None = None,
    concurrency: Sequence[int],
    seed: int,
) -> list[Window]:
    """Give a pass over the prompts at each concurrency, in the order of the seed.

    Nothing of it warms the prefix cache of anything else: each pass has its own salt.
    """
    ordered = shuffled(prompts, seed)
    windows = []
    for asked in concurrency:
        spoken = attrs.evolve(wording, salt=f"{wording.salt}-c{asked}", shared_salt=None)
        point = LoadPoint(base_url=base_url, proxy=proxy, timeouts=timeouts, concurrency=asked)
        windows.append(await drive(measured(ordered, len(ordered), spoken), point))
    return windows
