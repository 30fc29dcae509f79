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
from bon.curating.draw import by_question, quota_sizes, select, uniform
from bon.curating.pools import PooledText, QuestionPool
from bon.curating.recipe import STRATEGIES, Curation


def pool(name, texts):
    """A pool of (answer, length, policies)s; A is right."""
    made, votes = [], {}
    for at, (answer, length, policies) in enumerate(texts):
        made.append(PooledText(f"{at:03}", "x" * length, answer, answer == "A", tuple(policies)))
        for policy in policies:
            votes.setdefault(policy, Counter())[answer] += 1
    question = Question(name, name, "made", "Which?", tuple("abcdef"), "A")
    return QuestionPool("run", question, tuple(made), votes)


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
quotas = (
    st.lists(st.integers(0, 5), min_size=4, max_size=4)
    .filter(any)
    .map(lambda parts: {name: p / sum(parts) for name, p in zip(STRATEGIES, parts, strict=True)})
)


def recipe(shares, items=12, seed=0, per_question=2):
    return Curation(runs=("r",), quotas=shares, items=items, seed=seed, per_question=per_question)


@given(many_pools, quotas, st.integers(0, 99))
@settings(max_examples=40, deadline=None)
def test_what_is_drawn_has_a_chance_and_belongs_to_its_strategy(pools, shares, seed):
    found = select(pools, recipe(shares, seed=seed))
    assert set(found.probability) == set(found.drawn_by)
    assert all(0 < p <= 1 + 1e-12 for p in found.probability.values())
    for (question, places), strategies in found.drawn_by.items():
        one = pools[question]
        right = [place for place in places if one.texts[place].correct]
        assert list(places) == sorted(set(places))
        assert ("control" in strategies) == (strategies[0] == "control")
        assert (len(right), len(places)) == (1, 2)
        wrong = next(one.texts[place] for place in places if place not in right)
        if "popular-wrong" in strategies:
            votes = [one.votes[p] for p in wrong.policies]
            assert any(v[wrong.answer] == max(v.values()) for v in votes)
        a, b = sorted(len(one.texts[place].text) for place in places)
        assert "near-miss" not in strategies or b - a <= 0.1 * a
    for count in found.counts:
        assert count.drawn <= count.available
    backward = dict(reversed(list(pools.items())))
    again = select(backward, recipe(shares, seed=seed))
    assert (again.drawn_by, again.probability) == (found.drawn_by, found.probability)


@given(
    st.dictionaries(st.text("abc", min_size=1, max_size=3), st.integers(1, 9), max_size=8),
    st.integers(0, 40),
    st.integers(1, 4),
    st.integers(0, 9),
)
def test_chances_add_up_to_what_is_drawn(sizes, wanted, most, seed):
    frames = {name: [(i, i + 1) for i in range(size)] for name, size in sizes.items()}
    for design, limit in (
        (by_question(frames, wanted, most), most),
        (uniform(frames, wanted), 9),
    ):
        drawn = design.draw(seed, "label")
        assert len(drawn) == len(set(drawn)) == design.size
        assert design.size == min(wanted, sum(min(limit, n) for n in sizes.values()))
        expected = sum(len(frames[q]) * p for q, p in design.chance.items())
        assert expected == pytest.approx(design.size)
        assert all(item in frames[q] for q, item in drawn)
    counts = Counter(q for q, _ in by_question(frames, wanted, most).draw(seed, "label"))
    assert all(counts[q] <= most for q in sizes)


def test_every_item_is_drawn_as_often_as_it_says():
    rng = Random(5)
    pools = {}
    for i in range(12):
        rows = [("A", rng.randint(10, 14), "p"), ("B", rng.randint(10, 14), "pq")]
        for _ in range(rng.randint(0, 5)):
            rows.append((rng.choice("ABCD"), rng.randint(8, 30), rng.choice(["p", "q", "pq"])))
        pools[f"q{i}"] = pool(f"q{i}", rows)
    shares = dict.fromkeys(STRATEGIES, 1 / len(STRATEGIES))
    times, stated, seeds = Counter(), {}, 600
    for seed in range(seeds):
        found = select(pools, recipe(shares, 24, seed, 2))
        times.update(found.probability.keys())
        for item, p in found.probability.items():
            assert stated.setdefault(item, p) == p  # it does not hang on the seed
    assert len(stated) > 50
    assert sum(p < 1 for p in stated.values()) > 40
    for item, p in stated.items():
        error = np.sqrt(p * (1 - p) / seeds)
        assert abs(times[item] / seeds - p) <= 4.5 * error + 1e-9, (item, p, times[item] / seeds)
    assert sum(times.values()) / seeds == pytest.approx(24, abs=1)


@given(quotas, st.integers(10, 500))
def test_quotas_are_met_to_a_whole_item(shares, items):
    sizes = quota_sizes(shares, items)
    assert sum(sizes.values()) == items
    assert all(abs(sizes[name] - shares[name] * items) < 1 for name in shares)


# ------------------------------------------------------------------ weighting


def world(questions=80, seed=3):
    """Pools in which some questions have many more pairs, and near misses are hard."""
    rng = Random(seed)
    pools = {}
    for i in range(questions):
        right = rng.randint(1, 7)
        rows = [("A", rng.randint(20, 60), "p") for _ in range(right)]
        rows += [(rng.choice("BBCD"), rng.randint(20, 60), "p") for _ in range(8 - right)]
        pools[f"q{i}"] = pool(f"q{i}", rows)
    return pools


def credit_of(pools, question, places):
    """A simulated rewarder: bad at near misses, and at some questions."""
    one = pools[question]
    a, b = sorted(len(one.texts[at].text) for at in places)
    chance = 0.3 if b - a <= 0.1 * a else 0.8
    chance += Random(question).uniform(-0.2, 0.2)
    return float(Random(f"{question}{places}").random() < chance)


def natural(items, credit):
    """Estimate of the natural accuracy with its interval, as analyses make it."""
    frame = pd.DataFrame({name: [""] * len(items) for name in (*COLUMNS["pairs"], *PAIR_EXTRAS)})
    cluster = pd.factorize(pd.Series([question for (question, _), _ in items]))[0]
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
    every = [
        (key, tuple(sorted((a, b)))) for key, o in pools.items() for a in o.right for b in o.wrong
    ]
    said = {item: credit_of(pools, *item) for item in every}
    truth = np.mean(list(said.values()))
    shares = {"gold": 0.2, "popular-wrong": 0.2, "near-miss": 0.4, "control": 0.2}
    plain, found, totals, covered = [], [], [], 0
    for seed in range(50):
        chosen = select(pools, recipe(shares, 120, seed))
        assert chosen.reachable == len(every)
        items = list(chosen.probability.items())
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
