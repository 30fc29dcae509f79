"""Tables of published numbers as a paper prints them, and the roles of their columns.

One row per rewarder (and policy, if there are several), in a file of rows or in LaTeX or Markdown.
The rewarders stand in a column of REWARDER, else in the first. Other columns are benchmark scores
and outcomes of any unit. Outcomes are declared (`outcome: NAME` as a column's name, or `--outcome`)
or known by their names: Best-of-N, guided search, a policy after training (`ppo`, `dpo`, …, or
`after` with `before`). They are never benchmarks of each other, unless `--benchmark` names one.

A cell may hold its standard error, as 60.1 ± 1.2 or 60.1 (1.2), and marks such as †. `NAME_se`
holds the standard errors of column NAME instead, `NAME_n` numbers of items. `family` names the base
model; where it is missing or blank, a known name of a model suggests one, with a question mark.
`own` marks rows of the table's authors. Rows whose name is in parentheses, or is of no rewarder
(average, human, random, majority vote, …), are reference lines without a score. Columns of text,
ranks, years, costs, numbers of rows and lines that start with `#` are notes.
"""

import csv
import functools
import io
import re
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas.api.types import is_bool_dtype, is_numeric_dtype
from scipy import special

from bon.analysis.correlation.paired_accuracies import Measured
from bon.analysis.estimators.resampling import around
from bon.analysis.outcomes import AFTER, OUTCOME, widened
from bon.analysis.printed_tables import printed_rows
from bon.analysis.results import Estimate, Flag, Unit
from bon.analysis.results.phrasing import names, percent
from bon.core.base_models import guessed_base
from bon.core.errors import BonError
from bon.core.files import read_text

REWARDER = ("rewarder", "judge", "reward_model", "model", "name")
POLICY = ("policy", "base_model", "generator")
BY_CHOICE = re.compile(
    r".*\bbest of (n|k|\d+)\b.*|(.* )?bon ?\d*( .*)?"
    r"|(.* )?(best|bo|rm) ?\d+( .*)?"
    r"|(.* )?(guided|search|majority|rerank\w*|rejection|downstream)( .*)?"
)
"""Outcomes of choosing among responses, and others that are named so, in plain words."""
ABOUT = (
    "family", "maker", "own", "size", "length_bias", "date", "policy_family", "before",
    "year", "rank", "notes",
)  # fmt: skip
SIZE = re.compile(r"(#|num|number_of|model)?_?(params?|parameters|size)")
NOTE = re.compile(r"(.* )?(rank|year|price|cost|latency|context( length)?)|ranking")
NO_REWARDER = re.compile(
    r"\(.*\)|(δ|difference|improvement).*"
    r"|(the )?(avg\.?|average|mean|median|std|random|chance|human|majority|oracle|greedy|longest"
    r"|upper bound|w/?o|without|pass ?1)( (all|over|guess\w*|chance|choice|baseline|performance"
    r"|experts?|vot(e|ing)|bon|best of n))*",
)
"""Rows that are no rewarder's, in plain words."""
ARROWS = re.compile(r"(\s|[↑↓⇑⇓†‡*]|\\(up|down)arrow)+$")
"""What stands behind the name of a column."""
COVARIATES = ("size", "length_bias", "date")
AXES = ("macro", "overall")
DECLARED = re.compile(r"(outcome|benchmark)\s*:\s*", re.IGNORECASE)
NOISE = re.compile(r"(.+?)[ _.]\(?(se|stderr|n)\)?", re.IGNORECASE)
EMPTY = ("-", "--", "---", "/", "–", "—", "n/a", "n.a.", "N/A", "NA", "")
MARKS = re.compile(
    r"\\(textbf|mathbf|text|underline|d?dagger|ast|star)(?![a-z])|[†‡*∗★☆§¶#$^_{}\\]|\s"
)
"""What a printed number may have around it."""
BETWEEN = re.compile(rf"(?<=\d)(?!\s\d{{3}}(?!\d))(?:{MARKS.pattern})+(?=\.?\d)")
"""Marks between two numbers, which are no one number: 47_{0.4}; spaces may group thousands."""
MINUS = re.compile(r"[−–‐‑－﹣]")
PLUS_MINUS = re.compile(r"\\pm|\+/?-")
UNSIGNED = r"(?:\d+(?:[.,]\d+)?|[.,]\d+)"
NUMBER = rf"[-+]?{UNSIGNED}(?:e[-+]?\d+)?"
CELL = re.compile(rf"±?({NUMBER})%?(?:(?:±({UNSIGNED})|\(({UNSIGNED})%?\))%?)?", re.IGNORECASE)
MORE = re.compile(
    rf"({NUMBER}%?[±(\[;↑↓]|[-+]?\d+[.,]\d+%?[/|])[-+±\d.,;:–~%/|]*[)\]]?", re.IGNORECASE
)
"""A number with more beside it, which no column of notes holds."""
GROUPED = r"[-+]?[1-9]\d{0,2}(?:,\d{3})+(?:\.\d+)?%?(?:[±(][^,]*)?"
"""1,178: commas between groups of three digits, where no cell of the column has another comma."""
DRAWS = 1000
"""Draws of an accuracy within its error."""

GROUPS = {"general": 183, "hallucination": 749, "reasoning": 318}
"""Pairs per group of VL-RewardBench, which is known by their names."""

OVERALL_SLACK = 0.003  # a third of a point: more than rounding to tenths can explain
MACRO_SLACK = 0.002
EQUAL = 5e-5
MAX_BYTES = 50_000_000
ROWS: dict[str, Callable[[Path], Any]] = {
    ".json": pd.read_json,
    ".jsonl": functools.partial(pd.read_json, lines=True),
    ".parquet": pd.read_parquet,
    ".xlsx": functools.partial(pd.read_excel, header=None, dtype=str, na_filter=False),
}
LEAST_PERCENT = 20
"""No percent below this stands beside a fraction: that column mixes both."""


@dataclass(frozen=True)
class Table:
    """A table whose columns have roles.

    rows, lines: of rewarders and of reference lines; proportions are fractions. benchmarks,
    outcomes: their columns, those of the leading pair first. errors: standard errors by column.
    printed: the table with its numbers as they are printed.
    """

    rows: pd.DataFrame
    lines: pd.DataFrame
    rewarder: str
    policy: str | None
    benchmarks: tuple[str, ...]
    outcomes: tuple[str, ...]
    units: dict[str, Unit]
    errors: pd.DataFrame
    printed: pd.DataFrame

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


def read_csv(path: Path) -> pd.DataFrame:
    """Read a table: CSV, Markdown and LaTeX without note lines, rows as JSON or Parquet."""
    rows: list[list[str]] | None
    if read := ROWS.get(path.suffix):
        try:
            frame: pd.DataFrame = read(path)
        except FileNotFoundError:
            raise BonError(f"no file {path}", "check the path") from None
        except (ImportError, OSError, ValueError, zipfile.BadZipFile) as error:
            why = str(error).splitlines()[0]
            raise BonError(f"{path} is not a table: {why}", "save it as CSV (UTF-8)") from None
        if path.suffix != ".xlsx":
            return frame.apply(_numeric)
        rows = frame.to_numpy().tolist()
    elif (rows := printed_rows(text := read_text(path, MAX_BYTES))) is None:
        lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
        rows = list(csv.reader(lines, delimiter=max(",;\t", key=lines[0].count))) if lines else []
    if len(rows) < 2:
        raise BonError(f"{path} holds no rows", "write a header line and one line per rewarder")
    if len(rows[0]) == 1:
        raise BonError(
            f"{path} holds a single column, {rows[0][0][:40]!r}",
            "separate its cells by commas, semicolons or tabs, or write Markdown or LaTeX",
        )
    for cells in rows:
        if len(cells) != len(rows[0]):
            raise BonError(
                f"{path} is not a table: the row of {cells[0]!r} has {len(cells)} cells, "
                f"the header {len(rows[0])}",
                "put a header line and rows of as many cells in it",
            )
    if len(rows) > 2 and _is_second_header(*rows[:2]):
        above = pd.Series(rows[0]).str.strip().replace("", None).ffill().fillna("")
        joined = (dict.fromkeys(names) for names in zip(above, rows[1], strict=True))
        rows[:2] = [[" ".join(filter(None, names)) for names in joined]]
    file = io.StringIO()
    csv.writer(file).writerows(rows)
    try:
        table = pd.read_csv(io.StringIO(file.getvalue()), skipinitialspace=True, na_values=EMPTY)
        return table.apply(_numeric)
    except (pd.errors.ParserError, ValueError) as error:
        raise BonError(
            f"{path} is not a CSV table: {' '.join(str(error).split())}",
            "open it in a spreadsheet and save it as CSV (UTF-8)",
        ) from None


def _is_second_header(above: list[str], names: list[str]) -> bool:
    """Whether names of columns stand below those of groups, which leave cells blank."""
    text = [cell for cell in names if cell.strip()]
    numbers = any(CELL.fullmatch(_cleaned(cell)) for cell in text)
    return not all(map(str.strip, above[1:])) and len(text) > 1 and not numbers


def _numeric(column: pd.Series) -> pd.Series:
    """Convert a column whose cells are all numbers without errors."""
    values, errors, unread = _cells(column)
    return column if (unread.notna() | errors.notna()).any() else values


def _cells(column: pd.Series) -> tuple[pd.Series, pd.Series, pd.Series]:
    """Return the numbers of a column, their errors, and the text of other cells."""
    text = column.map(_cleaned, na_action="ignore").astype("string")
    if is_numeric_dtype(column) and not is_bool_dtype(column):
        return column, pd.Series(np.nan, column.index), pd.Series(pd.NA, column.index, "string")
    text = text.mask(text.isin(EMPTY))
    commas = text[text.str.contains(",").fillna(False)]
    if commas.str.fullmatch(GROUPED).all():
        text = text.str.replace(",", "")
    found = text.str.extract(f"^{CELL.pattern}$", flags=re.IGNORECASE)
    parts = [pd.to_numeric(found[i].str.replace(",", ".")).astype(float) for i in found]
    return parts[0], parts[1].fillna(parts[2]), text.where(parts[0].isna())


def _cleaned(cell: object) -> str:
    """Remove marks and spaces of a cell, but not between two numbers; make every minus one."""
    text = PLUS_MINUS.sub("±", MINUS.sub("-", str(cell).strip()))
    return MARKS.sub("", BETWEEN.sub(";", text))


def plain(name: str) -> str:
    """Return a column's name in lower case, its words separated by spaces, without brackets."""
    return re.sub(r"[\s_@-]+", " ", re.sub(r"\(.*?\)", "", name)).strip().lower()


def read_table(frame: pd.DataFrame, outcomes: Sequence[str], benchmarks: Sequence[str]) -> Table:
    """Give every column its role, and read the numbers."""
    frame, declared = _renamed(frame)
    known = [str(c) for c in frame.columns]
    lower = {plain(c).replace(" ", "_"): c for c in reversed(known)}
    rewarder, policy = (
        next((lower[c] for c in roles if c in lower), None) for roles in (REWARDER, POLICY)
    )
    if rewarder is None and known and not is_numeric_dtype(_numeric(frame[known[0]])):
        rewarder = known[0]  # Method, Verifier, or no name at all
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
    named = (*chosen["outcome"], *chosen["benchmark"])
    for column in named:
        if column not in known:
            raise BonError(f"no column {column!r}", f"columns are {', '.join(known)}")
    about = [
        c
        for c in known
        if c in (*ABOUT, rewarder, policy) or (NOTE.fullmatch(plain(c)) and c not in named)
    ]
    frame = _numbers(frame, [c for c in known if c not in about], rewarder)
    noise = {c: m for c in map(str, frame.columns) if (m := NOISE.fullmatch(c)) and m[1] in known}
    numbers = [c for c in map(str, frame.select_dtypes("number")) if c not in (*about, *noise)]
    by_name = [c for c in numbers if OUTCOME.fullmatch(c) or is_choice(c)]
    counts = [list(range(start, start + len(frame))) for start in (0, 1)]  # the index of a frame
    scores = [c for c in numbers if c in (*by_name, *named) or frame[c].tolist() not in counts]
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
    if policy is not None:
        frame[policy] = frame[policy].ffill()  # one cell for several rows
    for column in filter(None, (rewarder, policy)):
        if frame[column].isna().any():
            row = int(np.argmax(frame[column].isna())) + 1
            raise BonError(
                f"row {row} has no name in column {column!r}", "name it, or drop the row"
            )
    frame[rewarder] = frame[rewarder].astype(str).str.strip()
    words = frame[rewarder].str.lower().str.replace(ARROWS, "", regex=True)
    is_line = words.str.replace(r"[\s_@-]+", " ", regex=True).str.fullmatch(NO_REWARDER)
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
    return Table(rows, lines, rewarder, policy, tuple(xs), tuple(ys), units, errors, frame)


def is_choice(outcome: str) -> bool:
    """Whether an outcome is one of choosing among responses, by its name."""
    named = (outcome, *re.findall(r"\((.*?)\)", outcome))
    return any(BY_CHOICE.fullmatch(plain(name)) for name in named)


def _renamed(frame: pd.DataFrame) -> tuple[pd.DataFrame, dict[str, str]]:
    """Strip names of columns of what declares a role; return those roles."""
    declared, renamed = {}, {}
    for column in map(str, frame.columns):
        found, name = DECLARED.match(column.strip()), DECLARED.sub("", column.strip(), count=1)
        name = ARROWS.sub("", name)
        role = plain(name).replace(" ", "_")
        role = "size" if SIZE.fullmatch(role) else role
        renamed[column] = role if role in ABOUT and not found else name
        if found:
            declared[name] = found[1].lower()
    frame = frame.set_axis([renamed[str(c)] for c in frame.columns], axis=1)
    for name, twice in zip(frame.columns, frame.columns.duplicated(keep=False), strict=True):
        if twice or ((m := re.fullmatch(r"(.+)\.\d+", name)) and m[1] in frame.columns):
            raise BonError(f"column {name!r} occurs twice", "rename one of them")
    return frame, declared


def _numbers(frame: pd.DataFrame, columns: list[str], rewarder: str) -> pd.DataFrame:
    """Convert columns of numbers, their errors to columns; what is mostly text is a note."""
    read: dict[str, pd.Series] = {}
    stated = [m[1] for c in columns if (m := NOISE.fullmatch(c)) and m[2].lower() != "n"]
    for column in columns:
        values, errors, unread = _cells(frame[column])
        bad, more = unread.notna(), unread.str.fullmatch(MORE).fillna(False)
        if more.any() or (bad.any() and 2 * bad.sum() <= frame[column].notna().sum()):
            row = int(np.argmax(more if more.any() else bad))
            raise BonError(
                f"column {column!r} holds {str(frame[column].iloc[row])!r} in the row of "
                f"{frame[rewarder].iloc[row]!r}, which is not a number",
                "correct or empty the cell; its standard error follows as 60.1 ± 1.2 or stands in "
                f"a column of its own: {column}_se",
            )
        beside = errors.dropna()
        ranks = (values[beside.index].rank(ascending=up, method="min") for up in (True, False))
        if len(beside) > 2 and any(beside.eq(rank).all() for rank in ranks):
            raise BonError(
                f"column {column!r} holds ranks beside its numbers, such as "
                f"{frame[column].iloc[0]!r}",
                "write them to a column of their own, such as rank",
            )
        if not bad.any() and values.notna().any():
            read[column] = values.astype(float)
            if errors.notna().any() and column not in stated:
                read[f"{column}_se"] = errors
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
    for column, match in sorted(noise.items(), key=lambda item: item[1][2].lower() == "n"):
        name, values = match[1], rows[column]
        if not is_numeric_dtype(values):
            raise BonError(f"column {column!r} holds no numbers", f"write those of {name}")
        if match[2].lower() != "n":
            found[name] = values / (100 if units[name] == "percent" else 1)
        elif name not in found and units[name] != "scale":
            p = (rows[name] * values + 1) / (values + 2)  # never an error of 0
            found[name] = (p * (1 - p) / values) ** 0.5
    return pd.DataFrame(found, index=rows.index)


def measured(part: pd.DataFrame, table: Table, x: str, y: str, level: float = 0.95) -> Measured:
    """Return the rows with both numbers, with draws where all their errors are known."""
    part = part.dropna(subset=[x, y])
    values, estimates, draws = {}, {}, {}
    for seed, column in enumerate((x, y)):
        v = values[column] = part[column].to_numpy(dtype=float)
        error = np.full(len(v), np.nan)
        if column in table.errors:
            error = table.errors.loc[part.index, column].to_numpy(dtype=float)
        estimates[column] = tuple(_estimate(*cell, level) for cell in zip(v, error, strict=True))
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
        families=families(part, table),
        makers=tuple(_about(part, "maker")),
        **_covariates(part),
    )


def _estimate(value: float, error: float, level: float) -> Estimate:
    if not np.isfinite(error):
        return Estimate(value=value, method="none")
    return around(value, special.ndtri((1 + level) / 2) * error, 0, "normal")


def _about(part: pd.DataFrame, name: str) -> "list[str]":
    """Return a column as text, blanks where it is missing."""
    if name not in part:
        return [""] * len(part)
    return part[name].astype(object).where(part[name].notna(), "").astype(str).tolist()


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


def families(part: pd.DataFrame, table: Table) -> tuple[str, ...]:
    """Return the base models of the rows, stated or guessed."""
    known = _about(part, "family")
    return tuple(
        f or guessed_base(name) for f, name in zip(known, part[table.rewarder], strict=True)
    )


def own_rows(rows: pd.DataFrame) -> NDArray[np.bool_]:
    """Return which rows are of the table's authors, by a column `own`."""
    words = pd.Series(_about(rows, "own")).str.strip().str.lower()
    return words.isin(["yes", "true", "1", "1.0", "x", "own"]).to_numpy()


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
    for axis, weights, slack in (
        ("overall", list(GROUPS.values()), OVERALL_SLACK),
        ("macro", [1] * len(GROUPS), MACRO_SLACK),
    ):
        if not {axis, *GROUPS} <= set(values.columns):
            continue
        parts, stated = (values[of].to_numpy(dtype=float) for of in (list(GROUPS), axis))
        implied = np.average(parts, 1, weights)
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
