"""Tables of a made-up run with known truth, in the exact form of bon.analysis.data.tables.

Rewarders have a latent quality that acts on both axes (plus noise of their own), so the
benchmark predicts Best-of-N up to `link`. A third of them compare pairs in both orders, a
third give scores, a third are scalar heads; one family is one base at several sizes.
"""

from typing import Any

import numpy as np
import pandas as pd

from bon.analysis.data.tables import Tables
from bon.analysis.results import Options, Results
from bon.analysis.run import analyse as analyse_tables

SUBJECTS = ("Art", "Biology", "Chemistry", "Finance", "Music", "Physics")
DIFFICULTIES = ("Easy", "Medium", "Hard")
GROUPS = ("general", "hallucination", "reasoning")
TAGS = ("existence", "counting", "attribute", "")


def synthetic_tables(
    num_rewarders: int = 12,
    num_questions: int = 200,
    num_candidates: int = 8,
    num_pairs: int = 300,
    seed: int = 0,
    policies: tuple[str, ...] = ("policy-a",),
    link: float = 0.9,
) -> Tables:
    """A run's tables. `link` in [0, 1]: how far quality on the benchmark is quality of choice."""
    rng = np.random.default_rng(seed)
    kinds = [("pairwise", "pointwise", "scalar")[r % 3] for r in range(num_rewarders)]
    names = [f"rewarder-{r:02d}" for r in range(num_rewarders)]
    quality = np.linspace(-0.2, 2.2, num_rewarders)
    rng.shuffle(quality)
    other = rng.normal(quality.mean(), quality.std(), num_rewarders)
    quality_pairs = link * quality + np.sqrt(1 - link**2) * (other - other.mean())

    questions = pd.DataFrame(
        {
            "question": [f"q{i:05d}" for i in range(num_questions)],
            "id": [f"test_{SUBJECTS[i % 6]}_{i}" for i in range(num_questions)],
            "dataset": "synthetic-mmmu",
            "subject": [SUBJECTS[i % 6] for i in range(num_questions)],
            "difficulty": [DIFFICULTIES[i % 3] for i in range(num_questions)],
            "num_options": 5,
            "answer": rng.choice(list("ABCDE"), num_questions),
            "leaked": rng.random(num_questions) < 0.08,
        }
    )
    pairs = pd.DataFrame(
        {
            "pair": [f"p{i:05d}" for i in range(num_pairs)],
            "id": [f"pair_{i}" for i in range(num_pairs)],
            "benchmark": "synthetic-rewardbench",
            "group": rng.choice(GROUPS, num_pairs, p=(0.2, 0.5, 0.3)),
            "tag": rng.choice(TAGS, num_pairs),
            "preferred": rng.integers(0, 2, num_pairs),
            "response_0": [f"p{i:05d}-0" for i in range(num_pairs)],
            "response_1": [f"p{i:05d}-1" for i in range(num_pairs)],
            "length_0": rng.integers(20, 400, num_pairs),
            "length_1": rng.integers(20, 400, num_pairs),
        }
    )
    pairs[["words_0", "words_1"]] = pairs[["length_0", "length_1"]] // 5
    pairs["leaked"] = (pairs["group"] == "reasoning") & (rng.random(num_pairs) < 0.3)

    candidates, truths = [], {}
    for p, policy in enumerate(policies):
        frame, truth = _candidates(rng, questions, policy, num_candidates, shift=0.3 * p)
        candidates.append(frame)
        truths[policy] = truth

    judgements = []
    for r, (name, kind) in enumerate(zip(names, kinds, strict=True)):
        ask = _compare if kind == "pairwise" else _score
        better = np.where(pairs["preferred"].to_numpy() == 0, 1.0, 0.0)
        values = np.stack([better, 1 - better], 1)
        keys = pairs[["response_0", "response_1"]].to_numpy()
        judgements.append(
            ask(rng, name, "pair", pairs["pair"].to_numpy(), keys, values, quality_pairs[r])
        )
        for policy, frame in zip(policies, candidates, strict=True):
            keys = frame["text_key"].to_numpy().reshape(num_questions, num_candidates)
            keep = truths[policy].any(1) & ~truths[policy].all(1)  # unanimous: not judged
            judgements.append(
                ask(
                    rng,
                    name,
                    "question",
                    questions["question"].to_numpy()[keep],
                    keys[keep],
                    truths[policy][keep].astype(float),
                    quality[r],
                )
            )
    rewarders = pd.DataFrame(
        {
            "rewarder": names,
            "kind": kinds,
            "family": [f"family-{r // 4}" for r in range(num_rewarders)],
            "size": [1e9 * 2 ** (r % 5) for r in range(num_rewarders)],
            "model": ["one checkpoint" if r < 2 else "" for r in range(num_rewarders)],
        }
    )
    meta: dict[str, Any] = {
        "name": "synthetic",
        "handicaps": {names[0]: "sees no image"},
        "true_quality": dict(zip(names, quality.tolist(), strict=True)),
    }
    return Tables(
        questions,
        pd.concat(candidates, ignore_index=True),
        pairs,
        pd.concat(judgements, ignore_index=True),
        rewarders,
        meta,
    ).check()


def _candidates(
    rng: np.random.Generator, questions: pd.DataFrame, policy: str, m: int, shift: float
) -> tuple[pd.DataFrame, np.ndarray]:
    """Candidates of one policy and their correctness (questions × m)."""
    q = len(questions)
    p_right = 1 / (1 + np.exp(-rng.normal(-0.2 + shift, 1.5, (q, 1))))
    right = rng.random((q, m)) < p_right
    truth = questions["answer"].to_numpy()[:, None]
    wrong = rng.choice(list("ABCDE"), (q, m), p=(0.4, 0.3, 0.1, 0.1, 0.1))
    wrong = np.where(wrong == truth, "F", wrong)
    answer = np.where(right, truth, wrong).astype(object)
    unparsed = rng.random((q, m)) < 0.03
    answer[unparsed] = None
    right &= ~unparsed
    frame = pd.DataFrame(
        {
            "question": np.repeat(questions["question"].to_numpy(), m),
            "policy": policy,
            "index": np.tile(np.arange(m), q),
            "text_key": [f"{policy}-{i:05d}-{j}" for i in range(q) for j in range(m)],
            "answer": answer.ravel(),
            "outcome": np.where(unparsed, "unparsed", "parsed").ravel(),
            "correct": right.ravel(),
            "length": rng.integers(50, 900, q * m),
            "num_tokens": rng.integers(10, 200, q * m),
            "logprob": -rng.gamma(4, 5, q * m) + 4 * right.ravel(),
        }
    )
    return frame, right


def _score(
    rng: np.random.Generator,
    name: str,
    kind: str,
    items: np.ndarray,
    keys: np.ndarray,
    values: np.ndarray,
    quality: float,
) -> pd.DataFrame:
    """One score for every response, 1% of them unparsed."""
    score = quality * values + rng.normal(0, 1, values.shape)
    outcome = np.where(rng.random(values.shape) < 0.01, "unparsed", "scored")
    frame = pd.DataFrame({"item": np.repeat(items, keys.shape[1]), "first": keys.ravel()})
    frame["second"] = None
    frame["outcome"] = outcome.ravel()
    frame["score"] = np.where(outcome == "scored", score, np.nan).ravel()
    return _finish(rng, frame, name, kind)


def _compare(
    rng: np.random.Generator,
    name: str,
    kind: str,
    items: np.ndarray,
    keys: np.ndarray,
    values: np.ndarray,
    quality: float,
) -> pd.DataFrame:
    """Every ordered pair of responses; the first shown is favoured a little."""
    m = keys.shape[1]
    a, b = np.nonzero(~np.eye(m, dtype=bool))
    margin = quality * (values[:, a] - values[:, b]) + 0.2
    margin = margin + rng.logistic(0, 0.8, margin.shape)
    outcome = np.where(margin > 0, "first", "second").astype(object)
    outcome[np.abs(margin) < 0.05] = "tie"
    outcome[rng.random(margin.shape) < 0.02] = "unparsed"
    frame = pd.DataFrame(
        {
            "item": np.repeat(items, len(a)),
            "first": keys[:, a].ravel(),
            "second": keys[:, b].ravel(),
            "outcome": outcome.ravel(),
        }
    )
    frame["score"] = np.nan
    return _finish(rng, frame, name, kind)


def _finish(rng: np.random.Generator, frame: pd.DataFrame, name: str, kind: str) -> pd.DataFrame:
    frame["rewarder"] = name
    frame["item_kind"] = kind
    frame["vote"] = 0
    frame["num_tokens"] = rng.integers(5, 80, len(frame))
    frame["seconds"] = rng.gamma(2, 0.01, len(frame))
    frame["cost"] = 0.0001
    return frame


def analyse(tables: Tables | None = None, **options: Any) -> Results:
    """Results of such tables (of the default ones if none are given)."""
    return analyse_tables(tables or synthetic_tables(), Options(**options))
