"""Tables of a made-up run with known truth, in the exact form of bon.analysis.tables.

Rewarders have a latent quality that acts on both axes (plus noise of their own), so the
benchmark predicts Best-of-N up to `link`. A third of them compare pairs in both orders, a
third give scores, a third are scalar heads; one family is one base at several sizes.
"""

from typing import Any

import numpy as np
import pandas as pd

from bon.analysis.results import *  # noqa: F403
from bon.analysis.tables import Tables

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
    """One score for every response, 1 % of them unparsed."""
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
    """Results of such tables. PLACEHOLDER until bon.analysis.run exists: numbers are made up."""
    tables = tables or synthetic_tables()
    rng = np.random.default_rng(1)
    policies = list(dict.fromkeys(tables.candidates["policy"]))
    names = list(tables.rewarders["rewarder"])
    baselines = ["random", "first", "majority", "longest", "logprob", "oracle"]
    quality = {n: tables.meta["true_quality"][n] for n in names}
    m = int(tables.candidates["index"].max()) + 1
    e = lambda v, s=0.03, n=200, how="questions": Estimate(  # noqa: E731
        value=float(v), low=float(v - 2 * s), high=float(v + 2 * s), n=n, method=how
    )
    base = {"random": 0.45, "first": 0.44, "majority": 0.5, "longest": 0.46, "logprob": 0.52}
    base["oracle"] = 0.85

    def bon(policy: str, name: str, rule: str, headline: bool) -> BestOfN:
        top = base.get(name, 0.45 + 0.1 * quality.get(name, 0) + 0.01 * rng.normal())
        curve = tuple(
            CurvePoint(n=n, accuracy=e(0.45 + (top - 0.45) * np.log2(n) / np.log2(m), 0.015))
            for n in range(1, m + 1)
        )
        slices = lambda xs: tuple(  # noqa: E731
            Slice(name=x, accuracy=e(top + 0.05 * rng.normal(), 0.05, 40)) for x in xs
        )
        return BestOfN(
            policy=policy, rewarder=name, rule=rule, headline=headline, n=m, num_questions=200,
            curve=curve, exact=True, resampling_error=None, accuracy=e(top),
            accuracy_without_leaks=e(top - 0.005), gain=e(top - 0.45, 0.02),
            gain_without_leaks=e(top - 0.455, 0.02), gap_closed=e((top - 0.45) / 0.4, 0.06),
            versus_majority=e(top - 0.5, 0.02),
            verdict_versus_majority="above" if top > 0.53 else "below" if top < 0.47 else "unclear",
            by_subject=slices(SUBJECTS), by_difficulty=slices(DIFFICULTIES), peak_n=m,
            fall_from_peak=e(0, 0.0), over_optimised=False, unparsed_chosen=e(0.02, 0.005),
            undecided=e(0.01, 0.003),
            sensitivity=UnparsedSensitivity(wrong=e(top), drop=e(top + 0.01), chance=e(top + 0.004)),
        )  # fmt: skip

    bons, corrs, by_n, what, pols = [], [], [], [], []
    kinds = dict(zip(names, tables.rewarders["kind"], strict=True))
    head = {n: "round_robin" if kinds[n] == "pairwise" else "best_score" for n in names}
    score = {n: 0.5 + 0.12 * quality[n] + 0.01 * rng.normal() for n in names}
    for policy in policies:
        for name in names:
            for rule in dict.fromkeys((head[name], "weighted_vote", "bradley_terry")):
                if rule != "bradley_terry" or kinds[name] == "pairwise":
                    bons.append(bon(policy, name, rule, rule == head[name]))
        bons += [bon(policy, name, "baseline", True) for name in baselines]
        ys = {b.rewarder: b.accuracy for b in bons if b.policy == policy and b.headline}
        for leaks in ("in", "out"):
            for axis in ("macro", "overall", *(f"group:{g}" for g in GROUPS)):
                xs = np.array([score[n] + 0.02 * rng.normal() for n in names])
                y = np.array([ys[n].value for n in names])
                r = float(np.corrcoef(xs, y)[0, 1])
                c = Coefficient(
                    estimate=e(r, 0.06, len(names), "fisher"), bootstrap=e(r, 0.05, 12, "x"),
                    fisher=e(r, 0.06, 12, "fisher"), p_value=0.0004,
                    p_method="sampled permutation", p_adjusted=0.002,
                    read="Fisher's interval: with 12 rewarders the bootstrap is too narrow.",
                )  # fmt: skip
                slope, icpt = np.polyfit(xs, y, 1)
                band = tuple(
                    BandPoint(
                        x=float(x), y=float(icpt + slope * x), low=float(icpt + slope * x - 0.02),
                        high=float(icpt + slope * x + 0.02),
                        predict_low=float(icpt + slope * x - 0.05),
                        predict_high=float(icpt + slope * x + 0.05),
                    )
                    for x in np.linspace(xs.min(), xs.max(), 25)
                )  # fmt: skip
                loo = tuple(
                    LeaveOneOut(left_out=n, pearson=r - 0.02, p_value=0.001, spearman=r - 0.03,
                                leverage=0.1, cooks_distance=0.2)
                    for n in names
                )  # fmt: skip
                corrs.append(
                    Correlation(
                        policy=policy, benchmark="synthetic-rewardbench", axis=axis, leaks=leaks,
                        n=m, primary=axis == "macro" and leaks == "in", num_rewarders=len(names),
                        points=tuple(
                            Point(rewarder=n, x=e(x, 0.02, 300, "pairs"), y=ys[n],
                                  family=f"family-{i // 4}", rule=head[n])
                            for i, (n, x) in enumerate(zip(names, xs, strict=True))
                        ),
                        pearson=c, spearman=c, kendall=c,
                        fit=Fit(slope=e(slope, 0.1), intercept=e(icpt, 0.1), residual_sd=0.02,
                                band=band),
                        leave_one_out=loo, carried_by=None,
                        reliability=Reliability(x=e(0.9), y=e(0.85), ceiling=e(0.87),
                                                disattenuated=e(0.97)),
                        agreement=PairAgreement(
                            num_pairs=66, agreement=e(0.86), num_separable=40,
                            agreement_separable=e(0.95), brier=e(0.09), separability_x=e(0.7),
                            separability_y=e(0.66)),
                        partial=(Partial(given="size", estimate=e(r - 0.05), p_value=0.01),),
                        sentence=f"On {axis}, r = {r:.2f} over 12 rewarders.",
                        influence_sentence="Without rewarder-03 r falls to .80 (p = .01).",
                    )
                )  # fmt: skip
        by_n.append(
            CorrelationByN(
                policy=policy, benchmark="synthetic-rewardbench", axis="macro", leaks="in",
                points=tuple(
                    CorrelationAtN(n=n, pearson=e(0.7 + 0.02 * n, 0.05), spearman=e(0.7, 0.05))
                    for n in range(2, m + 1)
                ),
                sentence="r grows with n.",
            )
        )  # fmt: skip
        what.append(
            WhatIf(
                policy=policy, benchmark="synthetic-rewardbench", axis="macro",
                rows=tuple(
                    Prediction(x=float(x), accuracy=e(0.2 + 0.6 * x), gain=e(0.6 * x - 0.25),
                               probability_above_majority=float(x), extrapolated=x > 0.8)
                    for x in np.arange(0.4, 0.9, 0.05)
                ),
                sentence="A reward model that scores 70 % would reach 62 % (56 to 68).",
            )
        )  # fmt: skip
        pols.append(
            PolicyResult(
                policy=policy, num_questions=200, num_candidates=m, n=m, pass_at_1=e(0.45),
                first=e(0.44), majority=e(0.5), longest=e(0.46), logprob=e(0.52), oracle=e(0.85),
                pass_at_1_without_leaks=e(0.45), majority_without_leaks=e(0.5),
                oracle_without_leaks=e(0.85), unparsed=e(0.03, 0.004, 1600), errors=e(0, 0, 1600),
                unanimous=e(0.2), correct_per_question=(30, 25, 25, 20, 25, 25, 20, 15, 15),
                slices=tuple(
                    PolicySlice(by=by, name=x, num_questions=40, pass_at_1=e(0.45, 0.06),
                                majority=e(0.5, 0.06), oracle=e(0.85, 0.06))
                    for by, xs in (("subject", SUBJECTS), ("difficulty", DIFFICULTIES)) for x in xs
                ),
            )
        )  # fmt: skip
    benchmarks = []
    for name in [*names, "longest", "random"]:
        v = score.get(name, 0.5)
        groups = tuple(
            Slice(name=g, accuracy=e(v + 0.05 * rng.normal(), 0.04, 90, "pairs")) for g in GROUPS
        )
        pairwise = kinds.get(name) == "pairwise"
        benchmarks.append(
            BenchmarkResult(
                benchmark="synthetic-rewardbench", rewarder=name, num_pairs=300, overall=e(v, 0.02),
                macro=e(v + 0.01, 0.02), overall_without_leaks=e(v), macro_without_leaks=e(v),
                groups=groups, groups_without_leaks=groups,
                tags=tuple(Slice(name=t, accuracy=e(v, 0.05, 50)) for t in TAGS if t),
                overall_from_groups=v, overall_agrees=True,
                votes=tuple(
                    VotesPoint(k=k, overall=e(v + 0.004 * k, 0.02), macro=e(v + 0.004 * k, 0.02))
                    for k in range(1, 6 if pairwise else 2)
                ),
                consistency=e(0.85) if pairwise else None,
                position_bias=e(0.08) if pairwise else None, picks_longer=e(0.55),
                length_bias=e(0.06, 0.04),
                outcomes=tuple(
                    OutcomeRate(outcome=o, count=c, rate=e(c / 300, 0.005))
                    for o, c in (("first", 160), ("second", 130), ("tie", 4), ("unparsed", 6))
                ),
                sensitivity=tuple(
                    TreatmentResult(treatment=t, overall=e(v), macro=e(v), num_dropped=6)
                    for t in ("headline", "drop", "wrong", "chance", "official")
                ),
            )
        )  # fmt: skip
    comparisons = [
        Comparison(table="best_of_n", policy=policies[0], benchmark=None, a=a, b=b,
                   difference=e(0.1 * (quality[a] - quality[b]), 0.02), p_value=0.01,
                   p_adjusted=0.1, distinguishable=abs(quality[a] - quality[b]) > 0.6)
        for i, a in enumerate(names) for b in names[i + 1 :]
    ]  # fmt: skip
    infos = [
        RewarderInfo(rewarder=n, kind=kinds[n], family=f"family-{i // 4}", size=1e9 * 2 ** (i % 5),
                     handicap="sees no image" if i == 0 else "", headline_rule=head[n],
                     num_judgements=4000, cost=0.4, seconds=80.0, tokens=160_000)
        for i, n in enumerate(names)
    ] + [RewarderInfo(rewarder=n, kind="baseline", baseline=True) for n in baselines]  # fmt: skip
    return Results(
        run=RunInfo(name="synthetic", created="2026-01-01T00:00:00Z", bon_version="0.1.0",
                    downstream=("synthetic-mmmu",), benchmarks=("synthetic-rewardbench",)),
        options=Options(),
        protocol=Protocol(
            n=m, num_candidates={p: m for p in policies}, axis="macro", ties="half",
            unparsed="wrong",
            rewarders=tuple(
                RewarderProtocol(rewarder=n, votes_pairs=5, votes_candidates=1, orders_pairs="both",
                                 orders_candidates="both", same=False) for n in names),
            differences=("rewarder-00 gave five votes on the benchmark and one on candidates.",)),
        sources=(Source(kind="dataset", name="synthetic-mmmu", revision="abc", details={"n": "1"}),),
        citations=("Nobody (2026). A synthetic benchmark.",),
        counts=Counts(questions=200, questions_leaked=16, candidates=1600, pairs=300,
                      pairs_leaked=25, rewarders=len(names), judgements=len(tables.judgements)),
        finding=Finding(
            verdict="predicts", policy=policies[0], benchmark="synthetic-rewardbench", axis="macro",
            sentence="The benchmark predicts which rewarder picks better answers: r = .91 "
            "(.70 to .97) over 12 rewarders.",
            support=("The order of two rewarders agrees in 86 % of pairs.",),
            caveats=("Three rewarders do not beat majority vote.",),
            would_change=("A lower bound of r below .5.",)),
        policies=tuple(pols), rewarders=tuple(infos), benchmarks=tuple(benchmarks),
        best_of_n=tuple(bons), comparisons=tuple(comparisons), correlations=tuple(corrs),
        correlation_by_n=tuple(by_n), what_if=tuple(what),
        judging=tuple(Judging(rewarder=n, calls_pairs=600, calls_candidates=8000,
                              saved_identical=120, saved_unanimous=2200) for n in names),
        leaks=LeakReport(num_questions=16, num_pairs=25,
                         question_ids=tuple(tables.questions.query("leaked")["id"])),
        rules=tuple(RuleSupport(policy=policies[0], rewarder=n, rule=head[n], supported=True,
                                ns=tuple(range(1, m + 1))) for n in names),
        warnings=("3 % of candidates have no readable answer.",),
    )  # fmt: skip
