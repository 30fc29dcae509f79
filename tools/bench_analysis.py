"""How fast is the analysis? `python -m tools.bench_analysis [--rewarders 100 ...]`.

Two things: a table of 100 rewarders × 1,730 questions × 64 candidates through the whole
analysis (every n, every pointwise rule, 10,000 bootstrap draws, correlations) and its report
with all plots, and the same estimators as plain loops on a small case, with the results compared.
"""

import argparse
import os
import resource
import time
from collections.abc import Callable
from itertools import combinations, pairwise
from math import comb
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bon.analysis.data.arrays import read
from bon.analysis.data.tables import Tables
from bon.analysis.estimators import resampling
from bon.analysis.report import write_report
from bon.analysis.results import Options
from bon.analysis.run import analyse
from bon.choosing import subsets

Floats = NDArray[np.float64]


def main() -> None:
    """Print the two tables."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rewarders", type=int, default=100)
    parser.add_argument("--questions", type=int, default=1730)
    parser.add_argument("--candidates", type=int, default=64)
    parser.add_argument("--pairs", type=int, default=1250)
    parser.add_argument("--draws", type=int, default=10_000)
    a = parser.parse_args()
    small()
    large(a.rewarders, a.questions, a.candidates, a.pairs, a.draws)


def pointwise_tables(r: int, q: int, m: int, p: int, seed: int = 0) -> Tables:
    """Scores of r rewarders on q questions with m candidates and on p pairs, as categories."""
    rng = np.random.default_rng(seed)
    names = [f"rewarder-{i:03d}" for i in range(r)]
    quality = np.linspace(0.0, 2.0, r)
    right = rng.random((q, m)) < rng.beta(1.2, 1.5, (q, 1))
    letters = np.array(list("ABCDEFGHIJ"))
    answer = np.where(right, 0, rng.integers(1, 10, (q, m)))
    questions = pd.DataFrame(
        {
            "question": [f"q{i}" for i in range(q)],
            "id": [f"q{i}" for i in range(q)],
            "dataset": "made up",
            "subject": [f"subject {i % 30}" for i in range(q)],
            "difficulty": [("Easy", "Medium", "Hard")[i % 3] for i in range(q)],
            "num_options": 10,
            "answer": "A",
            "leaked": np.arange(q) % 12 == 0,
        }
    )
    keys = np.array([f"q{i}c{j}" for i in range(q) for j in range(m)])
    candidates = pd.DataFrame(
        {
            "question": np.repeat(questions["question"].to_numpy(), m),
            "policy": "policy",
            "index": np.tile(np.arange(m), q),
            "text_key": keys,
            "answer": letters[answer.ravel()],
            "outcome": "parsed",
            "correct": right.ravel(),
            "length": rng.integers(50, 900, q * m),
            "num_tokens": rng.integers(10, 200, q * m),
            "logprob": -rng.gamma(4, 5, q * m),
        }
    )
    pairs = pd.DataFrame(
        {
            "pair": [f"p{i}" for i in range(p)],
            "id": [f"p{i}" for i in range(p)],
            "benchmark": "made up pairs",
            "group": [("general", "hallucination", "reasoning")[i % 3] for i in range(p)],
            "tag": "",
            "preferred": 0,
            "response_0": [f"p{i}a" for i in range(p)],
            "response_1": [f"p{i}b" for i in range(p)],
            "length_0": rng.integers(50, 900, p),
            "length_1": rng.integers(50, 900, p),
            "leaked": np.arange(p) % 10 == 0,
        }
    )
    texts = np.concatenate([keys, pairs["response_0"], pairs["response_1"]])
    items = np.concatenate([questions["question"], pairs["pair"]])
    item = np.concatenate([np.repeat(np.arange(q), m), np.tile(q + np.arange(p), 2)])
    good = np.concatenate([right.ravel(), np.ones(p), np.zeros(p)])
    size = len(item)
    score = (quality[:, None] * good + rng.normal(size=(r, size))).ravel()

    def category(codes: NDArray[np.integer], values: list[str] | NDArray[np.str_]) -> object:
        return pd.Categorical.from_codes(codes, pd.Index(values))

    judgements = pd.DataFrame(
        {
            "rewarder": category(np.repeat(np.arange(r, dtype=np.int16), size), names),
            "item_kind": category(np.tile((item >= q).astype(np.int8), r), ["question", "pair"]),
            "item": category(np.tile(item.astype(np.int32), r), items),
            "first": category(np.tile(np.arange(size, dtype=np.int32), r), texts),
            "second": category(np.full(r * size, -1, dtype=np.int8), ["-"]),
            "vote": np.zeros(r * size, dtype=np.int8),
            "outcome": category(np.zeros(r * size, dtype=np.int8), ["scored"]),
            "score": score,
            "num_tokens": np.ones(r * size, dtype=np.int32),
            "seconds": np.full(r * size, 0.01, dtype=np.float32),
            "cost": np.zeros(r * size, dtype=np.float32),
        }
    )
    rewarders = pd.DataFrame(
        {
            "rewarder": names,
            "kind": "scalar",
            "family": [f"family {i // 5}" for i in range(r)],
            "size": [1e9 * (1 + i % 7) for i in range(r)],
        }
    )
    return Tables(questions, candidates, pairs, judgements, rewarders, {"name": "bench"})


def large(r: int, q: int, m: int, p: int, draws: int) -> tuple[float, float]:
    """Read, analyse and report a large run; returns seconds and CPU-seconds of all of it."""
    tables = pointwise_tables(r, q, m, p)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"\n{r} rewarders, {q} questions, {m} candidates, {p} pairs, {draws} draws")
    print(f"  {len(tables.judgements):,} judgements, {before:.2f} GB before the analysis")
    stages = [("reading", time.perf_counter(), _processor())]
    run = read(tables)
    stages.append(("analysis", time.perf_counter(), _processor()))
    results = analyse(run, Options(draws=draws))
    stages.append(("report with plots", time.perf_counter(), _processor()))
    with TemporaryDirectory() as folder:
        report = write_report(results, None, Path(folder) / "report.html").stat().st_size
    stages.append(("all of it", time.perf_counter(), _processor()))
    print(f"  {'':18s} {'wall':>9s} {'processor':>10s}")
    for (name, wall, cpu), (_, wall_after, cpu_after) in pairwise(stages):
        print(f"  {name:18s} {wall_after - wall:7.2f} s {cpu_after - cpu:8.2f} s")
    wall, cpu = stages[-1][1] - stages[0][1], stages[-1][2] - stages[0][2]
    print(f"  {'all of it':18s} {wall:7.2f} s {cpu:8.2f} s")
    print(f"  {'report.html':18s} {report / 1e6:7.2f} MB")
    print(f"  {'results.json':18s} {len(results.model_dump_json()) / 1e6:7.2f} MB")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"  {'peak memory':18s} {peak:7.2f} GB")
    return wall, cpu


def _processor() -> float:
    """CPU-seconds of this process and of the copies that it waited for."""
    spent = os.times()
    return spent.user + spent.system + spent.children_user + spent.children_system


# ------------------------------------------------------------------ beside plain loops


def small(q: int = 40, m: int = 8, draws: int = 500) -> None:
    """The same numbers by plain loops: seconds of both, and the largest difference."""
    rng = np.random.default_rng(0)
    scores, right = rng.normal(size=(q, m)).round(1), rng.integers(0, 2, (q, m)).astype(float)
    answers = np.where(right > 0, 0, rng.integers(1, 4, (q, m)))
    weights = np.exp(scores)
    sampled = resampling.draw(q, draws, 0, "bench")
    masks, average = subsets.masks_for(m, tuple(range(1, m + 1)), 1, 0)
    table = subsets.best_of_n(scores, right)
    cases: tuple[tuple[str, Callable[[], Floats], Callable[[], Floats]], ...] = (
        (
            "best score, every n",
            lambda: loop_best(scores, right),
            lambda: subsets.best_of_n(scores, right),
        ),
        ("pass@n", lambda: loop_pass(right), lambda: subsets.pass_at_n(right)),
        (
            "weighted vote, every n",
            lambda: loop_vote(answers, weights, right),
            lambda: subsets.vote_values(answers, weights, right, masks, average),
        ),
        (
            f"{draws} bootstrap draws",
            lambda: loop_draws(table, sampled.counts.T),
            lambda: np.asarray(sampled.means(table), dtype=float),
        ),
    )  # fmt: skip
    print(f"{q} questions, {m} candidates, one rewarder")
    print(f"  {'':26s} {'loops':>9s} {'arrays':>9s} {'ratio':>7s}  largest difference")
    for name, slow, fast in cases:
        start = time.perf_counter()
        expected = slow()
        middle = time.perf_counter()
        found = fast()
        end = time.perf_counter()
        gap = float(np.abs(np.asarray(expected) - np.asarray(found)).max())
        loops, arrays = middle - start, end - middle
        print(f"  {name:26s} {loops:8.3f}s {arrays:8.4f}s {loops / arrays:6.0f}x  {gap:.1e}")
        tolerance = 1e-6 if "bootstrap" in name else 1e-12  # draws are in single precision
        if gap > tolerance:
            raise SystemExit(f"{name}: the loops and the arrays disagree by {gap}")


def loop_best(scores: Floats, right: Floats) -> Floats:
    """Best-of-n over every subset, ties shared."""
    q, m = scores.shape
    result = np.zeros((q, m))
    for row in range(q):
        for n in range(1, m + 1):
            total = 0.0
            for subset in combinations(range(m), n):
                top = max(scores[row, i] for i in subset)
                best = [right[row, i] for i in subset if scores[row, i] == top]
                total += sum(best) / len(best)
            result[row, n - 1] = total / comb(m, n)
    return result


def loop_pass(right: Floats) -> Floats:
    """pass@n from binomials."""
    m = right.shape[1]
    return np.array(
        [[1 - comb(m - int(sum(row)), n) / comb(m, n) for n in range(1, m + 1)] for row in right]
    )


def loop_vote(answers: NDArray[np.integer], weights: Floats, right: Floats) -> Floats:
    """Weighted vote over every subset, ties shared."""
    q, m = weights.shape
    result = np.zeros((q, m))
    for row in range(q):
        worth = dict(zip(answers[row].tolist(), right[row].tolist(), strict=True))
        for n in range(1, m + 1):
            total = 0.0
            for subset in combinations(range(m), n):
                tally: dict[int, float] = {}
                for i in subset:
                    answer = int(answers[row, i])
                    tally[answer] = tally.get(answer, 0.0) + weights[row, i]
                top = max(tally.values())
                leaders = [a for a, t in tally.items() if t >= top * (1 - 1e-9)]
                total += sum(worth[a] for a in leaders) / len(leaders)
            result[row, n - 1] = total / comb(m, n)
    return result


def loop_draws(values: Floats, counts: NDArray[np.float32]) -> Floats:
    """(C, B): means of every draw."""
    result = np.zeros((values.shape[1], len(counts)))
    for b, count in enumerate(counts):
        for c in range(values.shape[1]):
            result[c, b] = sum(
                k * v for k, v in zip(count.tolist(), values[:, c].tolist(), strict=True)
            ) / sum(count.tolist())
    return result


if __name__ == "__main__":
    main()
