"""What each model of a run cost, from what its rows and its worker recorded."""

from collections.abc import Mapping
from typing import Any

from bon.analysis.results import ModelCost
from bon.experiment.cards import Loaded
from bon.experiment.config import PolicyCard, Price
from bon.running.setup import Setup
from bon.running.store import Store

PER = 1000


def costs(setup: Setup, store: Store) -> tuple[ModelCost, ...]:
    """Of every model that has been asked; rows of its spec that count no longer were paid too."""
    found = (_cost(loaded, store) for loaded in setup.models if not loaded.card.brought)
    return tuple(one for one in found if one is not None)


def _cost(loaded: Loaded[Any], store: Store) -> ModelCost | None:
    ((number, seconds, dollars, read, written),) = store.query(
        "SELECT SUM(outcome != 'error'), TOTAL(seconds), TOTAL(cost), TOTAL(num_prompt_tokens), "
        f"TOTAL(num_tokens) FROM {loaded.table} WHERE spec = ?",
        (loaded.spec,),
    )
    if not number:
        return None
    card, each = loaded.card, PER / number
    effort = store.effort(loaded.spec)
    at_work = effort.busy + effort.waited if effort else 0.0
    priced = dollars > 0 or isinstance(card.cost, Price)
    return ModelCost(
        model=card.name,
        role="policy" if isinstance(card, PolicyCard) else "rewarder",
        number=number,
        unit="GPU-seconds" if card.placement.gpus else "worker seconds",
        seconds=seconds * each * (card.placement.gpus or 1) if seconds else None,
        prompt_tokens=read * each,
        reply_tokens=written * each,
        dollars=dollars * each if priced else None,
        cache_hit_rate=effort.cached / effort.read if effort and effort.read else None,
        waited=effort.waited / at_work if effort and at_work else None,
        loading=effort.loading if effort else None,
    )


def cost_line(found: Mapping[str, Any]) -> str:
    """A dumped ModelCost for a person."""
    seconds, kept, waited = found["seconds"], found["cache_hit_rate"], found["waited"]
    said = [
        "" if seconds is None else f"{seconds:,.3g} {found['unit']}",
        f"{found['prompt_tokens']:,.0f} tokens in, {found['reply_tokens']:,.0f} out",
        "" if found["dollars"] is None else f"${found['dollars']:,.2f}",
        "" if kept is None else f"{100 * kept:.0f} % of prompts from the cache",
        "" if waited is None else f"waited {100 * waited:.0f} % of the time for input",
    ]
    return f"  {found['model']:<32} {', '.join(filter(None, said))}"
