"""Studies of a meta-analysis: policies of runs, and pairs of columns of published tables.

A YAML beside a table (`Description`) names its benchmarks and outcomes as others know them. Without
one all pairs of columns count, but for parts of a column whose name theirs begins with.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations, permutations, product
from pathlib import Path
from typing import Any, get_args

import numpy as np

from bon.analysis.decision.shared_content import blocks
from bon.analysis.published_tables import measured, own_rows, plain, read_csv, read_table
from bon.analysis.results import Description, OutcomeColumn, OutcomeKind, Results
from bon.analysis.results.phrasing import plural, points
from bon.analysis.verdict.posterior import posterior
from bon.choosing.opinion import Floats
from bon.core.base_models import without_mark
from bon.core.errors import BonError

FEWEST = 4
"""Rewarders of a study: three have any r."""
COPY = 0.5
"""Share of models with the same numbers from which two studies are one."""
ROUNDING = 0.002
"""A difference of scores that is no disagreement of two tables."""

KINDS: tuple[OutcomeKind, ...] = get_args(OutcomeKind)
WORDS = (
    r"best of|bon\b|rerank|majority", "guided|search", r"dpo\b", r"ppo\b", r"grpo|rloo|rl\b",
    "raft|sft|rejection|trained|training|uplift", r"arena|elo\b|human", "",
)  # fmt: skip
"""Words of outcomes by kind; what has none of them is another benchmark."""


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

    @cached_property
    def points(self) -> set[tuple[str, float, float]]:
        """The numbers of each model."""
        numbers = (np.round(v, 6).tolist() for v in (self.x, self.y))
        return set(zip(self.names, *numbers, strict=True))

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


def kind_of(outcome: str) -> OutcomeKind:
    """Return the kind of an outcome by its name."""
    return next(
        k for k, words in zip(KINDS, WORDS, strict=True) if re.search(words, plain(outcome))
    )


def studies_of_runs(
    runs: Sequence[tuple[str, Results]], warnings: list[str]
) -> tuple[list[Study], float]:
    """Return a study per policy, on its primary axis, and the level of the runs' intervals.

    Raises:
        BonError: two runs have the same candidates, or were reported at different levels.
    """
    levels = {results.options.level for _, results in runs}
    if len(levels) > 1:
        raise BonError(
            "the runs were reported with intervals of different levels",
            "report them alike: bon report RUN --set analysis.confidence=0.95",
        )
    if len(set(blocks(runs).values())) < len(runs):
        warnings.append(
            "Runs share questions: the prediction is for a further policy on these questions."
        )
    primary = [(name, r, c) for name, r in runs for c in r.correlations if c.primary]
    if len({c.axis for _, _, c in primary}) > 1:
        warnings.append("The runs' primary axes differ: macro and overall accuracy are mixed.")
    studies: list[Study] = []
    for name, results, c in primary:
        if results.completeness is not None and not results.completeness.complete:
            warnings.append(f"{name} is not complete.")
        points = [p for p in c.points if p.x.value is not None and p.y.value is not None]
        study = Study(
            name,
            tuple(model_key(p.rewarder) for p in points),
            tuple(p.family for p in points),
            np.array([p.x.value for p in points], dtype=float),
            np.array([p.y.value for p in points], dtype=float),
            c.benchmark,
            ", ".join(results.run.downstream),
            policy=c.policy,
        )
        studies += _usable(study, warnings)
    return studies, next(iter(levels), 0.95)


def studies_of_table(
    name: str, path: Path, description: Description | None, warnings: list[str]
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
    aliases = {} if description is None else description.same_models
    studies: list[Study] = []
    for y, x in product(ys or _whole(table.outcomes), xs or _whole(table.benchmarks)):
        outcome = ys.get(y) or OutcomeColumn(kind=kind_of(y), what=y)
        for policy, part in table.policies if x not in outcome.same_items else ():
            rows = part.dropna(subset=[x, y])
            m = measured(rows, table, x, y)
            study = Study(
                name,
                tuple(model_key(aliases.get(model, model)) for model in m.names),
                m.families,
                m.x,
                m.y,
                xs.get(x, x),
                outcome.what,
                outcome.kind,
                policy if table.policy else "",
                "" if description is None else description.modality,
                m.makers,
                tuple(own_rows(rows).tolist()),
                m.x_draws is not None and m.y_draws is not None,
            )
            studies += _usable(study, warnings)
    return studies


def _usable(study: Study, warnings: list[str]) -> Iterator[Study]:
    if study.is_usable:
        yield study
    else:
        what = f"{study.benchmark} and {study.outcome} {study.policy}".strip()
        found = plural(len(study.x), "rewarder")
        warnings.append(f"{study.source}, {what}: {found}, too few to pool, or all alike.")


def _whole(columns: Sequence[str]) -> list[str]:
    """Leave out columns whose names begin with that of another: its parts."""
    part = [rf"{re.escape(whole)}(?![a-zA-Z0-9])." for whole in columns]
    return [c for c in columns if not any(re.match(pattern, c) for pattern in part)]


def without_copies(studies: Sequence[Study], warnings: list[str]) -> list[Study]:
    """Leave out the smaller of two studies with the same numbers of the same models."""
    left: list[Study] = []
    for a, b in permutations(studies, 2):
        if (a.benchmark, a.kind) != (b.benchmark, b.kind) or a.source == b.source:
            continue
        same = len(a.points & b.points)
        if same >= COPY * len(a.x) and (len(a.x), a.source) < (len(b.x), b.source):
            left.append(a)
            warnings.append(
                f"{a.source} and {b.source} hold the same {a.benchmark} and {a.kind} of "
                f"{plural(same, 'model')}: {b.source} counts."
            )
    return [study for study in studies if not any(study is other for other in left)]


def shared_outcomes(studies: Iterable[Study]) -> Iterator[tuple[str, str, Study]]:
    """Yield the names of two outcomes, and one against the other over the rewarders of both.

    Columns of one kind with the same numbers are one outcome.
    """
    columns: dict[str, tuple[Study, dict[str, tuple[float, str]]]] = {}
    for s in (each for each in studies if each.kind != KINDS[-1]):
        own = dict(zip(s.names, zip(s.y.tolist(), s.families, strict=True), strict=True))
        for earlier, known in columns.values():
            common = own.keys() & known.keys()
            if earlier.kind == s.kind and common and all(own[n][0] == known[n][0] for n in common):
                known |= own
                break
        else:
            columns[", ".join(filter(None, (s.kind, s.source, s.policy)))] = s, own
    for (a, (study, y)), (b, (_, z)) in combinations(columns.items(), 2):
        names = tuple(sorted(y.keys() & z.keys()))
        one, other = (np.array([known[name][0] for name in names]) for known in (y, z))
        pair = Study(study.source, names, tuple(y[name][1] for name in names), one, other)
        if pair.is_usable:
            yield a, b, pair


def disagreements(studies: Iterable[Study]) -> Iterator[str]:
    """Say where tables give a model different scores on a benchmark."""
    scores: dict[str, dict[str, set[float]]] = {}
    for s in studies:
        for name, x in zip(s.names, s.x.tolist(), strict=True):
            scores.setdefault(s.benchmark, {}).setdefault(name, set()).add(x)
    for benchmark, models in scores.items():
        gaps = [max(x) - min(x) for x in models.values()]
        if count := sum(gap > ROUNDING for gap in gaps):
            most = points(max(gaps)).removeprefix("+")
            yield f"Tables differ in {benchmark} of {plural(count, 'model')}, by up to {most}."
