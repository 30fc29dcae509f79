"""Views of the question browser, built from tables and texts by `build_views`, or by hand."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from bon.core.records import Question

if TYPE_CHECKING:
    import pandas as pd

    from bon.analysis.data.arrays import Run
    from bon.analysis.data.tables import Tables


@dataclass(frozen=True, slots=True)
class CandidateView:
    """One candidate; `outcome`: parsed, unparsed or error; `correct`: credit, 0 unless parsed."""

    policy: str
    index: int
    text: str
    answer: str | None
    outcome: str
    correct: float


Judged = tuple[int, int | None, str, float | None, str]
"""A judgement: indexes of the candidates shown first and second, outcome, score, rationale."""


@dataclass(frozen=True, slots=True)
class ChoiceView:
    """The choice of one rewarder among the candidates of one policy.

    `picked`: candidate indexes, several if tied, none if nothing was judged. `scores`, in the order
    of the candidates: mean score, share of comparisons won or times chosen; None not judged.
    """

    rewarder: str
    policy: str
    picked: tuple[int, ...]
    scores: tuple[float | None, ...] = ()
    judgements: tuple[Judged, ...] = ()


@dataclass(frozen=True, slots=True)
class QuestionView:
    """A question with its candidates, judgements and choices.

    `images`: paths of readable files, or `data:` addresses; `<image i>` in the text refers to
    `images[i - 1]`.
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
    rationales: Callable[[str], Mapping[str, str]] = lambda _question: {},
    picks: Picks | None = None,
) -> Iterator[QuestionView]:
    """Yield a view of every question of a run's tables (or arrays), in their order.

    `questions`: by key; one that is missing is shown by its id alone. `text`: the text of a text
    key. `rationales`: of a question's judgements, by their key in the table's index. `picks`: the
    choices; by default the best score.
    """
    from bon.analysis.data.arrays import Run, read

    run = data if isinstance(data, Run) else read(data)
    pools, scores = _pools(run.tables.candidates, text), _scores(run)
    judgements = _judgements(run.tables.judgements)
    for row in run.tables.questions.to_dict("records"):
        key = str(row["question"])
        question = questions.get(key)
        judged = judgements.get(key, [])
        own = pools.get(key, {})
        yield QuestionView(
            key=key,
            id=str(row["id"]),
            text=question.text if question else "",
            options=question.options if question else (),
            answer=_text(row["answer"]) or None,
            subject=_text(row["subject"]),
            difficulty=_text(row["difficulty"]),
            leaked=bool(row["leaked"]),
            images=tuple(i.path for i in question.images) if question else (),
            candidates=tuple(view for pool in own.values() for _, view in pool),
            choices=tuple(_choices(key, own, scores, judged, rationales(key), picks)),
        )


Pools = dict[str, list[tuple[str, CandidateView]]]
"""policy → text key and view of its candidates, in the order of the table."""


def _pools(candidates: pd.DataFrame, text: Callable[[str], str]) -> dict[str, Pools]:
    """Candidates by question."""
    pools: dict[str, Pools] = defaultdict(lambda: defaultdict(list))
    for row in candidates.to_dict("records"):
        view = CandidateView(
            row["policy"], int(row["index"]), text(row["text_key"]), _text(row["answer"]) or None,
            row["outcome"], float(row["correct"]),
        )  # fmt: skip
        pools[row["question"]][row["policy"]].append((row["text_key"], view))
    return pools


def _judgements(table: pd.DataFrame) -> dict[str, list[tuple[Any, ...]]]:
    """Judgements of candidates by question: key, rewarder, first, second, outcome, score, policies.

    The last are those that it counts for, separated by commas; none: all.
    """
    names = ("item", "rewarder", "first", "second", "outcome")
    table = table[table["item_kind"] == "question"]
    columns = [table[name].to_numpy(dtype=object) for name in names]
    columns.append(table["score"].to_numpy(dtype=float, na_value=np.nan).astype(object))
    policies = table.get("policies")
    columns.append(np.full(len(table), "") if policies is None else policies.to_numpy(dtype=object))
    by_question: dict[str, list[tuple[Any, ...]]] = defaultdict(list)
    for key, item, *row in zip(table.index, *columns, strict=True):
        by_question[item].append((key, *row))
    return by_question


Scores = dict[tuple[str, str], dict[str, dict[str, float]]]
"""(policy, question) → rewarder → text key → score."""


def _scores(run: Run) -> Scores:
    """The score of every judged candidate text, by rewarder."""
    from bon.analysis.data.arrays import opinion

    scores: Scores = defaultdict(lambda: defaultdict(dict))
    for policy, pool in run.pools.items():
        candidates = pool.everyone.candidates
        for rewarder in run.rewarders:
            rated = opinion(run, pool.everyone, rewarder)
            if rated is None:
                continue
            values = rated.candidate_scores()
            for q, i in np.argwhere(np.isfinite(values)):
                text_key = str(candidates.keys[q, i])
                scores[policy, candidates.items[q]][rewarder][text_key] = float(values[q, i])
    return scores


def _choices(
    key: str,
    pools: Pools,
    scores: Scores,
    judgements: list[tuple[Any, ...]],
    rationales: Mapping[str, str],
    picks: Picks | None,
) -> Iterator[ChoiceView]:
    """Yield what every rewarder chose among the candidates of every policy."""
    for policy, pool in pools.items():
        indexes = [view.index for _, view in pool]
        index_of = {text: view.index for text, view in reversed(pool)}  # the first copy
        shown: dict[str, list[Judged]] = defaultdict(list)
        for number, rewarder, first, second, outcome, score, policies in judgements:
            counts = not _text(policies) or policy in policies.split(",")
            if counts and first in index_of and (_text(second) or first) in index_of:
                sides, known = (index_of[first], index_of.get(_text(second))), np.isfinite(score)
                judged = *sides, outcome, score if known else None, rationales.get(number, "")
                shown[rewarder].append(judged)
        for rewarder, by_text in scores.get((policy, key), {}).items():
            values = tuple(by_text.get(text) for text, _ in pool)
            picked = picks.get((policy, key, rewarder)) if picks else None
            if picked is None:
                best = max(v for v in values if v is not None)
                picked = [i for i, v in zip(indexes, values, strict=True) if v == best]
            yield ChoiceView(rewarder, policy, tuple(picked), values, tuple(shown[rewarder]))


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
