from __future__ import annotations

import resource

import pytest

from specbench.errors import MachineError
from specbench.traffic.limits import require_machine


def test_this_machine_can_measure_a_few_streams() -> None:
    require_machine(8)


def test_more_streams_than_open_files_are_refused_with_the_remedy() -> None:
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    with pytest.raises(MachineError, match=f"ulimit -n {files + 65}") as caught:
        require_machine(files + 1)
    assert caught.value.exit_code == 5
