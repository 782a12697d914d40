"""What people may write: the experiment document and a line of a workload, as frozen values.

These classes are the truth. JSON Schema is derived from them (`schema.py`), so every field carries
its help sentence and its limits in JSON Schema's own words.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import attrs

from specbench.experiment.decision import Decision
from specbench.experiment.load import Load
from specbench.experiment.said import said

NAME_PATTERN = r"^[a-z0-9_-][a-z0-9._-]{0,59}$"
"""Names make folders. One that starts with a dot would be a draft's."""
REPEAT_SUFFIX = "-repeat"
"""Ends the name of the baseline's repeat, which the plan derives for the noise floor."""

PrefixCache = Literal["cell", "off", "warm"]
Flag = str | int | float | bool | tuple[str | int | float, ...]


@attrs.frozen(kw_only=True)
class Target:
    """The model served and how, without speculation."""

    engine: str = attrs.field(metadata=said("The server family: vllm or simulated."))
    model: str = attrs.field(
        metadata=said("Absolute path or hub id of the served model, or the simulated preset.")
    )
    version: str | None = attrs.field(
        default=None,
        metadata=said("The engine's version. Read from the interpreter's packages when left out."),
    )
    tensor_parallel: int = attrs.field(
        default=1, metadata=said("Accelerators that share each layer.", minimum=1)
    )
    max_model_len: int | None = attrs.field(
        default=None, metadata=said("Longest prompt and output together, in tokens.", minimum=1)
    )
    flags: Mapping[str, Flag] = attrs.field(
        factory=dict,
        metadata=said("More server flags by name without dashes; true gives the bare flag."),
    )
    env: Mapping[str, str] = attrs.field(
        factory=dict, metadata=said("Environment variables of the server.")
    )
    compile_cache: Literal["fresh", "shared"] = attrs.field(
        default="fresh",
        metadata=said("fresh: each deployment compiles anew. shared: told in the provenance."),
    )


@attrs.frozen(kw_only=True)
class LocalLauncher:
    """Servers are processes of this machine."""

    kind: Literal["local"] = attrs.field(default="local", metadata=said("How servers are started."))
    python: str | None = attrs.field(
        default=None,
        metadata=said("Interpreter that has the engine. Our own when left out."),
    )
    ready_timeout_s: float = attrs.field(
        default=900.0, metadata=said("Longest wait for a first completion.", exclusiveMinimum=0)
    )


@attrs.frozen(kw_only=True)
class AttachedServer:
    """A server that runs already."""

    base_url: str = attrs.field(
        metadata=said("Where it answers, such as http://127.0.0.1:8000.", pattern="^https?://")
    )
    metrics_url: str | None = attrs.field(
        default=None,
        metadata=said(
            "Where its counters are. base_url/metrics when left out.", pattern="^https?://"
        ),
    )
    log: str | None = attrs.field(
        default=None, metadata=said("Its launch log; without it less is known.")
    )
    model: str | None = attrs.field(
        default=None, metadata=said("What requests call the model. Its first one when left out.")
    )
    api_key_env: str | None = attrs.field(
        default=None, metadata=said("Environment variable that holds its API key.")
    )
    proxy_env: str | None = attrs.field(
        default=None,
        metadata=said(
            "Environment variable that names the HTTP proxy on the way to it, such as https_proxy."
        ),
    )


@attrs.frozen(kw_only=True)
class AttachLauncher:
    """Servers run already; nothing is started and nothing is stopped."""

    kind: Literal["attach"] = attrs.field(metadata=said("How servers are started."))
    servers: Mapping[str, AttachedServer] = attrs.field(
        metadata=said("The server of each arm, by the arm's name.", minProperties=1)
    )
    ready_timeout_s: float = attrs.field(
        default=60.0, metadata=said("Longest wait for a first completion.", exclusiveMinimum=0)
    )

    @property
    def python(self) -> None:
        """No interpreter of ours serves."""
        return


Launcher = LocalLauncher | AttachLauncher


@attrs.frozen(kw_only=True)
class Arm:
    """A method with its options, named. Sweeps are already unfolded."""

    name: str
    method: str
    options: Any
    """An instance of the method's own frozen options class."""


@attrs.frozen(kw_only=True)
class WorkloadFile:
    """A prompt set in a JSON Lines file."""

    path: str = attrs.field(metadata=said("The file, relative to this document."))
    sha256: str | None = attrs.field(
        default=None,
        metadata=said(
            "Digest that the prompts must have (`specbench workload validate` prints it).",
            pattern="^[0-9a-f]{64}$",
        ),
    )
    max_tokens: int | None = attrs.field(
        default=None,
        metadata=said("Cap of every output, in tokens, instead of the prompts' own.", minimum=1),
    )


@attrs.frozen(kw_only=True)
class GeneratedWorkload:
    """A prompt set that is generated from a seed, and written into the run folder."""

    generate: Literal["summarize-long"] = attrs.field(
        metadata=said("What is generated: long reports, and the request to summarise them.")
    )
    seed: int = attrs.field(metadata=said("Seed of the texts.", minimum=0))
    tokens: tuple[int, ...] = attrs.field(
        default=(16_000, 64_000),
        metadata=said(
            "Least and most tokens of a prompt, estimated at 4 characters each.",
            minItems=2,
            maxItems=2,
        ),
    )
    prompts: int = attrs.field(default=8, metadata=said("How many.", minimum=1, maximum=10_000))
    max_tokens: int = attrs.field(
        default=512, metadata=said("Cap of every output, in tokens.", minimum=1)
    )


Workload = WorkloadFile | GeneratedWorkload


@attrs.frozen(kw_only=True)
class Sampling:
    """Named request settings. Two samplings are never pooled."""

    name: str = attrs.field(metadata=said("Name in cells and charts.", pattern=NAME_PATTERN))
    temperature: float = attrs.field(
        default=0.0,
        metadata=said("0 is greedy. Always sent, never the server's default.", minimum=0),
    )
    top_p: float | None = attrs.field(
        default=None, metadata=said("Nucleus size.", exclusiveMinimum=0, maximum=1)
    )
    top_k: int | None = attrs.field(default=None, metadata=said("Candidates kept.", minimum=1))
    seed: int | None = attrs.field(
        default=None,
        metadata=said("Each request sends a seed made from it: the same in every arm."),
    )
    thinking: bool | None = attrs.field(
        default=None,
        metadata=said("Thinking on or off, by chat_template_kwargs. The template's own default."),
    )
    ignore_eos: bool = attrs.field(
        default=False, metadata=said("Generate to the cap. Outputs are then not natural text.")
    )


@attrs.frozen(kw_only=True)
class Design:
    """How deployments are repeated and ordered."""

    blocks: int = attrs.field(
        default=2,
        metadata=said("Deployments of each arm. A claim needs 5.", minimum=1, maximum=1000),
    )
    order: Literal["counterbalanced", "random"] = attrs.field(
        default="counterbalanced", metadata=said("Order of arms inside blocks.")
    )
    seed: int = attrs.field(default=0, metadata=said("Seed of every order."))
    noise_floor: bool = attrs.field(
        default=True,
        metadata=said("Launch the baseline twice a block, to see what equal arms differ by."),
    )
    equalise: bool = attrs.field(
        default=False,
        metadata=said(
            "Launch the baseline once more for each set of settings that arms lose, as with them."
        ),
    )


@attrs.frozen(kw_only=True)
class Margins:
    """By how much an arm's worst output may lie beyond the control's worst."""

    prefix_fraction: float = attrs.field(
        default=0.05,
        metadata=said(
            "Of the common prefix as a share of the shorter output.", minimum=0, maximum=1
        ),
    )
    edit_distance: float = attrs.field(
        default=0.05,
        metadata=said("Of the edit distance / the longer output.", minimum=0, maximum=1),
    )
    tokens: int = attrs.field(
        default=2, metadata=said("Of the difference in completion tokens.", minimum=0)
    )


@attrs.frozen(kw_only=True)
class Correctness:
    """Greedy captures of every deployment, and the rules by which they are judged."""

    workload: str = attrs.field(metadata=said("Prompt file, relative to this document."))
    captures: int = attrs.field(
        default=2, metadata=said("Captures of each deployment.", minimum=1, maximum=2)
    )
    concurrency: tuple[int, ...] = attrs.field(
        default=(1,), metadata=said("Requests in flight while capturing.", minItems=1)
    )
    margins: Margins = attrs.field(
        factory=Margins,
        metadata=said("By how much an arm's worst may lie beyond the control's worst."),
    )
    near_tie_nats: float = attrs.field(
        default=0.5,
        metadata=said(
            "A token is a near tie when it lies this close behind the baseline's best.",
            exclusiveMinimum=0,
            maximum=5,
        ),
    )


@attrs.frozen(kw_only=True)
class Gates:
    """Declared validity rules. A cell that fails one is listed and never averaged."""

    success_rate: float = attrs.field(
        default=0.99, metadata=said("Least share of requests that succeed.", minimum=0, maximum=1)
    )
    achieved_concurrency: float = attrs.field(
        default=0.95,
        metadata=said("Least time mean of requests in flight / asked.", minimum=0, maximum=1),
    )
    simulator_late_steps: float = attrs.field(
        default=0.05,
        metadata=said(
            "Largest share of a simulated server's steps that end over 2 ms late.",
            minimum=0,
            maximum=1,
        ),
    )
    achieved_rate: float = attrs.field(
        default=0.95,
        metadata=said("Least rate of sends / scheduled, of an open load.", minimum=0, maximum=1),
    )
    client_lag_p99_ms: float = attrs.field(
        default=1.0,
        metadata=said("Most by which the client may read an event late.", exclusiveMinimum=0),
    )
    client_dispatch_p99_ms: float = attrs.field(
        default=5.0,
        metadata=said("Most lateness of a send, of an open load.", exclusiveMinimum=0),
    )
    client_cpu_share: float = attrs.field(
        default=0.7,
        metadata=said("Most of a core that a client process may use.", exclusiveMinimum=0),
    )
    client_merged_share: float = attrs.field(
        default=0.01,
        metadata=said(
            "Events that may share a read with an earlier one before it is told.",
            minimum=0,
            maximum=1,
        ),
    )


@attrs.frozen(kw_only=True)
class Experiment:
    """One document: a question and everything that is done to answer it."""

    name: str = attrs.field(metadata=said("Names the run folder.", pattern=NAME_PATTERN))
    question: str = attrs.field(metadata=said("What the report answers.", minLength=1))
    stage: Literal["screening", "confirmation"] = attrs.field(
        default="screening",
        metadata=said("screening looks for candidates; confirmation settles one of them."),
    )
    target: Target = attrs.field(metadata=said("The model served and how."))
    launcher: Launcher = attrs.field(
        factory=LocalLauncher, metadata=said("How a server comes to life.")
    )
    arms: tuple[Arm, ...] = attrs.field(
        metadata=said("Methods with options; a list sweeps an option.", minItems=1)
    )
    workloads: tuple[Workload, ...] = attrs.field(
        metadata=said("Prompt sets: a file, or what is generated.", minItems=1)
    )
    sampling: tuple[Sampling, ...] = attrs.field(
        default=(Sampling(name="greedy"),), metadata=said("Request settings.", minItems=1)
    )
    load: Load = attrs.field(metadata=said("How requests arrive."))
    prefix_cache: PrefixCache = attrs.field(
        default="cell",
        metadata=said(
            "cell: requests are salted, so that no cell or pass warms another. off: servers are "
            "launched without one. warm: every prompt of a cell was sent before its window."
        ),
    )
    design: Design = attrs.field(factory=Design, metadata=said("Repeats and order."))
    correctness: Correctness | None = attrs.field(
        default=None, metadata=said("Greedy captures of every deployment.")
    )
    gates: Gates = attrs.field(factory=Gates, metadata=said("Validity rules."))
    decision: Decision = attrs.field(
        factory=Decision, metadata=said("What carries the decision, declared beforehand.")
    )
    per_request_metrics: bool = attrs.field(
        default=False,
        metadata=said(
            "Ask speculative servers for the acceptance of each request (vLLM 0.32 on). A server "
            "without speculation refuses that, so it is a confound."
        ),
    )
    sample_every_s: float | None = attrs.field(
        default=1.0,
        metadata=said(
            "Seconds between samples of server and accelerators in a window; null takes none.",
            exclusiveMinimum=0,
        ),
    )

    def baseline(self) -> Arm:
        """Give the arm that effects compare with. Reading made sure that there is exactly one."""
        return next(arm for arm in self.arms if arm.method == "baseline")
