"""How fast a core runs a fixed loop: a neighbour on the same physical core takes two fifths of it.

On a virtual machine that neighbour is another one's, comes and goes within seconds, and is seen
nowhere else; what runs in user space suffers most.
"""

from __future__ import annotations

import subprocess
import sys

from reference_server import on_core

UNDISTURBED = 0.9
"""Share of the best speed seen from which on a core counts as undisturbed."""
_LOOP = """
import time
def loop_ns():
    start, total = time.perf_counter_ns(), 0
    for number in range(200_000):
        total += number * number
    return (time.perf_counter_ns() - start) / 200_000
print(min(loop_ns() for _ in range(3)))
"""


def loop_ns(core: int) -> float:
    """Give what a turn of the loop takes on a core now, the best of three tries."""
    command = on_core(core, [sys.executable, "-S", "-c", _LOOP])
    return float(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)
