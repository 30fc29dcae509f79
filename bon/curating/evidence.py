"""What the runs know of the items besides their labels: who judged how, and how likely they are."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import pandas as pd

from bon.core.errors import BonError
from bon.curating.judged_runs import judged_runs
from bon.curating.on_items import credits, verdicts
from bon.curating.workbench import Workbench

SEES_NOTHING = "drop"
"""The image filter of a rewarder that is asked without the images."""


@dataclass(frozen=True)
class Evidence:
    """Credits (items by rewarders), verdicts by order, and what needs no reading.

    `blind` are the rewarders that were asked without the images. `likelihood` has the mean log
    probability of a response's tokens under the policy that wrote it, by (question, text key).
    `missing` says why there is none of it.
    """

    credits: pd.DataFrame
    verdicts: pd.DataFrame
    blind: frozenset[str] = frozenset()
    likelihood: Mapping[tuple[str, str], float] = field(default_factory=dict)
    missing: str = ""


def evidence(bench: Workbench) -> Evidence:
    """From the runs of the recipe, where they can still be opened."""
    try:
        with judged_runs(bench) as runs:
            blind = {
                loaded.card.name
                for run in runs
                for loaded in run.setup.rewarders
                if loaded.card.image_filter == SEES_NOTHING
            }
            likelihood = {
                (question, text): value
                for run in runs
                for question, text, value in run.store.query(
                    "SELECT question, text_key, MAX(logprob / num_tokens) FROM candidates "
                    "WHERE logprob IS NOT NULL AND num_tokens > 0 GROUP BY question, text_key"
                )
            }
        return Evidence(credits(bench), verdicts(bench), frozenset(blind), likelihood)
    except BonError as error:
        columns = ["item", "rewarder", "order", "credit", "outcome"]
        return Evidence(pd.DataFrame(), pd.DataFrame(columns=columns), missing=str(error))
