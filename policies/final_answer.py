"""The final answer of a reply to a question without options.

Statements are the forms that hold a letter elsewhere (bon.policies.answer_extraction):
<answer>…</answer>, \\boxed{…}, {"answer": "…"}, "Answer: …" and "the answer is …". The last one
counts. Without any, a reply of one short line is its answer. Reasoning does not count, nor does a
negated or hypothetical statement.
"""

import re

from bon.policies.answer_extraction import (
    BOX,
    DOUBT,
    FIELD,
    TAG,
    after_thinking,
    balanced,
    words_before,
)

SEARCHED = 8000
"""Last characters of a reply that are searched, which bounds the time."""

MAX_ANSWER = 500
MAX_BARE = 100
MAX_MARKS = 50

_MARK = re.compile(
    r"\banswer(?:\s+to\s+(?:the|this)\s+question)?\s*(?P<colon>[:：=])"
    r"|\banswer\s+(?:is|was|should\s+be|must\s+be|would\s+be)\b\s*:?"
    r"|(?:答案|正解|答え|回答|정답)\s*(?:[:：]|[是为は은는])",
    re.IGNORECASE,
)
_FIELD_NUMBER = re.compile(r'"(?:final_)?answer"\s*:\s*(-?[\d.]+(?:[eE][+-]?\d+)?)\s*[,}]')
_TEXT = re.compile(r"\\(?:text|textbf|mathrm|mathbf)\s*\{([^{}]*)\}")
_REASON = re.compile(r"\s+because\b|,\s*(?:because|since|as|due|which|given|for)\b", re.IGNORECASE)
_NEXT_SENTENCE = re.compile(r"(?<![A-Z])\.\s+(?=[A-Z])")  # not after an initial


def final_answer(text: str) -> str | None:
    """Return the final answer of a reply, at most MAX_ANSWER characters long, or None."""
    whole = after_thinking(text).strip()
    text = whole[-SEARCHED:].replace("**", "").replace("`", "").replace("’", "'")
    statements = [(tag.end(), tag[3] if tag[2] is None else tag[2]) for tag in TAG.finditer(text)]
    statements += [(field.end(), field[3]) for field in FIELD.finditer(text)]
    statements += [(field.end(), field[1]) for field in _FIELD_NUMBER.finditer(text)]
    boxes = list(BOX.finditer(text))
    if boxes:
        inside = balanced(text, boxes[-1].end())
        statements.append((boxes[-1].end() + len(inside), inside))
    marks = list(_MARK.finditer(text))
    for mark in reversed(marks[-MAX_MARKS:]):
        colon = mark["colon"] is not None
        rest = text[mark.end() : mark.end() + 2 * MAX_ANSWER].lstrip().split("\n", 1)[0]
        doubted = DOUBT.search(words_before(text, mark.start(), 1 if colon else 30))
        if not doubted and not DOUBT.match(rest) and not BOX.search(rest):
            statements.append((mark.end(), rest if colon else _claim(rest)))
            break
    if statements:
        return _clean(max(statements)[1])
    bare = "answer" not in whole.lower() and "\n" not in whole and len(whole) <= MAX_BARE
    return _clean(whole) if bare else None


def _claim(rest: str) -> str:
    """Return what a sentence says before it ends or gives a reason."""
    rest = _NEXT_SENTENCE.split(rest, maxsplit=1)[0]
    reason = _REASON.search(rest)
    return rest[: reason.start()] if reason else rest


def _clean(answer: str) -> str | None:
    answer = _TEXT.sub(r"\1", answer.strip()).strip(" \t\n\"'“”*").strip()
    for start, end in (("$", "$"), (r"\(", r"\)"), (r"\[", r"\]")):
        answer = answer.removesuffix(".").strip()
        if answer.startswith(start) and answer.endswith(end):
            answer = answer[len(start) :].removesuffix(end).strip()
    return answer if answer and len(answer) <= MAX_ANSWER else None
