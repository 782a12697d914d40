from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specbench.judge.log_places import Span, fallen
from specbench.log_facts import Fell, LogTimes

HALF_PAST_TWELVE = datetime(2026, 11, 30, 0, 30, tzinfo=UTC).timestamp()
DEPLOYMENT = Span(HALF_PAST_TWELVE, HALF_PAST_TWELVE + 300)
WINDOWS = {
    "code-c1": Span(HALF_PAST_TWELVE + 60.4, HALF_PAST_TWELVE + 80.7),
    "code-c8": Span(HALF_PAST_TWELVE + 82.0, HALF_PAST_TWELVE + 90.0),
}
LINE = "Triton kernel JIT compilation during inference: a_kernel."


def times(*stamps: str, first: str = "11-30 00:30:09", last: str = "11-30 00:34:58") -> LogTimes:
    return LogTimes(first=first, last=last, timed=tuple((LINE, stamp) for stamp in stamps))


def fell(*stamps: str, windows: dict[str, Span] | None = WINDOWS) -> Fell:
    return fallen(times(*stamps), DEPLOYMENT, windows)[LINE]


@pytest.mark.parametrize(
    ("stamp", "expected", "said"),
    [
        ("11-30 00:30:34", Fell(), "between measured windows"),
        ("11-30 00:31:01", Fell(inside=("code-c1",)), "inside the window of code-c1"),
        # From 60 s to 61 s after the launch, and the window begins at 60.4 s.
        ("11-30 00:31:00", Fell(perhaps=("code-c1",)), "perhaps inside the window of code-c1"),
        ("11-30 00:31:19", Fell(inside=("code-c1",)), "inside the window of code-c1"),
        ("11-30 00:31:20", Fell(perhaps=("code-c1",)), "perhaps inside the window of code-c1"),
        ("11-30 00:31:21", Fell(), "between measured windows"),
        # A window that begins with the second of the stamp holds all of it.
        ("11-30 00:31:22", Fell(inside=("code-c8",)), "inside the window of code-c8"),
        ("11-30 00:31:30", Fell(), "between measured windows"),
        ("", Fell(unknown=True), "unknown"),
    ],
)
def test_a_line_falls_into_a_window_between_windows_or_at_an_edge(
    stamp: str, expected: Fell, said: str
) -> None:
    assert fell(stamp) == expected
    assert str(expected) == said


def test_a_line_that_is_said_more_than_once_falls_everywhere_that_it_was_said() -> None:
    found = fell("11-30 00:30:34", "11-30 00:31:05", "11-30 00:31:06", "11-30 00:31:25", "")
    assert found == Fell(inside=("code-c1", "code-c8"), unknown=True)
    assert str(found) == "inside the window of code-c1, code-c8; unknown"


def test_windows_that_are_not_all_known_leave_every_line_unknown() -> None:
    assert fell("11-30 00:31:05", windows=None) == Fell(unknown=True)


def test_the_clock_of_another_time_zone_is_found_from_the_whole_log() -> None:
    # Kathmandu is 5:45 ahead: 00:31:05 UTC is 06:16:05 there.
    there = times("11-30 06:16:05", first="11-30 06:15:09", last="11-30 06:19:58")
    assert fallen(there, DEPLOYMENT, WINDOWS)[LINE] == Fell(inside=("code-c1",))


def test_a_log_that_fits_several_time_zones_or_none_places_nothing() -> None:
    unknown = {LINE: Fell(unknown=True)}
    # A deployment of 50 minutes with a log of one minute: three quarters of an hour fit.
    long = Span(HALF_PAST_TWELVE, HALF_PAST_TWELVE + 3000)
    short = times("11-30 00:31:05", last="11-30 00:31:09")
    assert fallen(short, long, WINDOWS) == unknown
    # The log goes on for longer than its deployment: it is of another process.
    other = times("11-30 00:31:05", last="11-30 00:36:09")
    assert fallen(other, DEPLOYMENT, WINDOWS) == unknown
    assert fallen(times("11-30 00:31:05", first="", last=""), DEPLOYMENT, WINDOWS) == unknown


def test_a_log_over_new_year_places_nothing() -> None:
    launched = datetime(2026, 12, 31, 23, 59, tzinfo=UTC).timestamp()
    over = times("12-31 23:59:30", first="12-31 23:59:10", last="01-01 00:02:00")
    window = {"code-c1": Span(launched + 20, launched + 50)}
    assert fallen(over, Span(launched, launched + 200), window) == {LINE: Fell(unknown=True)}


def test_a_leap_day_is_read_in_its_year() -> None:
    launched = datetime(2028, 2, 29, 12, 0, tzinfo=UTC).timestamp()
    log = times("02-29 12:01:00", first="02-29 12:00:10", last="02-29 12:03:10")
    window = {"code-c1": Span(launched + 50, launched + 70)}
    found = fallen(log, Span(launched, launched + 200), window)
    assert found == {LINE: Fell(inside=("code-c1",))}


@given(
    quarter=st.integers(-48, 56),
    launched_s=st.integers(1_767_300_000, 1_798_600_000),
    passed_s=st.floats(20, 279),
)
def test_what_truly_fell_into_a_window_is_never_told_to_be_between_windows(
    quarter: int, launched_s: int, passed_s: float
) -> None:
    zone = timezone(timedelta(minutes=15 * quarter))

    def stamp(at_s: float) -> str:
        return datetime.fromtimestamp(at_s, zone).strftime("%m-%d %H:%M:%S")

    log = times(
        stamp(launched_s + passed_s), first=stamp(launched_s + 9), last=stamp(launched_s + 290)
    )
    window = Span(launched_s + 60.25, launched_s + 100.5)
    found = fallen(log, Span(launched_s, launched_s + 300), {"c1": window})[LINE]
    truly = window.start_s <= launched_s + passed_s <= window.end_s
    assert found != Fell() if truly else not found.inside
