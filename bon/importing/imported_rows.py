"""Convert imported responses and score tables to records of a run, with notes for the report."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from bon.benchmarks.base import BadRow
from bon.core.errors import BonError
from bon.core.keys import content_key, text_key
from bon.core.records import GIVEN, Candidate, Judgement, PreferencePair, Question
from bon.experiment.config import IMPORTED
from bon.formats.answers import Answers, Text, labelled, own_answer
from bon.formats.score_tables import (
    SIDES,
    WITHOUT_TEXT,
    JudgementRecord,
    Label,
    PairRecord,
    QuestionRecord,
    ScoreTables,
)
from bon.graders import is_right
from bon.policies.extractors import ExtractorName, extract_for, was_cut
from bon.policies.generate import candidate_key
from bon.rewarders.stepwise import aggregate_steps
from bon.work.imported_cards import Scores

_CELL_LIMIT = 32_767
"""The most characters in a cell of a spreadsheet."""


@dataclass(slots=True)
class ImportedRecords:
    """Imported questions and pairs, and the scores of every rewarder.

    `labels`: question key -> its table rows. `responses`: item key -> label -> text key.
    """

    questions: list[Question] = field(default_factory=list)
    labels: dict[str, QuestionRecord] = field(default_factory=dict)
    pairs: list[PreferencePair] = field(default_factory=list)
    responses: dict[str, dict[Label, str]] = field(default_factory=dict)
    scores: dict[str, Scores] = field(default_factory=dict)
    bad: list[BadRow] = field(default_factory=list)


def records_from_tables(
    tables: ScoreTables,
    benchmark: str,
    answered: Iterable[tuple[Question, Mapping[Label, str]]],
    with_texts: Sequence[PreferencePair | BadRow] = (),
) -> ImportedRecords:
    """Convert tables to records.

    answered: imported questions with the text key of each candidate by its index. with_texts: pairs
    that their benchmark's adapter read; scores call the second one of an id ID#2.

    Raises:
        BonError: no table lists the candidates, or scores match none of them.
    """
    records = ImportedRecords(bad=list(tables.bad))
    items: dict[tuple[str, str], str] = {}
    for question, texts in answered:
        if items.setdefault(("question", question.id), question.key) != question.key:
            raise BonError(
                f"two different questions have the id {question.id!r}",
                "give every question an id of its own",
            )
        records.responses[question.key] = dict(texts)
    for row in () if items else tables.questions.values():
        question = _question(row)
        records.questions.append(question)
        records.labels[question.key] = row
        items["question", row.id] = question.key
        records.responses[question.key] = {i: text_key(_text(i)) for i in row.right}
    repeats: Counter[str] = Counter()
    for with_text in with_texts:
        if isinstance(with_text, BadRow):
            records.bad.append(with_text)
            continue
        records.pairs.append(with_text)
        repeats[with_text.id] += 1
        number = f"#{repeats[with_text.id]}" if repeats[with_text.id] > 1 else ""
        items["pair", with_text.id + number] = with_text.key
        records.responses[with_text.key] = sides_of(with_text)
    for pair in tables.pairs.values() or ([] if with_texts else _unlisted_pairs(tables)):
        record = _pair(pair, benchmark)
        records.pairs.append(record)
        items["pair", pair.id] = record.key
        records.responses[record.key] = sides_of(record)
    attach_scores(records, tables.judgements, items)
    return records


def sides_of(pair: PreferencePair) -> dict[Label, str]:
    """Return the text keys of the chosen and of the rejected response."""
    chosen, rejected = pair.responses[pair.preferred], pair.responses[1 - pair.preferred]
    return {"chosen": text_key(chosen), "rejected": text_key(rejected)}


def attach_scores(
    records: ImportedRecords,
    scores: Sequence[JudgementRecord],
    items: Mapping[tuple[str, str], str],
) -> None:
    """Add scores under the keys of their items; `items`: (kind, label) -> key.

    Raises:
        BonError: no score of questions, or of pairs, matches an item.
    """
    unmatched: Counter[str] = Counter()
    for row in scores:
        item = items.get((row.kind, row.item))
        labels = {None, *records.responses.get(item or "", {})}
        if item is None or not {row.first, row.second} <= labels:
            unmatched[row.kind] += 1
            what = f"candidate {row.first} of it" if item else "it"
            reason = f"is about {row.kind} {row.item!r}, but no table holds {what}"
            records.bad.append(BadRow(f"{row.rewarder} {row.item}", reason))
        else:
            records.scores.setdefault(row.rewarder, []).append((item, row))
    totals: Counter[str] = Counter(row.kind for row in scores)
    for kind, count in unmatched.items():
        if count == totals[kind]:
            raise BonError(
                f"{records.bad[-1].id}: {records.bad[-1].reason}, and the same is true of all "
                f"{count} rows about {kind}s",
                "also give the table of right candidates (id, question, candidates), or a column "
                "`correct` beside the scores",
            )


def candidates(records: ImportedRecords, policy: str, spec: str) -> Iterator[Candidate]:
    """Yield the candidates of questions imported without texts."""
    for question in records.questions:
        row = records.labels[question.key]
        for index, right in sorted(row.right.items()):
            answer = row.answers.get(index) or own_answer(index)
            if right and not question.grader:
                answer = question.answer or ""
            elif not right and answer == question.answer:
                answer = own_answer(index)
            row_of = _candidate(policy, spec, question, index, _text(index), answer, "parsed")
            yield row_of._replace(finish=WITHOUT_TEXT)


def judgements(
    records: ImportedRecords, rewarder: str, spec: str, scores: Scores, aggregate: str
) -> Iterator[Judgement]:
    """Yield the judgements of one rewarder; `text` keeps the score of every step."""
    votes: Counter[tuple[str, Label, Label | None]] = Counter()
    for item, row in scores:
        showing = (item, row.first, row.second)
        vote = votes[showing]
        votes[showing] += 1
        keys = records.responses[item]
        second = None if row.second is None else keys[row.second]
        score = aggregate_steps(aggregate, row.steps) if row.steps else None
        outcome: Any = row.outcome or ("unparsed" if score is None else "scored")
        yield Judgement(
            key=content_key("judgement", spec, item, keys[row.first], second, vote),
            rewarder=rewarder,
            spec=spec,
            item_kind=row.kind,
            item=item,
            first=keys[row.first],
            second=second,
            vote=vote,
            outcome=outcome,
            score=score,
            text=" ".join(map(repr, row.steps)) if row.process else "",
            error="" if row.second is not None or score is not None else "the table has no number",
        )


def _question(row: QuestionRecord) -> Question:
    right = [index for index, right in row.right.items() if right]
    answers = {row.answers.get(index, "") for index in right}
    (answer,) = answers if len(answers) == 1 else ("",)
    known = {} if answer or len(answers) != 1 else labelled(right)
    return Question(
        key=content_key("question", IMPORTED, row.id, row.text, sorted(row.right.items())),
        id=row.id,
        dataset=IMPORTED,
        text=row.text,
        options=(),
        answer=answer or (own_answer(right[0]) if known else "right"),
        subject=row.subject,
        difficulty=row.difficulty,
        meta=known,
    )


def _unlisted_pairs(tables: ScoreTables) -> list[PairRecord]:
    """Return pairs that occur in scores only."""
    names = dict.fromkeys(row.item for row in tables.judgements if row.kind == "pair")
    return [tables.mentioned.get(name, PairRecord(name)) for name in names]


def _pair(row: PairRecord, benchmark: str) -> PreferencePair:
    texts = {_side(row.id, side): side for side in SIDES}
    first, second = sorted(texts, key=lambda text: content_key("place", text))
    return PreferencePair(
        key=content_key("pair", benchmark, row.id, row.prompt),
        id=row.id,
        dataset=benchmark,
        prompt=row.prompt,
        responses=(first, second),
        preferred=0 if texts[first] == "chosen" else 1,
        group=row.group,
        meta={WITHOUT_TEXT: True},
    )


def _text(index: int) -> str:
    return f"(candidate {index}: its text was not imported)"


def _side(pair: str, side: str) -> str:
    return f"({side} response of {pair}: its text was not imported)"


def candidate_of(
    policy: str, spec: str, extractor: ExtractorName, question: Question, text: Text
) -> Candidate:
    """Return one imported text as a candidate, its answer extracted by bon."""
    response = text.text or ""
    cut = was_cut(text.finish, text.num_tokens)
    answer, outcome = extract_for(question, response, extractor, cut=cut)
    row = _candidate(policy, spec, question, text.index, response, answer, outcome)
    row = row._replace(finish=text.finish, num_tokens=text.num_tokens)
    if text.text is not None:
        return row
    return row._replace(outcome="error", error="the file holds no response")


def _candidate(
    policy: str, spec: str, question: Question, index: int, text: str, answer: Any, outcome: Any
) -> Candidate:
    key, shared = candidate_key(spec, question.key, index), text_key(text)
    known = (key, question.key, policy, spec, index, text, shared, answer, outcome)
    return Candidate(*known, seed=0, finish=IMPORTED)


def beyond_options(answers: Answers) -> list[str]:
    """Return the ids of questions whose right letter is no option."""
    rows = (row.question for row in answers.questions)
    return [question.id for question in rows if question.meta.get("answer_not_in_options")]


def notes_of_answers(answers: Answers, extractor: ExtractorName) -> Iterator[str]:
    """Yield notes on truncated cells, greedy repeats and differences from the tool's results."""
    pairs = [(row.question, text) for row in answers.questions for text in row.texts]
    cut = [question.id for question, text in pairs if len(text.text or "") == _CELL_LIMIT]
    if cut:
        yield (
            f"Answers of exactly {_CELL_LIMIT:,} characters: {len(cut)}, the first of question "
            f"{cut[0]}. A spreadsheet cut them off; let the tool write a table (VLMEvalKit: "
            "PRED_FORMAT=tsv)."
        )
    if beyond := beyond_options(answers):
        yield (
            f"{len(beyond)} questions have a right letter that is no option, the first is "
            f"{beyond[0]}: every response to them counts as wrong."
        )
    several = [row for row in answers.questions if len(row.texts) > 1]
    alike = sum(len({text.text for text in row.texts}) == 1 for row in several)
    if several and alike > 0.9 * len(several):
        yield (
            f"The answers to {alike} of {len(several)} questions are the same text again and "
            "again: repeats of a greedy policy are one candidate, not samples."
        )
    read = [
        (question, text, extract_for(question, text.text or "", extractor, cut=cut)[0])
        for question, text in pairs
        for cut in [was_cut(text.finish, text.num_tokens)]
        if text.parsed is not None or text.correct is not None
    ]
    parsed = [row for row in read if row[1].parsed is not None]
    if different := [row for row in parsed if row[1].parsed != row[2]]:
        yield _differently("read", parsed, different, "{1.parsed} there, {2} here")
    scored = [row for row in read if row[1].correct is not None and row[0].grader != GIVEN]
    if different := [row for row in scored if row[1].correct != is_right(row[0], row[2])]:
        there = "right" if different[0][1].correct else "wrong"
        yield _differently("scored", scored, different, f"{there} there")


Read = tuple[Question, Text, str | None]


def _differently(verb: str, rows: list[Read], different: list[Read], how: str) -> str:
    question, text, letter = different[0]
    return (
        f"{len(different)} of {len(rows)} answers were {verb} differently by the tool that sampled "
        f"them, the first of question {question.id}: "
        f"{how.format(question, text, letter or 'none')}."
    )
