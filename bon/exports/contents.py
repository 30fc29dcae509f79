"""The contents of a run as exports read them."""

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd

from bon.analysis.data.tables import Tables
from bon.analysis.results import BestOfN, Results
from bon.core.records import Candidate, ImageRef, Question
from bon.engines.base import ImagePart
from bon.experiment.cards import Loaded
from bon.experiment.config import PolicyCard
from bon.formats.score_tables import WITHOUT_TEXT
from bon.planning.run_tables import run_tables
from bon.planning.setup import Setup
from bon.running.reporting import read_results
from bon.storage.store import Store

RAW_TABLES = ("questions", "candidates", "pairs", "judgements")


@dataclass(frozen=True, slots=True)
class Choice:
    """A rewarder's choice on a question: several candidates if they tie; `correct` is a share.

    extractor: the answer extractor of the policy.
    """

    question: Question
    candidates: tuple[Candidate, ...]
    correct: float
    extractor: str


@dataclass(frozen=True)
class Contents:
    """An open run; numbers come from its results.json. `organisation`: who made it."""

    setup: Setup
    store: Store
    organisation: str = ""

    @property
    def directory(self) -> Path:
        """The run directory."""
        return self.store.directory

    @cached_property
    def results(self) -> Results:
        """The results of the analysis."""
        return read_results(self.directory)

    @cached_property
    def tables(self) -> Tables:
        """The tables that the analysis reads."""
        return run_tables(self.setup, self.store)

    @cached_property
    def choices(self) -> pd.DataFrame:
        """The choices of each rewarder (bon.analysis.estimators.picks)."""
        from bon.analysis.data.arrays import read
        from bon.analysis.estimators.picks import choices

        return choices(read(self.tables), self.results)

    @cached_property
    def has_images(self) -> bool:
        """Whether any question has an image."""
        return self.store.has("questions", "active > 0 AND json_array_length(data, '$.images') > 0")

    @property
    def headlines(self) -> list[BestOfN]:
        """The Best-of-n results of the headline rule and n."""
        return [row for row in self.results.best_of_n if row.headline]

    def policy(self, name: str) -> Loaded[PolicyCard]:
        """Return a policy by name."""
        return next(policy for policy in self.setup.policies if policy.card.name == name)

    def raw(self, table: str) -> Iterator[dict[str, Any]]:
        """Yield rows of one of RAW_TABLES as stored; images are hashes, `meta` is JSON."""
        if table in ("questions", "pairs"):
            for data, leaked in self.store.query(
                f"SELECT data, leaked FROM {table} WHERE active > 0 ORDER BY active"
            ):
                row = json.loads(data)
                yield {**row, "leaked": bool(leaked), "meta": json.dumps(row["meta"])}
            return
        columns = [row[1] for row in self.store.query(f"PRAGMA table_info({table})")]
        for values in self.store.query(f"SELECT * FROM {table} ORDER BY key"):
            yield dict(zip(columns, values, strict=True))

    def chosen(self, policy: str, rewarder: str) -> Iterator[Choice]:
        """Yield a rewarder's choices whose texts are known, in the order of the questions.

        Where nothing was judged because no choice could matter, it is the first candidate.
        """
        frame = self.choices
        rows = frame[(frame["policy"] == policy) & (frame["rewarder"] == rewarder)]
        columns = (rows[name] for name in ("question", "picked", "correct"))
        choices = {question: choice for question, *choice in zip(*columns, strict=True)}
        loaded = self.policy(policy)
        for question in self.store.questions():
            picked, correct = choices.get(question.key, ["", math.nan])
            if math.isnan(correct):
                continue
            pool = self.store.candidates(loaded.spec, question.key, loaded.card.n)
            by_index = {row.index: row for row in pool}
            indices = [int(index) for index in picked.split()] or sorted(by_index)[:1]
            candidates = tuple(by_index[index] for index in indices if index in by_index)
            if candidates and all(row.finish != WITHOUT_TEXT for row in candidates):
                yield Choice(question, candidates, float(correct), loaded.card.reader)


def load_image(ref: ImageRef) -> ImagePart:
    """Read an image of the store."""
    return ImagePart(ref.sha256, Path(ref.path).read_bytes())
