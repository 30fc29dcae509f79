"""Every sentence of ten different studies says what its numbers say, and known traps come out."""

import re
from dataclasses import replace
from functools import cache

import numpy as np
import pandas as pd
import pytest
from synthetic import analyse, synthetic_tables

from bon.analysis.correlation.axes import clusters_of
from bon.analysis.finding.first_page import first_page
from bon.analysis.finding.verdict import WORDS, answer, strength
from bon.analysis.published import correlate_table
from bon.analysis.results import PROBABLY, SURE, YES, Options
from bon.analysis.results.phrasing import bounded, chance
from bon.analysis.verdict.verdict import Axes, judge

FAST = {"draws": 100, "permutations": 100}


def tables(seed=0, rewarders=12, **more):
    made = synthetic_tables(
        num_rewarders=rewarders,
        num_questions=80,
        num_pairs=120,
        num_candidates=4,
        seed=seed,
        **more,
    )
    made.rewarders["family"] = [f"base-{i}" for i in range(rewarders)]
    return made


def reversed_pairs():
    made = tables()
    made.pairs["preferred"] = 1 - made.pairs["preferred"]
    return made


def leaked():
    made = tables()
    made.questions["leaked"] = made.pairs["leaked"] = True
    return made


def noise():
    """Rewarders that score at random."""
    made = tables()
    rng = np.random.default_rng(0)
    flip = made.judgements["outcome"].isin(["first", "second"])
    made.judgements["score"] = rng.random(len(made.judgements))
    made.judgements.loc[flip, "outcome"] = rng.choice(["first", "second"], int(flip.sum()))
    return made


def imported():
    made = tables(seed=3)
    made.meta["imported"] = made.rewarders["rewarder"].tolist()
    return made


def table(n=14, r=0.9, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=n)
    y = r * x + np.sqrt(1 - r * r) * rng.normal(size=n)
    names, bases = [f"model {i}" for i in range(n)], [f"base-{i}" for i in range(n)]
    columns = {"rewarder": names, "macro": 60 + 8 * x, "best_of_n": 50 + 5 * y, "family": bases}
    return pd.DataFrame(columns)


RUNS = {
    "strong": lambda: tables(link=1.0),
    "weak": lambda: tables(link=0.3),
    "tiny": lambda: tables(rewarders=4),
    "noise": noise,
    "reverse": reversed_pairs,
    "one rewarder": lambda: tables(rewarders=1),
    "two policies": lambda: tables(policies=("b", "a")),
    "leaked": leaked,
    "imported": imported,
}
STUDIES = (*RUNS, "table")


@cache
def study(name):
    """The finding, the verdict if there is one, and the results of a run."""
    if name == "table":
        report = correlate_table(table(), Options(**FAST))
        return report.finding, next(iter(report.verdicts), None), None
    results = analyse(RUNS[name](), **FAST)
    return results.finding, next(iter(results.verdicts), None), results


@pytest.mark.parametrize("name", STUDIES)
def test_the_word_is_that_of_its_probability(name):
    finding, v, _ = study(name)
    assert finding.verdict in WORDS
    if v is None:
        assert finding.verdict == "cannot tell"
        return
    assert finding.verdict == v.word
    assert finding.p_yes == v.p_yes
    assert finding.sentence.startswith(f"{answer(v)}: ")
    held = [w for w in (v.weakest, v.weakest_maker) if w is not None]
    if v.word == "yes":
        assert v.p_yes >= YES
        assert all(w.p_yes >= PROBABLY for w in held)
    elif v.word == "probably":
        assert v.p_yes >= PROBABLY
    else:
        assert v.p_yes < PROBABLY
    if v.word in ("no", "weak", "reverse"):
        assert v.p_low >= SURE
        assert min(v.reliability_x, v.reliability_y) >= 0.5
    assert (v.word == "weak") <= (v.p_positive >= SURE)
    assert (v.word == "reverse") <= (1 - v.p_positive >= SURE)


@pytest.mark.parametrize("name", STUDIES)
def test_every_number_of_the_sentence_is_the_verdicts(name):
    finding, v, _ = study(name)
    if v is None:
        assert not re.search(r"\br = ", finding.sentence)
        return
    assert f"r = {bounded(v.r)} " in finding.sentence
    parts = re.search(r"one line (.*), separate groups (.*), a ceiling (.*?)\)", finding.sentence)
    assert parts.groups() == (chance(v.line), chance(v.groups), chance(v.ceiling))
    assert v.line + v.groups + v.ceiling == pytest.approx(1)
    assert f"picks better in {chance(v.beats)}" in finding.sentence
    assert ("after measurement noise" in finding.sentence) == (v.reliability_x is not None)
    assert f"over {v.num_rewarders} rewarders" in finding.sentence
    assert sum(v.density) == pytest.approx(1)
    above = sum(p for i, p in enumerate(v.density) if -0.99 + 0.03 * i > 0)
    assert v.p_positive == pytest.approx(above, abs=0.03)


@pytest.mark.parametrize("name", STUDIES)
def test_support_and_caveats_do_not_contradict_it(name):
    finding, v, results = study(name)
    for text in (*finding.support, *finding.caveats):
        assert "nan" not in text.lower()
        if fall := re.search(r"yes falls from (.*) to (.*): no single", text):
            before, after = (float(re.sub(r"\D", "", part)) for part in fall.groups())
            assert after < 100 * PROBABLY <= before
        if within := re.search(r"measured r is between (\S+) and (\S+)\.", text):
            low, high = (float(part.replace("−", "-")) for part in within.groups())
            assert low <= high
        if lowest := re.search(r"a yes is lowest for (.*): (.*)\.", text):
            least = min(v.policies, key=lambda p: p.p_yes)
            assert lowest.groups() == (least.policy, chance(least.p_yes))
        if counted := re.search(
            r"(\d+) of (\d+) rewarders? beat majority vote, (\d+) cannot", text
        ):
            above, every, unclear = map(int, counted.groups())
            below = re.search(r"and (\d+) (is|are) worse", text)
            assert above + unclear + (int(below[1]) if below else 0) == every
        assert not ("never give a no" in text and finding.verdict in ("no", "weak", "reverse"))
    if results is not None:
        assert (
            finding.would_change
            == tuple(n.sentence for n in results.needed if n.benchmark == finding.benchmark)
            or v is None
        )


@pytest.mark.parametrize("name", RUNS)
def test_the_first_page_says_the_same(name):
    _, v, results = study(name)
    page = first_page(results)
    if v is None:
        assert page.answer in ("", "Cannot tell")
        return
    assert page.answer == answer(v)
    assert page.strength == f"{strength(v)}."
    plan = results.needed[0]
    if v.word == "yes":
        assert page.to_trust == "Nothing more for models like these."
    elif plan.best:
        best = max(row.probably for row in plan.rows[1:])
        assert best > plan.rows[0].probably
        assert f"{100 * best:.0f}% of studies instead of" in page.to_trust


def test_the_words_are_those_of_the_studies():
    found = {name: study(name)[0].verdict for name in STUDIES}
    assert found["strong"] in ("yes", "probably")
    assert found["table"] in ("yes", "probably")
    assert found["reverse"] in ("no", "reverse", "cannot tell")
    for name in ("tiny", "one rewarder", "leaked", "noise"):
        assert found[name] == "cannot tell", name
    assert found["weak"] not in ("yes", "probably")


# ------------------------------------------------------------------ known traps


def test_the_order_of_the_policies_changes_nothing():
    made = tables(policies=("a", "b"))
    one = analyse(made, **FAST)
    swapped = made.candidates.sort_values("policy", ascending=False, kind="stable")
    other = analyse(replace(made, candidates=swapped.reset_index(drop=True)), **FAST)
    assert [p.policy for p in one.policies] == [p.policy for p in other.policies][::-1]
    assert one.finding.sentence == other.finding.sentence
    assert one.finding.p_yes == pytest.approx(other.finding.p_yes)
    assert first_page(one).strength == first_page(other).strength
    assert first_page(one).to_trust == first_page(other).to_trust


@pytest.mark.parametrize(("spread", "r"), [(0.0, 1.0), (0.02, 1.0), (0.02, 0.9)])
@pytest.mark.parametrize("n", [14, 30])
def test_a_study_that_could_show_nothing_never_says_no(n, spread, r):
    """Rewarders that are identical or close, on 60 pairs and 60 questions."""
    words = []
    for seed in range(25):
        rng = np.random.default_rng([seed, n])
        a = rng.normal(size=n)
        b = r * a + np.sqrt(1 - r * r) * rng.normal(size=n)
        on_x, on_y = (rng.random((60, n)) < 0.6 + spread * v for v in (a, b))
        errors = [np.cov(on.T) / 60 for on in (on_x, on_y)]
        v = judge(Axes(tuple(map(str, range(n))), on_x.mean(axis=0), on_y.mean(axis=0), *errors))
        words.append(v.word)
    assert not {"no", "weak", "reverse"} & set(words)


def test_a_table_without_counts_never_says_no():
    for seed in range(10):
        assert correlate_table(table(30, 0.0, seed), Options(**FAST)).finding.verdict not in (
            "no", "weak", "reverse",
        )  # fmt: skip


def test_a_guessed_base_model_decides_nothing():
    """Read as shared or as different, the lower probability counts, and the other is named."""
    frame = table(7, 0.95, 1)
    frame["rewarder"] = ["GPT-4o", "GPT-4o-mini", *(f"own {i}" for i in range(5))]
    own = frame.assign(family=[f"b{i}" for i in range(7)])
    shared = frame.assign(family=["gpt-4o", "gpt-4o", *(f"b{i}" for i in range(2, 7))])
    guessed = frame.assign(family=["", "", *(f"b{i}" for i in range(2, 7))])
    p_own, p_shared, found = (correlate_table(f, Options(**FAST)) for f in (own, shared, guessed))
    both = sorted([p_own.finding.p_yes, p_shared.finding.p_yes])
    assert found.finding.p_yes == pytest.approx(both[0])
    assert found.verdicts[0].guessed == pytest.approx(both[1])
    assert any("Base models are guessed from names" in c for c in found.finding.caveats)


def repeated(rows, column, copy):
    """Rows of a question, once for each question that copies it."""
    return rows.merge(copy, left_on=column, right_on="of").assign(**{column: lambda f: f["to"]})[
        list(rows)
    ]


def test_clusters_of_questions_widen_the_best_of_n_axis():
    made = tables()
    plain = analyse(made, **FAST)
    made.questions["cluster"] = [f"c{i % 20}" for i in range(80)]
    # Questions of a cluster are alike: they repeat candidates and judgements of the first.
    copies = [pd.DataFrame({"of": f"q{i % 20:05d}", "to": [f"q{i:05d}"]}) for i in range(80)]
    copy = pd.concat(copies, ignore_index=True)
    candidates = repeated(made.candidates, "question", copy)
    asked = made.judgements["item_kind"] == "question"
    on_questions = repeated(made.judgements[asked], "item", copy)
    judgements = pd.concat([made.judgements[~asked], on_questions], ignore_index=True)
    made = replace(made, candidates=candidates, judgements=judgements)
    alike = analyse(made, **FAST)
    own = made.questions.drop(columns="cluster")
    apart = analyse(replace(made, questions=own), **FAST)
    assert len(np.unique(clusters_of(own))) == 80

    def widths(results):
        return [b.accuracy.high - b.accuracy.low for b in results.best_of_n]

    assert np.mean(widths(alike)) > 1.3 * np.mean(widths(apart))
    assert widths(plain) != widths(alike)
    assert alike.verdicts[0].reliability_y < apart.verdicts[0].reliability_y


def test_no_maker_and_equal_size_are_read_from_a_table():
    rng = np.random.default_rng(4)
    size = np.linspace(9, 11, 20)
    frame = table(20).assign(
        macro=60 + 8 * (size - 10 + 0.2 * rng.normal(size=20)),
        best_of_n=50 + 5 * (size - 10 + 0.2 * rng.normal(size=20)),
        size=10**size,
        maker=["lab"] * 8 + [f"m{i}" for i in range(12)],
    )
    found = correlate_table(frame, Options(**FAST))
    v = found.verdicts[0]
    assert v.weakest_maker.left_out == "lab"
    assert v.adjusted.covariates == ("size",)
    assert v.adjusted.p_yes < PROBABLY <= v.p_yes
    assert any(c.startswith("At equal size, r = ") for c in found.finding.caveats)
