"""Cut the workload `python-source` out of Python's standard library: source files to be continued.

    python scripts/make_python_source.py LIB TOKENIZER.json workloads/python-source

LIB is `lib/python3.12` of CPython 3.12.1, and TOKENIZER is that of the checkpoints to be served, in
whose tokens lengths are counted. The same three give the same bytes. Needs the extra `tokens`.
"""

from __future__ import annotations

import argparse
import ast
import json
import random
from collections.abc import Iterator
from pathlib import Path

import attrs
from tokenizers import Tokenizer

SEED = 20
LEFT_OUT = ("site-packages", "test", "idlelib", "lib2to3", "pydoc_data", "encodings", "ensurepip")
"""Folders of others' code, and of tests, tables and text that is little like what people write."""
ROOM_TOKENS = 300
"""What must be left of the file after a prompt: there is something to be continued."""


@attrs.frozen
class Part:
    """A file to write: how many prompts, of how many tokens at most, answered by how many."""

    name: str
    stratum: str
    prompts: int
    tokens: int
    max_tokens: int


PARTS = (
    Part("python-source", "code", prompts=48, tokens=1000, max_tokens=128),
    Part("captures", "correctness", prompts=24, tokens=300, max_tokens=64),
)


def main() -> None:
    """Write every part."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("lib", type=Path)
    parser.add_argument("tokenizer")
    parser.add_argument("out", type=Path)
    asked = parser.parse_args()
    tokenizer = Tokenizer.from_file(asked.tokenizer)
    modules = sorted(asked.lib.rglob("*.py"), key=lambda path: path.relative_to(asked.lib).parts)
    random.Random(SEED).shuffle(modules)  # noqa: S311
    # One pass over the files: no file gives a prompt to two parts.
    rest = iter(modules)
    for part in PARTS:
        cuts = _cuts(rest, asked.lib, tokenizer, part)
        lines = [_line(part, number, *next(cuts)) for number in range(1, part.prompts + 1)]
        (asked.out / f"{part.name}.jsonl").write_text("".join(lines), encoding="utf-8")


def _cuts(
    modules: Iterator[Path], lib: Path, tokenizer: Tokenizer, part: Part
) -> Iterator[tuple[str, str]]:
    """Give a prompt of every module that is long enough, with where it is from."""
    for module in modules:
        text = module.read_text(encoding="utf-8", errors="replace")
        # Some modules are under a licence of their own, which their head tells.
        foreign = "copyright" in text.lower() or "licen" in text.lower()
        if foreign or not text.isascii() or set(module.relative_to(lib).parts) & set(LEFT_OUT):
            continue
        lines = text.splitlines(keepends=True)
        tokens = [len(tokenizer.encode(line).ids) for line in lines]
        starts = [
            node.lineno - 1
            for node in ast.parse(text).body
            if sum(tokens[node.lineno - 1 :]) >= part.tokens + ROOM_TOKENS
        ]
        if not starts:
            continue
        first = last = random.Random(f"{SEED}/{module.name}").choice(starts)  # noqa: S311
        while len(tokenizer.encode("".join(lines[first : last + 1])).ids) <= part.tokens:
            last += 1
        where, cut = module.relative_to(lib).as_posix(), "".join(lines[first:last])
        if "def " in cut:  # neither a table nor what a build wrote
            yield cut, f"CPython 3.12.1 Lib/{where}, lines {first + 1} to {last}"


def _line(part: Part, number: int, text: str, source: str) -> str:
    prompt = {
        "id": f"{part.name}-{number:02d}",
        "stratum": part.stratum,
        "messages": [{"role": "user", "content": text}],
        "max_tokens": part.max_tokens,
        "source": source,
        "licence": "PSF-2.0",
    }
    return json.dumps(prompt) + "\n"


if __name__ == "__main__":
    main()
