"""Rows of a file that somebody else made: JSON Lines, JSON, CSV, Parquet, or a folder of texts.

What cannot be read becomes a problem with its line; nothing is passed over.
"""

from __future__ import annotations

import csv
import gzip
import hashlib
import json
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs

from specbench.errors import ExperimentError, Problem
from specbench.whole_files import file_digest
from specbench.workloads.json_line import NotJson, no_valid_json, parse_line

TEXT_ENDINGS = (".txt", ".md")
_CUT = (EOFError, zlib.error, gzip.BadGzipFile)


@attrs.frozen(kw_only=True)
class SourceRow:
    """One row, and where it stands."""

    place: int
    """Its line in a text file, from 1; its row in a Parquet file; its file in a folder."""
    where: str
    value: Any


Found = SourceRow | Problem


def source_digest(path: Path) -> str:
    """Give the sha256 of a file, or of a folder's files and names in the order of the names.

    Raises:
        ExperimentError: It cannot be read.
    """
    try:
        if not path.is_dir():
            return file_digest(path)
        hasher = hashlib.sha256()
        for file in _files(path):
            name = file.relative_to(path).as_posix()
            hasher.update(f"{name}\0{file_digest(file)}\n".encode())
        return hasher.hexdigest()
    except OSError as error:
        reason = error.strerror or str(error)
        raise ExperimentError([Problem(f"cannot be read: {reason}", "", str(path))]) from None


def is_table(path: Path) -> bool:
    """Tell whether rows have columns of names that somebody chose."""
    return path.suffix in (".csv", ".parquet")


def source_rows(path: Path) -> Iterator[Found]:
    """Give every row of a source, or what is wrong where it stands.

    Raises:
        ExperimentError: A compressed file is cut or damaged.
    """
    if path.is_dir():
        yield from _texts(path)
    elif path.suffix == ".parquet":
        yield from _parquet(path)
    elif path.suffix == ".csv":
        yield from _csv(path)
    else:
        yield from _json(path)


def _json(path: Path) -> Iterator[Found]:
    opened = gzip.open if path.suffix == ".gz" else open
    number = 0
    try:
        with opened(path, "rb") as file:
            for number, line in enumerate(file, start=1):
                if number == 1 and line.lstrip(b"\xef\xbb\xbf \t").startswith(b"["):
                    yield from _array(path, line + file.read())
                    return
                if line.strip():
                    yield _row(path, number, line)
    except _CUT as error:
        # What was read until here may be wrong too, so that no row of it is given.
        said = f"the compressed file is cut or damaged, here or before: {error}"
        raise ExperimentError([Problem(said, "", f"{path}:{number + 1}")]) from None


def _row(path: Path, number: int, line: bytes) -> Found:
    where = f"{path}:{number}"
    try:
        return SourceRow(place=number, where=where, value=parse_line(line))
    except NotJson as error:
        return Problem(str(error), "", where)


def _array(path: Path, content: bytes) -> Iterator[Found]:
    """Give the elements of one JSON array, each with the line on which it begins."""
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        yield Problem("no UTF-8 text", "", f"{path}:{line}")
        return
    decoder = json.JSONDecoder()
    at, line, counted = _after_space(text, text.index("[") + 1), 1, 0
    while at < len(text) and text[at] != "]":
        line += text.count("\n", counted, at)
        counted = at
        try:
            value, at = decoder.raw_decode(text, at)
            at = _after_space(text, at)
            if at >= len(text) or text[at] not in ",]":
                raise json.JSONDecodeError("Expecting ',' or ']'", text, at)  # noqa: TRY301 - as the decoder says it
        except json.JSONDecodeError as error:
            said = no_valid_json(error)
            yield Problem(said, f"the element begins on line {line}", f"{path}:{error.lineno}")
            return
        yield SourceRow(place=line, where=f"{path}:{line}", value=value)
        if text[at] == ",":
            at = _after_space(text, at + 1)
    if at >= len(text):
        line += text.count("\n", counted)
        yield Problem("the array ends without ]", "the file is cut", f"{path}:{line}")


def _after_space(text: str, at: int) -> int:
    while at < len(text) and text[at] in " \t\r\n":
        at += 1
    return at


def _csv(path: Path) -> Iterator[Found]:
    # A cell may hold a whole document.
    csv.field_size_limit(2**31 - 1)
    with path.open(encoding="utf-8-sig", newline="") as file:
        reader = csv.DictReader(file, strict=True)
        line = 1
        try:
            for value in reader:
                where = f"{path}:{line + 1}"
                if None in value or None in value.values():
                    names = len(reader.fieldnames or ())
                    said = f"the row has not the {names} cells of the heading"
                    yield Problem(said, "", where)
                else:
                    yield SourceRow(place=line + 1, where=where, value=value)
                line = reader.line_num
        except csv.Error as error:
            yield Problem(f"no valid CSV: {error}", "", f"{path}:{line + 1}")
        except UnicodeDecodeError:
            # The file is decoded in larger pieces than the rows that it gives.
            where = f"{path}:{_undecodable_line(path.read_bytes())}"
            yield Problem("no UTF-8 text", "save it as UTF-8", where)


def _parquet(path: Path) -> Iterator[Found]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    row = 0
    try:
        with pq.ParquetFile(path) as file:
            for batch in file.iter_batches(batch_size=256):
                for value in batch.to_pylist():
                    row += 1
                    yield SourceRow(place=row, where=f"{path}: row {row}", value=value)
    except (pa.ArrowException, OSError) as error:
        yield Problem(
            f"no whole Parquet file: {str(error).splitlines()[0]}", "", f"{path}: row {row + 1}"
        )


def _files(folder: Path) -> list[Path]:
    files = (item for item in folder.rglob("*") if item.is_file())
    return sorted(files, key=lambda item: item.relative_to(folder).as_posix())


def _texts(folder: Path) -> Iterator[Found]:
    for place, file in enumerate(_files(folder), start=1):
        name = file.relative_to(folder).as_posix()
        if file.suffix not in TEXT_ENDINGS:
            yield Problem(
                "no text file", f"documents end in {' or '.join(TEXT_ENDINGS)}", str(file)
            )
            continue
        content = file.read_bytes()
        if line := _undecodable_line(content):
            yield Problem("no UTF-8 text", "save it as UTF-8", f"{file}:{line}")
            continue
        text = content.decode("utf-8-sig")
        value = {"id": name.removesuffix(file.suffix), "document": text}
        yield SourceRow(place=place, where=str(file), value=value)


def _undecodable_line(content: bytes) -> int:
    """Give the number of the first line that is no UTF-8; 0 when all are."""
    try:
        content.decode()
    except UnicodeDecodeError as error:
        return content.count(b"\n", 0, error.start) + 1
    return 0
