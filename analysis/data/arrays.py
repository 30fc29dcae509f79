"""Tables as arrays: pools of candidates, and the judgements of each rewarder on them.

Text keys are unique only within a question, so a response is a (question, text) pair. Candidates
of equal text are one response: judged once, always tied.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bon.analysis.data.gold_pairs import as_pairs, chosen_by_gold
from bon.analysis.data.tables import Tables
from bon.choosing.opinion import (
    OUTCOMES,
    Bools,
    Candidates,
    Floats,
    Ints,
    JudgementArrays,
    Kind,
    Opinion,
)
from bon.choosing.opinion import opinion as build_opinion
from bon.core.errors import BonError
from bon.core.keys import content_key
from bon.core.records import RIGHT_FROM, check_rewarder_name

SAMPLED = 128
"""Questions whose content is compared between runs (a bottom-k sketch, Broder 1997)."""

Index: TypeAlias = "pd.Index[Any]"


@dataclass(frozen=True)
class Located:
    """Candidates, and the places of the run's responses among them.

    `places` (all responses of the run): M · question + `text_ids` of the text, or −1.
    """

    policy: str
    candidates: Candidates
    places: Ints


@dataclass(frozen=True)
class Pool:
    """The candidates of one policy: Q questions with M candidates each, arrays (Q, M).

    `rows`: rows of its questions in the table of questions. `indexes`: numbers the policy gave
    the candidates. `located`: the same candidates as rules read them; `everyone` includes those
    left out of the pool, padded with blank keys. `short`: questions left out because they have
    fewer candidates. `correct`: credit from 0 to 1.
    """

    policy: str
    rows: Ints
    frame: pd.DataFrame
    indexes: Ints
    correct: Floats
    unparsed: Bools
    errors: Bools
    length: Floats
    logprob: Floats
    mean_logprob: Floats
    located: Located
    everyone: Located
    first_correct: Floats
    short: int

    @property
    def size(self) -> int:
        """Candidates per question."""
        return int(self.correct.shape[1])

    @property
    def candidates(self) -> Candidates:
        """The candidates as rules read them."""
        return self.located.candidates

    @property
    def right(self) -> Bools:
        """Candidates that count as right where only right and wrong are told apart (Q, M)."""
        return self.correct >= RIGHT_FROM

    @property
    def leaked(self) -> Bools:
        """Questions that are also in the reward benchmark (Q)."""
        return np.asarray(self.frame["leaked"].fillna(False), dtype=bool)

    @property
    def constant(self) -> Bools:
        """Questions whose candidates are all worth the same (Q)."""
        return np.asarray(self.correct.min(axis=1) == self.correct.max(axis=1))

    @property
    def content(self) -> tuple[str, ...]:
        """The SAMPLED questions with the lowest content keys, each with a key of its candidates."""
        lowest = sorted((content_key(q), i) for i, q in enumerate(self.candidates.items))[:SAMPLED]
        keys, correct = self.candidates.keys, self.correct
        return tuple(
            f"{key[:12]}:{content_key(keys[i].tolist(), correct[i].tolist())[:12]}"
            for key, i in lowest
        )


@dataclass(frozen=True)
class Judged:
    """The judgements of one rewarder on one kind of item.

    `policies`: code of the policies that it counts for (`Run.counts`), −1 for all. Rewarders with
    the same comparisons in the same order share all but `outcome` and `score`.
    """

    item: Ints
    first: Ints
    second: Ints
    vote: Ints
    outcome: NDArray[np.int8]
    score: Floats
    policies: Ints

    def take(self, rows: Ints) -> "Judged":
        """Return some of the judgements."""
        columns: tuple[NDArray[Any], ...] = (
            self.item, self.first, self.second, self.vote, self.outcome, self.score, self.policies,
        )  # fmt: skip
        return Judged(*(column[rows] for column in columns))

    def __len__(self) -> int:
        return len(self.item)


@dataclass(frozen=True)
class Run:
    """A run as arrays; `candidates` and `pairs` hold the judgements by rewarder.

    `rows`: rows of the table of judgements by rewarder. `counts`: by policy, whether it is among
    those of a code of `Judged.policies`.
    """

    tables: Tables
    pools: dict[str, Pool]
    candidates: dict[str, Judged]
    pairs: dict[str, Judged]
    rows: dict[str, Ints | slice]
    rewarders: tuple[str, ...]
    counts: dict[str, Bools]

    @property
    def _judging(self) -> dict[str, Any]:
        return dict(self.tables.meta.get("judging", {}))

    def _questions(self, keys: Any) -> Bools:
        return np.asarray(self.tables.questions["question"].isin(keys), dtype=bool)

    @property
    def design(self) -> str:
        """The design of the comparisons; all pairs by default."""
        return str(self._judging.get("design", "all_pairs"))

    @property
    def in_full(self) -> Bools:
        """Questions of the table whose judging did not stop early."""
        if self.design != "race":
            return np.ones(len(self.tables.questions), dtype=bool)
        return self._questions(self._judging["in_full"])

    @property
    def drawn(self) -> Bools | None:
        """Questions of the table drawn at random to be judged; None: all."""
        drawn = self._judging.get("drawn")
        return None if drawn is None else self._questions(drawn)

    @property
    def samples(self) -> tuple[Bools, ...]:
        """Random samples of the questions, the larger first: those judged, those in full."""
        judged = () if self.drawn is None else (self.drawn,)
        return judged + ((self.in_full,) if self.design == "race" else ())

    @property
    def kinds(self) -> dict[str, str]:
        """The kind of card of each rewarder."""
        return dict(zip(self.rewarders, self.tables.rewarders["kind"].astype(str), strict=True))


def read(tables: Tables) -> Run:
    """Return a run as arrays; raise BonError for invalid tables."""
    tables.check()
    _check_unique(tables)
    keys = pd.Index(tables.candidates["text_key"].unique())
    questions = pd.Index(tables.questions["question"])
    question = questions.get_indexer(pd.Index(tables.candidates["question"]))
    if (question < 0).any():
        unknown = tables.candidates["question"].to_numpy()[int(np.argmax(question < 0))]
        raise BonError(
            f"candidates name question {unknown!r}, which table 'questions' lacks",
            "add the question, or leave out its candidates",
        )
    text = keys.get_indexer(pd.Index(tables.candidates["text_key"]))
    joint = question.astype(np.int64) * max(len(keys), 1) + text
    responses, response = np.unique(joint, return_inverse=True)
    letters = pd.Index(sorted(str(a) for a in tables.candidates["answer"].dropna().unique()))
    codes = letters.get_indexer(pd.Index(tables.candidates["answer"].astype(object)))
    frame = tables.candidates.assign(
        _question=question,
        _response=response,
        _code=np.where(tables.candidates["outcome"] == "parsed", codes, -1),
    )
    pools = {
        str(policy): _pool(str(policy), part, tables.questions, len(responses))
        for policy, part in frame.groupby("policy", sort=False, observed=True)
    }
    names = tuple(str(r) for r in tables.rewarders["rewarder"])
    for name in names:
        check_rewarder_name(name)
    by_rewarder = tables.judgements.groupby("rewarder", sort=False, observed=True).indices
    rows = {str(name): np.asarray(index) for name, index in by_rewarder.items()}
    find_response, find_side = _response_finder(keys, responses), _side_finder(tables.pairs)
    pairs = pd.Index(tables.pairs["pair"])
    judgements = _as_categories(tables.judgements)
    named = [str(group).split(",") for group in judgements["policies"].cat.categories]
    judged = _judged(judgements, rows, names, "question", questions, *find_response)
    right = np.zeros(len(responses), dtype=bool)
    right[response] = (frame["correct"] >= RIGHT_FROM) & (frame["outcome"] == "parsed")
    owner = responses // max(len(keys), 1)
    by_gold = [n for n, j in judged.items() if chosen_by_gold(j.first, j.second, right, owner)]
    if by_gold and tables.meta.get("judging", {}).get("design", "all_pairs") == "all_pairs":
        return read(as_pairs(tables, by_gold))
    return Run(
        tables,
        pools,
        judged,
        _judged(judgements, rows, names, "pair", pairs, *find_side),
        {name: _as_slice(index) for name, index in rows.items()},
        names,
        {policy: np.array([*(policy in group for group in named), True]) for policy in pools},
    )


def _check_unique(tables: Tables) -> None:
    for table, columns in {
        "questions": ["question"],
        "candidates": ["policy", "question", "index"],
        "pairs": ["pair"],
        "rewarders": ["rewarder"],
    }.items():
        frame: pd.DataFrame = getattr(tables, table)
        repeated = frame.duplicated(columns)
        if repeated.any():
            row = frame.loc[repeated, columns].iloc[0].tolist()
            raise BonError(
                f"table {table!r} holds {', '.join(map(str, row))} twice", "drop one of the two"
            )
    unknown = set(tables.judgements["outcome"].unique()) - set(OUTCOMES)
    if unknown:
        raise BonError(
            f"table 'judgements' holds the unknown outcome {sorted(unknown)[0]!r}",
            f"use {', '.join(OUTCOMES)}",
        )


def _pool(policy: str, frame: pd.DataFrame, questions: pd.DataFrame, num_responses: int) -> Pool:
    everyone = frame = frame.sort_values(["_question", "index"], kind="stable")
    first = frame.groupby("_question")["correct"].first()
    if "pooled" in frame:  # a greedy first candidate is not exchangeable with sampled ones
        frame = frame[frame["pooled"].astype(bool)]
    count = frame.groupby("_question")["index"].transform("size")
    sizes = frame.groupby("_question").size()
    size = int(sizes.mode().max())
    position = frame.groupby("_question").cumcount()
    frame = frame[(count >= size) & (position < size)]
    rows = frame["_question"].to_numpy()[::size]
    shape = (len(rows), size)

    def grid(column: str) -> Floats:
        return frame[column].to_numpy(dtype=float, na_value=np.nan).reshape(shape)

    outcome = frame["outcome"].to_numpy(dtype=object).reshape(shape)
    tokens = grid("num_tokens")
    logprob = grid("logprob")
    located = _located(policy, frame, num_responses)
    return Pool(
        policy,
        rows.astype(np.int64),
        questions.iloc[rows].reset_index(drop=True),
        grid("index").astype(np.int64),
        grid("correct") * (outcome == "parsed"),
        np.asarray(outcome != "parsed"),
        np.asarray(outcome == "error"),
        grid("length"),
        logprob,
        np.divide(logprob, tokens, out=np.full(shape, np.nan), where=tokens > 0),
        located,
        located if len(everyone) == len(frame) else _located(policy, everyone, num_responses),
        first.loc[rows].to_numpy(dtype=float),
        int((sizes < size).sum()),
    )


def _located(policy: str, frame: pd.DataFrame, num_responses: int) -> Located:
    """Locate candidates sorted by question; short questions are padded."""
    row, items = pd.factorize(frame["question"].astype(str))
    column = frame.groupby("_question").cumcount().to_numpy()
    shape = (len(items), int(column.max(initial=-1)) + 1)

    def grid(values: "pd.Series[Any]", blank: Any, kind: Any) -> NDArray[Any]:
        cells = np.full(shape, blank, dtype=kind)
        cells[row, column] = values.to_numpy()
        return cells

    response = grid(frame["_response"], -1, np.int64)
    first = np.argmax(response[:, :, None] == response[:, None, :], axis=2)
    new = first == np.arange(shape[1])
    text_ids = np.take_along_axis(new.cumsum(axis=1) - 1, first, axis=1)
    places = np.full(num_responses, -1)
    place = np.arange(shape[0])[:, None] * shape[1] + text_ids
    places[response[response >= 0]] = place[response >= 0]
    keys, answers = grid(frame["text_key"], "", object), grid(frame["_code"], -1, np.int64)
    candidates = Candidates(tuple(items), keys, answers, text_ids.astype(np.int64))
    return Located(policy, candidates, places)


Finder = Callable[[Ints, Ints], Ints]


def _response_finder(texts: Index, responses: Ints) -> tuple[Index, Finder]:
    """Return the known texts, and a function from items and texts to responses (−1 unknown)."""

    def find(item: Ints, text: Ints) -> Ints:
        if not len(responses):
            return np.full(len(item), -1)
        joint = item * len(texts) + text
        place = np.minimum(np.searchsorted(responses, joint), len(responses) - 1)
        return np.where((text >= 0) & (item >= 0) & (responses[place] == joint), place, -1)

    return texts, find


def _side_finder(pairs: pd.DataFrame) -> tuple[Index, Finder]:
    """Return the known texts, and a function from pairs and texts to sides (−1 neither)."""
    sides = pairs[["response_0", "response_1"]].to_numpy()
    texts = pd.Index(pd.unique(sides.ravel()))
    codes = texts.get_indexer(pd.Index(sides.ravel())).reshape(sides.shape)

    def find(item: Ints, text: Ints) -> Ints:
        if not len(codes):
            return np.full(len(item), -1)
        own = codes[np.maximum(item, 0)]
        side = np.where(own[:, 0] == text, 0, np.where(own[:, 1] == text, 1, -1))
        return np.where((item >= 0) & (text >= 0), side, -1)

    return texts, find


def _as_categories(judgements: pd.DataFrame) -> pd.DataFrame:
    """Return judgements with names as categories, and with `policies`, missing for all of them."""
    if "policies" not in judgements:
        missing = np.full(len(judgements), -1, dtype=np.int8)
        judgements = judgements.assign(policies=pd.Categorical.from_codes(missing, pd.Index([""])))
    named = ("item", "first", "second", "outcome", "policies")
    return judgements.astype(dict.fromkeys(named, "category"))


def _judged(
    table: pd.DataFrame,
    rows: dict[str, Ints],
    names: tuple[str, ...],
    kind: str,
    items: Index,
    texts: Index,
    find: Finder,
) -> dict[str, Judged]:
    """Return the judgements by rewarder, without those on unknown items or texts."""
    known = {"item": items, "first": texts, "second": texts, "outcome": pd.Index(OUTCOMES)}
    *places, outcome = (
        np.append(index.get_indexer(table[name].cat.categories), -1)
        for name, index in known.items()
    )
    *codes, outcomes, policies = (table[n].cat.codes.to_numpy() for n in (*known, "policies"))
    columns = (*codes, table["vote"].to_numpy(), policies)
    of_kind = np.asarray(table["item_kind"] == kind, dtype=bool)
    scores = table["score"].to_numpy(dtype=float, na_value=np.nan)
    judged: dict[str, Judged] = {}
    previous: list[NDArray[Any]] = []
    for rewarder in names:
        own = rows.get(rewarder, np.array([], dtype=np.int64))
        index = _as_slice(own[of_kind[own]])
        located = [column[index] for column in columns]
        if not previous or not all(map(np.array_equal, located, previous)):
            previous = located
            item, first, second = (p[c] for p, c in zip(places, located[:3], strict=True))
            first, second = find(item, first), find(item, second)
            found = (item >= 0) & (first >= 0) & ((second >= 0) | (located[2] < 0))
            keep = slice(None) if found.all() else found
            item, first, second, vote, counts = (
                column[keep].astype(np.int64) for column in (item, first, second, *located[3:])
            )
        given = outcome[outcomes[index]][keep].astype(np.int8), scores[index][keep]
        judged[rewarder] = Judged(item, first, second, vote, *given, counts)
    return judged


def _as_slice(rows: Ints) -> Ints | slice:
    """Return rows that follow each other as a slice, which copies nothing."""
    together = len(rows) > 0 and bool((np.diff(rows) == 1).all())
    return slice(int(rows[0]), int(rows[-1]) + 1) if together else rows


def is_about(run: Run, located: Located, judged: Judged) -> Bools:
    """Return which judgements are of these candidates alone, and asked for on them."""
    known = np.append(located.places >= 0, True)  # the last for no second response
    counts = run.counts[located.policy][judged.policies]
    return np.asarray(counts & known[judged.first] & known[judged.second])


def opinion(run: Run, located: Located, rewarder: str) -> Opinion | None:
    """Return the opinion of a rewarder on candidates; None if it judged none of them."""
    judged = run.candidates[rewarder]
    if not len(judged):
        return None
    compared = judged.second >= 0
    kind: Kind = "scores"
    if compared.any():
        kind = "preferences"
    elif run.kinds[rewarder] == "listwise" or (judged.outcome == OUTCOMES.index("chosen")).any():
        kind = "choices"
    usable = is_about(run, located, judged)
    size, first = located.candidates.size, located.places[judged.first]
    second = np.full(first.shape, -1)
    if kind == "preferences":
        usable &= compared
        second = located.places[judged.second] % size
    columns: tuple[NDArray[Any], ...] = (
        first // size, first % size, second, judged.outcome, judged.score,
    )  # fmt: skip
    rows: Bools | slice = slice(None) if usable.all() else usable
    arrays = JudgementArrays(*(column[rows] for column in columns))
    built = build_opinion(kind, arrays, located.candidates)
    return built.with_scale() if built.num_judged else None
