from __future__ import annotations

import platform
import subprocess
import sys

import pytest

READ = """
import ctypes, os, platform, struct
from specbench.engines.simulated.time_slice import ask_for_short_slice

def told():
    number = {"x86_64": 315, "aarch64": 275}[platform.machine()]
    found = ctypes.create_string_buffer(48)
    assert ctypes.CDLL(None).syscall(number, 0, found, 48, 0) == 0
    _, policy, _, nice, _, slice_ns, _, _ = struct.unpack("=IIQiIQQQ", found.raw)
    return policy, nice, slice_ns

os.nice(3)
"""
LINUX_6_12 = (6, 12)


def asked(then: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", READ + then], capture_output=True, text=True, check=True
    )
    return done.stdout.split()


pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or platform.machine() not in ("x86_64", "aarch64"),
    reason="the numbers of the system call are those of Linux on these machines",
)


def test_the_slice_is_short_and_policy_and_niceness_stay() -> None:
    said = asked("print(ask_for_short_slice(), *told())")
    assert said[:3] == ["True", "0", "3"]
    kernel = tuple(int(part) for part in platform.release().split("-")[0].split(".")[:2])
    # An older kernel tells 0, and takes no slice.
    assert said[3] == ("100000" if kernel >= LINUX_6_12 else "0")


def test_a_policy_that_somebody_gave_is_kept() -> None:
    batch = "os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))\n"
    said = asked(f"{batch}before = told()\nprint(ask_for_short_slice(), told() == before)")
    assert said == ["False", "True"]
