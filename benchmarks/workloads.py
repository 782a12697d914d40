"""Prepare and describe 20,000 prompts of about 1,000 tokens: time, memory, and equal digests.

Run from the repository: python benchmarks/workloads.py [--tokenizer FOLDER]. Without a tokenizer
one of 8,192 entries is trained on generated text first, which is not timed. The limits are at most
30 s and 500 MB for `workload prepare` and `workload describe --tokenizer` together, each a process
of its own; and the same digest for a folder whose files were written in another order.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from specbench.workloads.summarize_long import summarize_long

PROMPTS = 20_000
TOKENS = 1_080
"""At 4 characters each; the tokenizer that is trained below makes about 1,000 of them."""
MOST_S = 30.0
MOST_BYTES = 500e6
LOADED = 0.5
"""Load of a core, before the start, above which a figure is told as unquiet."""


def main() -> None:
    """Measure, print a table, and exit with 1 when a limit is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tokenizer", type=Path)
    parser.add_argument("--prompts", type=int, default=PROMPTS)
    asked = parser.parse_args()
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        tokenizer = asked.tokenizer or trained(folder)
        source = folder / "source.jsonl"
        write_source(source, asked.prompts)
        size = f"{source.stat().st_size / 1e6:.0f} MB"
        prepare = command("prepare", source, "-o", folder / "out.jsonl")
        describe = command("describe", folder / "out.jsonl", "--tokenizer", tokenizer)
        spent = [measured("prepare", prepare), measured("describe", describe)]
        same = equal_digests(folder)
    total_s = sum(seconds for seconds, _ in spent)
    most = max(size for _, size in spent)
    print(f"{asked.prompts} prompts, {size}: {total_s:.1f} s (limit {MOST_S:g}), ", end="")
    print(f"{most / 1e6:.0f} MB (limit {MOST_BYTES / 1e6:g}), digests equal: {same}")
    print(f"load before the start {load:.2f}{': unquiet' if load > LOADED else ''}")
    sys.exit(0 if total_s <= MOST_S and most <= MOST_BYTES and same else 1)


def command(*words: str | Path) -> list[str]:
    """Give a command line of specbench."""
    return [sys.executable, "-m", "specbench", "workload", *map(str, words)]


def measured(name: str, words: list[str]) -> tuple[float, int]:
    """Run a command, show what it says, and give its seconds and its most bytes of memory."""
    started = time.perf_counter()
    # The peak of all children so far is that of the largest.
    done = subprocess.run(words, check=True, capture_output=True, text=True)
    spent_s = time.perf_counter() - started
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
    print(f"{name}: {spent_s:.1f} s, most memory of a process so far {peak / 1e6:.0f} MB")
    print("  " + done.stdout.strip().replace("\n", "\n  "))
    return spent_s, peak


def write_source(path: Path, prompts: int) -> None:
    """Write rows in vLLM's custom format, each a text of its own."""
    made = summarize_long(1, TOKENS, TOKENS, prompts, 128)
    with path.open("w") as file:
        for prompt in made:
            file.write(json.dumps({"prompt": prompt.messages[0].content}) + "\n")


def trained(folder: Path) -> Path:
    """Train a byte-level tokenizer and give its folder."""
    from tokenizers import ByteLevelBPETokenizer

    tokenizer = ByteLevelBPETokenizer()
    texts = (prompt.messages[0].content for prompt in summarize_long(2, 4_000, 8_000, 50, 128))
    tokenizer.train_from_iterator(texts, vocab_size=8_192)
    tokenizer.save(str(folder / "tokenizer.json"))
    return folder


def equal_digests(folder: Path) -> bool:
    """Tell whether a folder of texts has one digest whatever the order its files came in."""
    texts = [p.messages[0].content for p in summarize_long(3, 300, 600, 40, 128)]
    found = set()
    for step in (1, -1):
        place = folder / f"texts{step}" / "texts"
        place.mkdir(parents=True)
        for number, text in list(enumerate(texts))[::step]:
            (place / f"{number:03}.txt").write_text(text)
        out = place.parent / "out.jsonl"
        words = command("prepare", place, "-o", out, "--tokens", "500:2000")
        said = subprocess.run(words, check=True, capture_output=True, text=True).stdout
        found.add(re.findall(r"sha256 (\w+)", said)[0])
    return len(found) == 1


if __name__ == "__main__":
    main()
