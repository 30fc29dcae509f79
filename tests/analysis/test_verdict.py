# ruff: noqa: E501, as each rule is one pattern
"""Every sentence of ten different studies says what its numbers say, and known traps come out."""

import re
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from synthetic import analyse, synthetic_tables

from bon.analysis.correlation.axes import clusters_of
from bon.analysis.decision.recommend import over_majority
from bon.analysis.finding.first_page import advise, first_page
from bon.analysis.finding.verdict import CLAIMS, WORDS, answer, strength
from bon.analysis.published import CLAIMS as OF_TABLES
from bon.analysis.published import correlate_table
from bon.analysis.report.leaderboard import board
from bon.analysis.results import HELD, PROBABLY, SURE, YES, Options
from bon.analysis.results.phrasing import (
    bounded,
    chance,
    coefficient,
    percent,
    points,
)
from bon.analysis.verdict.verdict import FEWEST, Axes, judge

EXAMPLE = Path(__file__).parents[2] / "examples" / "published" / "vl_rewardbench.csv"
FAST = {"draws": 100}


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
def report_of_table():
    return correlate_table(table(), Options(**FAST))


@cache
def study(name):
    """The finding, the verdict if there is one, and the results of a run."""
    if name == "table":
        report = report_of_table()
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
    holds_without_any(v)
    if v.word in ("no", "weak", "reverse"):
        assert v.p_low >= SURE
        assert min(v.reliability_x, v.reliability_y) >= 0.5
    assert (v.word == "weak") <= (v.p_positive >= SURE)
    assert (v.word == "reverse") <= (1 - v.p_positive >= SURE)
    assert v.line + v.groups + v.ceiling == pytest.approx(1)
    assert sum(v.density) == pytest.approx(1)
    above = sum(p for i, p in enumerate(v.density) if -0.99 + 0.03 * i > 0)
    assert v.p_positive == pytest.approx(above, abs=0.03)


def holds_without_any(v):
    held = min([w.p_yes for w in (v.weakest, v.weakest_maker) if w is not None], default=1)
    if v.word == "yes":
        assert v.p_yes >= YES
        assert held >= HELD["yes"]
    elif v.word == "probably":
        assert v.p_yes >= PROBABLY
        assert v.p_yes < YES or held < HELD["yes"]
        assert held >= HELD["probably"]
    else:
        assert v.p_yes < PROBABLY or held < HELD["probably"]


# ------------------------------------------------------------------ every sentence has its rule


def all_sentences(part, owner=None):
    """Every sentence in a record, with the record that holds it."""
    if isinstance(part, str):
        if part.endswith("."):
            yield owner, part
    elif isinstance(part, dict):
        for value in part.values():
            yield from all_sentences(value, owner)
    elif isinstance(part, tuple | list):
        for value in part:
            yield from all_sentences(value, owner)
    elif fields := getattr(type(part), "model_fields", getattr(part, "__dataclass_fields__", None)):
        for name in fields:
            yield from all_sentences(getattr(part, name), part)


def rule(pattern):
    """Register the rule of a kind of sentence: its named numbers are those of the results."""

    def register(check):
        RULES[check.__name__] = re.compile(pattern), check
        return check

    return register


RULES = {}
WHERE = r"(?:(?P<policy>[\w-]+): )?"


def policy_row(s, match, leaks=None):
    """The primary correlation that a sentence is about, or its other one with or without leaks."""
    rows = [c for c in s.rows if c.primary and match["policy"] in (None, c.policy)]
    if leaks is None:
        return rows[0]
    return next(c for c in s.rows if c.leaks == leaks and (c.policy, c.axis, c.benchmark) == (
        rows[0].policy, rows[0].axis, rows[0].benchmark))  # fmt: skip


@rule(r"(Yes|Probably|Perhaps|No|Cannot tell)(, \w+)? \([^()]*\): .*")
def verdict(s, match, owner):
    text, v = match[0], s.verdict
    table = s.results is None  # which names the columns of its pair
    claims = (
        {"yes": "{x} predicts {y}", "probably": "{x} predicts {y}", **OF_TABLES}
        if table
        else CLAIMS
    )
    for part in re.split(r"\{\w+\}", claims[v.word]):
        assert part in text
    claimed = text.partition(" (r = ")[0]
    assert (" predicts " in claimed.partition("whether")[0]) == (
        v.word in ("yes", "probably", "weak")
    )
    denies = any(part in text for part in ("not predict", "hardly predicts", "pick worse"))
    assert denies == (v.word in ("no", "weak", "reverse"))
    parts = re.search(r"one line (.*), separate groups (.*), a ceiling (.*?)\)", text)
    assert parts.groups() == (chance(v.line), chance(v.groups), chance(v.ceiling))
    assert strength(v) in text
    assert "as measured" not in text, "the r of the verdict is not the measured one"


@rule(r"r = .* (after measurement noise|with unknown noise) over .*; of two .*")
def strength_of(s, match, owner):
    text, v = match[0], s.verdict
    assert f"r = {bounded(v.r)} " in text
    assert f"picks better in {chance(v.beats)}" in text
    assert ("after measurement noise" in text) == (v.reliability_x is not None)
    assert f"over {v.num_rewarders} rewarders" in text
    assert (v.beats > 0.5) == (v.r.value > 0) or 0.49 < v.beats < 0.51


@rule(r"Cannot tell: (?P<reason>.*)")
def no_verdict(s, match, owner):
    assert s.verdict is None


@rule(r"(No correlation: this needs several|At least (?P<n>\d+) rewarders judged on both would) .*")
def no_correlation(s, match, owner):
    assert s.verdict is None
    assert match["n"] in (None, str(FEWEST))


@rule(r"(?P<n>\d+) rewarders judged on both axes; a verdict takes at least (?P<least>\d+)\.")
def too_few(s, match, owner):
    assert int(match["n"]) < int(match["least"]) == FEWEST


@rule(WHERE + r"As measured, r is (?P<r>.*), Spearman's (?P<s>.*)\.")
def as_measured(s, match, owner):
    c = policy_row(s, match)
    found = [bounded(x.estimate) for x in (c.pearson, c.spearman)]
    assert [match["r"], match["s"]] == found


@rule(r"(?P<x>.*) of the variance .* and (?P<y>.*) of that of their choices is true, .*")
def reliability(s, match, owner):
    v = s.verdict
    assert [match["x"], match["y"]] == [chance(v.reliability_x), chance(v.reliability_y)]


@rule(r"At equal .*, r = (?P<r>.*) \(yes: (?P<p>.*)\)\.")
def equal_size(s, match, owner):
    assert [match["r"], match["p"]] == [
        bounded(s.verdict.adjusted.r),
        chance(s.verdict.adjusted.p_yes),
    ]


@rule(r"The probability of a yes is lowest for (?P<name>.*): (?P<p>.*)\.")
def lowest_policy(s, match, owner):
    least = min(s.verdict.policies, key=lambda p: p.p_yes)
    assert (match["name"], match["p"]) == (least.policy, chance(least.p_yes))


@rule(r"Without (?P<name>.*), the .* falls from (?P<p>\S+%) to (?P<q>[^:]*?)(?P<end>: no .*)?\.")
def carried(s, match, owner):
    v = s.verdict
    left = next(w for w in (v.weakest, v.weakest_maker) if w and w.left_out == match["name"])
    assert [match["p"], match["q"]] == [chance(v.p_yes), chance(left.p_yes)]
    assert left.p_yes < PROBABLY <= v.p_yes
    assert v.word != "yes"
    if match["end"]:
        assert v.word != match["end"].rpartition(" ")[2].lower()


@rule(WHERE + r"With(?P<out>out)? leaked questions and pairs, r is (?P<r>.*)\.")
def other_leaks(s, match, owner):
    c = policy_row(s, match, "out" if match["out"] else "in")
    assert match["r"] == bounded(c.pearson.estimate)
    assert not c.primary


@rule(
    WHERE + r"(?P<above>\d+) of (?P<all>\d+) rewarders? beat majority vote, (?P<unclear>\d+) "
    r"(is|are) indistinguishable from it and (?P<below>none|\d+) (is|are) worse.*"
)
def against_the_vote(s, match, owner):
    counts = [match[part] for part in ("above", "unclear", "below")]
    numbers = [0 if c == "none" else int(c) for c in counts]
    rows = [
        b
        for b in s.results.best_of_n
        if b.headline and b.rule != "baseline" and b.policy == (match["policy"] or b.policy)
    ]
    words = [b.verdict_versus_majority for b in rows]
    assert numbers == [words.count(w) for w in ("above", "unclear", "below")]
    assert sum(numbers) == int(match["all"])


@rule(WHERE + r"Accuracy (of .* )?falls as n grows( under (?P<names>.*))?\.")
def over_optimised(s, match, owner):
    names = {b.rewarder for b in s.results.best_of_n if b.over_optimised and b.headline}
    assert set(re.split(", | and ", match["names"] or "")) <= names | {""}


@rule(r"The number of items behind each cell .*: without them noise could hide any correlation\.")
def counts_would_help(s, match, owner):
    assert s.verdict.p_low is None


@rule(r"The counts behind these accuracies are not known.*never give a no, unless r is below 0\.")
def without_counts(s, match, owner):
    assert s.verdict.p_low is None
    assert s.verdict.word not in ("no", "weak")


@rule(
    r"A new study of .* would say Yes in (?P<y>.*?)%, at least Probably in (?P<p>.*?)% and No in "
    r"(?P<n>.*?)%, averaged[^;]*(; (?P<best>.*) would say Yes in (?P<by>.*?)%, at least Probably in "
    r"(?P<bp>.*?)% and No in (?P<bn>.*?)%)?\."
)
def needed(s, match, owner):
    plan = next(n for n in s.results.needed if n.sentence == match[0])
    row = plan.rows[0]
    assert [int(match[x]) for x in "ypn"] == [
        round(100 * x) for x in (row.yes, row.probably, row.no)
    ]
    assert row.yes <= row.probably
    assert row.probably + row.no <= 1
    assert (match["best"] or "") == plan.best
    if plan.best:
        better = max(plan.rows[1:], key=lambda r: r.probably + r.no)
        assert [int(match[x]) for x in ("by", "bp", "bn")] == [
            round(100 * x) for x in (better.yes, better.probably, better.no)
        ]
        assert better.probably + better.no > row.probably + row.no
    else:
        assert all(r.probably + r.no <= row.probably + row.no for r in plan.rows)


@rule(
    r"(?P<best>.*): (?P<p>\d+)% of such studies say Probably or Yes, (?P<n>\d+)% No "
    r"\(like this one: (?P<own>\d+)%, (?P<none>\d+)%\)\."
)
def to_trust(s, match, owner):
    p, n, own, none = (int(match[x]) for x in ("p", "n", "own", "none"))
    assert p + n > own + none
    assert s.verdict.word in ("probably", "perhaps", "cannot tell")
    assert match["best"] == s.results.needed[0].best


@rule(r"(Nothing more for models like these|No larger study of such rewarders would say more)\.")
def nothing_to_do(s, match, owner):
    decided = s.verdict.word in ("yes", "no", "weak", "reverse")
    assert match[1].startswith("Nothing") == decided
    assert match[1].startswith("Nothing") or not s.results.needed[0].best


@rule(
    r".* against Best-of-N on (?P<policy>\S+?)(?P<out> without leaked questions)?: "
    r"r = (?P<r>.*) over (?P<n>\d+) rewarders.*"
)
def correlation(s, match, owner):
    assert match["policy"] == owner.policy
    assert bool(match["out"]) == (owner.leaks == "out")
    assert [match["r"], match["n"]] == [bounded(owner.pearson.estimate), str(owner.num_rewarders)]


@rule(r"r is (?P<a>\S+) at n = (?P<n>\d+)( and (?P<b>\S+) at n = (?P<m>\d+))?\.")
def by_n(s, match, owner):
    at = {str(p.n): coefficient(p.pearson.value) for p in owner.points}
    assert at[match["n"]] == match["a"]
    assert match["b"] is None or at[match["m"]] == match["b"]


@rule(r".* is right on (?P<a>\d+)% \[\d+, (?P<high>\d+)\] of the pairs of .*, less than chance: .*")
def reversed_scores(s, match, owner):
    assert int(match["a"]) <= int(match["high"]) <= 50


@rule(r"Take (?P<name>\S+): (?P<gain>\S+ points) \[\S+, \S+\] over majority vote\.")
def choice(s, match, owner):
    assert match["name"] == s.advice.pick == owner.pick
    assert match["gain"] == points(over_majority(s.results)[owner.pick].value)
    assert s.advice.over_free.low > 0


@rule(r"Take (?P<name>\S+): it gains (?P<gain>\+\S+) points \[\+.*\] over .*")
def recommended(s, match, owner):
    assert match["name"] == owner.pick
    assert f"{match['gain']} points" == points(owner.over_free.value)


@rule(
    r"Nothing beats .* here: (?P<y>\S+)% right.*at no cost\.|Nothing is shown to beat .*: (?P<why>.*)"
)
def nothing_beats(s, match, owner):
    advice = s.advice
    assert advice.pick is None
    assert advice.over_free.low is None or advice.over_free.low <= 0
    if match["y"]:
        assert match["y"] == percent(advice.free_accuracy.value)[:-1]
    else:
        assert "gains −" not in match["why"]


@rule(
    r"(The best of \d+ rewarders, )?\S+ (gains \+|differs by −)(?P<gain>\S+) points.* (over|from) it\."
)
def over_free(s, match, owner):
    assert match["gain"] == points(abs(s.advice.over_free.value)).split()[0].lstrip("+")


@rule(
    r"(.*; )?(?P<gain>\S+ points) \[\S+, \S+\]( over .*)? corrected for picking it among "
    r"(?P<n>\d+) rewarders; .*"
)
def picked_among(s, match, owner):
    assert match["gain"] == points(s.advice.over_free.value)
    assert int(match["n"]) == len(s.advice.rewarders)


@rule(
    r"The jackknife over (?P<n>\d+) rewarders: .*|Fisher's interval: with only (?P<few>\d+) .*"
    r"|Fisher's interval for ranks\.|No interval: .*"
)
def interval_read(s, match, owner):
    assert (owner.estimate.low is None) == match[0].startswith("No interval")
    assert match["few"] is None or int(match["few"]) < 8


@rule(r"(?P<left>\d+) of (?P<all>\d+) (questions|pairs) are not leaked, too few .*")
def too_leaked(s, match, owner):
    assert s.verdict is None
    assert int(match["left"]) < max(int(match["all"]) / 2, 50)


@rule(
    r"(?P<q>\d+) of (?P<all>\d+) questions are also in .*|(?P<p>\d+)% of the questions are also in .*"
)
def overlap(s, match, owner):
    leaks, counts = s.results.leaks, s.results.counts
    assert match["q"] in (None, str(leaks.num_questions))
    assert match["p"] in (None, f"{100 * leaks.num_questions / counts.questions:.0f}")


@rule(r"\S+: (?P<p>\d+)% of candidates have no readable answer\.")
def unreadable(s, match, owner):
    assert 0 < int(match["p"]) <= 100


@dataclass(frozen=True)
class Said:
    verdict: object
    rows: tuple
    results: object
    advice: object


@pytest.mark.parametrize("name", STUDIES)
def test_every_sentence_has_a_rule_and_keeps_it(name):
    """No sentence of results, finding and first page is without a rule, or against its numbers."""
    finding, v, results = study(name)
    rows = (results or report_of_table()).correlations
    said = Said(v, rows, results, results and advise(results))
    parts = [finding] if results is None else [results, first_page(results)]
    for owner, text in all_sentences(parts):
        assert "nan" not in re.split(r"\W+", text.lower())
        assert "gains −" not in text
        found = [(n, m) for n, (pattern, _) in RULES.items() if (m := pattern.fullmatch(text))]
        assert found, f"no rule for: {text}"
        for kind, match in found[:1]:
            try:
                RULES[kind][1](said, match, owner)
            except AssertionError as error:
                raise AssertionError(f"{kind}: {text}\n{error}") from error


@pytest.mark.parametrize("name", RUNS)
def test_the_first_page_says_the_same(name):
    _, v, results = study(name)
    page = first_page(results)
    if v is None:
        assert page.answer in ("", "Cannot tell")
        return
    assert page.answer == answer(v)
    assert page.strength == f"{strength(v)}."


def test_probably_rests_on_no_single_rewarder():
    """The published figure of six judges, of whom one is far from the rest."""
    report = correlate_table(pd.read_csv(EXAMPLE, comment="#"), Options(**FAST))
    v = report.verdicts[0]
    holds_without_any(v)
    assert v.weakest.p_yes < HELD["probably"] < PROBABLY <= v.p_yes
    assert v.word == "perhaps"
    assert any("no single rewarder carries a Probably" in c for c in report.finding.caveats)


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
    assert first_page(one).choice == first_page(other).choice


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


def test_a_table_without_counts_never_says_no_unless_r_is_below_0():
    """Noise weakens r, and turns no sign."""
    for seed in range(10):
        (v,) = correlate_table(table(30, 0.0, seed), Options(**FAST)).verdicts
        assert v.word not in ("no", "weak")
        assert (v.word == "reverse") <= (1 - v.p_positive >= SURE)


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


def test_every_interval_of_a_table_has_the_level_that_is_asked_for():
    frame = table().assign(macro_n=600, best_of_n_n=500)
    narrow, wide = (correlate_table(frame, Options(**FAST, level=level)) for level in (0.8, 0.95))
    for of in (
        lambda report: report.correlations[0].points[0].x,
        lambda report: report.verdicts[0].r,
    ):
        a, b = of(narrow), of(wide)
        assert a.value == pytest.approx(b.value)
        assert a.high - a.low < 0.8 * (b.high - b.low)


PAGE = Path(__file__).parents[2] / "docs" / "measurements" / "validity.md"
PUBLISHED = [
    [cell.strip() for cell in line.split("|")[1:-1]]
    for line in PAGE.read_text(encoding="utf-8").splitlines()
    if " → " in line and line.startswith("| ") and "LLMBar" not in line
][1:]


@pytest.mark.parametrize(("table", "pair", "before", "now"), PUBLISHED)
def test_the_verdicts_on_published_tables_are_those_of_the_page(table, pair, before, now):
    name, (x, y) = table.partition(",")[0], pair.split(" → ")
    path = EXAMPLE.with_name(f"{name}.csv")
    report = correlate_table(path, Options(**FAST), benchmarks=(x,), outcomes=(y,))
    (v,) = report.verdicts
    assert now == f"{v.word} (yes: {chance(v.p_yes)}), r = {bounded(v.r)}"
    assert str(v.num_rewarders) in table


@pytest.mark.parametrize("name", RUNS)
def test_page_one_counts_what_beats_the_vote_once(name):
    _, _, results = study(name)
    counted = board(results, advise(results)).sentence
    assert "majority vote" not in first_page(results).caveat
    if name == "one rewarder":
        assert counted == "rewarder-00 is worse than majority vote."
    else:
        assert re.match(r"\d+ of \d+ rewarders beat majority vote, ", counted)
