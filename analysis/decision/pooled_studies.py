"""Studies of a meta-analysis: policies of runs, and pairs of columns of published tables.

A YAML beside a table (`Description`) names its benchmarks and outcomes as others know them. Without
one all pairs of columns count, but for parts of a column whose name theirs begins with.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import Any, get_args

import numpy as np
from pydantic import Field

from bon.analysis.decision.shared_content import blocks
from bon.analysis.published_tables import measured, own_rows, plain, read_csv, read_table
from bon.analysis.results import OutcomeKind, PooledSource, Results
from bon.analysis.results.phrasing import plural, points
from bon.analysis.verdict.posterior import posterior
from bon.choosing.opinion import Floats
from bon.core.base_models import without_mark
from bon.core.errors import BonError
from bon.core.validation import Strict

FEWEST = 4
"""Rewarders of a study: three have any r."""
COPY = 0.5
"""Share of models with the same numbers from which two studies are one."""
ROUNDING = 0.002
"""A difference of scores that is no disagreement of two tables."""

KINDS: dict[OutcomeKind, str] = dict(
    zip(
        get_args(OutcomeKind),
        (
            r"best of|bon\b|rerank|majority",
            r"guided|search",
            r"r?dpo\b",
            r"ppo\b",
            r"grpo|rloo|rl\b",
            r"raft|sft|rejection|trained|training|uplift",
            r"arena|elo\b|human",
        ),
        strict=False,
    )
)
"""Words that name a kind of outcome; what has none of them is another benchmark."""


class OutcomeColumn(Strict):
    """An outcome of a table; `same_items`: benchmarks made of its own items, which do not count."""

    kind: OutcomeKind
    what: str
    same_items: tuple[str, ...] = ()


class Description(Strict):
    """What is known of a table: where it is from, and what its columns hold.

    `benchmarks`: the benchmark of each column that counts. `same_models`: names of models in other
    tables. `own`: rows of the authors' own models. `checked`: against which copies.
    """

    title: str
    table: str
    licence: str
    benchmarks: dict[str, str]
    outcomes: dict[str, OutcomeColumn]
    own: str
    checked: str
    paper: str = ""
    repository: str = ""
    policy: str = ""
    modality: str = ""
    same_models: dict[str, str] = Field(default_factory=dict)
    notes: str = ""


@dataclass(frozen=True)
class Study:
    """A benchmark and an outcome over R rewarders: `names`, `families`, `x`, `y` (R).

    Families are empty where unknown; `makers` and `own` (R), the authors' own models, where known.
    """

    source: str
    names: tuple[str, ...]
    families: tuple[str, ...]
    x: Floats
    y: Floats
    benchmark: str = ""
    outcome: str = ""
    kind: OutcomeKind = "Best-of-N"
    policy: str = ""
    modality: str = ""
    makers: tuple[str, ...] = ()
    own: tuple[bool, ...] = ()
    has_errors: bool = True

    @cached_property
    def bases(self) -> list[str]:
        """Base models; an unknown one begins with a zero byte, one for each rewarder."""
        pairs = zip(self.names, self.families, strict=True)
        return [without_mark(base).lower() or f"\0{name}" for name, base in pairs]

    @cached_property
    def likelihood(self) -> Floats:
        """The likelihood of each r of `CORRELATIONS`, whose prior is uniform."""
        return posterior(self.x, self.y, (0.0, 0.0), self.bases).probability

    @property
    def is_usable(self) -> bool:
        """Whether there are enough rewarders, which differ."""
        return len(self.x) >= FEWEST and all(float(np.ptp(v)) > 1e-9 for v in (self.x, self.y))

    def without(self, left_out: Sequence[bool]) -> "Study | None":
        """Leave rewarders out; None if too few remain."""
        if not any(left_out):
            return self
        kept = np.flatnonzero(~np.array(left_out))
        rows: dict[str, Any] = {
            name: tuple(values[i] for i in kept) if (values := getattr(self, name)) else ()
            for name in ("names", "families", "makers", "own")
        }
        part = replace(self, **rows, x=self.x[kept], y=self.y[kept])
        return part if part.is_usable else None


def model_key(name: str) -> str:
    """Return what two spellings of a model's name share: its words, in any order."""
    return " ".join(sorted(re.findall(r"[^\W_]+(?:\.\d+\w*)*", name.lower())))


# ------------------------------------------------------------------ runs


def studies_of_runs(
    runs: Sequence[tuple[str, Results]], warnings: list[str]
) -> tuple[list[Study], float]:
    """Return a study per policy, on its primary axis, and the level of the runs' intervals.

    Raises:
        BonError: two runs have the same candidates, or were reported at different levels.
    """
    block = blocks(runs)
    levels = {results.options.level for _, results in runs}
    if len(levels) > 1:
        raise BonError(
            "the runs were reported with intervals of different levels",
            "report them alike: bon report RUN --set analysis.confidence=0.95",
        )
    if len(set(block.values())) < len(runs):
        warnings.append(
            "Runs share questions: the prediction is for a further policy on these questions."
        )
    studies: list[Study] = []
    axes = set()
    for name, results in runs:
        if results.completeness is not None and not results.completeness.complete:
            warnings.append(f"{name} is not complete.")
        for c in (c for c in results.correlations if c.primary):
            points = [p for p in c.points if p.x.value is not None and p.y.value is not None]
            axes.add(c.axis)
            study = Study(
                name,
                tuple(model_key(p.rewarder) for p in points),
                tuple(p.family for p in points),
                np.array([p.x.value for p in points], dtype=float),
                np.array([p.y.value for p in points], dtype=float),
                c.benchmark,
                f"Best-of-N on {', '.join(results.run.downstream)}",
                policy=c.policy,
            )
            studies += _usable(study, warnings)
    if len(axes) > 1:
        warnings.append("The runs' primary axes differ: macro and overall accuracy are mixed.")
    return studies, next(iter(levels), 0.95)


def _usable(study: Study, warnings: list[str]) -> Iterator[Study]:
    if study.is_usable:
        yield study
    else:
        what = f"{study.benchmark} and {study.outcome}" + f" of {study.policy}" * bool(study.policy)
        found = plural(len(study.x), "rewarder")
        warnings.append(f"{study.source}, {what}: {found}, too few to pool, or all alike.")


# ------------------------------------------------------------------ tables


def studies_of_table(
    path: Path, description: Description | None, warnings: list[str]
) -> list[Study]:
    """Return a study for each policy, benchmark and outcome of a table.

    Raises:
        BonError: it cannot be read, or lacks a column that the description names.
    """
    xs = {} if description is None else description.benchmarks
    ys = {} if description is None else description.outcomes
    try:
        table = read_table(read_csv(path), list(ys), list(xs))
    except BonError as error:
        named = error.message if str(path) in error.message else f"{path}: {error.message}"
        raise BonError(named, error.fix) from None
    found: list[Study] = []
    for y, x in product(ys or _whole(table.outcomes), xs or _whole(table.benchmarks)):
        if y in ys and x in ys[y].same_items:
            continue
        for policy, part in table.policies:
            rows = part.dropna(subset=[x, y])
            m = measured(rows, table, x, y)
            aliases = {} if description is None else description.same_models
            study = Study(
                path.stem,
                tuple(model_key(aliases.get(name, name)) for name in m.names),
                m.families,
                m.x,
                m.y,
                xs.get(x, x),
                ys[y].what if y in ys else y,
                ys[y].kind if y in ys else kind_of(y),
                policy if table.policy else "",
                "" if description is None else description.modality,
                m.makers,
                tuple(own_rows(rows).tolist()),
                m.x_draws is not None and m.y_draws is not None,
            )
            found += _usable(study, warnings)
    return found


def kind_of(outcome: str) -> OutcomeKind:
    """Return the kind of an outcome by its name."""
    name = plain(outcome)
    return next((k for k, words in KINDS.items() if re.search(words, name)), "another benchmark")


def _whole(columns: Sequence[str]) -> list[str]:
    """Leave out columns whose names begin with that of another: its parts."""
    return [
        c
        for c in columns
        if not any(o != c and re.match(rf"{re.escape(o)}(?![a-zA-Z0-9])", c) for o in columns)
    ]


def source_of(name: str, d: Description) -> PooledSource:
    """Return what a page says of a table."""
    origin = "; ".join(text for text in (d.paper, d.repository) if text)
    return PooledSource(
        name=name, title=d.title, origin=origin, table=d.table, licence=d.licence, own=d.own,
        checked=d.checked, notes=d.notes,
    )  # fmt: skip


# ------------------------------------------------------------------ several tables


def without_copies(studies: Iterable[Study], warnings: list[str]) -> list[Study]:
    """Keep the larger of two studies with the same numbers of the same models."""
    kept: list[Study] = []
    for study in sorted(studies, key=lambda s: -len(s.x)):
        for other in kept:
            if (other.benchmark, other.kind) != (study.benchmark, study.kind):
                continue
            known = {n: (x, y) for n, x, y in zip(other.names, other.x, other.y, strict=True)}
            same = sum(
                np.allclose(known[n], (x, y))
                for n, x, y in zip(study.names, study.x, study.y, strict=True)
                if n in known
            )
            if other.source != study.source and same >= COPY * len(study.x):
                warnings.append(
                    f"{study.source} and {other.source} hold the same {study.benchmark} and "
                    f"{study.kind} of {plural(same, 'model')}: {other.source} counts."
                )
                break
        else:
            kept.append(study)
    return [study for study in studies if any(study is one for one in kept)]


def disagreements(studies: Iterable[Study]) -> Iterator[str]:
    """Say where tables give a model different scores on a benchmark."""
    scores: dict[tuple[str, str], dict[str, float]] = {}
    for s in studies:
        for name, x in zip(s.names, s.x.tolist(), strict=True):
            scores.setdefault((s.benchmark, name), {})[s.source] = x
    gaps: dict[str, list[float]] = {}
    for (benchmark, _), by in scores.items():
        gap = max(by.values()) - min(by.values())
        if ROUNDING < gap <= 1:
            gaps.setdefault(benchmark, []).append(gap)
    for benchmark, found in gaps.items():
        yield (
            f"Tables differ in {benchmark} of {plural(len(found), 'model')}, by up to "
            f"{points(max(found)).removeprefix('+')}."
        )
