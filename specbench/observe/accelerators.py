"""What the accelerators of this machine say of themselves, through NVML. Unknown without one.

Needs nvidia-ml-py (extra `gpu`). Activities of SM, tensor cores, NVLink and PCIe come from NVML's
GPM, which Hopper and newer have: shares and rates between two readings, not instants.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

GIB = 2**30
ACTIVITIES = {
    "sm_activity": (("NVML_GPM_METRIC_SM_UTIL",), 0.01),
    "tensor_activity": (("NVML_GPM_METRIC_ANY_TENSOR_UTIL",), 0.01),
    "nvlink_mib_s": (
        ("NVML_GPM_METRIC_NVLINK_TOTAL_RX_PER_SEC", "NVML_GPM_METRIC_NVLINK_TOTAL_TX_PER_SEC"),
        1.0,
    ),
    "pcie_mib_s": (("NVML_GPM_METRIC_PCIE_RX_PER_SEC", "NVML_GPM_METRIC_PCIE_TX_PER_SEC"), 1.0),
}
"""GPM metrics whose values are added for one quantity, and the factor to a share or MiB/s."""

Reading = Iterator[tuple[str, str, float]]


class Accelerators:
    """The GPUs that a server may use, opened for reading."""

    def __init__(self, nvml: Any, visible: str | None) -> None:
        self._nvml = nvml
        wanted = None if visible is None else {name.strip() for name in visible.split(",")}
        self._devices: list[tuple[str, Any]] = []
        for index in range(nvml.nvmlDeviceGetCount()):
            handle = nvml.nvmlDeviceGetHandleByIndex(index)
            uuid = nvml.nvmlDeviceGetUUID(handle)
            if wanted is None or str(index) in wanted or uuid in wanted:
                self._devices.append((f"gpu{index}", handle))
        self._earlier: dict[str, Any] = {}

    def read(self) -> Reading:
        """Give device, quantity and value of everything that NVML tells now."""
        for name, handle in self._devices:
            for quantity, read in self._instants().items():
                try:
                    yield name, quantity, float(read(handle))
                except self._nvml.NVMLError:
                    continue
            yield from self._activities(name, handle)

    def close(self) -> None:
        """Let go of what was opened."""
        for sample in self._earlier.values():
            self._nvml.nvmlGpmSampleFree(sample)
        self._nvml.nvmlShutdown()

    def _instants(self) -> dict[str, Callable[[Any], float]]:
        nvml = self._nvml
        return {
            "memory_gib": lambda handle: nvml.nvmlDeviceGetMemoryInfo(handle).used / GIB,
            "utilisation": lambda handle: nvml.nvmlDeviceGetUtilizationRates(handle).gpu / 100,
            "sm_clock_mhz": lambda handle: nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_SM),
            "power_w": lambda handle: nvml.nvmlDeviceGetPowerUsage(handle) / 1000,
            # Counted from the load of the driver: only differences mean something.
            "energy_j": lambda handle: nvml.nvmlDeviceGetTotalEnergyConsumption(handle) / 1000,
        }

    def _activities(self, name: str, handle: Any) -> Reading:
        nvml = self._nvml
        try:
            if not nvml.nvmlGpmQueryDeviceSupport(handle).isSupportedDevice:
                return
            now = nvml.nvmlGpmSampleGet(handle, nvml.nvmlGpmSampleAlloc())
        except nvml.NVMLError:
            return
        earlier = self._earlier.get(name)
        self._earlier[name] = now
        if earlier is None:
            return
        for quantity, (metrics, factor) in ACTIVITIES.items():
            values = [self._between(earlier, now, getattr(nvml, metric)) for metric in metrics]
            known = [value for value in values if value is not None]
            if len(known) == len(values):
                yield name, quantity, sum(known) * factor
        nvml.nvmlGpmSampleFree(earlier)

    def _between(self, earlier: Any, now: Any, metric: int) -> float | None:
        nvml = self._nvml
        asked = nvml.c_nvmlGpmMetricsGet_t()
        asked.version, asked.numMetrics = nvml.NVML_GPM_METRICS_GET_VERSION, 1
        asked.sample1, asked.sample2 = earlier, now
        asked.metrics[0].metricId = metric
        try:
            found = nvml.nvmlGpmMetricsGet(asked).metrics[0]
        except nvml.NVMLError:
            return None
        return float(found.value) if found.nvmlReturn == nvml.NVML_SUCCESS else None


def opened_accelerators(visible: str | None = None) -> Accelerators | None:
    """Open the GPUs that `visible`, else our CUDA_VISIBLE_DEVICES, names; None where none is."""
    try:
        import pynvml
    except ImportError:
        return None
    try:
        pynvml.nvmlInit()
        return Accelerators(pynvml, visible or os.environ.get("CUDA_VISIBLE_DEVICES"))
    except pynvml.NVMLError:
        return None
