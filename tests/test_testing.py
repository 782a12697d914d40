"""The check of a method finds nothing in the built-in ones, and each mistake of a wrong one."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Mapping
from itertools import count
from pathlib import Path
from typing import Any

import attrs
import pytest

from specbench.errors import DeploymentError, Problem
from specbench.experiment.model import Target
from specbench.experiment.said import said
from specbench.methods import Confound, Counting, Expected, Launch, Method
from specbench.testing import SimulatedServer, check_method, simulated_server
from tests.conftest import ROOT

DRAFT = {"model": "/models/draft", "num_speculative_tokens": 3}


@pytest.mark.parametrize(
    ("name", "options", "resolved", "drafted"),
    [
        ("baseline", {}, "none", False),
        ("draft_model", DRAFT, "draft_model", True),
        ("ngram", {"num_speculative_tokens": 8, "prompt_lookup_max": 3}, "ngram", True),
        ("eagle", DRAFT, "eagle3", True),
        ("eagle", {**DRAFT, "head": "eagle"}, "eagle", True),
    ],
)
def test_every_built_in_method_keeps_its_contract(
    name: str,
    options: dict[str, Any],
    resolved: str,
    drafted: bool,
    methods: Mapping[str, Method[Any]],
) -> None:
    checked = check_method(methods[name], options)
    assert checked.audit is not None
    assert checked.driven is not None
    assert checked.audit.value("method") == resolved
    assert {row.status for row in checked.driven.rows} == {"ok"}
    found = checked.driven.judged.acceptance
    assert (found is not None) is drafted
    assert found is None or found.drafted > 0


def test_a_version_that_the_target_names_is_the_one_that_answers(
    methods: Mapping[str, Method[Any]],
) -> None:
    target = Target(engine="vllm", model="/models/target", version="0.23.0")
    audit = check_method(methods["draft_model"], DRAFT, target=target).audit
    assert audit is not None
    # 0.23 and 0.24 take asynchronous scheduling from a draft model, 0.32 does not.
    assert audit.value("engine_version") == "0.23.0"
    assert audit.value("async_scheduling") == "False"


@attrs.frozen(kw_only=True)
class GoodOptions:
    """How much is drafted."""

    num_speculative_tokens: int = attrs.field(metadata=said("Tokens drafted at once.", minimum=1))


class Good(Method[Any]):
    """A method without a mistake: every wrong one below changes one thing."""

    name = "good"
    options: type = GoodOptions

    def launch(self, options: Any, _target: Target) -> Launch:
        return Launch(speculation={"method": "suffix", **attrs.asdict(options)})

    def expected(self, options: Any, _target: Target) -> Expected:
        longest = getattr(options, "num_speculative_tokens", 3)
        return Expected(methods=("suffix",), longest_draft=longest, depth="per_step")

    def counting(self, _options: Any, _target: Target) -> Counting | None:
        return Counting(every_step_drafts=False, full_depth=False)

    def caveats(self, _options: Any) -> tuple[str, ...]:
        return ("A draft is as long as the match that it continues.",)


K3 = {"num_speculative_tokens": 3}


def wrong(**parts: Any) -> Method[Any]:
    return type("Wrong", (Good,), parts)()


def options_class(name: str, kind: Any, *, decorator: Any = attrs.frozen, told: str = "x") -> type:
    """Give a class of one option, without its help sentence if that is empty."""
    field = attrs.field(metadata=said(told) if told else {})
    body = {"__doc__": "Options.", "__annotations__": {name: kind}, name: field}
    made = decorator(type("WrongOptions", (), body))
    assert isinstance(made, type)
    return made


CALLS = count()


def launch_with_a_counter(*_: Any) -> Launch:
    return Launch(speculation={"method": "suffix", **K3}, arguments=(f"--call={next(CALLS)}",))


def launch_that_writes(_self: Any, _options: Any, target: Target) -> Launch:
    target.flags["seed"] = 7  # type: ignore[index]
    return Launch(speculation={"method": "suffix", **K3})


@pytest.mark.parametrize(
    ("method", "message"),
    [
        (wrong(name="Not A Name"), "its name 'Not A Name' does not match"),
        (wrong(options=dict), "its options are no attrs class"),
        (
            wrong(options=options_class("num_speculative_tokens", int, told="")),
            "option 'num_speculative_tokens' is not documented",
        ),
        (
            wrong(options=options_class("sizes", int, decorator=attrs.define)),
            "WrongOptions is not frozen",
        ),
        (
            wrong(options=options_class("sizes", int, decorator=attrs.define(slots=False))),
            "WrongOptions is not frozen",
        ),
        (
            wrong(options=options_class("sizes", list[int])),
            "option 'sizes' has the type list[int]",
        ),
        (
            wrong(options=options_class("method", str)),
            "option 'method' has the name of a key that every arm has",
        ),
        (wrong(launch=launch_with_a_counter), "launch is not pure: it gave"),
        (wrong(launch=launch_that_writes), "launch is not pure: it changed"),
        (wrong(launch=lambda *_: {}), "launch gave {}, not a Launch"),
        (wrong(launch=lambda *_: 1 / 0), "launch raised ZeroDivisionError"),
        (wrong(assets=lambda *_: ["/models/draft"]), "assets gave ['/models/draft'], not a tuple"),
        (
            wrong(check=lambda *_: (Problem("no such head", "take another"),)),
            "check refuses these options: no such head; take another",
        ),
        (
            wrong(launch=lambda *_: Launch(speculation={"method": "suffix", "tokens": 3})),
            "has the field 'tokens'",
        ),
        (
            wrong(launch=lambda *_: Launch(speculation={"method": "mine", "tokens": 3})),
            "has the field 'tokens'",
        ),
        (
            wrong(launch=lambda *_: Launch(speculation={"method": {"suffix"}})),
            "launch gave Launch(speculation={'method': {'suffix'}}",
        ),
        (
            wrong(expected=lambda *_: Expected(methods=("suffix",), longest_draft=2)),
            "launch asks for drafts of 3 tokens, and expected knows none above 2",
        ),
        (
            wrong(expected=lambda *_: Expected(methods=())),
            "launch says some, expected says none, counting says some",
        ),
        (wrong(launch=lambda *_: Launch()), "launch says none, expected says some"),
        (wrong(counting=lambda *_: None), "expected says some, counting says none"),
        (
            wrong(counting=lambda *_: Counting(every_step_drafts=False, full_depth=True)),
            "counting says that every draft is of full length",
        ),
        (
            wrong(confounds=lambda *_: (Confound(fact="async", meaning="Costs a step."),)),
            "confounds names 'async', which no audit states",
        ),
        (wrong(caveats=lambda *_: ("lossy",)), "caveats gave 'lossy', which is no sentence"),
    ],
)
def test_a_mistake_is_said_in_a_sentence(method: Method[Any], message: str) -> None:
    wanted = (
        {field.name for field in attrs.fields(method.options)} if attrs.has(method.options) else ()
    )
    values: dict[str, Any] = {"num_speculative_tokens": 3, "sizes": [1], "method": "x"}
    with pytest.raises(AssertionError, match=re.escape(message)) as caught:
        check_method(method, {name: values[name] for name in wanted}, serve=False)
    assert str(caught.value).startswith(f"method {method.name!r} breaks its contract:\n- ")


def test_a_method_without_a_mistake_passes_without_a_server() -> None:
    checked = check_method(Good(), K3, serve=False)
    assert checked.options == GoodOptions(num_speculative_tokens=3)
    assert checked.audit is None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "'num_speculative_tokens' is missing"),
        ({"num_speculative_tokens": 0}, "0 is less than the minimum of 1"),
        ({"num_speculative_tokens": 3, "modle": "x"}, "unknown key 'modle'"),
        ({"num_speculative_tokens": [3, 5]}, "is swept"),
    ],
)
def test_options_that_an_experiment_would_refuse_are_refused(
    options: dict[str, Any], message: str
) -> None:
    with pytest.raises(AssertionError, match=message):
        check_method(Good(), options, serve=False)


def test_all_mistakes_are_said_at_once() -> None:
    method = wrong(name="Not A Name", caveats=lambda *_: ("lossy",), counting=lambda *_: 3)
    with pytest.raises(AssertionError) as caught:
        check_method(method, K3, serve=False)
    assert str(caught.value).count("\n- ") == 3


def test_a_class_in_place_of_an_object_is_said() -> None:
    with pytest.raises(AssertionError, match="is no Method: give an object"):
        check_method(Good, K3)  # type: ignore[arg-type]


def test_a_server_shows_what_the_functions_alone_do_not() -> None:
    """The three claims agree with one another, and not with what is served."""
    method = wrong(
        expected=lambda *_: Expected(methods=("eagle",), longest_draft=3),
        counting=lambda *_: Counting(every_step_drafts=True, full_depth=True),
    )
    check_method(method, K3, serve=False)
    with pytest.raises(AssertionError) as caught:
        check_method(method, K3)
    told = str(caught.value)
    assert "in_effect.method is suffix, not eagle" in told
    assert re.search(r"acceptance_identities failed: drafted \d+ is not 3 x \d+ drafts", told)
    assert re.search(r"every step drafts, and on the simulated server at least \d+ steps", told)


def test_a_launch_that_the_server_does_not_take_is_said_with_its_cause() -> None:
    method = wrong(
        launch=lambda *_: Launch(
            speculation={"method": "suffix", **K3}, arguments=("--no-such-flag",)
        )
    )
    with pytest.raises(AssertionError, match="unrecognized arguments: --no-such-flag"):
        check_method(method, K3)


def test_a_server_ends_with_its_block_and_its_exit_code_is_known() -> None:
    with simulated_server() as server:
        assert server.exit_code is None
        os.kill(server.pid, 0)
        text = server.log.read_text()
    assert "Route: /v1/chat/completions" in text
    assert server.exit_code == 0
    with pytest.raises(ProcessLookupError):
        os.kill(server.pid, 0)


def test_a_server_that_does_not_come_up_raises_the_cause_of_its_log() -> None:
    with (
        pytest.raises(DeploymentError, match="unrecognized arguments") as caught,
        simulated_server(flags={"no-such-flag": 1}),
    ):
        pass
    assert caught.value.kind == "bad_flag"


pytest_plugins = ["specbench.testing"]


def test_the_fixture_starts_servers_that_end_with_the_test(
    simulated_server: Callable[..., SimulatedServer],
) -> None:
    server = simulated_server(
        speculation={"method": "eagle3", **DRAFT}, version="0.23.0", flags={"seed": 3}
    )
    assert server.audit().value("method") == "eagle3"
    assert server.audit().value("engine_version") == "0.23.0"
    names = {name for name, _ in server.metrics().series}
    assert "vllm:spec_decode_num_drafts_total" in names


def test_nothing_but_the_fixture_needs_pytest() -> None:
    code = "import sys; sys.modules['pytest'] = None; import specbench.testing as t; t.check_method"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)


def documented(language: str) -> list[str]:
    """Give the code blocks of docs/plugins.md in a language."""
    text = (ROOT / "docs/plugins.md").read_text()
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


def test_the_documented_tests_of_a_plugin_pass(tmp_path: Path) -> None:
    plugin, tests = documented("python")[:2]
    (tmp_path / "specbench_lookahead.py").write_text(plugin)
    (tmp_path / "test_lookahead.py").write_text(tests)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", tmp_path],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 passed" in done.stdout
