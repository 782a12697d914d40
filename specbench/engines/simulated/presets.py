"""The machines and models that the simulated server can stand for. Pure.

`h200-6b` is fitted to real launches, the others are estimates: docs/simulated.md gives the source
or the arithmetic of every number here.
"""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from specbench.engines.simulated.cost import CostModel
from specbench.engines.simulated.drafting import Chain
from specbench.engines.simulated.text import PROSE, SOURCE, Genre, Habits

GIB = 2**30
ALIKE = {"eagle3": "eagle"}
"""Methods that cost and accept as another does: of EAGLE-3 nothing was captured."""


@attrs.frozen(kw_only=True)
class Host:
    """What the host adds to a step that the accelerator does not hide."""

    step_s: float
    request_s: float


@attrs.frozen(kw_only=True)
class Drafter:
    """What a method adds to a step, and to the memory."""

    chains: Mapping[Genre, Chain] = attrs.field(factory=dict)
    step_s: float = 0.0
    request_s: float = 0.0
    position_s: float = 0.0
    token_s: float = 0.0
    weight_bytes: float = 0.0
    reserve_bytes: float = 0.0
    """More memory that KV cannot have."""
    kv_bytes_per_token: float = 0.0


@attrs.frozen(kw_only=True)
class Preset:
    """One model on one machine. Rates and bytes are those of the whole tensor-parallel group."""

    name: str
    stands_for: str
    estimate: bool
    """False only where real launches were fitted."""
    gpus: int
    parameters: float
    bytes_per_parameter: float
    kv_bytes_per_token: float
    memory_bytes: float
    reserve_bytes: float
    """Memory of activations and graphs, which KV cannot have."""
    bytes_per_s: float
    """Bandwidth reached."""
    flop_per_s: float
    """Arithmetic reached."""
    asynchronous: Host
    synchronous: Host
    front_token_s: float
    """Tokenizing one prompt token in the API process."""
    drafters: Mapping[str, Drafter]
    habits: Mapping[Genre, Habits]
    launch_s: Mapping[str, float]
    """How long a launch takes there, by method, with `none` for the baseline."""

    def drafter(self, method: str) -> Drafter:
        """Give what a method adds. One that is not known here costs what a draft model does."""
        if method == "none":
            return Drafter()
        return self.drafters.get(ALIKE.get(method, method), self.drafters["draft_model"])

    @property
    def chains(self) -> Mapping[str, Mapping[Genre, Chain]]:
        """Give the acceptance chains by method."""
        return {method: self.drafter(method).chains for method in (*self.drafters, *ALIKE)}

    def cost(self, *, method: str, async_scheduling: bool, speed: float = 1.0) -> CostModel:
        """Give what steps cost under a method. At speed 2 everything takes half the time."""
        host = self.asynchronous if async_scheduling else self.synchronous
        drafter = self.drafter(method)
        return CostModel(
            weights_s=self.parameters * self.bytes_per_parameter / self.bytes_per_s / speed,
            token_s=2 * self.parameters / self.flop_per_s / speed,
            context_token_s=self.kv_bytes_per_token / self.bytes_per_s / speed,
            step_s=(host.step_s + drafter.step_s) / speed,
            request_s=(host.request_s + drafter.request_s) / speed,
            draft_position_s=drafter.position_s / speed,
            draft_token_s=drafter.token_s / speed,
            front_token_s=self.front_token_s / speed,
        )

    def ready_s(self, method: str) -> float:
        """Give how long a launch takes."""
        return self.launch_s.get(ALIKE.get(method, method), self.launch_s["draft_model"])

    def model_bytes(self, method: str) -> float:
        """Give the memory of the weights, the drafter's included."""
        return self.parameters * self.bytes_per_parameter + self.drafter(method).weight_bytes

    def kv_bytes(self, method: str, gpu_memory_utilization: float) -> float:
        """Give the memory left for KV."""
        usable = self.memory_bytes * gpu_memory_utilization - self.reserve_bytes
        return usable - self.model_bytes(method) - self.drafter(method).reserve_bytes

    def kv_tokens(self, method: str, gpu_memory_utilization: float) -> int:
        """Give the tokens whose KV fits, in whole blocks of 16."""
        per_token = self.kv_bytes_per_token + self.drafter(method).kv_bytes_per_token
        return int(self.kv_bytes(method, gpu_memory_utilization) / per_token) // 16 * 16


STUDIED_DRAFT: Mapping[Genre, Chain] = {
    "chat": (0.766, 0.833, 0.751),
    "code": (0.887, 0.871, 0.909),
    "summary": (0.764, 0.813, 0.820),
}
"""An 8 B draft for a 70 B target, as published by position (docs/simulated.md)."""
STUDIED_HEAD: Mapping[Genre, Chain] = {
    "chat": (0.34, 0.29, 0.30),
    "code": (0.74, 0.72, 0.74),
    "summary": (0.39, 0.36),
}
"""An EAGLE head on an 8 B target, likewise."""

H200_6B = Preset(
    name="h200-6b",
    stands_for="a 5.8 B Llama trained on Python source, on one H200 (vLLM 0.23.0)",
    estimate=False,
    gpus=1,
    parameters=5.771e9,
    bytes_per_parameter=2,
    kv_bytes_per_token=65_536,
    memory_bytes=139.8 * GIB,
    reserve_bytes=2.98 * GIB,
    bytes_per_s=0.85 * 4.8e12,
    flop_per_s=740e12,
    asynchronous=Host(step_s=1.03e-3, request_s=9.3e-6),
    synchronous=Host(step_s=2.23e-3, request_s=9.3e-6),
    front_token_s=7e-6,
    drafters={
        "draft_model": Drafter(
            chains={
                **STUDIED_DRAFT,
                "code": (0.815, 0.825, 0.885),
            },
            request_s=248e-6,
            position_s=1.17e-3,
            weight_bytes=0.05 * GIB,
            reserve_bytes=0.49 * GIB,
            kv_bytes_per_token=3_074,
        ),
        "ngram": Drafter(step_s=0.827e-3, request_s=132e-6, reserve_bytes=0.47 * GIB),
        "eagle": Drafter(
            chains={"code": (0.845, 0.875, 0.88), "chat": (0.55, 0.6, 0.6), "summary": (0.6, 0.65)},
            position_s=0.371e-3,
            token_s=9.1e-6,
            weight_bytes=0.03 * GIB,
            kv_bytes_per_token=2_048,
        ),
    },
    habits={
        "code": Habits(reuse=0.34, stay=0.91, own=0.7, words=SOURCE),
        "chat": Habits(reuse=0.04, stay=0.70, own=0.5, words=PROSE),
        "summary": Habits(reuse=0.25, stay=0.90, own=0.1, words=PROSE),
    },
    launch_s={"none": 102, "draft_model": 103, "ngram": 102, "eagle": 111},
)

GH200X4_70B = Preset(
    name="gh200x4-70b",
    stands_for="a 70 B dense model in bfloat16 on four GH200, tensor parallel",
    estimate=True,
    gpus=4,
    parameters=70.6e9,
    bytes_per_parameter=2,
    kv_bytes_per_token=327_680,
    memory_bytes=4 * 95.5 * GIB,
    reserve_bytes=4 * 4.3 * GIB,
    bytes_per_s=4 * 0.85 * 4.0e12,
    flop_per_s=4 * 0.6 * 989e12,
    asynchronous=Host(step_s=3.75e-3, request_s=80e-6),
    synchronous=Host(step_s=4.95e-3, request_s=80e-6),
    front_token_s=7e-6,
    drafters={
        "draft_model": Drafter(
            chains=STUDIED_DRAFT,
            position_s=27.5e-3,
            weight_bytes=16.1e9,
            reserve_bytes=4 * 8.6 * GIB,
            kv_bytes_per_token=131_072,
        ),
        "ngram": Drafter(step_s=2.4e-3, request_s=150e-6, reserve_bytes=4 * 7.4 * GIB),
        "eagle": Drafter(
            chains=STUDIED_HEAD,
            position_s=0.6e-3,
            token_s=10e-6,
            weight_bytes=2.0e9,
            kv_bytes_per_token=4_096,
        ),
    },
    habits={
        "code": Habits(reuse=0.05, stay=0.62, own=0.5, words=SOURCE),
        "chat": Habits(reuse=0.05, stay=0.62, own=0.5, words=PROSE),
        "summary": Habits(reuse=0.10, stay=0.80, own=0.1, words=PROSE),
    },
    launch_s={"none": 600, "draft_model": 840, "ngram": 780, "eagle": 600},
)

B200_8B = Preset(
    name="b200-8b",
    stands_for="an 8 B dense model in bfloat16 on one B200",
    estimate=True,
    gpus=1,
    parameters=8.03e9,
    bytes_per_parameter=2,
    kv_bytes_per_token=131_072,
    memory_bytes=180 * GIB,
    reserve_bytes=4 * GIB,
    bytes_per_s=0.85 * 8.0e12,
    flop_per_s=0.6 * 2.25e15,
    asynchronous=H200_6B.asynchronous,
    synchronous=H200_6B.synchronous,
    front_token_s=7e-6,
    drafters={
        "draft_model": Drafter(
            chains=STUDIED_DRAFT,
            request_s=248e-6,
            position_s=1.17e-3,
            weight_bytes=2.5e9,
            kv_bytes_per_token=32_768,
        ),
        "ngram": Drafter(step_s=0.827e-3, request_s=132e-6),
        "eagle": Drafter(
            chains=STUDIED_HEAD,
            position_s=0.371e-3,
            token_s=9.1e-6,
            weight_bytes=0.5e9,
            kv_bytes_per_token=4_096,
        ),
    },
    habits=GH200X4_70B.habits,
    launch_s={"none": 100, "draft_model": 110, "ngram": 100, "eagle": 115},
)

PRESETS: Mapping[str, Preset] = {preset.name: preset for preset in (H200_6B, GH200X4_70B, B200_8B)}
DEFAULT_PRESET = H200_6B.name
