"""Every item is drawn as often as it says, and weights lead back to what all pairs would show."""

from collections import Counter
from random import Random

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bon.analysis.data.tables import COLUMNS, PAIR_EXTRAS
from bon.analysis.estimators.pair_sets import PairSet, Worth, axes
from bon.analysis.estimators.resampling import draw_clusters, from_draws
from bon.core.records import Question
from bon.curating.draw import Pair, select
from bon.curating.pools import PooledText, QuestionPool
from bon.curating.recipe import Curation


def pool(name, texts):
    """A pool of (answer, length, policies)s; A is right."""
    made, votes = [], {}
    for at, (answer, length, policies) in enumerate(texts):
        made.append(PooledText(f"{at:03}", "x" * length, answer, answer == "A", tuple(policies)))
        for policy in policies:
            votes.setdefault(policy, Counter())[answer] += 1
    question = Question(name, name, "made", "Which?", tuple("abcdef"), "A")
    return QuestionPool(question, tuple(made), votes)


texts = st.lists(
    st.tuples(
        st.sampled_from("AABCD"),
        st.integers(1, 40),
        st.sets(st.sampled_from("pq"), min_size=1).map(sorted),
    ),
    min_size=2,
    max_size=8,
).filter(lambda rows: {"A"} < {row[0] for row in rows})
many_pools = st.lists(texts, min_size=1, max_size=6).map(
    lambda rows: {f"q{i}": pool(f"q{i}", each) for i, each in enumerate(rows)}
)


def recipe(items=12, seed=0, **more):
    return Curation(runs=("r",), items=items, seed=seed, **more)


@given(many_pools, st.floats(0.05, 0.95), st.integers(0, 99), st.sampled_from([None, 0.1]))
@settings(max_examples=60)
def test_what_is_drawn_belongs_to_its_strategy(pools, share, seed, gap):
    asked = recipe(seed=seed, popular_wrong=share, max_length_gap=gap)
    found = select(pools, asked)
    for pair, (strategy, p) in found.pairs.items():
        one = pools[pair.question]
        right, wrong = one.texts[pair.right], one.texts[pair.wrong]
        assert 0 < p <= 1 + 1e-12
        assert right.correct
        assert not wrong.correct
        votes = [one.votes[policy] for policy in wrong.policies]
        popular = any(v[wrong.answer] == max(v.values()) for v in votes)
        assert popular == (strategy == "popular-wrong")
        a, b = sorted(len(text.text) for text in (right, wrong))
        assert gap is None or b - a <= gap * a
    per_question = Counter((pair.question, name) for pair, (name, _) in found.pairs.items())
    assert max(per_question.values(), default=0) <= asked.per_question
    backward = dict(reversed(list(pools.items())))
    assert select(backward, asked) == found


@given(many_pools, st.floats(0.05, 0.95))
@settings(max_examples=40)
def test_what_one_strategy_lacks_the_other_provides(pools, share):
    found = select(pools, recipe(10, popular_wrong=share))
    everything = select(pools, recipe(10_000, popular_wrong=share))
    assert len(found.pairs) == min(10, len(everything.pairs))


def test_every_item_is_drawn_as_often_as_it_says():
    rng = Random(5)
    pools = {}
    for i in range(12):
        rows = [("A", rng.randint(10, 14), "p"), ("B", rng.randint(10, 14), "pq")]
        for _ in range(rng.randint(0, 5)):
            rows.append((rng.choice("ABCD"), rng.randint(8, 30), rng.choice(["p", "q", "pq"])))
        pools[f"q{i}"] = pool(f"q{i}", rows)
    every = sum(len(one.right) * len(one.wrong) for one in pools.values())
    times, stated, seeds = Counter(), {}, 600
    for seed in range(seeds):
        found = select(pools, recipe(20, seed))
        assert len(found.pairs) == 20
        times.update(list(found.pairs))
        for pair, (_, p) in found.pairs.items():
            assert stated.setdefault(pair, p) == pytest.approx(p)  # it does not hang on the seed
    assert len(stated) == every, "every pair may be drawn"
    assert sum(p < 1 for p in stated.values()) > 40
    assert sum(stated.values()) == pytest.approx(20)
    for pair, p in stated.items():
        error = np.sqrt(p * (1 - p) / seeds)
        assert abs(times[pair] / seeds - p) <= 4.5 * error + 1e-9, (pair, p, times[pair] / seeds)


# ------------------------------------------------------------------ weighting


def world(questions=80, seed=3):
    """Pools in which some questions have many more pairs."""
    rng = Random(seed)
    pools = {}
    for i in range(questions):
        right = rng.randint(1, 7)
        rows = [("A", rng.randint(20, 60), "p") for _ in range(right)]
        rows += [(rng.choice("BBCD"), rng.randint(20, 60), "p") for _ in range(8 - right)]
        pools[f"q{i}"] = pool(f"q{i}", rows)
    return pools


def credit_of(pools, pair):
    """A simulated rewarder: bad at popular wrong answers, and at some questions."""
    one = pools[pair.question]
    answer = one.texts[pair.wrong].answer
    chance = 0.3 if one.votes["p"][answer] == max(one.votes["p"].values()) else 0.8
    chance += Random(pair.question).uniform(-0.2, 0.2)
    return float(Random(f"{pair}").random() < chance)


def natural(items, credit):
    """Estimate of the natural accuracy with its interval, as analyses make it."""
    frame = pd.DataFrame({name: [""] * len(items) for name in (*COLUMNS["pairs"], *PAIR_EXTRAS)})
    cluster = pd.factorize(pd.Series([pair.question for pair, _ in items]))[0]
    strata = np.zeros(len(items), dtype=np.int64)
    pairs = PairSet(
        "made", frame, np.arange(len(items)), strata, strata, ("",),
        draw_clusters(cluster, strata, 500, 1, "made"), cluster,
        weight=np.array([1 / p for _, p in items]),
    )  # fmt: skip
    credit = np.array(credit)[:, None]
    found = axes(pairs, Worth(credit, np.ones_like(credit)))["natural"]
    return from_draws(found.values, found.draws, len(items), "pairs", 0.95, units=found.units)[0]


def test_weights_lead_back_to_the_natural_accuracy():
    pools = world()
    every = [Pair(key, a, b) for key, one in pools.items() for a in one.right for b in one.wrong]
    said = {pair: credit_of(pools, pair) for pair in every}
    truth = np.mean(list(said.values()))
    plain, found, totals, covered = [], [], [], 0
    for seed in range(50):
        chosen = select(pools, recipe(120, seed, popular_wrong=0.6))
        items = [(pair, p) for pair, (_, p) in chosen.pairs.items()]
        credit = [said[item] for item, _ in items]
        estimate = natural(items, credit)
        plain.append(np.mean(credit))
        found.append(estimate.value)
        totals.append(sum(1 / p for _, p in items))
        covered += estimate.low <= truth <= estimate.high
    error = np.std(found) / 50**0.5
    assert abs(np.mean(plain) - truth) > 5 * error  # unweighted, the benchmark is harder
    assert abs(np.mean(found) - truth) < 3 * error
    assert np.mean(totals) == pytest.approx(len(every), abs=3 * np.std(totals) / 50**0.5)
    assert covered >= 43
