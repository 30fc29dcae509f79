"""Convert imported answers to candidates, with notes for the report."""

from collections.abc import Iterator

from bon.core.records import Candidate, Question
from bon.formats.answers import Answers, Text
from bon.policies.extractors import ExtractorName, extract_answer
from bon.policies.generate import candidate_key, text_key

_CELL_LIMIT = 32_767
"""The most characters in a cell of a spreadsheet."""


def candidate_of(
    policy: str, spec: str, reader: ExtractorName, question: Question, text: Text
) -> Candidate:
    """Return one imported text as a candidate, its answer extracted by bon."""
    response = text.text or ""
    answer, outcome = extract_answer(response, question.options, reader)
    return Candidate(
        key=candidate_key(spec, question.key, text.index),
        question=question.key,
        policy=policy,
        spec=spec,
        index=text.index,
        text=response,
        text_key=text_key(response),
        answer=answer,
        outcome="error" if text.text is None else outcome,
        seed=0,
        finish="imported",
        error="the file holds no response" if text.text is None else "",
    )


def notes_of_answers(answers: Answers, reader: ExtractorName) -> Iterator[str]:
    """Yield notes on truncated cells, greedy repeats and differences from the tool's results."""
    cut = [
        row.question.id
        for row in answers.questions
        for text in row.texts
        if len(text.text or "") == _CELL_LIMIT
    ]
    if cut:
        yield (
            f"Answers of exactly {_CELL_LIMIT:,} characters: {len(cut)}, the first of question "
            f"{cut[0]}. A spreadsheet cut them off; let the tool write a table (VLMEvalKit: "
            "PRED_FORMAT=tsv)."
        )
    several = [row for row in answers.questions if len(row.texts) > 1]
    alike = sum(len({text.text for text in row.texts}) == 1 for row in several)
    if several and alike > 0.9 * len(several):
        yield (
            f"The answers to {alike} of {len(several)} questions are the same text again and "
            "again: repeats of a greedy policy are one candidate, not samples."
        )
    rows = [
        (row.question, text, extract_answer(text.text or "", row.question.options, reader)[0])
        for row in answers.questions
        for text in row.texts
        if text.parsed is not None or text.correct is not None
    ]
    parsed = [row for row in rows if row[1].parsed is not None]
    if different := [(q, t, letter) for q, t, letter in parsed if t.parsed != letter]:
        question, text, letter = different[0]
        yield (
            f"{len(different)} of {len(parsed)} answers were read differently by the tool that "
            f"sampled them, the first of question {question.id}: {text.parsed} there, "
            f"{letter or 'none'} here."
        )
    scored = [row for row in rows if row[1].correct is not None]
    if different := [(q, t, a) for q, t, a in scored if t.correct != (a == q.answer)]:
        question, text, _ = different[0]
        yield (
            f"{len(different)} of {len(scored)} answers were scored differently by the tool that "
            f"sampled them, the first of question {question.id}: "
            f"{'right' if text.correct else 'wrong'} there."
        )
