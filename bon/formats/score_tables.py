"""Tables without texts: correctness, scores and verdicts of rewarders, preference pairs.

Records use the labels of the tables: ids of questions and pairs, indices of candidates, `chosen`
and `rejected`. An unreadable row is a `BadRow`, equal rows count once, contradictions are refused.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from bon.benchmarks.base import BadRow, RowError
from bon.core.errors import BonError
from bon.formats.base import Format
from bon.formats.wide_scores import melted, parsed, rewarders_in

Label = int | str
"""A response: the index of a candidate, or `chosen` or `rejected` of a pair."""
ItemKind = Literal["question", "pair"]
SIDES = ("chosen", "rejected")
WITHOUT_TEXT = "without text"
"""Marks candidates (as finish reason) and pairs (as meta) whose texts are unknown."""
OUTCOMES = ("first", "second", "tie", "unparsed", "error")


@dataclass(slots=True)
class QuestionRecord:
    """A question: label, text if known, correctness and answer by candidate index."""

    id: str
    text: str = ""
    subject: str = ""
    difficulty: str = ""
    right: dict[int, bool] = field(default_factory=dict)
    answers: dict[int, str] = field(default_factory=dict)

    def add(self, index: int, correct: Any, answer: Any) -> None:
        """Add a candidate."""
        right = _parse_bool(correct)
        if self.right.setdefault(index, right) != right:
            raise BonError(
                f"candidate {index} of question {self.id!r} is right in one row and wrong in "
                "another",
                "keep one row of each",
            )
        if answer not in (None, ""):
            self.answers[index] = str(answer)


@dataclass(frozen=True, slots=True)
class PairRecord:
    """A preference pair by label; `prompt` may be empty."""

    id: str
    prompt: str = ""
    group: str = ""


@dataclass(frozen=True, slots=True)
class JudgementRecord:
    """One score or verdict of a rewarder.

    steps: the score, or one per step of a response (`process`); empty if the table has no number.
    second, outcome: of a comparison. family: the rewarder's base model, if the row names it.
    """

    rewarder: str
    kind: ItemKind
    item: str
    first: Label
    second: Label | None = None
    steps: tuple[float, ...] = ()
    process: bool = False
    outcome: str = ""
    family: str = field(default="", compare=False, repr=False)  # content keys hold the repr


@dataclass(slots=True)
class ScoreTables:
    """The contents of all tables; `mentioned`: pairs as scores describe them."""

    questions: dict[str, QuestionRecord] = field(default_factory=dict)
    pairs: dict[str, PairRecord] = field(default_factory=dict)
    judgements: list[JudgementRecord] = field(default_factory=list)
    bad: list[BadRow] = field(default_factory=list)
    mentioned: dict[str, PairRecord] = field(default_factory=dict)


Scores = dict[tuple[str, str, str, Label], JudgementRecord]


def read_tables(files: Iterable[tuple[Path, Format]]) -> ScoreTables:
    """Read tables of every kind but answers; the order of files and rows does not matter.

    Raises:
        BonError: a file has no usable row, or two rows contradict each other.
    """
    tables = ScoreTables()
    scores: Scores = {}
    for path, form in files:
        used, first_bad, rewarders = 0, len(tables.bad), None
        for number, (_, values) in enumerate(form.rows(path), start=1):
            if isinstance(values, BadRow):
                tables.bad.append(BadRow(f"{path.name} {values.id}", values.reason))
                continue
            try:
                if form.table == "wide scores":
                    rewarders = rewarders or rewarders_in(values, form.columns.get("score", ""))
                    for row in melted(values, rewarders):
                        table = "pair scores" if "pair" in row else "scores"
                        _add_row(tables, scores, table if "rewarder" in row else "candidates", row)
                else:
                    _add_row(tables, scores, form.table, values)
                used += 1
            except RowError as error:
                tables.bad.append(BadRow(f"{path.name} row-{number}", str(error)))
        if not used:
            bad = tables.bad[first_bad:]
            why = f"; the first: {bad[0].reason}" if bad else ""
            raise BonError(f"no row of {path} could be used{why}", f"it was read as {form.name}")
    tables.judgements += scores.values()
    return tables


def _add_row(tables: ScoreTables, scores: Scores, table: str, row: Mapping[str, Any]) -> None:
    records: list[JudgementRecord] = []
    if table == "candidates":
        _add_candidates(tables, row)
    elif table == "pairs":
        prompt = row.get("prompt") or row.get("question") or ""
        pair = PairRecord(_label(row, "id"), str(prompt), str(row.get("group") or ""))
        if tables.pairs.setdefault(pair.id, pair) != pair:
            raise BonError(f"pair {pair.id!r} occurs twice with different contents", "keep one")
    elif table == "verdicts":
        records = [_verdict(row)]
        tables.judgements += records
    else:
        records = _scores(tables, table, row)
    for record in records:
        key = (record.rewarder, record.kind, record.item, record.first)
        if table != "verdicts" and scores.setdefault(key, record) != record:
            raise BonError(
                f"{record.rewarder} has two different scores of response {record.first} of "
                f"{record.kind} {record.item!r}",
                "keep one row of each",
            )
        if record.kind == "pair" and (row.get("prompt") or row.get("group")):
            prompt, group = (str(row.get(name) or "") for name in ("prompt", "group"))
            tables.mentioned.setdefault(record.item, PairRecord(record.item, prompt, group))


def _add_candidates(tables: ScoreTables, row: Mapping[str, Any]) -> None:
    """Add one row per question with a list of candidates, or one row per candidate."""
    listed = parsed(row.get("candidates"))
    if listed is None:
        question = _question(tables, _label(row, "id" if "id" in row else "question"))
        question.add(_index(row.get("candidate")), row.get("correct"), row.get("answer"))
        return
    text, subject, level = (str(row.get(n) or "") for n in ("question", "subject", "difficulty"))
    question = QuestionRecord(_label(row, "id"), text, subject, level)
    for index, candidate in enumerate(_list(listed, "candidates")):
        if not isinstance(candidate, Mapping):
            candidate = {"correct": candidate}
        question.add(index, candidate.get("correct"), candidate.get("answer"))
    if tables.questions.setdefault(question.id, question) != question:
        raise BonError(f"question {question.id!r} occurs twice with different contents", "keep one")


def _question(tables: ScoreTables, label: str) -> QuestionRecord:
    return tables.questions.setdefault(label, QuestionRecord(label))


def _scores(tables: ScoreTables, table: str, row: Mapping[str, Any]) -> list[JudgementRecord]:
    kind: ItemKind = "pair" if table == "pair scores" else "question"
    rewarder, item, family = _label(row, "rewarder"), _label(row, kind), _family(row)
    listed = parsed(row.get("scores"))
    values: dict[Label, Any]
    if kind == "pair":
        values = {side: row.get(side) for side in SIDES}
    elif listed is None:
        values = {_index(row.get("candidate")): row.get("score")}
    else:
        values = dict(enumerate(_list(listed, "scores")))
    records = [
        JudgementRecord(rewarder, kind, item, label, None, *_steps(value), family=family)
        for label, value in values.items()
    ]
    if kind == "question" and listed is None and row.get("correct") is not None:
        index = _index(row.get("candidate"))
        _question(tables, item).add(index, row["correct"], row.get("answer"))
    return records


def _verdict(row: Mapping[str, Any]) -> JudgementRecord:
    outcome = str(row.get("outcome") or "").strip().lower()
    if outcome not in OUTCOMES:
        raise RowError(f"its outcome {row.get('outcome')!r} is not one of {', '.join(OUTCOMES)}")
    first, second = (
        value if value in SIDES else _index(value)
        for value in (row.get("first"), row.get("second"))
    )
    if (first in SIDES) != (second in SIDES) or first == second:
        raise RowError(f"it compares {first!r} with {second!r}")
    kind: ItemKind = "pair" if first in SIDES else "question"
    column = next((name for name in ("item", kind) if name in row), "item")
    rewarder, item, family = _label(row, "rewarder"), _label(row, column), _family(row)
    return JudgementRecord(rewarder, kind, item, first, second, outcome=outcome, family=family)


def _family(row: Mapping[str, Any]) -> str:
    return str(row.get("family") or "").strip()


def _label(row: Mapping[str, Any], column: str) -> str:
    value = row.get(column)
    if value is None or isinstance(value, dict | list) or not str(value).strip():
        raise RowError(f"its `{column}` is empty")
    return str(value)


def _list(value: Any, column: str) -> list[Any]:
    if not isinstance(value, list) or not value:
        raise RowError(f"its `{column}` are not a list")
    return value


def _index(value: Any) -> int:
    try:
        index = int(value)
    except (TypeError, ValueError):
        index = -1
    if index < 0 or isinstance(value, bool) or float(value) != index:
        raise RowError(f"its candidate {value!r} is not a whole number from 0")
    return index


_BOOLEANS = {"true": True, "1": True, "1.0": True, "false": False, "0": False, "0.0": False}


def _parse_bool(value: Any) -> bool:
    word = str(value).strip().lower()
    if word not in _BOOLEANS:
        raise RowError(f"its `correct` {value!r} is neither true nor false")
    return _BOOLEANS[word]


def _steps(value: Any) -> tuple[tuple[float, ...], bool]:
    """Return a score or the scores of steps (empty if any is missing), and whether it is a list."""
    value = parsed(value)
    scores = []
    for number in value if isinstance(value, list) else [value]:
        missing = number is None or isinstance(number, bool)
        try:
            scores.append(math.nan if missing else float(number))
        except (TypeError, ValueError):
            raise RowError(f"its score {number!r} is not a number") from None
    complete = bool(scores) and all(map(math.isfinite, scores))
    return (tuple(scores) if complete else ()), isinstance(value, list)
