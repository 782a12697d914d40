"""The simulated server. Started as `python -m specbench.engines.simulated.server`, as vLLM is."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
import uuid
from functools import partial
from typing import Any

import msgspec

from specbench.engines.simulated import answers, error_bodies, faults, launch_log, resolved
from specbench.engines.simulated.answers import Answer
from specbench.engines.simulated.arguments import Configured, arguments, configured
from specbench.engines.simulated.http_server import HttpConnection, HttpRequest, Reply
from specbench.engines.simulated.player import Player
from specbench.engines.simulated.time_slice import ask_for_short_slice

EXPOSITION = "text/plain; version=0.0.4; charset=utf-8"


class Site:
    """The paths of the server."""

    def __init__(self, player: Player) -> None:
        self._player = player
        self._served = player.served
        self._created = int(player.started_unix_s)
        self._requests = 0
        self._pages: set[asyncio.Task[None]] = set()

    def handle(self, request: HttpRequest, reply: Reply) -> None:
        """Answer one request."""
        if (request.method, request.path) == ("POST", "/v1/chat/completions"):
            self._chat(request, reply)
        elif request.method != "GET":
            reply.end(reply.answer(404, error_bodies.error(404, "Not Found")))
        elif request.path == "/metrics":
            # Kept, so that nothing collects it before its end.
            page = asyncio.create_task(self._metrics(reply))
            self._pages.add(page)
            page.add_done_callback(self._pages.discard)
        elif request.path == "/health":
            reply.end(reply.answer(200, b""))
        else:
            self._document(request.path, reply)

    async def _metrics(self, reply: Reply) -> None:
        """Write the counters out between steps, a family at a time.

        vLLM's engine is another process than the one that is asked for them, and makes no step
        wait; whoever looks at the server in a window must not change it here either.
        """
        pieces = []
        shuffled = bool(self._player.faults.shuffled_labels)
        for piece in self._player.exposition.families(shuffled_labels=shuffled):
            pieces.append(piece)
            await asyncio.sleep(0)
        reply.end(reply.answer(200, "".join(pieces).encode(), EXPOSITION))

    def _document(self, path: str, reply: Reply) -> None:
        documents = {
            "/version": partial(resolved.version, self._served),
            "/v1/models": partial(resolved.models, self._served, created=self._created),
            "/server_info": partial(resolved.server_info, self._served),
        }
        if path in documents:
            reply.end(reply.answer(200, msgspec.json.encode(documents[path]())))
        else:
            reply.end(reply.answer(404, error_bodies.error(404, "Not Found")))

    def _chat(self, request: HttpRequest, reply: Reply) -> None:
        self._requests += 1
        request_id = request.headers.get("x-request-id") or uuid.uuid4().hex
        try:
            body: dict[str, Any] = msgspec.json.decode(request.body)
            asked = answers.ask(body, request_id)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            reply.end(reply.answer(400, error_bodies.error(400, f"no chat request: {error}")))
            return
        if faults.due(self._player.faults.http_500_every, self._requests):
            reply.end(reply.answer(500, error_bodies.engine_dead()))
            return
        refused = answers.refusal(self._served, body)
        if refused is not None:
            reply.end(reply.answer(*refused))
            return
        script = self._player.script(asked, request_id)
        if script.prompt_tokens + asked.max_tokens > self._served.max_model_len:
            body_ = error_bodies.too_long(self._served, prompt_tokens=script.prompt_tokens)
            reply.end(reply.answer(400, body_))
            return
        self._player.submit(
            Answer(
                self._served,
                asked,
                script,
                request_id=request_id,
                created=int(time.time()),
                reply=reply,
            )
        )


async def serve(ready: Configured) -> None:
    """Serve on loopback until SIGTERM or SIGINT."""
    loop = asyncio.get_running_loop()
    player = ready.player()
    site = Site(player)
    server = await loop.create_server(
        lambda: HttpConnection(site.handle), ready.host, ready.port, backlog=4096
    )
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    playing = [
        asyncio.create_task(player.play(number)) for number in range(player.served.data_parallel)
    ]
    ended = asyncio.create_task(stop.wait())
    done, _ = await asyncio.wait({ended, *playing}, return_when=asyncio.FIRST_COMPLETED)
    server.close()
    for task in done - {ended}:
        task.result()


def main() -> int:
    """Launch as vLLM does: decide, log, load, serve; or refuse, which exits with 1."""
    began_s = time.monotonic()
    asked = arguments()
    try:
        ready = configured(asked, os.environ)
    except ValueError as error:
        sys.stderr.write(f"simulated: error: {error}\n")
        return 2
    ask_for_short_slice()
    pid = os.getpid()
    if ready.refusal is not None:
        for line in launch_log.failure_lines(
            ready.refusal,
            refused_in=ready.refused_in or "worker",
            version=ready.served.version,
            model=ready.served.model,
            preset=ready.served.preset,
            pid=pid,
            asked=ready.asked,
        ):
            sys.stdout.write(f"{line}\n")
        return 1
    time.sleep(ready.faults.slow_start_s)
    times = launch_log.LaunchTimes(
        load_s=time.monotonic() - began_s, compile_s=0.0, engine_start_s=0.0
    )
    for line in launch_log.lines(
        ready.served, pid=pid, port=ready.port, asked=ready.asked, times=times
    ):
        sys.stdout.write(f"{line}\n")
    sys.stdout.flush()
    asyncio.run(serve(ready))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
