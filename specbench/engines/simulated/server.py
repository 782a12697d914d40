"""The simulated server: plays the scheduler against absolute deadlines, over real HTTP.

Started as `python -m specbench.engines.simulated.server`, with vLLM's own flag names.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
import uuid
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import attrs
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from specbench.engines.simulated import text, wire
from specbench.engines.simulated.cost import CostModel
from specbench.engines.simulated.scheduler import Emission, Sequence, State, step
from specbench.engines.simulated.speculation import drafting


class Player:
    """Owns the state and the clock; everything else is pure."""

    def __init__(self, served: wire.Served, cost: CostModel, seed: int) -> None:
        self.served = served
        self.counts: Counter[str] = Counter()
        self.started_unix_s = time.time()
        self.worst_lateness_s = 0.0
        self.seed = seed
        self._cost = cost
        self._state = State()
        self._queues: dict[str, asyncio.Queue[Emission]] = {}
        self._work = asyncio.Event()

    def submit(self, sequence: Sequence) -> asyncio.Queue[Emission]:
        """Take a request in; its emissions arrive in the queue."""
        queue: asyncio.Queue[Emission] = asyncio.Queue()
        self._queues[sequence.request_id] = queue
        self._state = attrs.evolve(self._state, waiting=(*self._state.waiting, sequence))
        self._count_gauges()
        self._work.set()
        return queue

    def cancel(self, request_id: str) -> None:
        """Forget a request whose client went away."""
        if self._queues.pop(request_id, None) is None:
            return

        def keep(sequences: tuple[Sequence, ...]) -> tuple[Sequence, ...]:
            return tuple(item for item in sequences if item.request_id != request_id)

        self._state = State(waiting=keep(self._state.waiting), running=keep(self._state.running))
        self._count_gauges()

    async def play(self) -> None:
        """Run steps for ever. A step ends when the one before it was due, plus its duration."""
        loop = asyncio.get_running_loop()
        while True:
            self._work.clear()
            due = loop.time()
            while self._state.waiting or self._state.running:
                taken = step(
                    self._state,
                    cost=self._cost,
                    drafting=self.served.drafting,
                    max_num_seqs=self.served.max_num_seqs,
                    seed=self.seed,
                )
                arrived = self._state.waiting
                due += taken.duration_s
                await asyncio.sleep(due - loop.time())
                self.worst_lateness_s = max(self.worst_lateness_s, loop.time() - due)
                self._finish(taken.state, taken.emissions, already=arrived)
            await self._work.wait()

    def _finish(
        self, after: State, emissions: tuple[Emission, ...], *, already: tuple[Sequence, ...]
    ) -> None:
        """Put the step's outcome in place, keeping what arrived or left while it ran."""
        arrived = tuple(item for item in self._state.waiting if item not in already)
        alive = self._queues.keys()
        self._state = State(
            waiting=(*(item for item in after.waiting if item.request_id in alive), *arrived),
            running=tuple(item for item in after.running if item.request_id in alive),
        )
        for emission in emissions:
            self._count(emission)
            if emission.request_id in self._queues:
                self._queues[emission.request_id].put_nowait(emission)
            if emission.finish_reason is not None:
                self._queues.pop(emission.request_id, None)
        self._count_gauges()

    def _count(self, emission: Emission) -> None:
        self.counts["generation_tokens"] += emission.tokens
        if emission.drafted:
            self.counts["spec_decode_num_drafts"] += 1
            self.counts["spec_decode_num_draft_tokens"] += emission.drafted
            self.counts["spec_decode_num_accepted_tokens"] += emission.accepted
            for place in range(emission.accepted):
                series = f'spec_decode_num_accepted_tokens_per_pos,position="{place}"'
                self.counts[series] += 1
        if emission.finish_reason is not None:
            self.counts[f'request_success,finished_reason="{emission.finish_reason}"'] += 1

    def _count_gauges(self) -> None:
        self.counts["num_requests_running"] = len(self._state.running)
        self.counts["num_requests_waiting"] = len(self._state.waiting)


def application(player: Player) -> Starlette:
    """Give the HTTP side."""
    served = player.served

    async def chat(request: Request) -> Response:
        body = await request.json()
        refusal = _refusal(body, served)
        if refusal is not None:
            return refusal
        request_id = request.headers.get("x-request-id") or uuid.uuid4().hex
        sequence = _sequence(request_id, body, player.seed)
        queue = player.submit(sequence)
        if body.get("stream"):
            events = _events(player, sequence, queue, body)
            return StreamingResponse(events, media_type="text/event-stream")
        return await _answer(sequence, queue, player)

    async def health(_: Request) -> Response:
        return Response()

    async def models(_: Request) -> Response:
        card = {"id": served.name, "root": served.model, "max_model_len": served.max_model_len}
        return JSONResponse({"object": "list", "data": [card]})

    async def version(_: Request) -> Response:
        return JSONResponse({"version": f"{wire.VERSION}"})

    async def metrics(_: Request) -> Response:
        page = wire.metrics(
            player.counts,
            served,
            started_unix_s=player.started_unix_s,
            worst_lateness_s=player.worst_lateness_s,
        )
        return PlainTextResponse(page)

    async def server_info(_: Request) -> Response:
        return JSONResponse(wire.server_info(served))

    @asynccontextmanager
    async def playing(_: Starlette) -> AsyncIterator[None]:
        task = asyncio.create_task(player.play())
        yield
        task.cancel()

    routes = [
        Route("/v1/chat/completions", chat, methods=["POST"]),
        Route("/health", health),
        Route("/v1/models", models),
        Route("/version", version),
        Route("/metrics", metrics),
        Route("/server_info", server_info),
    ]
    return Starlette(routes=routes, lifespan=playing)


def _refusal(body: dict[str, Any], served: wire.Served) -> Response | None:
    if body.get("model") != served.name:
        return _error(404, "NotFoundError", f"The model `{body.get('model')}` does not exist.")
    if body.get("max_tokens", 1) > served.max_model_len:
        said = f"max_tokens={body['max_tokens']} cannot be greater than {served.max_model_len}"
        return _error(400, "BadRequestError", said)
    return None


def _error(code: int, kind: str, message: str) -> Response:
    error = {"message": message, "type": kind, "param": None, "code": code}
    return JSONResponse({"error": error}, status_code=code)


def _sequence(request_id: str, body: dict[str, Any], seed: int) -> Sequence:
    prompt = json.dumps(body["messages"], sort_keys=True)
    said = "\n".join(str(message.get("content", "")) for message in body["messages"])
    cap = int(body.get("max_tokens") or 16)
    length, reason = text.natural_length(seed, prompt, cap)
    if body.get("ignore_eos"):
        length, reason = cap, "length"
    return Sequence(
        request_id=request_id,
        prompt=prompt,
        prompt_tokens=text.count_tokens(said),
        is_code=text.is_code(said),
        length=length,
        finish_reason=reason,
    )


async def _events(
    player: Player, sequence: Sequence, queue: asyncio.Queue[Emission], body: dict[str, Any]
) -> AsyncIterator[bytes]:
    name = player.served.name
    with_ids = bool(body.get("return_token_ids"))
    try:
        reason = None
        while reason is None:
            emission = await queue.get()
            reason = emission.finish_reason
            ids, said = _tokens(sequence, emission, player.seed)
            payload = b""
            if emission.first == 0:
                payload = wire.event(
                    sequence.request_id,
                    name=name,
                    delta={"role": "assistant", "content": ""},
                    finish_reason=None,
                    token_ids=None,
                )
                yield payload
            yield wire.event(
                sequence.request_id,
                name=name,
                delta={"content": said},
                finish_reason=reason,
                token_ids=ids if with_ids else None,
            )
        if (body.get("stream_options") or {}).get("include_usage"):
            yield wire.usage_event(
                sequence.request_id,
                name=name,
                prompt_tokens=sequence.prompt_tokens,
                completion=sequence.length,
            )
        yield wire.DONE
    finally:
        player.cancel(sequence.request_id)


async def _answer(sequence: Sequence, queue: asyncio.Queue[Emission], player: Player) -> Response:
    said = ""
    reason = None
    while reason is None:
        emission = await queue.get()
        reason = emission.finish_reason
        said += _tokens(sequence, emission, player.seed)[1]
    message = {"role": "assistant", "content": said}
    usage = {"prompt_tokens": sequence.prompt_tokens, "completion_tokens": sequence.length}
    choice = {"index": 0, "message": message, "finish_reason": reason}
    return JSONResponse({"id": sequence.request_id, "choices": [choice], "usage": usage})


def _tokens(sequence: Sequence, emission: Emission, seed: int) -> tuple[list[int], str]:
    positions = range(emission.first, emission.first + emission.tokens)
    ids = [text.token_id(seed, sequence.prompt, position) for position in positions]
    said = "".join(map(text.token_text, ids, positions))
    return ids, said


def main() -> None:
    """Serve until SIGTERM."""
    arguments = _arguments()
    speculation = json.loads(arguments.speculative_config or "null")
    depth = int(speculation["num_speculative_tokens"]) if speculation else 0
    drafts = drafting(speculation["method"] if speculation else "none", depth)
    served = wire.Served(
        model=arguments.model,
        name=arguments.served_model_name,
        max_model_len=arguments.max_model_len,
        max_num_seqs=arguments.max_num_seqs,
        tensor_parallel=arguments.tensor_parallel_size,
        drafting=drafts,
        drafter=speculation.get("model") if speculation else None,
        speculation=speculation,
        async_asked=arguments.async_scheduling,
    )
    step_s = arguments.step_ms / 1000
    cost = CostModel(
        step_s=step_s,
        token_s=arguments.token_us / 1e6,
        prefill_token_s=arguments.prefill_token_us / 1e6,
        draft_token_s=step_s * drafts.relative_cost,
    )
    now = time.strftime("%m-%d %H:%M:%S")
    for line in wire.log_lines(served):
        sys.stdout.write(f"(APIServer pid=0) INFO {now} [simulated.py:1] {line}\n")
    sys.stdout.flush()
    uvicorn.run(
        application(Player(served, cost, arguments.seed)),
        host=arguments.host,
        port=arguments.port,
        access_log=False,
        timeout_keep_alive=75,
    )


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="simulated")
    parser.add_argument("--model", required=True)
    parser.add_argument("--served-model-name", default="target")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--tensor-parallel-size", type=int, default=1)
    parser.add_argument("--max-model-len", type=int, default=32_768)
    parser.add_argument("--max-num-seqs", type=int, default=256)
    parser.add_argument("--speculative-config")
    parser.add_argument("--async-scheduling", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--step-ms", type=float, default=4.0)
    parser.add_argument("--token-us", type=float, default=60.0)
    parser.add_argument("--prefill-token-us", type=float, default=20.0)
    return parser.parse_args()


if __name__ == "__main__":
    main()
