"""Validation of rows before they are stored.

An invalid value never counts as a win and never removes a row: the row gets the outcome `error` or
`unparsed`, and `error` says why.
"""

import math
from operator import attrgetter
from typing import Any, TypeVar, get_args

from bon.core.keys import text_key
from bon.core.records import AnswerOutcome, Candidate, Judgement, JudgementOutcome
from bon.core.text import unicode_only

MAX_INTEGER = 2**63 - 1
NOT_UNICODE = "characters that are not Unicode were replaced"
"""In `error` of rows whose text was cleaned; their outcome stands."""

_ANSWERS: tuple[AnswerOutcome, ...] = get_args(AnswerOutcome)
_JUDGEMENTS: tuple[JudgementOutcome, ...] = get_args(JudgementOutcome)
_PAIRWISE = ("first", "second", "tie")
_AMOUNTS = ("num_tokens", "num_prompt_tokens", "seconds", "cost")
_KINDS = (int, int, float, float)
_amounts_of = attrgetter(*_AMOUNTS)
RowT = TypeVar("RowT", Candidate, Judgement)


def validate_candidate(row: Candidate) -> Candidate:
    """Return the candidate with valid fields."""
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
    answer = unicode_only(str(answer)) if outcome == "parsed" else None
    finish = unicode_only(str(row.finish))
    # A new row takes longer than all checks, and few need one.
    same = text is row.text and answer is row.answer and finish is row.finish
    if same and outcome is row.outcome and logprob is row.logprob and _is_sound(row, notes):
        return row
    key = row.text_key if text == row.text else text_key(text)
    new = {"answer": answer, "outcome": outcome, "logprob": logprob, "finish": finish}
    return _update(row, notes, text=text, text_key=key, **new)


def validate_judgement(row: Judgement) -> Judgement:
    """Return the judgement with valid fields."""
    text, notes = _text(row.text)
    outcome, score, reason = validate_outcome(
        row.outcome, row.score, pairwise=row.second is not None, n_listed=len(row.shown)
    )
    if reason:
        notes.append(reason)
    same = text is row.text and outcome is row.outcome and score is row.score
    if same and _is_sound(row, notes):
        return row
    return _update(row, notes, text=text, outcome=outcome, score=score)


def validate_outcome(
    outcome: Any, score: Any, *, pairwise: bool, n_listed: int
) -> tuple[JudgementOutcome, float | None, str]:
    """Return the valid (outcome, score) of a judgement and the reason if they differ.

    Two responses were compared (`pairwise`), or `n_listed` ranked, or one scored. A non-finite
    score becomes `unparsed`; a value that no rewarder may return becomes `error`, which
    `--retry-errors` judges again.
    """
    number = None if score is None else _number(score)
    if outcome in ("unparsed", "error") or (pairwise and outcome in _PAIRWISE):
        return outcome, number, ""
    if outcome not in _JUDGEMENTS:
        return "error", None, f"outcome {outcome!r} is not one of {', '.join(_JUDGEMENTS)}"
    if (outcome == "chosen") != (n_listed > 0) or pairwise or outcome in _PAIRWISE:
        n_shown = 2 if pairwise else n_listed or 1
        return "error", None, f"outcome {outcome!r} does not fit {n_shown} shown responses"
    if outcome == "chosen":
        if number is None or number not in range(n_listed):
            return "error", None, f"chose {score!r} of {n_listed} responses"
    elif number is None:
        if hasattr(score, "__float__"):
            return "unparsed", None, f"score {score!r} is not finite"
        return "error", None, f"score {score!r} is not a number"
    return outcome, number, ""


def _is_sound(row: Candidate | Judgement, notes: list[str]) -> bool:
    """Whether there is nothing to note, and the amounts are numbers of their kind."""
    amounts = _amounts_of(row)
    sound = not notes and row.error == "" and (*map(type, amounts),) == _KINDS
    # A sum with what is not finite is not below the limit.
    return sound and min(amounts) >= 0 and bool(sum(amounts) <= MAX_INTEGER)


def _update(row: RowT, notes: list[str], **values: Any) -> RowT:
    """Replace fields, also amounts that are no non-negative finite numbers."""
    for name in _AMOUNTS:
        number = _number(getattr(row, name))
        if number is None or not 0 <= number <= MAX_INTEGER:
            notes.append(f"{name} {getattr(row, name)!r} is not an amount")
            number = 0.0
        values[name] = int(number) if name.startswith("num_") else number
    values["error"] = "; ".join(filter(None, [unicode_only(str(row.error or "")), *notes]))
    return row._replace(**values)


def _number(value: Any) -> float | None:
    """Convert any finite number (NumPy's, a tensor of one element) to float; None otherwise."""
    if not hasattr(value, "__float__"):  # strings, bytes and complex numbers
        return None
    try:
        number = float(value)
    except (TypeError, ValueError, ArithmeticError, RuntimeError):
        return None
    return number if math.isfinite(number) else None


def _text(value: Any) -> tuple[str, list[str]]:
    if isinstance(value, bytes):
        value = value.decode("utf-8", "replace")
    text = value if isinstance(value, str) else "" if value is None else str(value)
    clean = unicode_only(text)
    return clean, [] if clean == text else [NOT_UNICODE]
