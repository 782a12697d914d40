"""Compares what specbench and `vllm bench serve` measure of one and the same running server.

    python benchmarks/against_vllm_bench.py SPEC [--arm NAME]... --concurrency 8 32 --out FOLDER

Launches the server of each arm of an experiment, as `specbench run` would, and lets both tools
measure it in turn: the same prompts (those of one message) in the same order, once each,
temperature 0, the same cap, ignore_eos, token ids asked for, and a salt of each turn's own, so that
no turn finds another one's prompts in the prefix cache. Medians must differ by at most 2%, or by
the spread of a tool. TTFT is shown only: theirs starts before the connection is set up.
`tpot_over_servers_own` is a tool's mean TPOT over what the server's histogram says of the same
requests: it tells a load that differs from a measurement that does. Prints a table and writes
FOLDER/cross-check.json after every arm. `vllm bench serve` needs pandas to read prompts.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import anyio
import attrs
from anyio import to_thread

from specbench.cli.options import installed_methods, make_plan, read_spec
from specbench.experiment.load import Timeouts
from specbench.experiment.model import Sampling
from specbench.experiment.prompt import Prompt
from specbench.facts import AcceptanceSummary
from specbench.judge import counters
from specbench.judge.cells import summarise, tpot_s
from specbench.launchers.local import environment, serving
from specbench.launchers.readiness import until_ready
from specbench.launchers.server import Server
from specbench.observe import metrics
from specbench.plan import Plan, PlannedArm
from specbench.traffic.drive import drive
from specbench.traffic.event_loop import event_loop_options
from specbench.traffic.loops import LoadPoint
from specbench.traffic.requests import Wording, measured

LEAST_DIFFERENCE = 0.02
SHOWN_ONLY = "ttft_p50_ms"
TOOLS = ("specbench", "vllm bench serve")
SERVER_TPOT = "vllm:request_time_per_output_token_seconds"
"""Of each request, its decode time over its tokens but the first (vLLM 0.11 to 0.33)."""

Found = dict[str, float]
"""What a tool said of one turn, by quantity."""


def main() -> None:
    """Let both tools measure every arm in turn, and print what they say."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("spec", type=Path)
    parser.add_argument("--arm", action="append", help="every arm when left out")
    parser.add_argument("--concurrency", type=int, nargs="+", default=[4])
    parser.add_argument("--prompts", type=int, help="the first ones; every one when left out")
    parser.add_argument("--tokens", type=int, help="cap of outputs; the prompts' own when left out")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out", type=Path, default=Path())
    asked = parser.parse_args()
    methods = installed_methods()
    planned = make_plan(read_spec(asked.spec, methods), methods)
    arms = [arm for arm in planned.launched() if arm.role != "noise_floor"]
    if unknown := {*(asked.arm or ())} - {arm.name for arm in arms}:
        parser.error(f"no arm is named {', '.join(sorted(unknown))}")
    asked.out.mkdir(parents=True, exist_ok=True)
    found: dict[str, Any] = {}
    for arm in arms:
        if asked.arm and arm.name not in asked.arm:
            continue
        found[arm.name] = anyio.run(
            _measure, asked, planned, arm, backend_options=event_loop_options()
        )
        compared = list(comparisons(found[arm.name]))
        for line in compared:
            print(f"{arm.name}: {line['text']}", flush=True)
        found[arm.name] = {"turns": found[arm.name], "compared": compared}
        (asked.out / "cross-check.json").write_text(json.dumps(found, indent=1) + "\n")
    every = [line for arm in found.values() for line in arm["compared"]]
    sys.exit(0 if all(line["agree"] in (True, None) for line in every) else 1)


async def _measure(
    asked: argparse.Namespace, planned: Plan, arm: PlannedArm
) -> list[dict[str, Any]]:
    """Give every turn of an arm's server: concurrency, round, tool and what it said."""
    read, engine = planned.read, planned.engine
    stratum = read.strata()[0]
    # Theirs sends one message: a prompt of several would be another one there.
    single = [one for one in read.prompts(stratum) if len(one.messages) == 1]
    prompts = [
        attrs.evolve(prompt, max_tokens=asked.tokens or prompt.max_tokens)
        for prompt in single[: asked.prompts]
    ]
    turns = []
    log = (asked.out / f"{arm.name}.log").absolute()
    async with serving(
        arm.command, log, model=engine.served_name, metrics_path=engine.metrics_path
    ) as server:
        limit_s = read.experiment.launcher.ready_timeout_s
        await until_ready(server, path=engine.chat_path, timeout_s=limit_s)
        for concurrency in asked.concurrency:
            await _ours(planned, server, prompts, concurrency, f"warm/{time.time_ns()}")
        for number in range(asked.rounds):
            for concurrency in asked.concurrency:
                # Who comes first changes, so that neither always meets the warmer server.
                for tool in TOOLS if number % 2 == 0 else TOOLS[::-1]:
                    measure = _ours if tool == "specbench" else _theirs
                    salt = f"{time.time_ns()}"
                    before, _ = await metrics.settled(server.metrics_url, engine.counters())
                    said = await measure(planned, server, prompts, concurrency, salt)
                    after, _ = await metrics.settled(server.metrics_url, engine.counters())
                    own_ms = _mean_ms(before, after, len(prompts))
                    said["tpot_over_servers_own"] = said.pop("tpot_mean_ms") / own_ms
                    turns.append(
                        {"concurrency": concurrency, "round": number, "tool": tool, "said": said}
                    )
                    print(f"{arm.name} c{concurrency} round {number} {tool}: {said}", flush=True)
    return turns


def _mean_ms(before: str, after: str, requests: int) -> float:
    """Give the mean TPOT of a turn as the server saw it."""
    earlier, later = metrics.parse(before), metrics.parse(after)
    total_s, count = (
        (metrics.gauge_total(later, name) or 0) - (metrics.gauge_total(earlier, name) or 0)
        for name in (f"{SERVER_TPOT}_sum", f"{SERVER_TPOT}_count")
    )
    if count != requests:
        sys.exit(f"the server saw {count:.0f} requests of a turn of {requests}")
    return total_s / count * 1e3


def comparisons(turns: Sequence[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """Give two tools' medians and spreads of every quantity at every load, and whether they agree.

    A spread is (most - least) / median over a tool's turns.
    """
    for concurrency in dict.fromkeys(turn["concurrency"] for turn in turns):
        here = [turn for turn in turns if turn["concurrency"] == concurrency]
        of = {tool: [turn["said"] for turn in here if turn["tool"] == tool] for tool in TOOLS}
        for quantity in of[TOOLS[0]][0]:
            series = [[said[quantity] for said in of[tool] if quantity in said] for tool in TOOLS]
            if not all(series):
                continue
            mine, other = map(statistics.median, series)
            spreads = [(max(one) - min(one)) / (statistics.median(one) or 1) for one in series]
            allowed = max(LEAST_DIFFERENCE, *spreads)
            differs = abs(mine / other - 1) if other else abs(mine)
            agree = None if quantity == SHOWN_ONLY else differs <= allowed
            word = {True: "agree", False: "DIFFER", None: "not compared"}[agree]
            yield {
                "concurrency": concurrency,
                "quantity": quantity,
                "medians": [mine, other],
                "spreads": spreads,
                "difference": differs,
                "allowed": allowed,
                "agree": agree,
                "text": f"c{concurrency} {quantity}: specbench {mine:.4g} (spread "
                f"{spreads[0]:.1%}), vllm bench serve {other:.4g} (spread {spreads[1]:.1%}), "
                f"difference {differs:.2%}, allowed {allowed:.2%}: {word}",
            }


async def _ours(
    planned: Plan, server: Server, prompts: Sequence[Prompt], concurrency: int, salt: str
) -> Found:
    """Give what specbench says: from the requests, and of acceptance from the counters."""
    names = planned.engine.counters()
    wording = Wording(
        host=server.base_url.removeprefix("http://"),
        path=planned.engine.chat_path,
        model=server.model,
        sampling=Sampling(name="greedy", ignore_eos=True),
        salt=salt,
    )
    point = LoadPoint(base_url=server.base_url, timeouts=Timeouts(), concurrency=concurrency)
    before, _ = await metrics.settled(server.metrics_url, names)
    window = await drive(measured(prompts, len(prompts), wording), point)
    after, _ = await metrics.settled(server.metrics_url, names)
    said = summarise(window.rows, concurrency)
    if said.successes < said.requests or not said.tpot_p50_s or not said.output_throughput:
        sys.exit(f"a request failed: {[row.error for row in window.rows if row.error][:1]}")
    delta = counters.difference(metrics.parse(before), metrics.parse(after), names)
    accepted = counters.acceptance(delta)
    ratios = accepted and counters.summarise(
        accepted, completion_tokens=said.output_tokens, requests_failed=0
    )
    return {
        "tpot_p50_ms": said.tpot_p50_s * 1e3,
        "tpot_mean_ms": statistics.fmean(filter(None, map(tpot_s, window.rows))) * 1e3,
        "output_throughput": said.output_throughput,
        SHOWN_ONLY: (said.ttft_p50_s or 0) * 1e3,
        **(_acceptance(ratios) if ratios else {}),
    }


def _acceptance(ratios: AcceptanceSummary) -> Found:
    places = enumerate(ratios.per_position or ())
    return {
        "acceptance_rate": ratios.acceptance_rate or 0,
        "acceptance_length": ratios.acceptance_length or 1,
        **{f"accepted_at_{place}": value for place, value in places},
    }


async def _theirs(
    planned: Plan, server: Server, prompts: Sequence[Prompt], concurrency: int, salt: str
) -> Found:
    """Give what `vllm bench serve` says, of acceptance too."""
    return await to_thread.run_sync(_bench_serve, planned, server, prompts, concurrency, salt)


def _bench_serve(
    planned: Plan, server: Server, prompts: Sequence[Prompt], concurrency: int, salt: str
) -> Found:
    assert server.command
    lines = [
        json.dumps({"prompt": prompt.messages[-1].content, "output_tokens": prompt.max_tokens})
        for prompt in prompts
    ]
    body = {"cache_salt": salt, "return_token_ids": True}
    command = [
        *(server.command.argv[0], "-m", "vllm.entrypoints.cli.main", "bench", "serve"),
        *("--backend", "openai-chat", "--endpoint", planned.engine.chat_path),
        *("--base-url", server.base_url, "--model", server.model),
        *("--tokenizer", planned.read.experiment.target.model, "--dataset-name", "custom"),
        *("--dataset-path", "prompts.jsonl", "--skip-chat-template", "--disable-shuffle"),
        *("--num-prompts", str(len(prompts)), "--custom-output-len", "-1"),
        *("--max-concurrency", str(concurrency), "--ignore-eos", "--temperature", "0"),
        *("--extra-body", json.dumps(body), "--disable-tqdm"),
        # Its trial request would be one more, and would warm the prefix cache for the first prompt.
        *("--ready-check-timeout-sec", "0"),
        *("--save-result", "--result-dir", ".", "--result-filename", "r.json"),
    ]
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "prompts.jsonl").write_text("\n".join(lines) + "\n")
        told = {"env": environment(server.command), "cwd": folder}
        done = subprocess.run(command, **told, capture_output=True, text=True, check=False)
        if done.returncode:
            sys.exit(f"vllm bench serve failed: {done.stderr[-2000:]}")
        said = json.loads((Path(folder) / "r.json").read_text())
    if said["completed"] != len(prompts):
        sys.exit(f"vllm bench serve completed {said['completed']} of {len(prompts)} requests")
    found = {
        "tpot_p50_ms": said["median_tpot_ms"],
        "tpot_mean_ms": said["mean_tpot_ms"],
        "output_throughput": said["output_throughput"],
        SHOWN_ONLY: said["median_ttft_ms"],
    }
    if said.get("spec_decode_acceptance_rate") is not None:
        places = enumerate(said["spec_decode_per_position_acceptance_rates"])
        found |= {
            "acceptance_rate": said["spec_decode_acceptance_rate"] / 100,
            "acceptance_length": said["spec_decode_acceptance_length"],
            **{f"accepted_at_{place}": value for place, value in places},
        }
    return found


if __name__ == "__main__":
    main()
