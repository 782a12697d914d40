"""Does a method keep the contract of `specbench/methods.py`? What is wrong is said in sentences.

First what can be known without a server, then what a simulated server says of the launch.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import attrs

from specbench.engines.simulated.served import VERSIONS
from specbench.engines.vllm import fields, log_lines, refusals
from specbench.engines.vllm.engine import CONFIG_FACTS
from specbench.errors import DeploymentError
from specbench.experiment.model import Target
from specbench.facts import Audit
from specbench.judge import effective
from specbench.methods import Confound, Counting, Expected, Launch, Method
from specbench.testing.functions import results
from specbench.testing.options import read_options
from specbench.testing.serving import MODEL, Driven, served

PLAIN = Target(engine="simulated", model=MODEL)
STATED = {pattern.fact for pattern in log_lines.PATTERNS} | set(CONFIG_FACTS)
"""Facts that an audit can hold."""
SENTENCE = re.compile(r"\S+(?: \S+)+")
REQUESTS, TOKENS = 8, 48
"""Of the window that is driven: long enough for n-gram to find nothing, and less than it may."""


@attrs.frozen(kw_only=True)
class CheckedMethod:
    """A method that keeps its contract, for further asserts."""

    options: Any
    launch: Launch
    expected: Expected
    counting: Counting | None
    audit: Audit | None
    """What the simulated server said it ran; None without `serve`."""
    driven: Driven | None
    """The window that was driven on it, and how it was judged; None without `serve`."""


def check_method(
    method: Method[Any],
    options: Mapping[str, Any],
    *,
    target: Target | None = None,
    serve: bool = True,
) -> CheckedMethod:
    """Check a method with one set of options, as people write them beside `name` and `method`.

    Without a `target` it is a simulated one of the newest version. With `serve` the method's own
    launch is served by a simulated server, which speaks the target's version if it can; a few
    requests are sent, and audit and window are judged as those of a run.

    Raises:
        AssertionError: It says everything that is wrong.
    """
    target = target or PLAIN
    if not isinstance(method, Method):
        raise AssertionError(f"{method!r} is no Method: give an object of your class")  # noqa: TRY004 - one error for all
    structured, wrong = read_options(method, options)
    given: dict[str, Any] = {}
    if structured is not None:
        given, broken = results(method, structured, target)
        wrong += broken
    wrong += [f"check refuses these options: {problem}" for problem in given.get("check", ())]
    wrong += _word_problems(given.get("confounds", ()), given.get("caveats", ()))
    audit = driven = None
    if {"launch", "expected", "counting"} <= set(given):
        launch, expected, counting = given["launch"], given["expected"], given["counting"]
        wrong += _launch_problems(launch, target)
        wrong += _agreement(launch, expected, counting)
        if serve:
            audit, driven, seen = _served(launch, expected, counting, target)
            wrong += seen
    if wrong:
        name = getattr(method, "name", type(method).__name__)
        raise AssertionError("\n- ".join([f"method {name!r} breaks its contract:", *wrong]))
    return CheckedMethod(
        options=structured,
        launch=launch,
        expected=expected,
        counting=counting,
        audit=audit,
        driven=driven,
    )


def _word_problems(confounds: Iterable[Confound], caveats: Iterable[str]) -> Iterator[str]:
    for confound in confounds:
        if confound.fact not in STATED:
            yield f"confounds names {confound.fact!r}, which no audit states"
        if not SENTENCE.fullmatch(confound.meaning):
            yield f"confounds does not say in a sentence what {confound.fact!r} means"
    for caveat in caveats:
        if not SENTENCE.fullmatch(caveat):
            yield f"caveats gave {caveat!r}, which is no sentence"


def _launch_problems(launch: Launch, target: Target) -> Iterator[str]:
    """Hold a launch against vLLM of the target's version, or of the newest one that we read."""
    newest = fields.shown(fields.NEWEST)
    if str(launch.speculation.get("method")) in fields.METHODS:
        shaped = attrs.evolve(target, version=target.version or newest, flags={})
        yield from (f"launch: {problem}" for problem in refusals.problems(shaped, launch))
        return
    # An author's fork may have the method, but its launch still goes through vLLM's fields.
    for name in launch.speculation:
        if name not in fields.SINCE:
            yield f"launch: no vLLM up to {newest} has the field {name!r}"


def _agreement(launch: Launch, expected: Expected, counting: Counting | None) -> Iterator[str]:
    """Hold what is asked, what must be seen and how it is counted against one another."""
    speculates = {
        "launch": bool(launch.speculation),
        "expected": bool(expected.methods),
        "counting": counting is not None,
    }
    if len(set(speculates.values())) > 1:
        told = (f"{name} says {'some' if yes else 'none'}" for name, yes in speculates.items())
        yield f"the functions disagree whether there is speculation: {', '.join(told)}"
    asked, longest = launch.speculation.get("num_speculative_tokens"), expected.longest_draft
    if isinstance(asked, int) and longest < asked:
        yield f"launch asks for drafts of {asked} tokens, and expected knows none above {longest}"
    if not launch.speculation and (longest or expected.drafter is not None):
        yield "expected says something of drafts, and launch asks for no speculation"
    if counting is not None and counting.full_depth and expected.depth != "constant":
        yield (
            "counting says that every draft is of full length, and expected that the length is "
            f"decided {expected.depth}"
        )


def _served(
    launch: Launch, expected: Expected, counting: Counting | None, target: Target
) -> tuple[Audit | None, Driven | None, list[str]]:
    """Serve a launch and drive a window; give what both say, and what of it is wrong."""
    simulated = attrs.evolve(
        target,
        engine="simulated",
        version=target.version if target.version in VERSIONS else None,
        flags=target.flags if target.engine == "simulated" else {},
    )
    try:
        with served(simulated, launch) as server:
            audit = server.audit()
            driven = server.drive(
                requests=REQUESTS, max_tokens=TOKENS, expected=expected, counting=counting
            )
    except DeploymentError as error:
        return None, None, [f"the simulated server does not serve its launch: {error.message}"]
    wrong = [
        f"on the simulated server {ruling.gate} is {ruling.observed}, not {ruling.required}"
        for ruling in effective.judge(audit, expected)
        if ruling.outcome != "pass"
    ]
    wrong += [
        f"in a window on the simulated server {ruling.gate} failed: {ruling.observed}"
        for ruling in driven.judged.verdicts
        if ruling.outcome == "fail"
    ]
    return audit, driven, wrong + list(_undrafted(driven, counting))


def _undrafted(driven: Driven, counting: Counting | None) -> Iterator[str]:
    """Find steps without a draft, where every step is said to draft.

    The first token of a request is its prefill's. A step with a draft gives the accepted tokens and
    one more, or fewer where the output ends in it. So the tokens after the first ones are at most
    drafts and accepted tokens together, unless steps went undrafted.
    """
    found, summary = driven.judged.acceptance, driven.judged.summary
    if (
        found is None
        or summary.output_tokens is None
        or not (counting and counting.every_step_drafts)
    ):
        return
    least = summary.output_tokens - summary.successes - found.drafts - found.accepted
    if least > 0:
        yield (
            f"counting says that every step drafts, and on the simulated server at least {least} "
            "steps of a window did not"
        )
