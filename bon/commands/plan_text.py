"""Plans as text."""

import textwrap
from collections.abc import Iterable, Sequence

from bon.analysis.results.phrasing import size
from bon.core.console import show_listing, text_width
from bon.planning.model_sizes import GpuFit
from bon.planning.plan import ASSUMPTIONS, Plan, Work
from bon.work.catalogue import Row

WIDTH = 80
"""Width where no terminal says another."""


def show_plan(plan: Plan, *, assumptions: bool = False) -> str:
    """Format a plan, with what it assumes if asked."""
    datasets = [
        *((rows, "questions") for rows in plan.tasks),
        *((pairs, "preference pairs") for pairs in plan.pairs),
    ]
    parts = [
        f"{plan.name}: {plan.design.replace('_', ' ')}",
        wrapped([f"{d.count:>9,} {what} of {d.name} ({d.known_from})" for d, what in datasets]),
        _table(map(_calls, plan.work)),
        _table(_effort(work) for work in plan.work if work.to_do),
        wrapped([*needs(plan), *_measured(plan.work)]),
    ]
    if plan.memory:
        parts.append("memory on each GPU, estimated, and which cards it fits:")
        parts.append(_table(map(_fit, plan.memory)))
    parts.append(wrapped([f"note: {warning}" for warning in plan.warnings]))
    if assumptions:
        assumed = ["assumptions, where the run has no measurements:"]
        parts.append(wrapped([*assumed, *(f"- {text}" for text in ASSUMPTIONS)]))
    return "\n\n".join(filter(None, parts))


def needs(plan: Plan) -> list[str]:
    """Summarise calls, hours, money and disk space; unknown where no card says."""
    totals, busy = plan.totals(), [work for work in plan.work if work.to_do]
    line = f"to do: {totals['calls']:,.0f} calls, {size(totals['tokens'])} tokens"
    if any(work.gpu_hours is not None for work in busy):
        line += f", about {_range(totals['gpu_hours_low'], totals['gpu_hours_high'])} GPU hours"
    if any(work.dollars is not None for work in busy):
        line += f", ${totals['dollars']:,.2f}"
    if unknown := sum(work.gpu_hours is None and work.dollars is None for work in busy):
        line += ", GPU hours and cost unknown"
        line += "" if unknown == len(busy) else f" for {unknown} of {len(busy)} models"
    lines = [line]
    if (weights := plan.weights) is not None:
        sizes = f" and {weights.unknown} of unknown size" if weights.unknown else ""
        lines.append(
            f"weights: {weights.checkpoints} checkpoints, about {_gigabytes(weights.total)}"
            f"{sizes}, {_gigabytes(weights.here)} of them here; "
            f"{_gigabytes(weights.free)} free"
        )
    return lines


def _measured(works: Sequence[Work]) -> list[str]:
    """Note which models' lengths and speeds are measurements, and where."""
    notes: dict[str, list[str]] = {}
    for work in works:
        if work.lengths != "assumed":
            notes.setdefault(f"lengths {work.lengths} calls", []).append(work.name)
        if work.speed != "assumed":
            notes.setdefault(f"speed {work.speed} by this run", []).append(work.name)
    return [f"{note}: {', '.join(models)}" for note, models in notes.items()]


def _table(rows: Iterable[Row]) -> str:
    """Format rows without the columns that are empty in all of them."""
    table = list(rows)
    shown = [key for key in table[0] if any(row[key] != "" for row in table)] if table else []
    return show_listing([{key: row[key] for key in shown} for row in table], WIDTH)


def wrapped(texts: Sequence[str]) -> str:
    """Return the texts as paragraphs of the terminal's width."""
    width = text_width(WIDTH)
    return "\n".join(
        textwrap.fill(text, width, subsequent_indent="  ", break_on_hyphens=False) for text in texts
    )


def _calls(work: Work) -> Row:
    return {
        "name": work.name,
        "kind": work.kind,
        "on questions": f"{work.on_questions:,}",
        "on pairs": f"{work.on_pairs:,}",
        "reused": f"{work.reused:,}" if work.reused else "",
        "to do": f"{work.to_do:,}",
    }


def _effort(work: Work) -> Row:
    low, high = ((work.gpu_hours or 0) * factor for factor in (1 / work.spread, work.spread))
    unknown = "unknown" if work.to_do and work.dollars is None else ""
    return {
        "name": work.name,
        "tokens in": size(work.prompt_tokens),
        "tokens out": size(work.reply_tokens),
        "GPU hours": unknown if work.gpu_hours is None else _range(low, high),
        "worker hours": "" if work.worker_hours is None else _hours(work.worker_hours),
        "dollars": "" if work.dollars is None else f"{work.dollars:,.2f}",
    }


def _fit(fit: GpuFit) -> Row:
    over = f" / {fit.over}" if fit.over > 1 else ""
    return {
        "name": fit.name,
        "weights": f"{fit.weights:.1f} GiB{over}",
        "KV cache": "unknown" if fit.kv_cache is None else f"{fit.kv_cache:.1f} GiB",
        "tokens": f"{fit.tokens:,}",
        "in all": f"{fit.total:.1f} GiB",
        **fit.gpus,
    }


def _range(low: float, high: float) -> str:
    return _hours(low) if _hours(low) == _hours(high) else f"{_hours(low)}-{_hours(high)}"


def _hours(hours: float) -> str:
    return f"{hours:,.0f}" if hours >= 10 else f"{hours:.1f}"


def _gigabytes(count: float) -> str:
    return f"{count / 1e9:,.0f} GB"
