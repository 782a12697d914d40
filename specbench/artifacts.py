"""The raw run folder: evidence that nothing overwrites.

    runs/<experiment>-<digest>/  experiment.yaml plan.json provenance.json journal.jsonl
                                 certificate-<unix seconds>.json
      b01-03-ngram-k3-a1/        launch.json launch.log server_info.json audit.json
                                 capture-1.jsonl capture-2.jsonl deployment.json
        code-greedy-c8/          requests.parquet outputs.parquet metrics-before.txt
                                 metrics-after.txt samples.parquet cell.json

A cell folder is written under a temporary name and renamed when whole. `deployment.json` closes an
attempt and is written once; an attempt without it was interrupted.
"""

from __future__ import annotations

import fcntl
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Literal

import attrs
import cattrs
import pyarrow as pa
import pyarrow.parquet as pq

from specbench.capture_files import capture_text
from specbench.client_facts import Certificate
from specbench.errors import StoreError
from specbench.facts import Audit, JournalEntry, RequestRow, Sample, Window
from specbench.redaction import Redaction
from specbench.whole_files import file_digest, json_text, read_json, write_json, write_text

Status = Literal["complete", "rejected", "failed", "interrupted"]

REQUESTS_SCHEMA = pa.schema(
    [
        ("request_id", pa.string()),
        ("index", pa.int32()),
        ("prompt_id", pa.string()),
        ("pass_index", pa.int32()),
        ("turn", pa.int32()),
        ("scheduled_ns", pa.int64()),
        ("called_ns", pa.int64()),
        ("sent_ns", pa.int64()),
        ("first_event_ns", pa.int64()),
        ("first_payload_ns", pa.int64()),
        ("first_tokens_ns", pa.int64()),
        ("last_payload_ns", pa.int64()),
        ("ended_ns", pa.int64()),
        ("status", pa.string()),
        ("http_status", pa.int32()),
        ("error", pa.string()),
        ("finish_reason", pa.string()),
        ("prompt_tokens", pa.int32()),
        ("completion_tokens", pa.int32()),
        ("cached_tokens", pa.int32()),
        ("event_ns", pa.list_(pa.int64())),
        ("event_tokens", pa.list_(pa.int32())),
        ("merged_events", pa.int32()),
        ("drafts", pa.int32()),
        ("drafted_tokens", pa.int32()),
        ("accepted_tokens", pa.int32()),
    ]
)
OUTPUTS_SCHEMA = pa.schema(
    [
        ("request_id", pa.string()),
        ("prompt_id", pa.string()),
        ("text", pa.string()),
        ("token_ids", pa.list_(pa.int32())),
        ("finish_reason", pa.string()),
        ("prompt_reuse", pa.float64()),
    ]
)
SAMPLES_SCHEMA = pa.schema(
    [
        ("at_ns", pa.int64()),
        ("of", pa.string()),
        ("quantity", pa.string()),
        ("value", pa.float64()),
    ]
)
_ATTEMPT = re.compile(r"^(?P<deployment>b\d+-\d+-.+)-a(?P<attempt>\d+)$")


@attrs.frozen
class CellFolder:
    """A whole cell on disk."""

    path: Path

    def facts(self) -> dict[str, Any]:
        """Give what cell.json says."""
        return read_json(self.path / "cell.json")

    def damage(self) -> str:
        """Give which files are missing or changed since they were written; nothing when none."""
        try:
            digests = cattrs.structure(self.facts()["sha256"], dict[str, str])
        except (StoreError, LookupError, cattrs.BaseValidationError):
            return "cell.json cannot be read"
        broken = [
            name
            for name, digest in digests.items()
            if not (self.path / name).is_file() or file_digest(self.path / name) != digest
        ]
        return f"missing or changed: {', '.join(broken)}" if broken else ""

    def rows(self) -> tuple[RequestRow, ...]:
        """Give its request rows."""
        table = pq.read_table(self.path / "requests.parquet")
        return cattrs.structure(table.to_pylist(), tuple[RequestRow, ...])

    def prompt_reuse(self) -> dict[str, float | None]:
        """Give the prompt reuse of each request by its id; nothing where it was not computed."""
        path = self.path / "outputs.parquet"
        if "prompt_reuse" not in pq.read_schema(path).names:
            return {}
        table = pq.read_table(path, columns=["request_id", "prompt_reuse"])
        return {row["request_id"]: row["prompt_reuse"] for row in table.to_pylist()}

    def token_ids(self) -> dict[str, list[int] | None]:
        """Give the token ids that each request generated, by its id; None where none were told."""
        columns = ["request_id", "token_ids"]
        table = pq.read_table(self.path / "outputs.parquet", columns=columns)
        return {row["request_id"]: row["token_ids"] for row in table.to_pylist()}

    def samples(self) -> tuple[Sample, ...]:
        """Give what was sampled inside the window; nothing where nothing was."""
        path = self.path / "samples.parquet"
        found = pq.read_table(path).to_pylist() if path.exists() else []
        return tuple(Sample(**row) for row in found)

    def counters(self) -> tuple[str, str]:
        """Give the exposition texts before and after the window."""
        return (
            (self.path / "metrics-before.txt").read_text(encoding="utf-8"),
            (self.path / "metrics-after.txt").read_text(encoding="utf-8"),
        )


@attrs.frozen
class AttemptFolder:
    """One attempt at a deployment. What is written into it is written without secrets."""

    path: Path
    redaction: Redaction = attrs.field(factory=Redaction)

    @property
    def deployment(self) -> str:
        """The deployment's name, without the attempt."""
        return self._parts()["deployment"]

    @property
    def attempt(self) -> int:
        """Which attempt this is, from 1."""
        return int(self._parts()["attempt"])

    @property
    def log(self) -> Path:
        """The server's launch log."""
        return self.path / "launch.log"

    def closing(self) -> dict[str, Any] | None:
        """Give what deployment.json says, or None while the attempt is open."""
        path = self.path / "deployment.json"
        return read_json(path) if path.exists() else None

    def close(self, status: Status, **facts: Any) -> None:
        """Close the attempt. It is closed once."""
        if self.closing() is not None:
            raise StoreError(f"{self.path} is closed already")
        if self.log.exists() and self.redaction.values:
            log = self.log.read_text(encoding="utf-8", errors="surrogateescape")
            if (clean := self.redaction.text(log)) != log:
                self.log.write_text(clean, encoding="utf-8", errors="surrogateescape")
        digests = {
            path.name: file_digest(path)
            for path in sorted(self.path.iterdir())
            if path.is_file() and not path.name.startswith(".")
        }
        self.write_json("deployment.json", {"status": status, **facts, "sha256": digests})

    def write_json(self, name: str, value: Any) -> None:
        """Write a file of the attempt, whole or not at all."""
        write_text(self.path / name, self.redaction.text(json_text(value)))

    def audit(self) -> Audit | None:
        """Give the stored audit, or None when the server did not come that far."""
        path = self.path / "audit.json"
        return cattrs.structure(read_json(path)["audit"], Audit) if path.exists() else None

    def cells(self) -> dict[str, CellFolder]:
        """Give the whole cells by name."""
        return {
            item.parent.name: CellFolder(item.parent)
            for item in sorted(self.path.glob("*/cell.json"))
            if not item.parent.name.startswith(".")
        }

    def write_cell(
        self,
        name: str,
        window: Window,
        *,
        before: str,
        after: str,
        facts: Mapping[str, Any],
        samples: Sequence[Sample] = (),
    ) -> CellFolder:
        """Write one cell: under a temporary name, renamed when whole, then never changed."""
        draft = self.path / f".{name}.partial"
        draft.mkdir()
        clean = self.redaction.text
        rows = [
            attrs.asdict(attrs.evolve(row, error=row.error and clean(row.error)))
            for row in window.rows
        ]
        outputs = [
            attrs.asdict(attrs.evolve(output, text=clean(output.text))) for output in window.outputs
        ]
        pq.write_table(
            pa.Table.from_pylist(rows, REQUESTS_SCHEMA),
            draft / "requests.parquet",
            compression="zstd",
        )
        pq.write_table(
            pa.Table.from_pylist(outputs, OUTPUTS_SCHEMA),
            draft / "outputs.parquet",
            compression="zstd",
        )
        if samples:
            pq.write_table(
                pa.Table.from_pylist([attrs.asdict(item) for item in samples], SAMPLES_SCHEMA),
                draft / "samples.parquet",
                compression="zstd",
            )
        (draft / "metrics-before.txt").write_text(before, encoding="utf-8")
        (draft / "metrics-after.txt").write_text(after, encoding="utf-8")
        digests = {item.name: file_digest(item) for item in sorted(draft.iterdir())}
        window_facts = {
            "concurrency": window.concurrency,
            "clock": window.clock,
            "started_unix_s": window.started_unix_s,
            "client": window.client,
        }
        write_json(draft / "cell.json", {**facts, **window_facts, "sha256": digests})
        final = self.path / name
        draft.rename(final)
        return CellFolder(final)

    def write_capture(self, number: int, windows: Sequence[Window]) -> None:
        """Write one capture: a line for each prompt at each concurrency, failed ones too."""
        text = self.redaction.text(capture_text(windows))
        write_text(self.path / f"capture-{number}.jsonl", text)

    def captures(self) -> list[dict[str, Any]]:
        """Give every captured output with its capture's number."""
        return [
            {"capture": int(path.stem.removeprefix("capture-")), **json.loads(line)}
            for path in sorted(self.path.glob("capture-*.jsonl"))
            for line in path.read_text(encoding="utf-8").splitlines()
        ]

    def _parts(self) -> re.Match[str]:
        match = _ATTEMPT.match(self.path.name)
        if match is None:
            raise StoreError(f"{self.path} is no attempt's folder")
        return match


@attrs.frozen
class RunFolder:
    """A run: everything of one experiment's digest."""

    path: Path
    redaction: Redaction = attrs.field(factory=Redaction)

    def attempts(self, deployment: str | None = None) -> list[AttemptFolder]:
        """Give the attempts, of one deployment or of all, in order."""
        found = [
            AttemptFolder(path, self.redaction)
            for path in sorted(self.path.iterdir())
            if path.is_dir() and _ATTEMPT.match(path.name)
        ]
        return [item for item in found if deployment in (None, item.deployment)]

    def open_attempt(self, deployment: str) -> AttemptFolder:
        """Make the folder of a deployment's next attempt."""
        number = max((item.attempt for item in self.attempts(deployment)), default=0) + 1
        path = self.path / f"{deployment}-a{number}"
        path.mkdir()
        return AttemptFolder(path, self.redaction)

    def close_interrupted(self) -> list[str]:
        """Close the attempts that an earlier run left open, and give their names."""
        left = [item for item in self.attempts() if item.closing() is None]
        for attempt in left:
            attempt.close("interrupted", reason="the run ended before the deployment did")
        return [item.path.name for item in left]

    def write_certificate(self, made: Certificate) -> None:
        """Keep a certificate of the client. The one of another day has another name."""
        write_json(self.path / f"certificate-{made.made_unix_s:.0f}.json", made)

    def note(self, entry: JournalEntry) -> None:
        """Append one line to the journal."""
        with (self.path / "journal.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps(attrs.asdict(entry)) + "\n")

    def journal(self) -> list[JournalEntry]:
        """Give the journal; a line that a kill tore is left out."""
        entries = []
        for line in (self.path / "journal.jsonl").read_text(encoding="utf-8").splitlines():
            # A torn line is the trace of a kill, not of a fault.
            with suppress(json.JSONDecodeError):
                entries.append(cattrs.structure(json.loads(line), JournalEntry))
        return entries


def run_path(runs: Path, name: str, *, again: bool) -> Path:
    """Give the folder of a run: the newest sibling of a name, or with `again` one more.

    Siblings of `x-digest` are `x-digest.2`, `x-digest.3` and so on.
    """
    first = runs.absolute() / name
    siblings = [first, *(first.with_name(f"{name}.{number}") for number in range(2, 1000))]
    free = next(place for place, path in enumerate(siblings) if not path.exists())
    return siblings[free if again or free == 0 else free - 1]


@contextmanager
def opened_run(path: Path) -> Iterator[RunFolder]:
    """Open the folder of a run and hold its lock.

    Raises:
        StoreError: It cannot be written, or another specbench works in it.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
        journal = (path / "journal.jsonl").open("a")
    except OSError as error:
        raise StoreError(f"cannot write to {path}: {error.strerror}") from error
    with journal:
        try:
            fcntl.flock(journal, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise StoreError(
                f"another specbench works in {path}", "wait for it, or stop it"
            ) from None
        _end_torn_line(path / "journal.jsonl")
        yield RunFolder(path)


def _end_torn_line(path: Path) -> None:
    """End a line that a kill tore, so that the next entry does not join it."""
    text = path.read_bytes()
    if text and not text.endswith(b"\n"):
        with path.open("ab") as file:
            file.write(b"\n")


def find_runs(runs: Path) -> list[RunFolder]:
    """Give every run below a folder that was planned."""
    return [RunFolder(item.parent) for item in sorted(runs.glob("*/plan.json"))]
