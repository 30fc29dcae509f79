"""Join logs without questions with the questions that they are about.

By id if the log has one, else by row number; answer, options and prompt of the log must match.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from bon.benchmarks.base import BadRow, RowError, parse_options
from bon.benchmarks.rows import RawRow
from bon.core.errors import BonError
from bon.core.records import Question
from bon.core.text import option_letters
from bon.formats.base import Format

OF_RESPONSES = ("response", "parsed", "correct", "finish", "num_tokens")
"""Columns of a log about its responses, not about their question."""
Known = tuple[Path | None, Mapping[str, Any]]
"""A question's row, and the folder that its image paths start from."""


def row_of(question: Question, *, images: bool = True) -> dict[str, Any]:
    """Return the row that a question would be read from."""
    return {
        "id": question.id,
        "question": question.text,
        "options": list(question.options),
        "answer": question.answer,
        "subject": question.subject,
        "topic_difficulty": question.difficulty,
        "images": [Path(i.path).read_bytes() for i in question.images if images],
        **question.meta,
        **({"rubric": question.answer} if question.meta.get("rubric") else {}),
    }


def joined(form: Format, known: Iterable[Known], source: str) -> Format:
    """Return the format with rows that include their question from `source`, in its order."""
    questions = list(known)
    by_id = {
        str(row["id"]): (folder, row) for folder, row in questions if row.get("id") is not None
    }

    def rows(path: Path) -> Iterator[RawRow]:
        for folder, row in form.rows(path):
            yield (folder, row) if isinstance(row, BadRow) else join(path, row)

    def join(path: Path, row: dict[str, Any]) -> RawRow:
        number, label = row.get("row"), row.get("id")
        match: Known = by_id.get(str(label), (None, {}))
        if label is None and isinstance(number, int) and 0 <= number < len(questions):
            match = questions[number]
        folder, question = match
        place = f"{path.name}, row {number}" if number is not None else path.name
        place += f" ({label})" if label is not None else ""
        if not question:
            raise BonError(f"{place} is about no question of {source}", "check --questions")
        _verify(place, row, question, source)
        own = {name: row.get(name) for name in OF_RESPONSES}
        return folder, {**question, **own}

    return replace(form, rows=rows, bare=False)


def _verify(place: str, row: Mapping[str, Any], question: Mapping[str, Any], source: str) -> None:
    """Refuse mismatches: the join would assign answers to other questions."""
    fix = "give the dataset and revision that were evaluated as --questions"

    def refuse(what: str, value: object, other: object) -> BonError:
        return BonError(f"{place}: {what} {value!r}, in {source} {other!r}", fix)

    if row.get("answer") is not None and row["answer"] != question.get("answer"):
        raise refuse("the right answer is", row["answer"], question.get("answer"))
    try:
        options = parse_options(question["options"]) if question.get("options") else ()
    except RowError as error:
        raise BonError(f"{source}, {question.get('id')}: {error}", fix) from None
    if row.get("options") is not None and _stripped(row["options"]) != _stripped(options):
        raise refuse("the options are", row["options"], list(options))
    prompt = str(row.get("prompt") or "")
    asked = _letters_of(str(question.get("question") or ""))
    if prompt and asked not in _letters_of(prompt):
        raise refuse("the prompt is", prompt[:80], str(question.get("question"))[:80])
    lettered = re.search(r"^A\. ", prompt, re.M)
    letters = option_letters(options) if prompt and options else ""
    for letter, option in zip(letters, options, strict=False):
        shown = f"{letter}. {option.strip()}" if lettered else option.strip()
        if shown not in prompt:
            raise BonError(f"{place}: the prompt has no option {shown!r} of {source}", fix)


def _letters_of(text: str) -> str:
    """Return letters and digits alone: harnesses change images, blanks and punctuation."""
    return re.sub(r"<[^<>]{1,30}>|[\W_]", "", text).casefold()


def _stripped(options: Iterable[str]) -> list[str]:
    return [option.strip() for option in options]
