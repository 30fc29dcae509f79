"""Correlations from published numbers: `bon correlate TABLE.csv`.

One row per rewarder (and policy, if there are several) with its benchmark scores and its Best-of-N
accuracy. Rows whose name is in parentheses, such as `(majority vote)`, are reference lines without
a score. Lines that start with `#` are notes. The column `family` names the base model; where it is
missing or blank, a known name of a model suggests one, with a question mark.

Columns `ppo`, `dpo`, `sft`, `outcome` and the like, or `after` (with `before`, `method`, `seed`),
are gains by training, correlated with the scores and with Best-of-N.
"""

import csv
import io
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas.api.types import is_numeric_dtype

from bon.analysis.correlation.coefficients import correct, correlate
from bon.analysis.correlation.paired_accuracies import MIN_REWARDERS, Label, Measured
from bon.analysis.correlation.power import what_if
from bon.analysis.estimators import resampling
from bon.analysis.finding.verdict import find
from bon.analysis.outcomes import AFTER, OUTCOME, correlation_of, widened
from bon.analysis.results import (
    Correlation,
    CorrelationReport,
    Estimate,
    Flag,
    Options,
    Reference,
    UpliftCorrelation,
    WhatIf,
)
from bon.analysis.results.phrasing import names, percent, plural
from bon.analysis.verdict.of_axes import verdicts_of
from bon.core.base_models import guessed_base
from bon.core.errors import BonError
from bon.core.files import read_text

REWARDER = ("rewarder", "judge", "reward_model", "model", "name")
POLICY = ("policy", "base_model", "generator")
BEST_OF_N = re.compile(r"best[_-]?of[_-]?(n|\d+)|bon|bon[_@-]?\d*|.*bon[_-]acc.*", re.IGNORECASE)
ABOUT = ("family", "maker", "before", "size", "length_bias", "date", "policy_family")
COVARIATES = ("size", "length_bias", "date")
AXES = ("macro", "overall")

GROUP_SIZES: tuple[dict[str, int], ...] = (
    {"general": 183, "hallucination": 749, "reasoning": 318},  # VL-RewardBench
)
"""Pairs per group of benchmarks known by the names of their groups."""

OVERALL_SLACK = 0.003  # a third of a point: more than rounding to tenths can explain
MACRO_SLACK = 0.002
EQUAL = 5e-5
MAX_BYTES = 50_000_000


@dataclass(frozen=True)
class Columns:
    """The roles of a table's columns."""

    rewarder: str
    policy: str | None
    y: str | None
    xs: tuple[str, ...]
    outcomes: tuple[str, ...]

    @property
    def scores(self) -> list[str]:
        """Accuracies: Best-of-N, then benchmark scores."""
        return [*([self.y] if self.y else []), *self.xs]


def correlate_table(
    source: str | Path | pd.DataFrame, options: Options | None = None
) -> CorrelationReport:
    """Correlate published numbers, a CSV file or a frame.

    The primary score is macro, else overall, else the first.
    """
    options = options or Options()
    frame = source if isinstance(source, pd.DataFrame) else read_csv(Path(source))
    lower = {str(c).lower().strip(): c for c in reversed(frame.columns)}
    if AFTER in lower:
        rewarder, policy = (_role(lower, roles) for roles in (REWARDER, POLICY))
        if rewarder is not None:
            frame = widened(frame.rename(columns=str.strip), rewarder, policy)
    columns = _columns(frame)
    frame, lines, unit = _clean(frame, columns)
    references = _references(lines, columns)
    correlations, measured = [], []
    for name, part in _by_policy(frame, columns):
        for axis in columns.xs if columns.y else ():
            label = Label(name, "", axis, primary=axis == columns.xs[0])
            measured.append(_measured(part, columns, axis))
            correlations.append(correlate(measured[-1], label, options))
    correlations = correct(correlations)
    labelled = [
        (Label(c.policy, "", c.axis, primary=c.primary), m)
        for c, m in zip(correlations, measured, strict=True)
    ]
    verdicts = verdicts_of(labelled, options.level)
    roles = {"rewarder": columns.rewarder, "policy": columns.policy, "y": columns.y}
    outcomes = tuple(_outcomes(frame, columns, options.level))
    finding = find(verdicts, correlations, [], [], None)
    if not correlations:
        finding = finding.model_copy(
            update={"sentence": "No correlation with Best-of-N: the table has no such column."}
        )
    return CorrelationReport(
        source="table" if isinstance(source, pd.DataFrame) else Path(source).name,
        columns={k: v for k, v in roles.items() if v is not None} | {"x": columns.xs[0]},
        unit="percent" if unit == 100 else "fraction",
        finding=finding,
        correlations=tuple(correlations),
        verdicts=tuple(v for _, v in verdicts if v is not None),
        outcomes=outcomes,
        what_if=tuple(_what_if(correlations, measured, references, options.level)),
        references=references,
        flags=tuple(flags(frame, columns.rewarder)),
        warnings=_warnings(correlations),
    )


# ------------------------------------------------------------------ reading the table


def read_csv(path: Path) -> pd.DataFrame:
    """Read a CSV file without its note lines."""
    text = read_text(path, MAX_BYTES)
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    if len(lines) < 2:
        raise BonError(f"{path} holds no rows", "write a header line and one line per rewarder")
    delimiter = max(",;\t", key=lines[0].count)
    rows = list(csv.reader(lines, delimiter=delimiter))
    for cells in rows:
        if len(cells) != len(rows[0]):
            raise BonError(
                f"{path} is not a CSV table: the row of {cells[0]!r} has {len(cells)} cells, "
                f"the header {len(rows[0])}",
                "put a header line and rows of as many cells in it",
            )
    try:
        table = pd.read_csv(io.StringIO("\n".join(lines)), sep=delimiter, skipinitialspace=True)
        return table.apply(_numeric)
    except (pd.errors.ParserError, ValueError) as error:
        raise BonError(
            f"{path} is not a CSV table: {' '.join(str(error).split())}",
            "open it in a spreadsheet and save it as CSV (UTF-8)",
        ) from None


def _numeric(column: pd.Series) -> pd.Series:
    """Convert a column whose cells are all like 50%, or like 50,3."""
    text = column.dropna().astype(str).str.strip()
    if is_numeric_dtype(column) or not text.str.fullmatch(r"-?\d+([.,]\d+)?\s*%?").all():
        return column
    text = text.str.rstrip("% ").str.replace(",", ".")
    return pd.to_numeric(text, errors="coerce").reindex(column.index).where(column.notna())


def _columns(frame: pd.DataFrame) -> Columns:
    known = [str(c) for c in frame.columns]
    for column in known:
        if known.count(column) > 1 or re.fullmatch(r".+\.\d+", column):
            raise BonError(f"column {column!r} occurs twice", "rename one of them")
    lower = {c.lower().strip(): c for c in reversed(known)}
    rewarder, policy = (_role(lower, roles) for roles in (REWARDER, POLICY))
    if rewarder is None:
        raise BonError(
            "no column with the names of the rewarders",
            f"name it 'rewarder' or 'judge'; columns are {', '.join(known)}",
        )
    target = next((c for c in known if BEST_OF_N.fullmatch(c.strip())), None)
    outcomes = tuple(c for c in known if OUTCOME.fullmatch(c.strip()))
    if target is None and not outcomes:
        raise BonError(
            "no column with the Best-of-N accuracy",
            f"name it 'best_of_n' (gains by training: 'outcome'); columns are {', '.join(known)}",
        )
    other = (rewarder, policy, target, *outcomes)
    scores = [c for c in known if c not in other and c.lower() not in ABOUT]
    if not scores:
        raise BonError("no column with a benchmark score", "add one, such as 'macro'")
    for column in [*scores, *outcomes, *([target] if target else [])]:
        bad = pd.to_numeric(frame[column], errors="coerce").isna() & frame[column].notna()
        if bad.any():
            raise BonError(
                f"column {column!r} holds {str(frame.loc[bad, column].iloc[0])!r} in the row of "
                f"{frame.loc[bad, rewarder].iloc[0]!r}, which is not a number",
                "leave out columns that are not scores",
            )
    first = next((lower[a] for a in AXES if lower.get(a) in scores), scores[0])
    xs = (first, *(c for c in scores if c != first))
    return Columns(rewarder, policy, target, xs, outcomes)


def _role(lower: dict[str, str], roles: tuple[str, ...]) -> str | None:
    return next((lower[c] for c in roles if c in lower), None)


def _clean(frame: pd.DataFrame, columns: Columns) -> tuple[pd.DataFrame, pd.DataFrame, float]:
    """Return rows of rewarders and reference lines as fractions, and the unit of the table."""
    scores = columns.scores
    numbers = [*scores, *columns.outcomes]
    frame = frame.assign(**{c: pd.to_numeric(frame[c]).astype(float) for c in numbers})
    if frame[columns.rewarder].isna().any():
        row = int(np.argmax(frame[columns.rewarder].isna())) + 1
        raise BonError(
            f"row {row} has no name in column {columns.rewarder!r}", "name it, or drop the row"
        )
    frame[columns.rewarder] = frame[columns.rewarder].astype(str).str.strip()
    is_line = frame[columns.rewarder].str.fullmatch(r"\(.*\)")
    lines, rows = frame[is_line].copy(), frame[~is_line].copy()
    for column in scores:
        if rows[column].isna().any():
            name = rows.loc[rows[column].isna(), columns.rewarder].iloc[0]
            raise BonError(
                f"{name!r} has no value in column {column!r}",
                "fill the cell, or leave out the row or the column",
            )
    keys = [c for c in (columns.policy, columns.rewarder) if c is not None]
    repeated = rows[rows.duplicated(keys)]
    if len(repeated):
        raise BonError(
            f"{repeated.iloc[0][columns.rewarder]!r} occurs twice",
            "write one row per rewarder and policy",
        )
    least, most, unit = rows[scores].min(), rows[scores].max(), _unit(rows[scores])
    if least.min() < 0 or most.max() > 100:
        outside = str(most.idxmax() if most.max() > 100 else least.idxmin())
        raise BonError(
            f"column {outside!r} holds a value outside 0 to 100",
            "scores must be accuracies, in percent or as fractions",
        )
    if unit == 100 and least.min() <= 1:
        raise BonError(
            f"column {str(least.index[least <= 1][0])!r} holds fractions while others hold percent",
            "write all accuracies in percent, or all as fractions",
        )
    for part in (rows, lines):
        part[scores] = part[scores] / unit
    return rows, lines, unit


def _unit(scores: pd.DataFrame) -> float:
    """Return 100 for percent, 1 for fractions."""
    return 100.0 if float(scores.max().max()) > 1.5 else 1.0


def _by_policy(frame: pd.DataFrame, columns: Columns) -> list[tuple[str, pd.DataFrame]]:
    groups = [("the policy", frame)]
    if columns.policy is not None:
        groups = [(str(k), g) for k, g in frame.groupby(columns.policy, sort=False)]
    for name, part in groups:
        if len(part) < MIN_REWARDERS:
            raise BonError(
                f"{plural(len(part), 'rewarder')} for {name}: a correlation needs at least "
                f"{MIN_REWARDERS}",
                "add rows of other rewarders",
            )
        for column in columns.scores:
            if float(np.ptp(part[column].to_numpy())) < 1e-12:
                raise BonError(
                    f"all rewarders of {name} have the same value in column {column!r}, "
                    "so there is no correlation",
                    "leave the column out",
                )
    return groups


def _measured(part: pd.DataFrame, columns: Columns, axis: str) -> Measured:
    x, y = (part[column].to_numpy(dtype=float) for column in (axis, str(columns.y)))
    names = tuple(part[columns.rewarder])
    known = [tuple(Estimate(value=v, method="none") for v in side.tolist()) for side in (x, y)]
    return Measured(
        names,
        x,
        y,
        known[0],
        known[1],
        families=_families(part, columns),
        makers=tuple(_about(part, "maker")),
        **_covariates(part),
    )


def _about(part: pd.DataFrame, name: str) -> "list[str]":
    """Return a column in any case as text, blanks where it is missing."""
    known = next((part[c] for c in part if str(c).lower() == name), None)
    return [""] * len(part) if known is None else known.fillna("").astype(str).tolist()


def _covariates(part: pd.DataFrame) -> dict[str, Any]:
    """Return the numbers known of rewarders that may move both axes, size as its logarithm."""
    found = {}
    for name in COVARIATES:
        values = pd.to_numeric(pd.Series(_about(part, name)), errors="coerce").to_numpy(float)
        if np.isfinite(values).any():
            found[name] = (
                np.log10(np.where(values > 0, values, np.nan)) if name == "size" else values
            )
    if not found:
        return {}
    columns = np.column_stack(list(found.values()))
    return {"covariates": columns, "covariate_names": tuple(found)}


def _families(part: pd.DataFrame, columns: Columns) -> tuple[str, ...]:
    names = part[columns.rewarder]
    known = _about(part, "family")
    return tuple(f or guessed_base(name) for f, name in zip(known, names, strict=True))


def _references(lines: pd.DataFrame, columns: Columns) -> tuple[Reference, ...]:
    if columns.y is None:
        return ()
    return tuple(
        Reference(
            policy=str(row[columns.policy]) if columns.policy else "the policy",
            name=str(row[columns.rewarder]).strip("() "),
            accuracy=value,
        )
        for row in lines.to_dict("records")
        if (value := resampling.number(row[columns.y])) is not None
    )


# ------------------------------------------------------------------ results


def _outcomes(frame: pd.DataFrame, columns: Columns, level: float) -> Iterator[UpliftCorrelation]:
    """Correlate gains by training with each score and with Best-of-N."""
    for policy, part in _by_policy(frame, columns):
        for outcome in columns.outcomes:
            for x in (*columns.xs, *([columns.y] if columns.y else [])):
                kept = part.dropna(subset=[outcome])
                names, families = kept[columns.rewarder], _families(kept, columns)
                rows = zip(names, families, kept[x], kept[outcome], strict=True)
                yield correlation_of(outcome, x, rows, level, policy=policy)


def _what_if(
    correlations: list[Correlation],
    measured: list[Measured],
    references: tuple[Reference, ...],
    level: float,
) -> list[WhatIf]:
    results = []
    for c, m in zip(correlations, measured, strict=True):
        if c.primary:
            lines = {r.name.lower(): r.accuracy for r in references if r.policy == c.policy}
            base, vote = (
                next((v for k, v in lines.items() if re.search(pattern, k)), None)
                for pattern in (r"without|w/o|pass|no b", r"major|vot")
            )
            results.append(what_if(m, c, base, vote, level))
    return [w for w in results if w is not None]


def _warnings(correlations: list[Correlation]) -> tuple[str, ...]:
    warnings = [
        "Published accuracies come without their questions: no interval here covers the noise in "
        "them, and leaks, ties and order are unknown."
    ]
    few = min((c.num_rewarders for c in correlations), default=MIN_REWARDERS)
    if few < 5:
        warnings.append(f"{few} rewarders: too few for a reliable statement on any correlation.")
    return tuple(warnings)


# ------------------------------------------------------------------ flags


def flags(frame: pd.DataFrame, rewarder: str = "judge") -> list[Flag]:
    """Flag numbers of a table (percent or fractions) that do not fit together.

    - mixed axis: a score column that is macro in most rows and overall in some, or vice versa;
    - overall, macro: scores that do not follow from the groups.
    """
    scores = frame.select_dtypes("number")
    frame = frame.drop_duplicates(rewarder)
    values = scores.loc[frame.index] / _unit(scores)
    rewarders = frame[rewarder].astype(str).to_numpy()
    flagged = _mixed_axes(values, rewarders)
    groups = next((known for known in GROUP_SIZES if set(known) <= set(values.columns)), {})
    parts = values[list(groups)].to_numpy(dtype=float)
    for axis, weights, slack in (
        ("overall", list(groups.values()), OVERALL_SLACK),
        ("macro", [1] * len(groups), MACRO_SLACK),
    ):
        if not groups or axis not in values:
            continue
        stated, implied = values[axis].to_numpy(dtype=float), np.average(parts, 1, weights)
        gap = np.abs(stated - implied)
        rows = np.flatnonzero(gap > slack)
        if len(rows):
            worst = int(rows[np.argmax(gap[rows])])
            sentence = (
                f"{len(rows)} of {len(rewarders)} {axis} accuracies do not follow from the groups "
                f"(more than {100 * slack:.1f} points off); {rewarders[worst]}: "
                f"{percent(stated[worst])} stated, {percent(implied[worst])} implied."
            )
            flagged.append(Flag(kind=axis, rows=tuple(rewarders[rows].tolist()), sentence=sentence))
    return flagged


def _mixed_axes(values: pd.DataFrame, rewarders: NDArray[np.object_]) -> list[Flag]:
    if not {"macro", "overall"} <= set(values.columns):
        return []
    axes = {name: values[name].to_numpy(dtype=float) for name in ("macro", "overall")}
    different = np.abs(axes["macro"] - axes["overall"]) > EQUAL
    flagged = []
    for column in values.columns.difference(list(axes), sort=False):
        v = values[column].to_numpy(dtype=float)
        equal = {name: (np.abs(v - axis) < EQUAL) & different for name, axis in axes.items()}
        (most, rows), (few, odd) = sorted(equal.items(), key=lambda item: -item[1].sum())
        if odd.any() and rows.sum() + odd.sum() >= 0.8 * different.sum():
            exceptions = [str(name) for name in rewarders[odd]]
            sentence = (
                f"Column {column!r} is {most} accuracy for {int(rows.sum())} rewarders and {few} "
                f"accuracy for {names(exceptions)}."
            )
            flagged.append(Flag(kind="mixed axis", rows=tuple(exceptions), sentence=sentence))
    return flagged
