"""What readers make of labelled replies: `python -m tests.conformance` prints the table.

A case is a line in a YAML file of this folder: add one, with what a careful person reads.
"""

from collections import Counter

import pytest

from tests.conformance.readers import READERS, cases, graded, outcome, table

UNREAD = {"letters": 93, "sentences": 22, "boxes": 0, "judgements": 142}
"""At most so many replies that say something are unread by the strict reader of their kind."""


@pytest.mark.parametrize("kind", UNREAD)
def test_the_strict_reader_is_never_wrong_in_silence(kind: str) -> None:
    reader, read = next(iter(READERS[kind].items()))
    assert reader.startswith("bon")
    rows = [(case, read(case.case)) for case in cases() if case.kind == kind]
    wrong = [(c.about, c.case, found) for c, found in rows if outcome(found, c.says) == "wrong"]
    silent = [(c.about, c.case) for c, found in rows if outcome(found, c.says) == "silent"]
    assert (wrong, silent) == ([], [])
    assert sum(outcome(found, c.says) == "unread" for c, found in rows) <= UNREAD[kind]


def test_graders_give_what_answers_are_worth() -> None:
    rows = [case.case for case in cases() if case.kind == "grading"]
    assert [row for row in rows if graded(row) is False] == []


def test_the_suite_is_large_and_every_case_is_one() -> None:
    kinds = Counter(case.about for case in cases())
    assert kinds.total() >= 1500
    assert kinds["letters_real.yaml"] >= 300
    seen = Counter(repr(case) for case in cases())
    assert seen.most_common(1)[0][1] == 1


def test_published_readers_read_what_nobody_said() -> None:
    """What the strict readers are for."""
    counts = table()
    assert counts["judgements", "published (last match)"]["silent"] > 500
    assert counts["letters", "MMMU-Pro (bon official)"]["silent"] > 50
