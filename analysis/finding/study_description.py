"""What was run and how: everything in the results that is counted rather than estimated."""

from typing import Any

import numpy as np
import pandas as pd

from bon.analysis.data.arrays import Judged, Run
from bon.analysis.data.tables import Tables
from bon.analysis.estimators.choices import Study
from bon.analysis.estimators.order_biases import order_biases
from bon.analysis.estimators.resampling import Draws
from bon.analysis.results import (
    Counts,
    JudgeCalls,
    LeakReport,
    Options,
    Orders,
    RewarderInfo,
    RewarderProtocol,
    RunInfo,
    StudyProtocol,
)
from bon.analysis.results.phrasing import names, plural


def run_info(tables: Tables) -> RunInfo:
    """Identify the run from the tables and their `meta`."""
    return RunInfo.model_validate({
        **tables.meta,
        "downstream": tables.questions["dataset"].unique().tolist(),
        "benchmarks": tables.pairs["benchmark"].unique().tolist(),
    })  # fmt: skip


def counts(
    run: Run, judging: tuple[JudgeCalls, ...], rewarders: tuple[RewarderInfo, ...]
) -> Counts:
    """Count questions, candidates, pairs, rewarders, judgements and calls."""
    t = run.tables
    imported = {info.rewarder for info in rewarders if info.imported}
    judging = tuple(j for j in judging if j.rewarder not in imported)
    return Counts(
        questions=len(t.questions),
        candidates=len(t.candidates),
        pairs=len(t.pairs),
        rewarders=len(run.rewarders),
        judgements=len(t.judgements),
        calls_made=sum(j.calls_pairs + j.calls_candidates for j in judging),
    )


def _leaked(frame: pd.DataFrame) -> "pd.Series[bool]":
    return frame["leaked"].fillna(False).astype(bool)


def overlap(tables: Tables) -> str:
    """Return a caveat if most of either axis is also on the other, else an empty string."""
    q, p = _leaked(tables.questions), _leaked(tables.pairs)
    if not len(q) or not len(p) or max(q.mean(), p.mean()) < 0.5:
        return ""
    return (
        f"{q.sum()} of {len(q)} questions are also in the reward benchmark ({p.sum()} of its "
        f"{len(p)} pairs): r shows how scores carry over on the same questions, not whether they "
        f"predict choices on new ones; {(~q).sum()} questions and {(~p).sum()} pairs remain "
        "without them."
    )


def leaks(tables: Tables) -> LeakReport:
    """Report the questions that are on both sides."""
    q = _leaked(tables.questions)
    return LeakReport(
        num_questions=int(q.sum()),
        num_pairs=int(_leaked(tables.pairs).sum()),
        question_ids=tuple(tables.questions["id"][q].astype(str)),
    )


# ------------------------------------------------------------------ protocol


def protocol(run: Run, studies: list[Study], options: Options) -> StudyProtocol:
    """Describe how each rewarder was asked on either axis, and where that differs."""
    rewarders = []
    for name in run.rewarders:
        pairs, candidates = run.pairs[name], run.candidates[name]
        votes, orders = (_votes(pairs), _votes(candidates)), (_orders(pairs), _orders(candidates))
        both = len(pairs) > 0 and len(candidates) > 0
        rewarders.append(
            RewarderProtocol(
                rewarder=name,
                votes_pairs=votes[0],
                votes_candidates=votes[1],
                orders_pairs=orders[0],
                orders_candidates=orders[1],
                same=not both or (votes[0] == votes[1] and orders[0] == orders[1]),
            )
        )
    return StudyProtocol(
        n=studies[0].n if studies else 0,
        num_candidates={s.pool.policy: s.pool.size for s in studies},
        axis=options.axis,
        ties=options.ties,
        unparsed=options.unparsed,
        rewarders=tuple(rewarders),
        differences=tuple(_differences(rewarders)),
    )


def _votes(judged: Judged) -> int:
    return int(judged.vote.max()) + 1 if len(judged) else 0


def _orders(judged: Judged) -> Orders:
    """Return `both` if any comparison was made in both orders, `none` without comparisons."""
    compared = judged.second >= 0
    if not compared.any():
        return "none"
    first, second, item = (a[compared] for a in (judged.first, judged.second, judged.item))
    size = int(max(first.max(), second.max())) + 1
    forward = np.unique((item * size + first) * size + second)
    backward = np.unique((item * size + second) * size + first)
    return "both" if np.isin(forward, backward, assume_unique=True).any() else "one"


ORDER_WORDS: dict[Orders, str] = {"both": "both orders", "one": "one order", "none": "no order"}


def _differences(rewarders: list[RewarderProtocol]) -> list[str]:
    groups: dict[str, list[str]] = {}
    for r in (r for r in rewarders if not r.same):
        votes = [plural(k, "vote") for k in (r.votes_pairs, r.votes_candidates)]
        orders = [ORDER_WORDS[o] for o in (r.orders_pairs, r.orders_candidates)]
        parts = [
            f"{pairs} on the reward benchmark and {candidates} on the candidates"
            for pairs, candidates in (votes, orders)
            if pairs != candidates
        ]
        groups.setdefault(", and ".join(parts), []).append(r.rewarder)
    return [
        f"Asked differently on the two axes: {names(who)} ({how})." for how, who in groups.items()
    ]


# ------------------------------------------------------------------ rewarders


def rewarders(
    run: Run, ensembles: dict[str, tuple[str, ...]], baselines: list[str]
) -> tuple[RewarderInfo, ...]:
    """List rewarders as in the run, then ensembles, then baselines."""
    table = run.tables.rewarders
    handicaps = run.tables.meta.get("handicaps", {})
    infos = []
    for row in table.to_dict("records"):
        name = str(row["rewarder"])
        judgements = run.tables.judgements.iloc[run.rows.get(name, slice(0))]
        seconds = _total(judgements["seconds"])
        size = pd.to_numeric(row["size"], errors="coerce")
        infos.append(
            RewarderInfo(
                rewarder=name,
                kind=str(row["kind"]),
                family="" if pd.isna(row["family"]) else str(row["family"]),
                maker=str(row.get("maker") or ""),
                size=float(size) if np.isfinite(size) else None,
                handicap=handicaps.get(name, ""),
                num_judgements=len(judgements),
                cost=_total(judgements["cost"]),
                seconds=seconds,
                # Judgements taken from a run have their seconds.
                imported=name in run.tables.meta.get("imported", ()) and not seconds,
            )
        )
    listed = {info.rewarder for info in infos}
    infos += [
        RewarderInfo(
            rewarder=name,
            kind="ensemble",
            handicap=f"of {names(list(members), 8)}",
        )
        for name, members in ensembles.items()
        if name not in listed
    ]
    infos += [RewarderInfo(rewarder=name, kind="baseline", baseline=True) for name in baselines]
    return tuple(infos)


def _total(column: "pd.Series[Any]") -> float | None:
    """Sum the known values; None without any."""
    values = column.to_numpy(dtype=float, na_value=np.nan)
    known = values[np.isfinite(values)]
    return float(known.sum()) if len(known) else None


def judging(run: Run, draws: Draws, level: float) -> tuple[JudgeCalls, ...]:
    """Count judge calls, and estimate the biases by order of those on candidates."""
    results = []
    in_full = run.in_full
    for name in run.rewarders:
        pairs, candidates = run.pairs[name], run.candidates[name]
        rated = candidates
        if not in_full.all():
            rated = candidates.take(np.flatnonzero(in_full[candidates.item]))
        biases = order_biases(rated, draws, level)
        results.append(
            JudgeCalls(
                rewarder=name,
                calls_pairs=len(pairs),
                calls_candidates=len(candidates),
                rated_questions=int(np.count_nonzero(np.bincount(rated.item))),
                consistency_candidates=biases.consistency,
                position_bias_candidates=biases.position,
            )
        )
    return tuple(results)
