"""What a run holds as far as counting needs it: a page of items at a time, and no texts."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from bon.core.records import AnswerOutcome
from bon.rewarders.judge import Showing
from bon.running.store import Store

PAGE = 256


class QuestionRow(NamedTuple):
    """A question of today, and its gold."""

    key: str
    answer: str | None


class AnswerRow(NamedTuple):
    """A candidate without its text."""

    question: str
    place: int
    text_key: str
    answer: str | None
    outcome: AnswerOutcome


def asked(store: Store) -> Iterator[list[QuestionRow]]:
    """Today's questions in order."""
    after = 0
    while rows := store.query(
        "SELECT active, key, json_extract(data, '$.answer') FROM questions "
        "WHERE active > ? ORDER BY active LIMIT ?",
        (after, PAGE),
    ):
        after = rows[-1][0]
        yield [QuestionRow(key, answer) for _, key, answer in rows]


def answered(store: Store, spec: str, n: int, page: Sequence[str]) -> dict[str, list[AnswerRow]]:
    """Of each of these questions the first n candidates under a policy's spec, by index."""
    found: dict[str, list[AnswerRow]] = {question: [] for question in page}
    for row in store.query(
        'SELECT question, "index", text_key, answer, outcome FROM candidates '
        f'WHERE spec = ? AND question IN ({_marks(page)}) AND "index" < ?',
        (spec, *page, n),
    ):
        found[row[0]].append(AnswerRow._make(row))
    for rows in found.values():
        rows.sort()  # by place, and no two have the same
    return found


def shown(store: Store, spec: str, page: Sequence[str]) -> dict[str, set[Showing]]:
    """What was shown to a rewarder of each of these items."""
    found: dict[str, set[Showing]] = {item: set() for item in page}
    for item, first, second, vote in store.query(
        "SELECT item, first, second, vote FROM judgements "
        f"WHERE spec = ? AND item IN ({_marks(page)})",
        (spec, *page),
    ):
        found[item].add((first, second, vote))
    return found


def _marks(values: Sequence[str]) -> str:
    return ", ".join("?" * len(values))
