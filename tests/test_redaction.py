"""Secrets by name and by value, and one planted everywhere in a real run."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from specbench.experiment.identity import run_digest
from specbench.experiment.read import ReadExperiment
from specbench.redaction import Redaction, redaction, scrubbed
from tests.conftest import SMALL, plant_plugin, run_command, shell, write_small

PLANTED = "sk-planted-4711-secret"


def test_values_of_secret_names_are_hidden() -> None:
    hidden = scrubbed({"env": {"HF_TOKEN": "abc", "PATH": "x"}, "list": [{"api_key": "k", "n": 3}]})
    assert hidden == {"env": {"HF_TOKEN": "***", "PATH": "x"}, "list": [{"api_key": "***", "n": 3}]}
    assert scrubbed(("serve", "--api-key", "k", "--port", "1")) == [
        "serve",
        "--api-key",
        "***",
        "--port",
        "1",
    ]


def test_a_tokenizer_is_no_secret(read_small: Callable[..., ReadExperiment]) -> None:
    assert scrubbed({"tokenizer": "/a", "max_tokens": "5"}) == {
        "tokenizer": "/a",
        "max_tokens": "5",
    }
    vllm = "engine: vllm, model: /m, flags: {tokenizer: /a}"
    first = SMALL.replace("engine: simulated, model: toy, flags: {speed: 20, seed: 3}", vllm)
    assert run_digest(read_small(first)) != run_digest(read_small(first.replace("/a", "/b")))


def test_values_under_secret_names_are_found_in_environments_and_commands() -> None:
    found = redaction(
        [{"HF_TOKEN": "hf_abcdef", "PATH": "/usr/bin", "SHORT_KEY": "abc"}],
        [("serve", "--api-key", "sk-123456", "--tokenizer", "/models/x")],
    )
    assert found.values == {"hf_abcdef", "sk-123456"}


@given(st.lists(st.text(min_size=6, max_size=12), max_size=4), st.text(max_size=30))
def test_no_value_survives_in_a_text(values: list[str], around: str) -> None:
    clean = Redaction(frozenset(values)).text(around.join(["", *values, ""]))
    assert all(value not in clean or set(value) == {"*"} for value in values)


def test_a_longer_secret_is_hidden_before_the_one_inside_it() -> None:
    assert Redaction(frozenset({"secret", "my-secret-x"})).text("a my-secret-x b") == "a *** b"


PLUGIN = """
from specbench_ngram import Ngram
from specbench import Launch, hookimpl

class Loud(Ngram):
    name = "loud"
    def launch(self, options, target):
        # The simulated server does not know the flag, and argparse repeats it in the log.
        return Launch(arguments=("--api-key", "{planted}"), speculation={{"method": "ngram", "num_speculative_tokens": 3}})

@hookimpl
def specbench_methods():
    yield Loud()
"""


def test_a_planted_secret_is_nowhere_in_what_a_run_keeps(tmp_path: Path) -> None:
    """It stands in the document, in an environment, on a command line and in a server's log."""
    site = plant_plugin(tmp_path, "loud", PLUGIN.format(planted=PLANTED))
    document = SMALL.replace("model: toy,", f'model: toy, env: {{SERVICE_TOKEN: "{PLANTED}"}},')
    document = document.replace("method: ngram", "method: loud").replace("blocks: 2", "blocks: 1")
    spec = write_small(tmp_path, document + f"# the key is {PLANTED}\n")
    kept = tmp_path / "kept"
    done = shell(run_command(spec, kept), PYTHONPATH=site, HF_TOKEN=PLANTED)
    assert done.returncode == 0, done.stdout + done.stderr
    (log,) = kept.glob("runs/*/*ngram-k3-a1/launch.log")
    assert "unrecognized arguments: --api-key ***" in log.read_text()
    files = [path for path in kept.rglob("*") if path.is_file()]
    assert len(files) > 30
    assert [path for path in files if PLANTED.encode() in path.read_bytes()] == []
    assert PLANTED not in done.stdout + done.stderr
    launch = json.loads(next(kept.glob("runs/*/*baseline-a1/launch.json")).read_text())
    assert launch["environment"]["SERVICE_TOKEN"] == "***"
