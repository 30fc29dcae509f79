"""What was run and how: everything in the results that is counted rather than estimated."""

from typing import Any

import numpy as np
import pandas as pd

from bon.analysis.data.arrays import Bools, Judged, Pool, Run
from bon.analysis.data.tables import Tables
from bon.analysis.estimators.choices import Study
from bon.analysis.estimators.order_biases import order_biases
from bon.analysis.estimators.resampling import Draws, wilson
from bon.analysis.results import (
    Counts,
    JudgeCalls,
    LeakReport,
    Options,
    Orders,
    OutcomeRate,
    Provenance,
    RewarderInfo,
    RewarderProtocol,
    RunCompleteness,
    RunInfo,
    StudyProtocol,
)
from bon.analysis.results.phrasing import names
from bon.choosing.opinion import OUTCOMES


def completeness(tables: Tables) -> RunCompleteness | None:
    """Whether the run was complete, where the tables are of a run."""
    found = tables.meta.get("completeness")
    return RunCompleteness.model_validate(found) if found else None


def run_info(tables: Tables) -> RunInfo:
    """Which run this is, from the tables and their `meta`."""
    meta = tables.meta
    seed = meta.get("seed")
    return RunInfo(
        name=str(meta.get("name", "")),
        created=str(meta.get("created", "")),
        bon_version=str(meta.get("bon_version", "")),
        seed=int(seed) if seed is not None else None,
        downstream=tuple(str(d) for d in pd.unique(tables.questions["dataset"])),
        benchmarks=tuple(str(b) for b in pd.unique(tables.pairs["benchmark"])),
        notes=tuple(str(n) for n in meta.get("notes", ())),
    )


def sources(tables: Tables) -> tuple[Provenance, ...]:
    """What came from outside: `meta["sources"]`, a list of mappings as Provenance has them."""
    return tuple(
        Provenance(
            kind=str(s.get("kind", "")),
            name=str(s.get("name", "")),
            revision=str(s.get("revision") or ""),
            details={str(k): str(v) for k, v in (s.get("details") or {}).items()},
        )
        for s in tables.meta.get("sources", ())
    )


def counts(run: Run, judging: tuple[JudgeCalls, ...]) -> Counts:
    """How much of everything."""
    t = run.tables
    return Counts(
        questions=len(t.questions),
        questions_leaked=int(t.questions["leaked"].fillna(False).astype(bool).sum()),
        candidates=len(t.candidates),
        pairs=len(t.pairs),
        pairs_leaked=int(t.pairs["leaked"].fillna(False).astype(bool).sum()),
        rewarders=len(run.rewarders),
        judgements=len(t.judgements),
        calls_made=sum(j.calls_pairs + j.calls_candidates for j in judging),
        calls_saved=sum(j.saved_identical + j.saved_unanimous for j in judging),
    )


def overlap(tables: Tables) -> str:
    """What it means where most of either axis is also on the other; empty where it is less."""
    q, p = (
        frame["leaked"].fillna(False).astype(bool) for frame in (tables.questions, tables.pairs)
    )
    if not len(q) or not len(p) or max(q.mean(), p.mean()) < 0.5:
        return ""
    return (
        f"{q.sum()} of {len(q)} questions are also in the reward benchmark ({p.sum()} of its "
        f"{len(p)} pairs): r says how scores carry over on the same questions, not whether they "
        f"predict choices on new ones; {(~q).sum()} questions and {(~p).sum()} pairs remain "
        "without them."
    )


def leaks(tables: Tables) -> LeakReport:
    """The labels of what is on both sides."""
    q = tables.questions[tables.questions["leaked"].fillna(False).astype(bool)]
    p = tables.pairs[tables.pairs["leaked"].fillna(False).astype(bool)]
    return LeakReport(
        num_questions=len(q),
        num_pairs=len(p),
        question_ids=tuple(q["id"].astype(str)),
        pair_ids=tuple(p["id"].astype(str)),
    )


# ------------------------------------------------------------------ protocol


def protocol(run: Run, studies: dict[str, Study], options: Options) -> StudyProtocol:
    """How each rewarder was asked on either axis, and where that differs."""
    asked = []
    for name in run.rewarders:
        pairs, candidates = run.pairs[name], run.candidates[name]
        votes = (_votes(pairs), _votes(candidates))
        orders = (_orders(pairs), _orders(candidates))
        both = len(pairs) > 0 and len(candidates) > 0
        asked.append(
            RewarderProtocol(
                rewarder=name,
                votes_pairs=votes[0],
                votes_candidates=votes[1],
                orders_pairs=orders[0],
                orders_candidates=orders[1],
                same=not both or (votes[0] == votes[1] and orders[0] == orders[1]),
            )
        )
    first = next(iter(studies.values()), None)
    return StudyProtocol(
        n=first.n if first else 0,
        num_candidates={name: s.pool.size for name, s in studies.items()},
        axis=options.axis,
        ties=options.ties,
        unparsed=options.unparsed,
        rewarders=tuple(asked),
        differences=tuple(_differences(asked)),
    )


def _votes(judged: Judged) -> int:
    return int(judged.vote.max()) + 1 if len(judged) else 0


def _orders(judged: Judged) -> Orders:
    """`both` where any comparison was made in both orders, `none` where nothing is compared."""
    compared = judged.second >= 0
    if not compared.any():
        return "none"
    first, second, item = (a[compared] for a in (judged.first, judged.second, judged.item))
    size = int(max(first.max(), second.max())) + 1
    there = np.unique((item * size + first) * size + second)
    back = np.unique((item * size + second) * size + first)
    return "both" if np.isin(there, back, assume_unique=True).any() else "one"


def _differences(asked: list[RewarderProtocol]) -> list[str]:
    groups: dict[str, list[str]] = {}
    for a in asked:
        if a.same:
            continue
        parts = []
        if a.votes_pairs != a.votes_candidates:
            parts.append(
                f"{_count(a.votes_pairs, 'vote')} on the reward benchmark and "
                f"{_count(a.votes_candidates, 'vote')} on the candidates"
            )
        if a.orders_pairs != a.orders_candidates:
            words = {"both": "both orders", "one": "one order", "none": "no order"}
            parts.append(
                f"{words[a.orders_pairs]} on the reward benchmark and "
                f"{words[a.orders_candidates]} on the candidates"
            )
        groups.setdefault(", and ".join(parts), []).append(a.rewarder)
    return [
        f"Asked differently on the two axes: {names(who)} ({how})." for how, who in groups.items()
    ]


def _count(k: int, word: str) -> str:
    return f"{k} {word}" if k == 1 else f"{k} {word}s"


# ------------------------------------------------------------------ rewarders


def rewarders(
    run: Run, rules: dict[str, str], ensembles: dict[str, tuple[str, ...]], baselines: list[str]
) -> tuple[RewarderInfo, ...]:
    """Rewarders as in the run, then ensembles, then baselines."""
    table = run.tables.rewarders
    handicaps = dict(run.tables.meta.get("handicaps", {}))
    if "handicap" in table:
        known = table[table["handicap"].notna()]
        handicaps.update(dict(zip(known["rewarder"], known["handicap"].astype(str), strict=True)))
    made = []
    for row in table.to_dict("records"):
        name = str(row["rewarder"])
        said = run.tables.judgements.iloc[run.rows.get(name, slice(0))]
        tokens = _total(said["num_tokens"])
        size = pd.to_numeric(row["size"], errors="coerce")
        made.append(
            RewarderInfo(
                rewarder=name,
                kind=str(row["kind"]),
                family="" if pd.isna(row["family"]) else str(row["family"]),
                size=float(size) if np.isfinite(size) else None,
                handicap=str(handicaps.get(name, "")),
                headline_rule=rules.get(name),
                num_judgements=len(said),
                cost=_total(said["cost"]),
                seconds=_total(said["seconds"]),
                tokens=None if tokens is None else int(tokens),
            )
        )
    listed = {info.rewarder for info in made}
    for name, members in ensembles.items():
        if name not in listed:
            note = f"of {names(list(members), 8)}"
            made.append(
                RewarderInfo(
                    rewarder=name, kind="ensemble", handicap=note, headline_rule=rules.get(name)
                )
            )
    made += [
        RewarderInfo(rewarder=name, kind="baseline", baseline=True, headline_rule="baseline")
        for name in baselines
    ]
    return tuple(made)


def _total(column: "pd.Series[Any]") -> float | None:
    """The sum of what is known; None where nothing is."""
    values = column.to_numpy(dtype=float, na_value=np.nan)
    known = values[np.isfinite(values)]
    return float(known.sum()) if len(known) else None


def judging(run: Run, draws: Draws, level: float) -> tuple[JudgeCalls, ...]:
    """Judge calls made on either axis, and those that identical and unanimous answers saved.

    Savings are against the same design on all M candidates of every question.
    """
    made = []
    in_full = run.in_full
    for name in run.rewarders:
        pairs, candidates = run.pairs[name], run.candidates[name]
        identical = unanimous = 0
        for pool in run.pools.values():
            a, b = _saved(candidates, pool, run.drawn)
            identical, unanimous = identical + a, unanimous + b
        rated = candidates
        if not in_full.all():
            rated = candidates.take(np.flatnonzero(in_full[candidates.item]))
        tally = np.bincount(rated.outcome, minlength=len(OUTCOMES))
        biases = order_biases(rated, draws, level)
        made.append(
            JudgeCalls(
                rewarder=name,
                calls_pairs=len(pairs),
                calls_candidates=len(candidates),
                saved_identical=identical,
                saved_unanimous=unanimous,
                rated_questions=int(np.count_nonzero(np.bincount(rated.item))),
                consistency_candidates=biases.consistency,
                position_bias_candidates=biases.position,
                outcomes_candidates=tuple(
                    OutcomeRate(
                        outcome=o,
                        count=int(k),
                        rate=wilson(k, len(rated), level, "judgements"),
                    )
                    for o, k in zip(OUTCOMES, tally, strict=True)
                    if k
                ),
            )
        )
    return tuple(made)


def _saved(judged: Judged, pool: Pool, drawn: Bools | None) -> tuple[int, int]:
    """Calls that identical texts and unanimous questions saved in one pool."""
    q, m = pool.correct.shape
    here = pool.located.places[judged.first]
    calls = np.bincount(here[here >= 0] // m, minlength=q)
    if not calls.any():
        return 0, 0
    distinct = pool.candidates.local.max(axis=1) + 1
    compared = bool((judged.second >= 0).any())
    work = distinct * (distinct - 1) if compared else distinct
    full = m * (m - 1) if compared else m
    done = calls > 0
    per_unit = calls[done].sum() / max(work[done].sum(), 1)
    identical = round(per_unit * (full - work[done]).sum())
    spared = ~done if drawn is None else ~done & drawn[pool.rows]
    return identical, round(per_unit * full * spared.sum())
