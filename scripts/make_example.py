"""Make an example for docs/examples out of a run: its archive, report, numbers and tables.

    python scripts/make_example.py runs/NAME-DIGEST docs/examples/NAME
    python scripts/make_example.py docs/examples/NAME/run.tar.xz docs/examples/NAME

The second form makes anew what a report says, after a change to reports, and leaves the archive.
Writes OUT/run.tar.xz, and what is made from it and can be made again: report.html, numbers.json and
tables/; beside them the document and the provenance. What names the machine is replaced: its host
name, its addresses and the folder of the document. Parquet files hold the same tables, in an
encoding that xz makes small. Of what was written anew the digests are written anew: they tell that
the archive is whole.
"""

from __future__ import annotations

import argparse
import json
import lzma
import re
import shutil
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq

from specbench.cli.options import build_index, write_reports
from specbench.report.content import read_content
from specbench.report.plain import plain
from specbench.store.export import export
from specbench.store.store import opened
from specbench.whole_files import file_digest, json_text, read_json

MIB = 2**20
MOST_BYTES = {"run.tar.xz": 5 * MIB, "report.html": 3 * MIB}
HOST, ADDRESS = "host", "192.0.2.1"
DICTIONARY = 128 * MIB
"""How far back xz looks: arms say nearly the same text, files apart from each other."""
_ADDRESS = re.compile(r"\b(?!127\.|0\.0\.0\.0|192\.0\.2\.)\d{1,3}(?:\.\d{1,3}){3}(?=:\d+\b)")


def main() -> None:
    """Write an example, and refuse one that is too large to be kept."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", type=Path)
    parser.add_argument("out", type=Path)
    asked = parser.parse_args()
    asked.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as place:
        runs = Path(place) / "runs"
        if asked.run.is_file():
            run = unpack(asked.run, runs)
        else:
            run = runs / asked.run.name
            rewrite(asked.run, run)
            pack(run, asked.out / "run.tar.xz")
        rebuild(runs, run.name, Path(place) / "results.duckdb", asked.out)
        for name in ("experiment.yaml", "provenance.json"):
            shutil.copy(run / name, asked.out)
    for name, most in MOST_BYTES.items():
        size = (asked.out / name).stat().st_size
        print(f"{name}: {size / MIB:.2f} MiB")
        if size > most:
            sys.exit(f"{name} is larger than {most / MIB:g} MiB")


def rewrite(run: Path, to: Path) -> None:
    """Copy a run without what names its machine, and with the same tables in smaller files."""
    shutil.copytree(run, to, ignore=shutil.ignore_patterns("*.lock", ".*"))
    host = read_json(to / "provenance.json")["machine"]["host"]
    folder = f"{Path(read_json(to / 'plan.json')['spec']).parent}/"
    for path in _files(to):
        if path.suffix == ".parquet":
            _encode(path)
        else:
            text = path.read_text(encoding="utf-8", errors="surrogateescape")
            clean = _ADDRESS.sub(ADDRESS, re.sub(rf"\b{re.escape(host)}\b", HOST, text))
            clean = clean.replace(f'"{folder}', '"')
            path.write_text(clean, encoding="utf-8", errors="surrogateescape")
    # A deployment's own digests last: a cell.json is a file of its cell alone.
    for name in ("cell.json", "deployment.json"):
        for path in sorted(to.rglob(name)):
            closing = read_json(path)
            closing["sha256"] = {
                item: file_digest(path.parent / item) for item in closing["sha256"]
            }
            path.write_text(json_text(closing), encoding="utf-8")


def pack(run: Path, archive: Path) -> None:
    """Write a run as an archive that depends on nothing but its files."""
    filters = [{"id": 0x21, "preset": 9, "dict_size": DICTIONARY}]  # LZMA2
    with tempfile.TemporaryFile() as plain_tar:
        with tarfile.open(fileobj=plain_tar, mode="w") as tar:
            # Files of one kind side by side compress best.
            for path in sorted(_files(run), key=lambda file: (file.name, file)):
                entry = tar.gettarinfo(path, arcname=str(path.relative_to(run.parent)))
                entry.uid = entry.gid = entry.mtime = 0
                entry.uname = entry.gname = ""
                entry.mode = 0o644
                with path.open("rb") as file:
                    tar.addfile(entry, file)
        plain_tar.seek(0)
        with lzma.open(archive, "wb", filters=filters) as packed:
            shutil.copyfileobj(plain_tar, packed)


def unpack(archive: Path, runs: Path) -> Path:
    """Give the run folder that an archive held, under `runs`."""
    with tarfile.open(archive) as tar:
        # Python before 3.11.4 has no filters; the archive is our own.
        tar.extraction_filter = getattr(tarfile, "data_filter", None)
        tar.extractall(runs)  # noqa: S202 - our own, and filtered where Python can
    (run,) = runs.iterdir()
    return run


def rebuild(runs: Path, run_id: str, results: Path, out: Path) -> None:
    """Judge a run anew, and write its report, its numbers and its tables."""
    build_index(runs, results)
    (page,) = write_reports(results, run_id, out, ("html",))
    page.replace(out / "report.html")
    (out / "numbers.json").write_text(numbers(results, run_id), encoding="utf-8")
    for table in export(results, run_id, out / "tables", ("csv",)):
        if table.stem == "requests":  # a line a request: the archive holds them
            table.unlink()


def numbers(results: Path, run_id: str) -> str:
    """Give what a report says, for machines."""
    with opened(results) as connection:
        return json.dumps(plain(read_content(connection, run_id)), indent=1, default=str) + "\n"


def _encode(path: Path) -> None:
    """Write a table without compression of its own, stamps as differences: xz does the rest."""
    table = pq.read_table(path)
    leaves = {column.path for column in _columns(path)}
    stamps = {leaf: "DELTA_BINARY_PACKED" for leaf in leaves if "_ns" in leaf}
    pq.write_table(
        table,
        path,
        compression="none",
        use_dictionary=sorted(leaves - {*stamps}),
        column_encoding=stamps,
        write_statistics=False,
    )
    if not pq.read_table(path).equals(table):
        sys.exit(f"{path} would not be the same table")


def _columns(path: Path) -> Iterator[pq.ColumnSchema]:
    schema = pq.ParquetFile(path).schema
    return (schema.column(place) for place in range(len(schema)))


def _files(folder: Path) -> Iterator[Path]:
    return (path for path in sorted(folder.rglob("*")) if path.is_file())


if __name__ == "__main__":
    main()
