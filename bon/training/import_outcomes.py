"""Outcomes of trainings that were done elsewhere, imported into a run: `bon import trained.csv`."""

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from bon.analysis.outcomes import AFTER, BEFORE, as_fractions
from bon.analysis.published import POLICY, REWARDER, read_csv
from bon.analysis.results import REFERENCES
from bon.core.errors import BonError, some
from bon.core.files import write_atomic
from bon.formats.base import columns_of
from bon.running.reporting import OUTCOMES, UPLIFT, read_results

KEYS = ("policy", "rewarder", "method", "seed", "question")


def is_outcomes(file: Path) -> bool:
    """Whether a file is a table of rewarders with accuracies before and after training."""
    if file.suffix.lower() not in (".csv", ".tsv") or not file.is_file():
        return False
    columns = {column.lower().strip() for column in columns_of(file)}
    return AFTER in columns and bool(columns & set(REWARDER))


def import_outcomes(files: Sequence[Path], directory: Path) -> int:
    """Add outcomes to a run and return their number; later rows of a key replace earlier ones."""
    results = read_results(directory)
    policies = [row.policy for row in results.policies]
    known = {row.rewarder for row in results.rewarders} | {*REFERENCES}
    frame = pd.concat([_read(file, policies) for file in files], ignore_index=True)
    for column, names in (("policy", set(policies)), ("rewarder", known)):
        if unknown := set(frame[column]) - names:
            raise BonError(
                f"the run has no {column} {some(sorted(unknown))}",
                f"name them as in the run: {some(sorted(names))}",
            )
    path = directory / UPLIFT / OUTCOMES
    path.parent.mkdir(exist_ok=True)
    if path.exists():
        frame = pd.concat([pd.read_csv(path), frame], ignore_index=True)
    keys = [key for key in KEYS if key in frame]
    frame = frame.drop_duplicates(keys, keep="last")
    write_atomic(path, frame.to_csv(index=False, lineterminator="\n"))
    return len(frame)


def _read(file: Path, policies: Sequence[str]) -> pd.DataFrame:
    frame = read_csv(file).rename(columns=lambda name: str(name).lower().strip())
    for role, names in (("rewarder", REWARDER), ("policy", POLICY)):
        if role not in frame and (name := next((n for n in names if n in frame), None)):
            frame = frame.rename(columns={name: role})
    if "policy" not in frame:
        if len(policies) != 1:
            raise BonError(f"{file} has no column 'policy'", f"one of {', '.join(policies)} a row")
        frame["policy"] = policies[0]
    frame["rewarder"] = frame["rewarder"].astype(str).str.strip().str.strip("()")
    for column, value in (("method", "outcome"), ("seed", 0)):
        frame[column] = frame.get(column, value)
    own = [c for c in (*KEYS, BEFORE, AFTER, "n") if c in frame]
    return as_fractions(frame[own])
