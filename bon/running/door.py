"""The one door into a run's tables: whatever a model or a user's class gave, a row is sound.

A value that means nothing is never a win and never lost: the row keeps its place, says so in
its outcome and gives the reason in `error`.
"""

import math
from typing import Any, TypeVar, get_args

from bon.core.records import AnswerOutcome, Candidate, Judgement, JudgementOutcome
from bon.core.text import unicode_only
from bon.policies.ask import text_key

MAX_INTEGER = 2**63 - 1
NOT_UNICODE = "characters that are not Unicode were replaced"
"""In `error` of rows whose text was cleaned; their outcome stands."""

_ANSWERS: tuple[AnswerOutcome, ...] = get_args(AnswerOutcome)
_JUDGEMENTS: tuple[JudgementOutcome, ...] = get_args(JudgementOutcome)
RowT = TypeVar("RowT", Candidate, Judgement)
_COMPARED = ("first", "second", "tie")


def sound_candidate(row: Candidate) -> Candidate:
    """A candidate as it can be stored and read."""
    if (
        _sound(row)
        and row.outcome in _ANSWERS
        and (type(row.answer) is str if row.outcome == "parsed" else row.answer is None)
        and (row.answer is None or row.answer.isascii())
        and (row.logprob is None or (type(row.logprob) is float and math.isfinite(row.logprob)))
        and type(row.finish) is str
        and row.finish.isascii()
    ):
        return row
    text, notes = _text(row.text)
    outcome, answer = row.outcome, row.answer
    if outcome not in _ANSWERS:
        notes.append(f"outcome {row.outcome!r} is not one of {', '.join(_ANSWERS)}")
        outcome = "error"
    elif outcome == "parsed" and not isinstance(answer, str):
        notes.append(f"answer {answer!r} is not a letter")
        outcome = "unparsed"
    logprob = None if row.logprob is None else _number(row.logprob)
    if row.logprob is not None and logprob is None:
        notes.append(f"logprob {row.logprob!r} is not a finite number")
    values = {
        "text": text,
        "text_key": row.text_key if text == row.text else text_key(text),
        "answer": unicode_only(str(answer)) if outcome == "parsed" else None,
        "outcome": outcome,
        "logprob": logprob,
        "finish": unicode_only(str(row.finish)),
        **_amounts(row, notes),
        "error": _error(row.error, notes),
    }
    return _changed(row, values)


def sound_judgement(row: Judgement) -> Judgement:
    """A judgement as it can be stored, read and replayed."""
    outcome, score, reason = readable(
        row.outcome, row.score, two=row.second is not None, listed=len(row.shown)
    )
    if not reason and _sound(row) and outcome == row.outcome and _same(score, row.score):
        return row
    text, notes = _text(row.text)
    if reason:
        notes.append(reason)
    values = {
        "text": text,
        "outcome": outcome,
        "score": score,
        **_amounts(row, notes),
        "error": _error(row.error, notes),
    }
    return _changed(row, values)


def readable(
    said: Any, score: Any, *, two: bool, listed: int
) -> tuple[JudgementOutcome, float | None, str]:
    """Outcome and score of a judgement as far as they mean something, and why if they do not.

    `two` responses were compared, or `listed` many, or one was scored. A number that is not
    finite is `unparsed`; what no rewarder may answer is an `error`, which `--retry-errors` asks
    again once its class was mended.
    """
    number = None if score is None else _number(score)
    if said in ("unparsed", "error") or (two and said in _COMPARED):
        return said, number, ""
    if said not in _JUDGEMENTS:
        return "error", None, f"outcome {said!r} is not one of {', '.join(_JUDGEMENTS)}"
    if (said == "chosen") != (listed > 0) or two or said in _COMPARED:
        shown = 2 if two else listed or 1
        return "error", None, f"outcome {said!r} does not fit {shown} shown responses"
    if said == "chosen":
        if number is None or number not in range(listed):
            return "error", None, f"chose {score!r} of {listed} responses"
    elif number is None:
        if score is not None and _is_number(score):
            return "unparsed", None, f"score {score!r} is not finite"
        return "error", None, f"score {score!r} is not a number"
    return said, number, ""


def _sound(row: Candidate | Judgement) -> bool:
    """Whether texts and amounts can be stored as they are, as they nearly always can."""
    return (
        type(row.text) is str
        and (row.text.isascii() or unicode_only(row.text) == row.text)
        and type(row.error) is str
        and row.error.isascii()
        and type(row.num_tokens) is int
        and type(row.num_prompt_tokens) is int
        and type(row.seconds) is float
        and type(row.cost) is float
        and 0 <= row.num_tokens <= MAX_INTEGER
        and 0 <= row.num_prompt_tokens <= MAX_INTEGER
        and 0 <= row.seconds <= MAX_INTEGER
        and 0 <= row.cost <= MAX_INTEGER
    )


def _same(new: Any, old: Any) -> bool:
    return type(new) is type(old) and new == old


def _changed(row: RowT, values: dict[str, Any]) -> RowT:
    """The row with these values; itself where they are its own, as they nearly always are."""
    new = {name: value for name, value in values.items() if not _same(value, getattr(row, name))}
    return row._replace(**new) if new else row


def _amounts(row: Candidate | Judgement, notes: list[str]) -> dict[str, Any]:
    """What was used, as non-negative finite numbers; what is none counts as 0 and is noted."""
    found: dict[str, Any] = {}
    for name in ("num_tokens", "num_prompt_tokens", "seconds", "cost"):
        value = getattr(row, name)
        number = _number(value)
        if number is None or not 0 <= number <= MAX_INTEGER:
            notes.append(f"{name} {value!r} is not an amount")
            number = 0.0
        found[name] = int(number) if name.startswith("num_") else number
    return found


def _is_number(value: Any) -> bool:
    return hasattr(value, "__float__")  # of strings, bytes and complex numbers none has it


def _number(value: Any) -> float | None:
    """A finite float of any kind of number (NumPy's, a tensor of one element), else None."""
    if type(value) is float:
        return value if math.isfinite(value) else None
    if not _is_number(value):
        return None
    try:
        number = float(value)
    except (TypeError, ValueError, ArithmeticError, RuntimeError):
        return None
    return number if math.isfinite(number) else None


def _text(text: Any) -> tuple[str, list[str]]:
    if isinstance(text, bytes):
        text = text.decode("utf-8", "replace")
    said = text if isinstance(text, str) else "" if text is None else str(text)
    clean = unicode_only(said)
    return clean, [] if clean == said else [NOT_UNICODE]


def _error(error: Any, notes: list[str]) -> str:
    said = unicode_only(str(error or ""))
    return "; ".join([said, *notes] if said else notes)
