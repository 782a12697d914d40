from __future__ import annotations

import pytest

from specbench.launchers.accelerators import holders, require_free_accelerators
from specbench.methods import Command

GPUS = "0, GPU-aaa\n1, GPU-bbb\n"
APPS = "GPU-bbb, 4711\nGPU-ccc, 5\nGPU-aaa, [N/A]\n"


@pytest.mark.parametrize(
    ("visible", "expected"),
    [(None, [("1", 4711)]), ("1", [("1", 4711)]), ("GPU-bbb", [("1", 4711)]), ("0", []), ("", [])],
)
def test_only_visible_gpus_that_a_process_uses_are_held(
    visible: str | None, expected: list
) -> None:
    assert list(holders(GPUS, APPS, visible)) == expected


def test_a_machine_without_gpus_has_nothing_to_wait_for() -> None:
    require_free_accelerators(Command(argv=(), environment={}))
