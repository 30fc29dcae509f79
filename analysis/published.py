"""Correlations from published numbers: `bon correlate TABLE.csv`.

Every pair of a benchmark and an outcome has a verdict over the rows with both.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import combinations, product
from pathlib import Path

import numpy as np
import pandas as pd

from bon.analysis.correlation.coefficients import correlate
from bon.analysis.correlation.paired_accuracies import MIN_REWARDERS, Label
from bon.analysis.estimators import resampling
from bon.analysis.finding.verdict import accounts, answer, find, strength
from bon.analysis.outcomes import correlation_of
from bon.analysis.published_tables import (
    Table,
    families,
    flags,
    is_choice,
    measured,
    own_rows,
    read_csv,
    read_table,
)
from bon.analysis.results import (
    Correlation,
    CorrelationReport,
    Options,
    Reference,
    UpliftCorrelation,
    Verdict,
)
from bon.analysis.results.phrasing import names, plural
from bon.analysis.verdict.of_axes import verdicts_of
from bon.analysis.verdict.verdict import FEWEST, GAP
from bon.core.errors import BonError

UNCLEAR = ("perhaps", "cannot tell")

CLAIMS = {
    "perhaps": "rewarders with a higher {x} have a higher {y}, but one line with r > .5 is not "
    "established",
    "no": "{x} does not predict {y}",
    "weak": "{x} hardly predicts {y}: r is above 0 and below .5",
    "reverse": "rewarders with a higher {x} have a lower {y}",
    "cannot tell": "this table cannot tell whether {x} predicts {y}",
}


def correlate_table(
    source: str | Path | pd.DataFrame,
    options: Options | None = None,
    *,
    outcomes: Sequence[str] = (),
    benchmarks: Sequence[str] = (),
) -> CorrelationReport:
    """Correlate published numbers, a CSV file or a frame, with a verdict for each pair of columns.

    The leading benchmark is macro, else overall, else what begins the names of several others,
    else the first; so is the leading outcome.
    """
    options = options or Options()
    frame = source if isinstance(source, pd.DataFrame) else read_csv(Path(source))
    table = read_table(frame, outcomes, benchmarks)
    first, correlations, verdicts = None, [], []
    few: dict[str, int] = {}
    for y, x in product(table.outcomes, table.benchmarks):
        rows = []
        for policy, part in table.policies:
            m = measured(part, table, x, y, options.level)
            if len(m.names) < MIN_REWARDERS:
                few[f"{x} and {y}" + (f" for {policy}" if table.policy else "")] = len(m.names)
            else:
                first = first or (x, y)
                rows.append((Label(policy, "", x, primary=(x, y) == first, outcome=y), m))
        found = [correlate(m, label, options) for label, m in rows]
        correlations += found
        if found and all(c.pearson.estimate.value is not None for c in found):
            leading = [(replace(label, primary=True), m) for label, m in rows]
            gap = None if table.units[x] == "scale" else GAP
            verdicts += [
                v.model_copy(update={"outcome": y})
                for _, v in verdicts_of(leading, options.level, gap)
                if v is not None
            ]
    if first is None or all(c.pearson.estimate.value is None for c in correlations):
        raise _nothing(table, max(few.values(), default=0))
    leading_verdict = next((v for v in verdicts if (v.axis, v.outcome) == first), None)
    finding = find([("", leading_verdict)], correlations, [], [], None)
    clear = [v for v in verdicts if v is not leading_verdict and v.word not in UNCLEAR]
    x, y = first
    whether = f"Cannot tell whether {x} predicts {y}: "
    return CorrelationReport(
        source="table" if isinstance(source, pd.DataFrame) else Path(source).name,
        columns={"rewarder": table.rewarder, "x": x, "y": y}
        | ({"policy": table.policy} if table.policy else {}),
        units=table.units,
        finding=finding.model_copy(
            update={
                "sentence": _sentence(leading_verdict, table)
                if leading_verdict
                else whether + finding.sentence.removeprefix("Cannot tell: "),
                "support": (*finding.support, *(_sentence(v, table) for v in clear)),
                "would_change": tuple(_would_change(table, correlations)),
            }
        ),
        correlations=tuple(correlations),
        verdicts=tuple(verdicts),
        agreement=tuple(
            _pairwise(policy, part, table, *pair, options.level)
            for policy, part in table.policies
            for pair in combinations(table.outcomes, 2)
        ),
        without_own=tuple(
            _pairwise(policy, part[~own], table, c.axis, c.outcome, options.level)
            for policy, part in table.policies
            if (own := own_rows(part)).any()
            for c in correlations
            if c.policy == policy
        ),
        references=_references(table, y),
        flags=tuple(flags(table.printed, table.rewarder)),
        warnings=_warnings(correlations, few, table),
    )


def _references(table: Table, y: str) -> tuple[Reference, ...]:
    return tuple(
        Reference(
            policy=str(row[table.policy]) if table.policy else "the policy",
            name=str(row[table.rewarder]).strip("() "),
            accuracy=value,
        )
        for row in table.lines.to_dict("records")
        if (value := resampling.number(row[y])) is not None
    )


# ------------------------------------------------------------------ results


def _nothing(table: Table, most: int) -> BonError:
    """Say why no pair of columns has a correlation."""
    for policy, part in table.policies:
        for column in table.columns:
            values = part[column].dropna()
            if len(values) >= MIN_REWARDERS and float(np.ptp(values)) < 1e-12:
                return BonError(
                    f"all rewarders of {policy} have the same value in column {column!r}, "
                    "so there is no correlation",
                    "leave the column out",
                )
    return BonError(
        f"{plural(most, 'rewarder')} for {table.policies[0][0]}: a correlation needs at least "
        f"{MIN_REWARDERS}",
        "add rows of other rewarders, with a benchmark score and an outcome",
    )


def _sentence(v: Verdict, table: Table) -> str:
    """Say what a verdict holds, naming its columns."""
    claim = CLAIMS.get(v.word, "{x} predicts {y}").format(x=v.axis, y=v.outcome)
    where = f" for {names(sorted(n for n, _ in table.policies))}" if table.policy else ""
    size = strength(v) if is_choice(v.outcome) else strength(v).split(";")[0]
    return f"{answer(v)}: {claim}{where} ({size}; {accounts(v)})."


def _would_change(table: Table, correlations: Sequence[Correlation]) -> Iterator[str]:
    """Name what the table would have to add for clearer verdicts."""
    most = max(correlations, key=lambda c: c.num_rewarders)
    if most.num_rewarders < FEWEST:
        yield f"At least {FEWEST} rewarders with both numbers would give a verdict."
    elif most.num_bases is not None:
        yield f"Rewarders of other base models: {most.num_rewarders} stand on {most.num_bases}."
    if column := next((c for c in table.columns if c not in table.errors), None):
        yield (
            f"The number of items behind each cell (a column such as {column}_n), or its standard "
            f"error ({column}_se): without them noise could hide any correlation."
        )


def _pairwise(
    policy: str, part: pd.DataFrame, table: Table, x: str, y: str, level: float
) -> UpliftCorrelation:
    kept = part.dropna(subset=[x, y])
    rows = zip(kept[table.rewarder], families(kept, table), kept[x], kept[y], strict=True)
    return correlation_of(y, x, rows, level, policy=policy)


def _warnings(
    correlations: Sequence[Correlation], few: dict[str, int], table: Table
) -> tuple[str, ...]:
    warnings = [
        "Published accuracies come without their questions: leaks, ties and order are unknown, and "
        "no interval of a measured r covers noise that the table does not state."
    ]
    if (pairs := len({(c.axis, c.outcome) for c in correlations})) > 1:
        warnings.append(f"{pairs} pairs of columns are read: the best of them is a selection.")
    least = min(c.num_rewarders for c in correlations)
    if least < 5:
        warnings.append(f"{least} rewarders: too few for a reliable statement on any correlation.")
    if lines := [name for name in table.lines[table.rewarder] if not name.startswith("(")]:
        warnings.append(f"Read as reference lines, not as rewarders: {names(lines)}.")
    if few:
        warnings.append(
            f"Fewer than {MIN_REWARDERS} rewarders have both {names(list(few), 4)}: left out."
        )
    return tuple(warnings)
