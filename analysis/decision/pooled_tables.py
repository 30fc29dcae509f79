"""The studies and pools of a meta-analysis as rows of text, for the terminal, a page and docs."""

from collections.abc import Sequence

from bon.analysis.decision.meta_analysis import OWN
from bon.analysis.results import MetaAnalysis, Pool, PooledStudy
from bon.analysis.results.phrasing import bounded, chance, coefficient, interval

AGREEMENT = "Outcomes with each other, over the reward models that both have:"
Rows = Sequence[dict[str, str]]


def study_rows(pooled: MetaAnalysis) -> Rows:
    """Return a row per study: r as measured, and its posterior."""
    return [
        {
            "benchmark": s.benchmark,
            "outcome": s.kind,
            "r": coefficient(s.measured),
            "allowing for bases": bounded(s.r),
            "models / bases": f"{s.num_rewarders} / {s.num_bases}"
            + f" + {s.num_unknown}?" * bool(s.num_unknown),
            "without own models": _without_own(s),
            "source": s.source,
            "measured as": ", ".join(filter(None, (s.outcome, s.policy))),
        }
        for s in pooled.studies
    ]


def pool_rows(pooled: MetaAnalysis) -> Rows:
    """Return a row per pool."""
    return [
        {
            "pool": p.name,
            "studies / sources": f"{len(p.studies)} / {p.num_sources}",
            "mean r": bounded(p.r.mean),
            "next study": interval(p.r.predicted).strip(),
            "true r > .5": chance(p.r.p_next),
            "changes most": _changes_most(p),
            "without own models": next(
                (bounded(w.r.mean) for w in p.without if w.left_out == OWN), ""
            ),
        }
        for p in pooled.pools
    ]


def agreement_rows(pooled: MetaAnalysis) -> Rows:
    """Return a row per two outcomes of the same rewarders."""
    return [
        {
            "outcome": a.outcomes[0],
            "and": a.outcomes[1],
            "r": coefficient(a.measured),
            "allowing for bases": bounded(a.r),
            "models": str(a.num_rewarders),
        }
        for a in pooled.agreements
    ]


def as_markdown(pooled: MetaAnalysis) -> str:
    """Return the sentence, the pools, the studies and what is to be known of them."""
    parts = [pooled.sentence, *map(_table, (pool_rows(pooled), study_rows(pooled)))]
    if pooled.agreements:
        parts += [AGREEMENT, _table(agreement_rows(pooled))]
    parts.append("\n".join(f"- {text}" for text in (*pooled.would_change, *pooled.warnings)))
    return "\n\n".join(parts) + "\n"


def _table(rows: Rows) -> str:
    cells = [list(rows[0]), ["---"] * len(rows[0]), *(list(row.values()) for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in cells)


def _without_own(study: PooledStudy) -> str:
    """Return r without the authors' own models, and how many rewarders are left."""
    if study.num_own == 0:
        return ""
    r = study.without_own
    return "too few are left" if r is None else f"{bounded(r)} ({r.n})"


def _changes_most(pool: Pool) -> str:
    """Return the mean r without what changes it most."""
    mean = pool.r.mean.value or 0.0
    most = max(pool.without, key=lambda w: abs((w.r.mean.value or 0) - mean), default=None)
    return f"{coefficient(most.r.mean.value)} without {most.left_out}" if most else ""
