"""What the question browser shows: one `QuestionView` a question, made from tables and texts.

The report needs nothing else: whoever has a run builds the views with `build_views`, or by
hand for anything that is not a run.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from bon.core.records import Judgement, Question

if TYPE_CHECKING:
    import pandas as pd

    from bon.analysis.data.arrays import Run
    from bon.analysis.data.tables import Tables


@dataclass(frozen=True, slots=True)
class CandidateView:
    """One candidate. `outcome` is parsed, unparsed or error; `correct` only if parsed."""

    policy: str
    index: int
    text: str
    answer: str | None
    outcome: str
    correct: bool


@dataclass(frozen=True, slots=True)
class JudgementView:
    """One raw judgement with its rationale; `first`, `second` are candidate indexes."""

    first: int
    second: int | None
    outcome: str
    score: float | None = None
    text: str = ""


@dataclass(frozen=True, slots=True)
class ChoiceView:
    """What one rewarder made of the candidates of one policy.

    `scores` stand in the order of that policy's candidates: the mean score, the share of
    comparisons won, or how often it was chosen; None where a candidate was not judged. `picked`
    holds candidate indexes: one, several where they are tied, none where nothing was judged.
    """

    rewarder: str
    policy: str
    picked: tuple[int, ...]
    scores: tuple[float | None, ...] = ()
    judgements: tuple[JudgementView, ...] = ()


@dataclass(frozen=True, slots=True)
class QuestionView:
    """A question with everything that was answered, judged and chosen.

    `images` are paths of files that can be read now, or `data:` addresses. Text may hold
    `<image i>`, meaning `images[i - 1]`.
    """

    key: str
    id: str
    text: str
    options: tuple[str, ...]
    answer: str | None
    subject: str = ""
    difficulty: str = ""
    leaked: bool = False
    images: tuple[str, ...] = ()
    candidates: tuple[CandidateView, ...] = ()
    choices: tuple[ChoiceView, ...] = ()


Picks = Mapping[tuple[str, str, str], Sequence[int]]
"""(policy, question key, rewarder) → indexes of the chosen candidates."""


def build_views(
    data: Tables | Run,
    questions: Mapping[str, Question],
    text: Callable[[str], str],
    judgements: Callable[[str], Iterable[Judgement]] | None = None,
    picks: Picks | None = None,
) -> Iterator[QuestionView]:
    """Views of every question of a run's tables (or the arrays read from them), in their order.

    `questions` holds the questions by key (one that is missing is shown by its id alone),
    `text` gives the text of a text key, `judgements` the raw judgements of a question, for
    their rationales. `picks` says what was chosen; without it the best score is taken to be the
    choice.
    """
    from bon.analysis.data.arrays import Run, read

    run = data if isinstance(data, Run) else read(data)
    tables, scores = run.tables, _scores(run)
    answers = _answers(tables.candidates)
    for row in tables.questions.to_dict("records"):
        key = str(row["question"])
        known = questions.get(key)
        pools = answers.get(key, {})
        raw = defaultdict(list)
        for judgement in judgements(key) if judgements else ():
            raw[judgement.rewarder].append(judgement)
        yield QuestionView(
            key=key,
            id=str(row["id"]),
            text=known.text if known else "",
            options=known.options if known else (),
            answer=_letter(row["answer"]),
            subject=_text(row["subject"]),
            difficulty=_text(row["difficulty"]),
            leaked=bool(row["leaked"]),
            images=tuple(i.path for i in known.images) if known else (),
            candidates=tuple(_candidate(a, text) for pool in pools.values() for a in pool),
            choices=tuple(_choices(key, pools, scores, raw, picks)),
        )


class _Answer(NamedTuple):
    """A row of the candidates."""

    policy: str
    place: int
    text_key: str
    answer: str | None
    outcome: str
    correct: bool


def _answers(candidates: pd.DataFrame) -> dict[str, dict[str, list[_Answer]]]:
    """Question → policy → its candidates, in the order of the table."""
    found: dict[str, dict[str, list[_Answer]]] = {}
    names = ("question", "policy", "index", "text_key", "answer", "outcome", "correct")
    columns = [candidates[name].tolist() for name in names]
    for question, policy, index, key, answer, outcome, correct in zip(*columns, strict=True):
        row = (str(policy), int(index), str(key), _letter(answer), str(outcome), bool(correct))
        found.setdefault(str(question), {}).setdefault(row[0], []).append(_Answer(*row))
    return found


def _candidate(a: _Answer, text: Callable[[str], str]) -> CandidateView:
    return CandidateView(
        policy=a.policy,
        index=a.place,
        text=text(a.text_key),
        answer=a.answer,
        outcome=a.outcome,
        correct=a.correct,
    )


Scores = dict[tuple[str, str], dict[str, dict[str, float]]]
"""(policy, question) → rewarder → text key → score."""


def _scores(run: Run) -> Scores:
    """What every rewarder thinks of every candidate text that it judged."""
    from bon.analysis.data.arrays import opinion

    found: Scores = defaultdict(lambda: defaultdict(dict))
    for policy, pool in run.pools.items():
        about = pool.everyone.candidates
        for rewarder in run.rewarders:
            said = opinion(run, pool.everyone, rewarder)
            standing = np.full(about.local.shape, np.nan) if said is None else said.standing()
            for q, at in np.argwhere(np.isfinite(standing)):
                text = str(about.keys[q, at])
                found[policy, about.items[q]][rewarder][text] = float(standing[q, at])
    return found


def _choices(
    key: str,
    pools: Mapping[str, Sequence[_Answer]],
    scores: Scores,
    raw: Mapping[str, Sequence[Judgement]],
    picks: Picks | None,
) -> Iterator[ChoiceView]:
    """What every rewarder chose among the candidates of every policy."""
    for policy, pool in pools.items():
        texts = [a.text_key for a in pool]
        indexes = [a.place for a in pool]
        at: dict[str, int] = {}
        for position, text in enumerate(texts):
            at.setdefault(text, indexes[position])
        for rewarder, by_text in scores.get((policy, key), {}).items():
            values = tuple(by_text.get(t) for t in texts)
            picked = picks.get((policy, key, rewarder)) if picks else None
            if picked is None:
                best = max(v for v in values if v is not None)
                picked = [i for i, v in zip(indexes, values, strict=True) if v == best]
            shown = tuple(
                JudgementView(
                    at[j.first], at.get(j.second or ""), j.outcome, j.score, j.text or j.error
                )
                for j in raw.get(rewarder, ())
                if j.first in at and (j.second is None or j.second in at)
            )
            yield ChoiceView(rewarder, policy, tuple(picked), values, shown)


def _letter(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
