"""Correlations from published numbers, as a paper prints them: `bon correlate TABLE.csv`.

One row per rewarder (and policy, if there are several); columns are benchmark scores and outcomes
of any unit, and every pair of a benchmark and an outcome has a verdict over the rows with both.
Outcomes are declared (`outcome: NAME` as a column's name, or `--outcome`) or known by their names:
Best-of-N, guided search, a policy after training (`ppo`, `dpo`, …, or `after` with `before`). They
are never benchmarks of each other, unless `--benchmark` names one.

`NAME_se` and `NAME_n` hold standard errors and numbers of items of column NAME. `family` names the
base model; where it is missing or blank, a known name of a model suggests one, with a question
mark. `own` marks rows of the table's authors. Rows whose name is in parentheses, such as
`(majority vote)`, are reference lines without a score. Columns of text and lines that start with
`#` are notes.
"""

import csv
import io
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas.api.types import is_numeric_dtype
from scipy import special

from bon.analysis.correlation.coefficients import correct, correlate
from bon.analysis.correlation.paired_accuracies import MIN_REWARDERS, Label, Measured
from bon.analysis.estimators import resampling
from bon.analysis.finding.verdict import accounts, answer, find, strength
from bon.analysis.outcomes import AFTER, OUTCOME, correlation_of, widened
from bon.analysis.results import (
    Correlation,
    CorrelationReport,
    Estimate,
    Flag,
    Options,
    Reference,
    Unit,
    UpliftCorrelation,
    Verdict,
)
from bon.analysis.results.phrasing import names, percent, plural
from bon.analysis.verdict.of_axes import verdicts_of
from bon.analysis.verdict.verdict import FEWEST
from bon.core.base_models import guessed_base
from bon.core.errors import BonError
from bon.core.files import read_text

REWARDER = ("rewarder", "judge", "reward_model", "model", "name")
POLICY = ("policy", "base_model", "generator")
BY_CHOICE = re.compile(
    r".*\bbest of (n|k|\d+)\b.*|(.* )?bon ?\d*( .*)?"
    r"|(.* )?(guided|search|majority|rerank\w*|rejection|downstream)( .*)?"
)
"""Outcomes of choosing among responses, and others that are named so, in plain words."""
ABOUT = (
    "family", "maker", "own", "size", "length_bias", "date", "policy_family", "before",
    "year", "rank", "notes",
)  # fmt: skip
COVARIATES = ("size", "length_bias", "date")
AXES = ("macro", "overall")
DECLARED = re.compile(r"(outcome|benchmark)\s*:\s*", re.IGNORECASE)
NOISE = re.compile(r"(.+?)[ _.]\(?(se|stderr|n)\)?", re.IGNORECASE)
EMPTY = ("-", "–", "—", "n/a", "N/A", "NA", "")
DRAWS = 1000
"""Draws of an accuracy within its error."""

GROUP_SIZES: tuple[dict[str, int], ...] = (
    {"general": 183, "hallucination": 749, "reasoning": 318},  # VL-RewardBench
)
"""Pairs per group of benchmarks known by the names of their groups."""

OVERALL_SLACK = 0.003  # a third of a point: more than rounding to tenths can explain
MACRO_SLACK = 0.002
EQUAL = 5e-5
MAX_BYTES = 50_000_000
LEAST_PERCENT = 20
"""No percent below this stands beside a fraction: that column mixes both."""

UNCLEAR = ("perhaps", "cannot tell")

CLAIMS = {
    "perhaps": "rewarders with a higher {x} have a higher {y}, but one line with r > .5 is not "
    "established",
    "no": "{x} does not predict {y}",
    "weak": "{x} hardly predicts {y}: r is above 0 and below .5",
    "reverse": "rewarders with a higher {x} have a lower {y}",
    "cannot tell": "this table cannot tell whether {x} predicts {y}",
}


@dataclass(frozen=True)
class Table:
    """A table whose columns have roles.

    rows, lines: of rewarders and of reference lines; proportions are fractions. benchmarks,
    outcomes: their columns, those of the leading pair first. errors: standard errors by column.
    """

    rows: pd.DataFrame
    lines: pd.DataFrame
    rewarder: str
    policy: str | None
    benchmarks: tuple[str, ...]
    outcomes: tuple[str, ...]
    units: dict[str, Unit]
    errors: pd.DataFrame

    @property
    def columns(self) -> tuple[str, ...]:
        """Benchmarks and outcomes."""
        return (*self.benchmarks, *self.outcomes)

    @property
    def policies(self) -> list[tuple[str, pd.DataFrame]]:
        """The rows of each policy."""
        if self.policy is None:
            return [("the policy", self.rows)]
        return [(str(k), g) for k, g in self.rows.groupby(self.policy, sort=False)]


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
    table = _table(frame, outcomes, benchmarks)
    first, correlations, verdicts = None, [], []
    few: dict[str, int] = {}
    for y, x in product(table.outcomes, table.benchmarks):
        rows = []
        for policy, part in table.policies:
            m = _measured(part, table, x, y)
            if len(m.names) < MIN_REWARDERS:
                few[f"{x} and {y}" + (f" for {policy}" if table.policy else "")] = len(m.names)
            else:
                first = first or (x, y)
                rows.append((Label(policy, "", x, primary=(x, y) == first, outcome=y), m))
        found = [correlate(m, label, options) for label, m in rows]
        correlations += found
        if found and all(c.pearson.estimate.value is not None for c in found):
            leading = [(replace(label, primary=True), m) for label, m in rows]
            verdicts += [
                v.model_copy(update={"outcome": y})
                for _, v in verdicts_of(leading, options.level)
                if v is not None
            ]
    if first is None or all(c.pearson.estimate.value is None for c in correlations):
        raise _nothing(table, max(few.values(), default=0))
    correlations = correct(correlations)
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
        flags=tuple(flags(frame.rename(columns=lambda c: str(c).strip()), table.rewarder)),
        warnings=_warnings(correlations, few),
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
        table = pd.read_csv(
            io.StringIO("\n".join(lines)), sep=delimiter, skipinitialspace=True, na_values=EMPTY
        )
        return table.apply(_numeric)
    except (pd.errors.ParserError, ValueError) as error:
        raise BonError(
            f"{path} is not a CSV table: {' '.join(str(error).split())}",
            "open it in a spreadsheet and save it as CSV (UTF-8)",
        ) from None


def _numeric(column: pd.Series) -> pd.Series:
    """Convert a column whose cells are all like 50%, or like 50,3."""
    text = column.dropna().astype(str).str.strip()
    if is_numeric_dtype(column) or not text.str.fullmatch(r"[-−+]?\d*([.,]\d+)?\s*%?").all():
        return column
    text = text.str.rstrip("% ").str.replace(",", ".").str.replace("−", "-")
    return pd.to_numeric(text, errors="coerce").reindex(column.index).where(column.notna())


def _plain(name: str) -> str:
    """Return a column's name in lower case, its words separated by spaces, without brackets."""
    return re.sub(r"[\s_@-]+", " ", re.sub(r"\(.*?\)", "", name)).strip().lower()


def _table(frame: pd.DataFrame, outcomes: Sequence[str], benchmarks: Sequence[str]) -> Table:
    """Give every column its role, and read the numbers."""
    frame, declared = _renamed(frame)
    known = [str(c) for c in frame.columns]
    lower = {_plain(c).replace(" ", "_"): c for c in reversed(known)}
    rewarder, policy = (
        next((lower[c] for c in roles if c in lower), None) for roles in (REWARDER, POLICY)
    )
    if rewarder is None:
        raise BonError(
            "no column with the names of the rewarders",
            f"name it 'rewarder' or 'judge'; columns are {', '.join(known)}",
        )
    if AFTER in lower:
        frame = widened(frame, rewarder, policy)
        known = [str(c) for c in frame.columns]
    chosen: dict[str, list[str]] = {"outcome": [*outcomes], "benchmark": [*benchmarks]}
    for column, role in declared.items():
        chosen[role].append(column)
    for column in (*chosen["outcome"], *chosen["benchmark"]):
        if column not in known:
            raise BonError(f"no column {column!r}", f"columns are {', '.join(known)}")
    noise = {c: m for c in known if (m := NOISE.fullmatch(c)) and m[1] in known}
    about = [c for c in known if c in ABOUT or c in (rewarder, policy) or c in noise]
    frame = _numbers(frame, [c for c in known if c not in about], rewarder)
    scores = [c for c in known if c not in about and is_numeric_dtype(frame[c])]
    by_name = [c for c in scores if OUTCOME.fullmatch(c) or BY_CHOICE.fullmatch(_plain(c))]
    ys = chosen["outcome"] or [c for c in by_name if c not in chosen["benchmark"]]
    if not ys:
        raise BonError(
            "no column with the Best-of-N accuracy or another outcome",
            f"name it: --outcome COLUMN; columns are {', '.join(known)}",
        )
    xs = chosen["benchmark"] or [c for c in scores if c not in (*ys, *by_name)]
    if not xs:
        raise BonError("no column with a benchmark score", "add one, such as 'macro'")
    columns = list(dict.fromkeys((*xs, *ys)))
    for column in columns:
        if column not in scores:
            raise BonError(f"column {column!r} holds no numbers", "name another column")
    xs, ys = map(_leading_first, (xs, ys))
    if frame[rewarder].isna().any():
        row = int(np.argmax(frame[rewarder].isna())) + 1
        raise BonError(f"row {row} has no name in column {rewarder!r}", "name it, or drop the row")
    frame[rewarder] = frame[rewarder].astype(str).str.strip()
    is_line = frame[rewarder].str.fullmatch(r"\(.*\)")
    lines, rows = frame[is_line].copy(), frame[~is_line].copy()
    repeated = rows[rows.duplicated([c for c in (policy, rewarder) if c is not None])]
    if len(repeated):
        raise BonError(
            f"{repeated.iloc[0][rewarder]!r} occurs twice", "write one row per rewarder and policy"
        )
    units: dict[str, Unit] = {c: _unit_of(c, rows[c].dropna()) for c in columns}
    percents = [c for c in columns if units[c] == "percent"]
    for part in (rows, lines):
        part[percents] = part[percents] / 100
    errors = _errors(rows, {c: m for c, m in noise.items() if m[1] in columns}, units)
    return Table(rows, lines, rewarder, policy, tuple(xs), tuple(ys), units, errors)


def _renamed(frame: pd.DataFrame) -> tuple[pd.DataFrame, dict[str, str]]:
    """Strip names of columns of what declares a role; return those roles."""
    declared, renamed = {}, {}
    for column in map(str, frame.columns):
        found, name = DECLARED.match(column.strip()), DECLARED.sub("", column.strip(), count=1)
        plain = _plain(name).replace(" ", "_")
        renamed[column] = plain if plain in ABOUT and not found else name
        if found:
            declared[name] = found[1].lower()
    frame = frame.set_axis([renamed[str(c)] for c in frame.columns], axis=1)
    for name, twice in zip(frame.columns, frame.columns.duplicated(keep=False), strict=True):
        if twice or re.fullmatch(r".+\.\d+", name):
            raise BonError(f"column {name!r} occurs twice", "rename one of them")
    return frame, declared


def _numbers(frame: pd.DataFrame, columns: list[str], rewarder: str) -> pd.DataFrame:
    """Convert columns of numbers; what is mostly text is a note."""
    read = {}
    for column in columns:
        values = pd.to_numeric(frame[column], errors="coerce").astype(float)
        bad = values.isna() & frame[column].notna()
        if bad.any() and 2 * bad.sum() <= frame[column].notna().sum():
            raise BonError(
                f"column {column!r} holds {str(frame.loc[bad, column].iloc[0])!r} in the row of "
                f"{frame.loc[bad, rewarder].iloc[0]!r}, which is not a number",
                f"correct or empty the cell; an error has a column of its own: {column}_se",
            )
        if not bad.any() and values.notna().any():
            read[column] = values
    return frame.assign(**read)


def _leading_first(columns: list[str]) -> list[str]:
    """Order columns: macro, overall, then what begins the names of most others."""
    return sorted(
        dict.fromkeys(columns),
        key=lambda c: (
            AXES.index(c.lower()) if c.lower() in AXES else len(AXES),
            -max(sum(other.startswith(c) for other in columns), 2),
        ),
    )


def _unit_of(column: str, values: pd.Series) -> Unit:
    if values.min() >= 0 and values.max() <= 1:
        return "fraction"
    if not (values.min() >= 0 and values.max() <= 100):
        return "scale"
    small = values.between(0, 1, inclusive="neither")
    if small.any() and values[~small].min() >= LEAST_PERCENT:
        raise BonError(
            f"column {column!r} holds fractions while others hold percent: {values[small].iloc[0]}",
            "write all of a column in percent, or all as fractions",
        )
    return "percent"


def _errors(rows: pd.DataFrame, noise: "dict[str, re.Match[str]]", units: dict[str, Unit]) -> Any:
    """Return standard errors by column, from those given or from numbers of items."""
    found = {}
    for column, match in noise.items():
        name, values = match[1], pd.to_numeric(rows[column], errors="coerce")
        if match[2].lower() != "n":
            found[name] = values / (100 if units[name] == "percent" else 1)
        elif units[name] != "scale":
            p = (rows[name] * values + 1) / (values + 2)  # never an error of 0
            found[name] = (p * (1 - p) / values) ** 0.5
    return pd.DataFrame(found, index=rows.index)


def _measured(part: pd.DataFrame, table: Table, x: str, y: str) -> Measured:
    """Return the rows with both numbers, with draws where all their errors are known."""
    part = part.dropna(subset=[x, y])
    values, estimates, draws = {}, {}, {}
    for seed, column in enumerate((x, y)):
        v = values[column] = part[column].to_numpy(dtype=float)
        error = np.full(len(v), np.nan)
        if column in table.errors:
            error = table.errors.loc[part.index, column].to_numpy(dtype=float)
        estimates[column] = tuple(map(_estimate, v.tolist(), error.tolist()))
        if len(v) and np.isfinite(error).all():
            normal = np.random.default_rng([seed, len(v)]).standard_normal((len(v), DRAWS))
            draws[column] = (v[:, None] + error[:, None] * normal).astype(np.float32)
    return Measured(
        tuple(part[table.rewarder]),
        values[x],
        values[y],
        estimates[x],
        estimates[y],
        draws.get(x),
        draws.get(y),
        families=_families(part, table),
        makers=tuple(_about(part, "maker")),
        **_covariates(part),
    )


def _estimate(value: float, error: float) -> Estimate:
    if not np.isfinite(error):
        return Estimate(value=value, method="none")
    half = float(special.ndtri(0.975)) * error
    return Estimate(value=value, low=value - half, high=value + half, method="normal")


def _about(part: pd.DataFrame, name: str) -> "list[str]":
    """Return a column as text, blanks where it is missing."""
    return part[name].fillna("").astype(str).tolist() if name in part else [""] * len(part)


def _covariates(part: pd.DataFrame) -> dict[str, Any]:
    """Return the numbers known of rewarders that may move both axes, size as its logarithm."""
    found = {}
    for name in COVARIATES:
        text = pd.Series(_about(part, name)).str.rstrip("bB ")  # 7B
        values = pd.to_numeric(text, errors="coerce").to_numpy(float)
        if np.isfinite(values).any():
            found[name] = (
                np.log10(np.where(values > 0, values, np.nan)) if name == "size" else values
            )
    if not found:
        return {}
    columns = np.column_stack(list(found.values()))
    return {"covariates": columns, "covariate_names": tuple(found)}


def _families(part: pd.DataFrame, table: Table) -> tuple[str, ...]:
    known = _about(part, "family")
    return tuple(
        f or guessed_base(name) for f, name in zip(known, part[table.rewarder], strict=True)
    )


def own_rows(rows: pd.DataFrame) -> NDArray[np.bool_]:
    """Return which rows are of the table's authors, by a column `own`."""
    words = pd.Series(_about(rows, "own")).str.strip().str.lower()
    return words.isin(["yes", "true", "1", "1.0", "x", "own"]).to_numpy()


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
    size = strength(v) if BY_CHOICE.fullmatch(_plain(v.outcome)) else strength(v).split(";")[0]
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
    rows = zip(kept[table.rewarder], _families(kept, table), kept[x], kept[y], strict=True)
    return correlation_of(y, x, rows, level, policy=policy)


def _warnings(correlations: Sequence[Correlation], few: dict[str, int]) -> tuple[str, ...]:
    warnings = [
        "Published accuracies come without their questions: leaks, ties and order are unknown, and "
        "no interval of a measured r covers noise that the table does not state."
    ]
    if (pairs := len({(c.axis, c.outcome) for c in correlations})) > 1:
        warnings.append(f"{pairs} pairs of columns are read: the best of them is a selection.")
    least = min(c.num_rewarders for c in correlations)
    if least < 5:
        warnings.append(f"{least} rewarders: too few for a reliable statement on any correlation.")
    if few:
        warnings.append(
            f"Fewer than {MIN_REWARDERS} rewarders have both {names(list(few), 4)}: left out."
        )
    return tuple(warnings)


# ------------------------------------------------------------------ flags


def flags(frame: pd.DataFrame, rewarder: str = "judge") -> list[Flag]:
    """Flag numbers of a table (percent or fractions) that do not fit together.

    - mixed axis: a score column that is macro in most rows and overall in some, or vice versa;
    - overall, macro: scores that do not follow from the groups.
    """
    scores = frame.select_dtypes("number")
    frame = frame.drop_duplicates(rewarder)
    values = scores.loc[frame.index] / (100 if float(scores.max().max()) > 1.5 else 1)
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
