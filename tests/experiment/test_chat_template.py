from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import attrs
import pytest

from specbench.errors import ExperimentError
from specbench.experiment.chat_template import knows_thinking, thinking_problems
from specbench.experiment.model import AttachedServer, AttachLauncher
from specbench.experiment.read import ReadExperiment, require_here
from tests.conftest import SMALL

THINKS = "{%- if enable_thinking is defined and not enable_thinking %}<think></think>{% endif %}"
PLAIN = "{% for m in messages %}<|{{ m['role'] }}|>{{ m.content }}{% endfor %}"


@pytest.mark.parametrize(
    ("template", "knows"),
    [
        (THINKS, True),
        ("{% if thinking %}x{% endif %}", True),
        (PLAIN, False),
        # Its words, a quoted one and another variable are no setting.
        ("thinking {{ '<thinking>' }} {% if thinking_budget %}{% endif %}", False),
        ("{# thinking #}", False),
    ],
)
def test_a_template_knows_thinking_if_its_code_reads_it(template: str, knows: bool) -> None:
    assert knows_thinking(template) is knows


def think(read: ReadExperiment, model: Path, **flags: str) -> ReadExperiment:
    target = attrs.evolve(read.experiment.target, model=str(model), flags=flags)
    sampling = tuple(attrs.evolve(item, thinking=False) for item in read.experiment.sampling)
    changed = attrs.evolve(read.experiment, target=target, sampling=sampling)
    return attrs.evolve(read, experiment=changed)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("chat_template.jinja", PLAIN),
        ("tokenizer_config.json", json.dumps({"chat_template": PLAIN})),
        (
            "tokenizer_config.json",
            json.dumps({"chat_template": [{"name": "default", "template": PLAIN}]}),
        ),
    ],
)
def test_thinking_is_refused_where_the_checkpoints_template_has_none(
    read_small: Callable[..., ReadExperiment], tmp_path: Path, name: str, text: str
) -> None:
    (tmp_path / name).write_text(text)
    asked = think(read_small(), tmp_path)
    said = rf"small.yaml: sampling 'greedy' sets thinking, and chat template .*{name} takes neither"
    with pytest.raises(ExperimentError, match=said):
        require_here(asked)
    (tmp_path / name).write_text(text.replace("messages %}", "messages if thinking %}"))
    require_here(asked)


def test_a_named_template_counts_and_an_unknown_one_is_not_judged(
    read_small: Callable[..., ReadExperiment], tmp_path: Path
) -> None:
    (tmp_path / "chat_template.jinja").write_text(PLAIN)
    (tmp_path / "own.jinja").write_text(THINKS)
    named = think(read_small(), tmp_path, **{"chat-template": str(tmp_path / "own.jinja")})
    assert list(thinking_problems(named.experiment)) == []
    elsewhere = think(read_small(), Path("some-org/some-model"))
    assert list(thinking_problems(elsewhere.experiment)) == []


def test_the_template_of_a_server_that_runs_already_is_not_judged(
    read_small: Callable[..., ReadExperiment], tmp_path: Path
) -> None:
    (tmp_path / "chat_template.jinja").write_text(PLAIN)
    asked = think(read_small(), tmp_path).experiment
    servers = {"baseline": AttachedServer(base_url="http://127.0.0.1:1")}
    attached = attrs.evolve(asked, launcher=AttachLauncher(kind="attach", servers=servers))
    assert len(list(thinking_problems(asked))) == 1
    assert list(thinking_problems(attached)) == []


def test_without_thinking_nothing_is_asked_of_a_template(
    read_small: Callable[..., ReadExperiment],
) -> None:
    assert "thinking" not in SMALL
    assert list(thinking_problems(read_small().experiment)) == []
