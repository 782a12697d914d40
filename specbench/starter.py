"""The first experiment as text: commented YAML for a person's answers, and six prompts.

Pure: the command line asks, looks for files and writes.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from string import Template

import attrs

from specbench.experiment.model import NAME_PATTERN

LOW, HIGH = 1, 8
"""Requests in flight of the two load points."""


@attrs.frozen(kw_only=True)
class Answers:
    """What `specbench init` learns before it writes."""

    name: str
    """Names the file and the run folder."""
    engine: str
    model: str
    """Absolute path or hub id of the served model."""
    python: str | None = None
    """Interpreter that has the engine. Ours when None."""
    draft: str | None = None
    """Absolute path or hub id of a draft model. None: no such arm."""
    head: str | None = None
    """Absolute path or hub id of an EAGLE head. None: no such arm."""
    tensor_parallel: int = 1
    """Accelerators that share each layer."""

    @property
    def simulated(self) -> bool:
        """Whether the engine is the one that needs nothing."""
        return self.engine == "simulated"


@attrs.frozen(kw_only=True)
class Prompts:
    """The workload that a first experiment names."""

    path: str
    """The file as the experiment writes it: relative to the experiment."""
    strata: Sequence[int]
    """Prompts of each stratum."""
    correctness: str
    """The file of the greedy captures, written the same way."""


def simulated_answers(name: str) -> Answers:
    """Give the answers for the simulated engine: it has every model and needs no hardware."""
    return Answers(name=name, engine="simulated", model="toy", draft="toy-draft", head="toy-head")


def name_of(text: str) -> str:
    """Give a name for an experiment about a path or hub id: its last part, in our letters."""
    last = text.rstrip("/").rsplit("/", 1)[-1].lower()
    return re.sub(r"[^a-z0-9._-]+", "-", last).strip("-.") or "first"


def is_name(text: str) -> bool:
    """Tell whether an experiment can have this name."""
    return re.fullmatch(NAME_PATTERN, text) is not None


def experiment_text(answers: Answers, prompts: Prompts) -> str:
    """Give the commented experiment that the answers ask for."""
    subject = "on the simulated engine" if answers.simulated else f"of {answers.model}"
    return _EXPERIMENT.substitute(
        name=_quoted(answers.name),
        question=_quoted(f"Does any kind of speculative decoding beat plain serving {subject}?"),
        engine=answers.engine,
        model=_quoted(answers.model),
        tensor_parallel=answers.tensor_parallel,
        flags=_SIMULATED_FLAGS if answers.simulated else _VLLM_FLAGS,
        python="" if answers.python is None else f"\n  python: {_quoted(answers.python)}",
        draft=_NO_DRAFT if answers.draft is None else _arm(_DRAFT, answers.draft),
        head=_NO_HEAD if answers.head is None else _arm(_HEAD, answers.head),
        workload=_quoted(prompts.path),
        cap=_SIMULATED_CAP if answers.simulated else "",
        low=LOW,
        high=HIGH,
        requests=_few_requests(prompts.strata) if answers.simulated else "",
        correctness=_quoted(prompts.correctness),
    )


def workload_text() -> str:
    """Give the starter prompts as the lines of a workload file."""
    return "".join(
        json.dumps(
            {
                "id": f"starter-{number}",
                "stratum": stratum,
                "messages": [{"role": "user", "content": said}],
                "max_tokens": 96,
                "source": "specbench",
                "licence": "Apache-2.0",
            }
        )
        + "\n"
        for number, (stratum, said) in enumerate(STARTER_PROMPTS, start=1)
    )


def _quoted(text: str) -> str:
    """Give text as a YAML value that stays text, whatever is in it."""
    # A JSON string is a double-quoted YAML scalar, so that no path can turn into a key or number.
    return json.dumps(text, ensure_ascii=False)


def _arm(template: Template, model: str) -> str:
    return template.substitute(model=_quoted(model))


def _few_requests(strata: Sequence[int]) -> str:
    """Give few requests, for a first look of a minute, in passes that are whole in any stratum."""
    whole = math.lcm(*strata)
    least = math.ceil(HIGH / whole) * whole
    return f"\n    requests: {{{LOW}: {least}, {HIGH}: {2 * least}}}"


_EXPERIMENT = Template("""\
# Written by `specbench init`. Read it from top to bottom and change what is not your case.
# $${NAME} in a value is taken from the environment. `specbench schema` prints every key.

# What the report answers: put your own question here. The name names the run folder.
# stage: screening looks for candidates; confirmation settles one of them.
name: $name
question: $question
stage: screening

# What is served, the same for every arm. Serve as you do in production: more of the server's
# own flags go under flags, by name without dashes, and its variables under env.
target:
  engine: $engine
  model: $model
  tensor_parallel: $tensor_parallel  # accelerators that share each layer
$flags

# How a server comes to life: the interpreter that has the engine (specbench's own when python
# is left out), and the longest wait for a first answer, in seconds. Large models load long.
launcher:
  kind: local$python
  ready_timeout_s: 900

# What is compared. Each arm is launched on its own and compared with the baseline, which has to
# stay. A list sweeps an option, and the arm's name then holds that option. Fewer arms take less
# time. `specbench methods` lists what is installed.
arms:
  - {name: baseline, method: baseline}
  # Copies what followed the same words before: pays where outputs repeat their prompts.
  - {name: ngram-k3, method: ngram, num_speculative_tokens: 3, prompt_lookup_max: 4}
$draft
$head

# What is sent: a file of one JSON object a line. Each stratum in it is analysed on its own. Gains
# depend on the text more than on anything else: put prompts of your own traffic here.
workloads:
  - path: $workload$cap

# How tokens are chosen. Temperature 0 is greedy. Add the settings of your traffic as a second
# entry with a name of its own: two samplings are never pooled.
sampling:
  - {name: greedy, temperature: 0}

# How many requests are in flight: one load point each. Take the concurrency that your servers
# see: what wins at 1 can lose at 64. Requests of a cell default to whole passes over the prompts,
# at least max(64, 10 x concurrency).
load:
  closed:
    concurrency: [$low, $high]$requests

# How often everything is repeated. A block launches every arm once; 2 screen, an interval needs 3
# and a claim 5. noise_floor launches the baseline twice a block, to see what equal arms differ by.
design:
  blocks: 2
  order: counterbalanced
  seed: 7
  noise_floor: true

# Greedy outputs of every deployment, to see whether speculation changes what is said. Without this
# section nothing is captured.
correctness:
  workload: $correctness
  captures: 2
  concurrency: [$high]
""")

_SIMULATED_FLAGS = """\
  # Model and machine that are simulated (docs/simulated.md), and the seed of the outputs.
  flags: {preset: h200-6b, seed: 7}"""

_VLLM_FLAGS = """\
  # max_model_len: 8192  # longest prompt and output together, in tokens
  # flags: {gpu-memory-utilization: 0.85}
  # env: {HF_HUB_OFFLINE: "1"}"""

_DRAFT = Template("""\
  # A smaller model of the same vocabulary drafts. Longer drafts cost more and are accepted less.
  - name: "draft-k{num_speculative_tokens}"
    method: draft_model
    model: $model
    num_speculative_tokens: [2, 3, 5]""")

_NO_DRAFT = """\
  # With a smaller model of the same vocabulary:
  # - name: "draft-k{num_speculative_tokens}"
  #   method: draft_model
  #   model: /path/to/draft
  #   num_speculative_tokens: [2, 3, 5]"""

_HEAD = Template("""\
  # A head trained for this target drafts. For a head of the first generation write head: eagle.
  - {name: eagle-k3, method: eagle, model: $model, head: eagle3, num_speculative_tokens: 3}""")

_NO_HEAD = """\
  # With an EAGLE head that was trained for this target:
  # - {name: eagle-k3, method: eagle, model: /path/head, head: eagle3, num_speculative_tokens: 3}"""

_SIMULATED_CAP = "\n    max_tokens: 32  # instead of the prompts' own, to be done sooner"

STARTER_PROMPTS = (
    ("code", "Write a Python class Stack with push, pop and peek, with a docstring for each."),
    ("code", "Rename a to width and b to height:\n\ndef area(a, b):\n    return a * b"),
    ("code", "Add types to this:\n\ndef join(words, gap=' '):\n    return gap.join(words)"),
    ("chat", "I have flour, eggs and two old apples. What can I bake? Number the steps."),
    ("chat", "Explain to a new colleague why buses are late in the rain, in five plain sentences."),
    (
        "chat",
        "Shorten: The garden club meets on Thursday, as the hall is painted on Tuesday.",
    ),
)
"""Stratum and text of each prompt that `specbench init` can write. Our own writing, Apache-2.0."""

STARTER_STRATA = (3, 3)
"""Starter prompts of each stratum."""
