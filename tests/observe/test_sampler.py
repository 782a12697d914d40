from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace
from typing import Any

import pytest

from specbench.engines.known import ENGINES
from specbench.observe.accelerators import Accelerators
from specbench.observe.sampler import sampling

NAMES = ENGINES["vllm"].counters()
TEXT = (
    "# HELP vllm:num_requests_running Requests\n"
    'vllm:num_requests_running{engine="0"} 3\n'
    'vllm:num_requests_running{engine="1"} 4\n'
    'vllm:num_requests_waiting{engine="0"} 0\n'
    'vllm:num_requests_waiting{engine="1"} 2\n'
    'vllm:kv_cache_usage_perc{engine="0"} 0.25\n'
    'vllm:kv_cache_usage_perc{engine="1"} 0.75\n'
    'vllm:e2e_request_latency_seconds_sum{engine="0"} 9\n'
)


class Served:
    """A server of one exposition on loopback, and when it was asked for the third time."""

    def __init__(self, status: int = 200) -> None:
        self.asked = 0
        self.thrice = threading.Event()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.asked += 1
                if outer.asked == 3:
                    outer.thrice.set()
                body = TEXT.encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/metrics"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


@pytest.fixture
def served() -> Iterator[Served]:
    found = Served()
    yield found
    found.server.shutdown()
    found.server.server_close()


def test_a_server_is_sampled_while_the_block_runs_and_read_afterwards(served: Served) -> None:
    with sampling(served.url, NAMES, 0.01) as sampler:
        assert served.thrice.wait(20)
    server = [item for item in sampler.samples() if item.of == "server"]
    first = {item.quantity: item.value for item in server if item.at_ns == server[0].at_ns}
    # Requests are added over engines; of a share the fullest engine counts.
    assert first == {"running": 7, "waiting": 2, "kv_usage": 0.75}
    cost = sampler.cost()
    assert cost.samples >= 3
    assert cost.failed == 0
    assert 0 < cost.cpu_s <= cost.wall_s


def test_after_the_block_nobody_is_asked_any_more(served: Served) -> None:
    with sampling(served.url, NAMES, 0.01):
        assert served.thrice.wait(20)
    asked = served.asked
    assert not [item for item in threading.enumerate() if item.name == "sampler"]
    assert served.asked == asked


def test_no_sampling_was_asked_for(served: Served) -> None:
    with sampling(served.url, NAMES, None) as sampler:
        pass
    assert served.asked == 0
    assert sampler.samples() == ()


def test_a_server_that_is_gone_costs_samples_and_no_window() -> None:
    gone = Served()
    gone.server.shutdown()
    gone.server.server_close()
    with sampling(gone.url, NAMES, 0.01) as sampler:
        pass
    assert sampler.samples() == ()
    assert sampler.cost().failed >= 1


class NvmlError(Exception):
    pass


def nvml(*, gpm: bool) -> Any:
    """A machine of two GPUs as nvidia-ml-py tells it; the second tells no power."""

    def power(handle: int) -> int:
        if handle == 1:
            raise NvmlError
        return 350_000

    def metrics(asked: Any) -> Any:
        asked.metrics[0].value = {2: 80.0, 5: 25.0, 20: 3.0, 21: 4.0}.get(asked.metrics[0].metricId)
        asked.metrics[0].nvmlReturn = 0 if asked.metrics[0].value is not None else 3
        return asked

    return SimpleNamespace(
        NVMLError=NvmlError,
        NVML_CLOCK_SM=1,
        NVML_SUCCESS=0,
        NVML_GPM_METRICS_GET_VERSION=1,
        NVML_GPM_METRIC_SM_UTIL=2,
        NVML_GPM_METRIC_ANY_TENSOR_UTIL=5,
        NVML_GPM_METRIC_PCIE_TX_PER_SEC=20,
        NVML_GPM_METRIC_PCIE_RX_PER_SEC=21,
        NVML_GPM_METRIC_NVLINK_TOTAL_RX_PER_SEC=60,
        NVML_GPM_METRIC_NVLINK_TOTAL_TX_PER_SEC=61,
        nvmlDeviceGetCount=lambda: 2,
        nvmlDeviceGetHandleByIndex=lambda index: index,
        nvmlDeviceGetUUID=lambda handle: f"GPU-{handle}",
        nvmlDeviceGetMemoryInfo=lambda _: SimpleNamespace(used=3 * 2**30),
        nvmlDeviceGetUtilizationRates=lambda _: SimpleNamespace(gpu=50),
        nvmlDeviceGetClockInfo=lambda *_: 1980,
        nvmlDeviceGetPowerUsage=power,
        nvmlDeviceGetTotalEnergyConsumption=lambda _: 5_000,
        nvmlGpmQueryDeviceSupport=lambda _: SimpleNamespace(isSupportedDevice=gpm),
        nvmlGpmSampleAlloc=object,
        nvmlGpmSampleGet=lambda _, sample: sample,
        nvmlGpmSampleFree=lambda _: None,
        nvmlGpmMetricsGet=metrics,
        nvmlShutdown=lambda: None,
        c_nvmlGpmMetricsGet_t=lambda: SimpleNamespace(metrics=[SimpleNamespace()]),
    )


def read(found: Accelerators) -> dict[tuple[str, str], float]:
    return {(of, quantity): value for of, quantity, value in found.read()}


def test_accelerators_tell_what_they_can_and_leave_out_the_rest() -> None:
    found = read(Accelerators(nvml(gpm=False), None))
    assert found["gpu0", "power_w"] == 350.0
    assert ("gpu1", "power_w") not in found
    assert found["gpu1", "memory_gib"] == 3.0
    assert found["gpu0", "utilisation"] == 0.5
    assert found["gpu0", "energy_j"] == 5.0
    assert not [quantity for _, quantity in found if quantity.endswith("activity")]


def test_activities_are_of_the_time_between_two_readings() -> None:
    accelerators = Accelerators(nvml(gpm=True), "0")
    assert ("gpu0", "sm_activity") not in read(accelerators)
    second = read(accelerators)
    assert second["gpu0", "sm_activity"] == pytest.approx(0.8)
    assert second["gpu0", "tensor_activity"] == pytest.approx(0.25)
    assert second["gpu0", "pcie_mib_s"] == 7.0
    # NVML did not tell NVLink here: unknown, not zero.
    assert ("gpu0", "nvlink_mib_s") not in second
    accelerators.close()


@pytest.mark.parametrize(
    ("visible", "names"), [("1", {"gpu1"}), ("GPU-0", {"gpu0"}), (None, {"gpu0", "gpu1"})]
)
def test_only_visible_accelerators_are_read(visible: str | None, names: set[str]) -> None:
    assert {of for of, _ in read(Accelerators(nvml(gpm=False), visible))} == names


def test_the_gpus_of_the_servers_own_environment_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str | None] = []
    monkeypatch.setattr("specbench.observe.sampler.opened_accelerators", asked.append)
    for visible in ("1", None):
        with sampling(None, NAMES, 60, visible):
            pass
    assert asked == ["1", None]
