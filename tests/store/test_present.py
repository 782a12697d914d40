from __future__ import annotations

import csv
import io

import pytest

from specbench.store.present import csv_line, present


def read(line: str) -> list[list[str]]:
    return list(csv.reader(io.StringIO(line, newline="")))


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t", "\r"])
def test_a_text_that_a_spreadsheet_would_run_gets_an_apostrophe(start: str) -> None:
    assert read(csv_line([f"{start}HYPERLINK(1)", "a=1"])) == [[f"'{start}HYPERLINK(1)", "a=1"]]


def test_numbers_are_left_as_they_are() -> None:
    assert csv_line([-1, -0.5, 1e-9, None, True]) == "-1,-0.5,1e-09,,True\n"


def test_a_carriage_return_in_a_text_starts_no_row() -> None:
    assert read(csv_line(["loading\r=1+1", "x"])) == [["loading\r=1+1", "x"]]


def test_a_list_is_json() -> None:
    assert read(csv_line([["a", None], [0.5, 1]])) == [['["a", null]', "[0.5, 1]"]]


def test_csv_guards_column_names_too() -> None:
    assert present([{"=1+1": "-x", "n": -2}], "csv") == "'=1+1,n\n'-x,-2\n"


def test_no_rows_are_said_in_every_style() -> None:
    assert [present([], style) for style in ("csv", "json", "table")] == ["", "[]\n", "no rows\n"]
