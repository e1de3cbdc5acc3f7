#!/usr/bin/env python3
"""Judges every case of the tamper corpus with verify.py, and says where it disagrees with what the corpus expects; the
same for the receipts of runs by run.py.

    differential.py [DIR]

Without a DIR the corpus is made first, by `cargo run -p tollgate-audit --example corpus`, in a temporary folder. Two
ways to the same sentence: this verifier was written from audit/FORMAT.md alone, the corpus's expectations from what
was done to each journal.
"""

import json
import multiprocessing
import pathlib
import subprocess
import sys
import tempfile
import traceback

import run
import verify

ROOT = pathlib.Path(__file__).resolve().parents[2]
LEAST = 670


def make(folder: str) -> None:
    command = ["cargo", "run", "--quiet", "--locked", "-p", "tollgate-audit", "--example", "corpus", "--", folder]
    subprocess.run(command, cwd=ROOT, check=True)


def rows(findings, kind: str) -> list:
    return sorted((row[kind], row["first"], row["last"]) for row in findings)


def judged(case: pathlib.Path) -> str | None:
    """What is wrong with one case, or None."""
    try:
        wanted = json.loads((case / "expected.json").read_text())
        anchors = [note.encode() for note in wanted["checkpoints"]]
        receipts = [(row["seq"], bytes.fromhex(row["leaf"])) for row in wanted["receipts"]]
        found = verify.verify(case / "log", wanted["key"], anchors, receipts)
    except Exception:  # Whatever it is: a verifier has an answer to everything.
        return f"{case.name}: {traceback.format_exc()}"
    here = (found["verdict"], found["exit"], rows(found["findings"], "kind"))
    there = (wanted["verdict"], wanted["exit"], rows(wanted["findings"], "class"))
    return None if here == there else f"{case.name}: here {here}, expected {there}, warnings {found['warnings']}"


def compare(folder: pathlib.Path) -> int:
    cases = sorted(path.parent for path in folder.glob("*/expected.json"))
    with multiprocessing.Pool(2) as pool:
        wrong = [row for row in pool.imap(judged, cases, chunksize=8) if row]
    wanted = sorted(json.loads((folder / "receipts.json").read_text()))
    found = sorted(line.decode() for line in run.receipts("r1", [folder / "receipts"]))
    if not wanted or found != wanted:
        wrong.append(f"receipts: here {found}, expected {wanted}")
    if len(cases) < LEAST:
        wrong.append(f"the corpus has {len(cases)} cases, and should have {LEAST}")
    print("\n".join([*wrong, f"{max(len(cases) + 1 - len(wrong), 0)} passed, {len(wrong)} failed"]))
    return 1 if wrong else 0


def main() -> int:
    if len(sys.argv) > 1:
        return compare(pathlib.Path(sys.argv[1]))
    with tempfile.TemporaryDirectory(prefix="tollgate-corpus-") as folder:
        make(folder)
        return compare(pathlib.Path(folder))


if __name__ == "__main__":
    sys.exit(main())
