"""A plan as lines of text."""

from bon.running.catalogue import Row, show_listing
from bon.running.gpu_fit import GpuFit
from bon.running.plan import ASSUMPTIONS, Plan, Work


def show_plan(plan: Plan) -> str:
    """What `bon plan` prints."""
    sets = [plan.questions, *plan.pairs]
    lines = [f"{plan.name}: {plan.design.replace('_', ' ')}", ""]
    for place, data in enumerate(sets):
        what = "preference pairs" if place else "questions"
        lines.append(f"{data.count:>9,} {what} of {data.name} ({data.known_from})")
    every = [*plan.policies, *plan.rewarders]
    shown = {
        "again": any(work.again for work in every),
        "worker hours": any(work.worker_hours is not None for work in every),
        "speed": any(work.speed != "assumed" for work in every),
    }
    left_out = [name for name, there in shown.items() if not there]
    rows = [{k: v for k, v in _row(work).items() if k not in left_out} for work in every]
    lines += ["", show_listing(rows), ""]
    lines += needs(plan)
    if plan.memory:
        lines += ["", "memory on each GPU, estimated, and which cards it fits:", ""]
        lines += [show_listing([_fit(fit) for fit in plan.memory]), ""]
    lines += [f"note: {warning}" for warning in plan.warnings]
    lines += ["", "assumed, where the run has not measured it:"]
    lines += [f"- {assumption}" for assumption in ASSUMPTIONS]
    return "\n".join(lines)


def needs(plan: Plan) -> list[str]:
    """Calls, hours, money and disk: what a run should not find out on its way."""
    totals = plan.totals()
    lines = [
        f"to do: {totals['calls']:,.0f} calls, {_many(totals['tokens'])} tokens, "
        f"about {_range(totals['gpu_hours_low'], totals['gpu_hours_high'])} GPU hours "
        f"and ${totals['dollars']:,.2f}",
    ]
    if plan.weights is not None:
        found = plan.weights
        unknown = f" and {found.unknown} of unknown size" if found.unknown else ""
        lines.append(
            f"weights: {found.checkpoints} checkpoints, about {_gigabytes(found.total)}{unknown}, "
            f"{_gigabytes(found.here)} of them here; {_gigabytes(found.free)} free"
        )
    return lines


def _gigabytes(size: float) -> str:
    return f"{size / 1e9:,.0f} GB"


def _row(work: Work) -> Row:
    return {
        "name": work.name,
        "kind": work.kind,
        "on questions": f"{work.on_questions:,}",
        "on pairs": f"{work.on_pairs:,}",
        "reused": f"{work.reused:,}",
        "again": f"{work.again:,}" if work.again else "",
        "to do": f"{work.to_do:,}",
        "tokens in": _many(work.prompt_tokens),
        "tokens out": _many(work.reply_tokens),
        "lengths": work.lengths,
        "GPU hours": "-"
        if work.gpu_hours is None
        else _range(work.gpu_hours / work.spread, work.gpu_hours * work.spread),
        "worker hours": "" if work.worker_hours is None else _hours(work.worker_hours),
        "speed": work.speed,
        "dollars": "-" if work.dollars is None else f"{work.dollars:,.2f}",
    }


def _fit(fit: GpuFit) -> Row:
    over = f" / {fit.over}" if fit.over > 1 else ""
    return {
        "name": fit.name,
        "weights": f"{fit.weights:.1f} GiB{over}",
        "KV cache": f"{fit.kv_cache:.1f} GiB ({fit.tokens:,} tokens)",
        "in all": f"{fit.total:.1f} GiB",
        **fit.gpus,
        "read here": fit.known,
    }


def _range(least: float, most: float) -> str:
    low, high = _hours(least), _hours(most)
    return low if low == high else f"{low}-{high}"


def _hours(hours: float) -> str:
    return f"{hours:,.0f}" if hours >= 10 else f"{hours:.1f}"


def _many(count: float) -> str:
    for scale, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if count >= scale:
            return f"{count / scale:.3g}{letter}"
    return f"{count:.0f}"
