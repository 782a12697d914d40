"""A short time slice for the simulated server, so that it wakes up at its deadlines.

A process that wakes up while another has its processor waits for that one's slice or for the next
tick, 4 ms with 250 of them a second. Since Linux 6.12 one with a shorter slice is let in at once
(kernel/sched/fair.c, PREEMPT_SHORT). It asks for no right and takes no larger share: who wakes up
more often than its share allows waits like everybody else.
"""

from __future__ import annotations

import ctypes
import os
import platform
import struct

SLICE_NS = 100_000
"""The shortest that the kernel gives. The usual one is 0.7 ms on one core and more on several. Half
a millisecond was no better than that between two busy loops on two cores; a tenth was."""
_SYSCALLS = {"x86_64": 314, "aarch64": 274}
"""Numbers of sched_setattr (arch/x86/entry/syscalls, include/uapi/asm-generic/unistd.h)."""
_ATTRIBUTES = struct.Struct("=IIQiIQQQ")
"""struct sched_attr, first version (include/uapi/linux/sched/types.h): its size, policy, flags,
nice, priority, runtime (the slice of an ordinary process), deadline, period."""


def ask_for_short_slice() -> bool:
    """Ask the kernel to wake this process soon, and tell whether it took that.

    An older kernel takes it without effect. A process that somebody gave a policy of its own keeps
    it, and so does its niceness.
    """
    number = _SYSCALLS.get(platform.machine())
    if number is None or not hasattr(os, "sched_getscheduler"):
        return False
    if os.sched_getscheduler(0) != os.SCHED_OTHER:
        return False
    asked = _ATTRIBUTES.pack(
        _ATTRIBUTES.size, os.SCHED_OTHER, 0, os.getpriority(os.PRIO_PROCESS, 0), 0, SLICE_NS, 0, 0
    )
    try:
        done: int = ctypes.CDLL(None, use_errno=True).syscall(number, 0, asked, 0)
    except (OSError, AttributeError):
        return False
    return done == 0
