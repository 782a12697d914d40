"""Read /metrics of a running server, and wait until its counters stand still.

Inside a measured window nothing here runs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache

import anyio
import httpx
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from specbench.control_client import control_client
from specbench.errors import DeploymentError
from specbench.facts import CounterNames, CounterSnapshot
from specbench.proxy import Proxy

SETTLE_POLL_S = 0.05
SETTLE_TIMEOUT_S = 30.0

Series = tuple[str, tuple[tuple[str, str], ...]]
"""A name and its sorted labels."""
_NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?(?:[eE][+-]?[0-9]+)?|Inf|NaN)")


def parse(text: str) -> CounterSnapshot:
    """Give every sample of an exposition text, by name and sorted labels.

    Raises:
        ValueError: The text is no exposition, or states one series twice.
    """
    series: dict[Series, float] = {}
    for key, value in _samples(text):
        if key in series and series[key] != value:
            raise ValueError(f"series {key[0]} stands twice with other values")
        series[key] = value
    return CounterSnapshot(series=series)


def _samples(text: str) -> Iterator[tuple[Series, float]]:
    """Give the samples as the library's parser reads them, names of a known page read once.

    Pages of one server differ in their values alone, and reading a name with its labels takes
    fifteen times as long as reading a value.
    """
    lines: list[str] = []
    values: list[float] = []
    for line in map(str.strip, text.split("\n")):
        if not line or line.startswith("#"):
            lines.append(line)
            continue
        named, _, value = line.rpartition(" ")
        if not _NUMBER.fullmatch(value):
            return _read(text)
        lines.append(f"{named} {len(values)}")
        values.append(float(value))
    known = _places("\n".join(lines))
    if known is None:
        return _read(text)
    return ((series, values[place]) for series, place in known)


@lru_cache(maxsize=16)
def _places(page: str) -> tuple[tuple[Series, int], ...] | None:
    """Give each series with its value's place; None when a line ends with an instant instead."""
    found = [sample for family in text_string_to_metric_families(page) for sample in family.samples]
    if any(sample.timestamp is not None for sample in found):
        return None
    return tuple((_series(sample), int(sample.value)) for sample in found)


def _read(text: str) -> Iterator[tuple[Series, float]]:
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            yield _series(sample), float(sample.value)


def _series(sample: Sample) -> Series:
    return sample.name, tuple(sorted(sample.labels.items()))


def gauge_total(snapshot: CounterSnapshot, name: str) -> float | None:
    """Give the sum of a gauge that counts something over engines, or None when it is absent."""
    values = [value for (found, _), value in snapshot.series.items() if found == name]
    return sum(values) if values else None


async def process_start(
    url: str | None, names: CounterNames, proxy: Proxy | None = None
) -> float | None:
    """Give when the server's process started, in unix seconds; None where nobody tells it."""
    if url is None:
        return None
    async with control_client(30, proxy=proxy) as client:
        series = _parsed(await _get(client, url), url).series
    return series.get((names.process_start, ()))


async def settled(
    url: str | None, names: CounterNames, proxy: Proxy | None = None
) -> tuple[str, bool]:
    """Give the exposition text once nothing runs or waits and two reads of the counters agree.

    The second value tells whether that came true within 30 s. vLLM updates its counters when the
    front end processes outputs, so a read right after the last token may be short of them. Without
    a `url` there are no counters: the text is empty, and nothing is waited for.
    """
    if url is None:
        return "", True
    previous: CounterSnapshot | None = None
    text = ""
    async with control_client(30, proxy=proxy) as client:
        with anyio.move_on_after(SETTLE_TIMEOUT_S):
            while True:
                text = await _get(client, url)
                current = _parsed(_standing(text, names), url)
                idle = not gauge_total(current, names.running) and not gauge_total(
                    current, names.waiting
                )
                if idle and previous and _counters(previous) == _counters(current):
                    _parsed(text, url)
                    return text, True
                previous = current
                await anyio.sleep(SETTLE_POLL_S)
    return text, False


async def fetch_json(
    url: str, headers: Mapping[str, str], proxy: Proxy | None = None
) -> object | None:
    """Give a JSON document of a server, or None where it offers none."""
    async with control_client(60, headers=headers, proxy=proxy) as client:
        try:
            answer = await client.get(url)
        except httpx.TransportError:
            return None
        if answer.status_code != httpx.codes.OK:
            return None
        try:
            document: object = answer.json()
        except ValueError:
            return None
        return document


def _standing(text: str, names: CounterNames) -> str:
    """Give the lines that must stand still. A page has ten times as many, and parsing is slow."""
    told = (line for line in text.splitlines(keepends=True) if not line.startswith("#"))
    gauges = (names.running, names.waiting)
    return "".join(
        line for line in told if line.startswith(gauges) or "_total" in line.partition("{")[0]
    )


def _parsed(text: str, url: str) -> CounterSnapshot:
    try:
        return parse(text)
    except ValueError as error:
        raise DeploymentError(f"{url} is malformed: {error}", kind="malformed_metrics") from error


async def _get(client: httpx.AsyncClient, url: str) -> str:
    try:
        answer = await client.get(url)
        answer.raise_for_status()
    except httpx.HTTPError as error:
        raise DeploymentError(
            f"{url} gives no counters: {error or type(error).__name__}", kind="crash"
        ) from error
    return answer.text


def _counters(snapshot: CounterSnapshot) -> dict[object, float]:
    return {
        key: value
        for key, value in snapshot.series.items()
        if key[0].endswith("_total") and not key[0].startswith(("process_", "python_", "http_"))
    }
