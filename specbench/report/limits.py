"""What a result does not show: always the same five, and what this run adds to them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from html import escape

from specbench.analysis.intervals import CLAIM_BLOCKS
from specbench.report.content import Content


def limits(content: Content) -> str:
    """Give the list of limits, made from what the run holds."""
    lines = [*_always(content), *_of_this_run(content)]
    items = "".join(
        f"<li><strong>{escape(name)}.</strong> {escape(said)}</li>" for name, said in lines
    )
    return f"<ul class='limits'>{items}</ul>"


def _always(content: Content) -> Iterator[tuple[str, str]]:
    yield "Selection bias", _selection(content)
    yield "Workload licences", _licences(content)
    yield "Gateway and network", _gateway(content)
    yield "Node-to-node variability", _nodes(content)
    yield "Looks at the results", _looks(content)


def _selection(content: Content) -> str:
    arms = len({row["arm"] for row in content.effects if row["role"] == "arm"})
    said = (
        f"{arms} arm{'s were' if arms != 1 else ' was'} compared. The best of several looks better "
        "than it is, because it was chosen by the noise, too"
    )
    if content.experiment["stage"] == "screening":
        return f"{said}. A screening chooses; only a confirmation in new deployments measures."
    return f"{said}. Prompts that also served to choose the arms keep some of that bias."


def _licences(content: Content) -> str:
    told = json.loads(content.experiment["plan"]).get("licences")
    if not told:
        return "The run does not record the licences of its prompts: look before you publish any."
    named = "; ".join(f"{stratum}: {', '.join(found)}" for stratum, found in sorted(told.items()))
    return (
        f"As the workload files state them, unchecked: {named}. Outputs quote prompts, so that "
        "raw evidence may be shared only as these allow. The strata are no sample of your traffic."
    )


def _gateway(content: Content) -> str:
    plan = json.loads(content.experiment["plan"])["experiment"]
    if plan["launcher"]["kind"] == "attach":
        servers = plan["launcher"]["servers"]
        behind = sorted(arm for arm, server in servers.items() if server.get("proxy_env"))
        return (
            "The servers were already running: whatever stands between client and server is in "
            "every time, and was not looked at."
        ) + _proxied(behind, others=len(behind) < len(servers))
    return (
        "The client spoke to each server directly. A gateway, TLS, authentication and a network "
        "add to TTFT and E2E, and routing over replicas changes the batches that speculation meets."
    )


def _proxied(arms: Sequence[str], *, others: bool) -> str:
    if not arms:
        return ""
    said = (
        f" Through an HTTP proxy: {', '.join(arms)}. Their times include it, and arrivals are "
        "those at this machine. A proxy that buffers makes several tokens arrive at once: see "
        "gate merged_reads."
    )
    if others:
        said += " Other arms had none: effects between them hold what it adds."
    return said


def _nodes(content: Content) -> str:
    hosts = sorted({row["host"] for row in content.deployments if row["host"]})
    if not hosts:
        return "Which node served is not known."
    if len(hosts) == 1:
        return (
            f"All deployments ran on one node ({hosts[0]}). Another node of the same kind may be "
            "faster or slower, and effects may differ there: nothing here can tell."
        )
    return (
        f"Deployments ran on {len(hosts)} nodes ({', '.join(hosts)}). Pairs inside a block cancel "
        "what a node does to both; where arms of a block stood on different nodes it does not."
    )


def _looks(content: Content) -> str:
    if not content.looked:
        return (
            "No look is recorded before this page. Files that are opened otherwise leave no trace."
        )
    (row,) = content.looked
    times = "once" if row["looks"] == 1 else f"{row['looks']} times"
    said = f"Results were shown {times} before this page, at least"
    if not row["before_last"]:
        return f"{said}; never before the last block."
    points = "one point" if row["before_last"] == 1 else f"{row['before_last']} points"
    return (
        f"{said}, at {points} before the last block. Who adds blocks after a look may stop at a "
        "lucky moment: intervals do not allow for that."
    )


def _of_this_run(content: Content) -> Iterator[tuple[str, str]]:
    if content.simulated:
        yield "Simulated", "A cost model made every number. It recommends nothing for production."
    blocks = max((row["blocks"] for row in content.effects), default=0)
    if blocks < CLAIM_BLOCKS:
        count = "1 block gives" if blocks == 1 else f"{blocks} blocks give"
        yield "Few blocks", f"{count} effects: nothing is claimed under {CLAIM_BLOCKS}."
    if not any(row["role"] == "noise_floor" for row in content.deployments):
        yield (
            "No noise floor",
            "No block launched the baseline again: how far equal arms lie apart is not known.",
        )
    rejected = sum(bool(row["rejected"]) for row in content.cells)
    if rejected:
        yield "Rejected cells", f"{rejected} of {len(content.cells)} cells are in no effect."
    for caveat, arms in sorted(_caveats(content).items()):
        yield f"Caveat of {', '.join(sorted(arms))}", caveat


def _caveats(content: Content) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for row in content.deployments:
        for caveat in row["caveats"] or ():
            found.setdefault(caveat, set()).add(row["arm"])
    return found
