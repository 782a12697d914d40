"""A client process of its own: drives its share of a window and gives its part of it.

    python -m specbench.traffic.worker

It speaks pickle over standard input and output with the process that started it, and only with it.
The command may stand behind a launcher, such as `srun --ntasks 1`: a worker needs no more of where
it runs than the server's address. Instants of another machine are on another clock, which is told.
"""

from __future__ import annotations

import pickle
import sys
from typing import BinaryIO

import anyio
import anyio.to_thread

from specbench.traffic.event_loop import event_loop_options
from specbench.traffic.loops import driver
from specbench.traffic.share import READY, STOP, Done, Share, boot


async def work(commands: BinaryIO, results: BinaryIO) -> None:
    """Take a share, open its connections, wait for the common start, drive, and give the part."""
    share: Share = pickle.load(commands)  # noqa: S301 - from the process that started us
    stopped = False
    drive = driver(share.requests, share.point, stop=lambda: stopped)
    await drive.prepare()
    results.write(READY)
    results.flush()
    start_ns = int(await anyio.to_thread.run_sync(commands.readline))

    async def listen() -> None:
        nonlocal stopped
        said = await anyio.to_thread.run_sync(commands.readline, abandon_on_cancel=True)
        # The end of the input is the end of who wanted the part.
        stopped = said in (STOP, b"")

    async with anyio.create_task_group() as group:
        group.start_soon(listen)
        part = await drive.run(start_ns)
        group.cancel_scope.cancel()
    pickle.dump(Done(part=part, clock=boot()), results, protocol=pickle.HIGHEST_PROTOCOL)
    results.flush()


def main() -> None:
    """Work for whoever started this process."""
    anyio.run(work, sys.stdin.buffer, sys.stdout.buffer, backend_options=event_loop_options())


if __name__ == "__main__":
    main()
