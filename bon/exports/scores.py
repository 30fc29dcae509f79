"""All numbers of each rewarder as one list, for public stores."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal
from urllib.parse import urlsplit

from bon.analysis.results import BestOfN, Estimate
from bon.benchmarks import adapter
from bon.experiment.cards import Loaded
from bon.experiment.config import Card, DatasetSpec, RewarderCard
from bon.exports.contents import Contents

Metric = Literal["accuracy", "gain", "gap_closed"]


@dataclass(frozen=True, slots=True)
class Score:
    """One number of one rewarder.

    key: name within the rewarder. about: how it was computed. best_of_n: the result it is from.
    """

    rewarder: Loaded[RewarderCard]
    key: str
    title: str
    metric: Metric
    dataset: DatasetSpec
    estimate: Estimate
    about: str
    best_of_n: BestOfN | None = None


def scores(contents: Contents) -> Iterator[Score]:
    """Yield known scores by rewarder: accuracy on reward benchmarks, then Best-of-N."""
    for rewarder in (*contents.setup.rewarders, *contents.setup.ensembles):
        rows = (*_on_pairs(contents, rewarder), *_best_of_n(contents, rewarder))
        yield from (row for row in rows if row.estimate.value is not None)


def _on_pairs(contents: Contents, rewarder: Loaded[RewarderCard]) -> Iterator[Score]:
    results = contents.results
    specs = {name_of(spec): spec for spec in contents.setup.experiment.pairs}
    protocols = {row.rewarder: row for row in results.protocol.rewarders}
    for row in results.benchmarks:
        if row.rewarder != rewarder.card.name or row.benchmark not in specs:
            continue
        protocol = protocols.get(row.rewarder)
        about = f"ties: {results.options.ties}"
        if protocol:
            about = f"votes: {protocol.votes_pairs}, orders: {protocol.orders_pairs}, {about}"
        estimates = {"macro": row.macro, "overall": row.overall}
        estimates |= {"natural": row.natural} if row.natural else {}
        estimates |= {group.name: group.accuracy for group in row.groups}
        for name, estimate in estimates.items():
            yield Score(
                rewarder, f"{row.benchmark}.{name}", f"{name} accuracy on {row.benchmark}",
                "accuracy", specs[row.benchmark], estimate, about,
            )  # fmt: skip


def _best_of_n(contents: Contents, rewarder: Loaded[RewarderCard]) -> Iterator[Score]:
    spec = contents.setup.experiment.questions
    for row in contents.headlines:
        if row.rewarder != rewarder.card.name:
            continue
        about = (
            f"Best-of-{row.n} of {row.policy}, picked by this model; rule {row.rule}; "
            f"answers without a letter count as {contents.results.options.unparsed}"
        )
        metrics: tuple[tuple[Metric, str, Estimate], ...] = (
            ("accuracy", f"Best-of-{row.n} accuracy", row.accuracy),
            ("gain", f"gain of Best-of-{row.n} over one answer", row.gain),
            ("gap_closed", f"gap to the oracle that Best-of-{row.n} closes", row.gap_closed),
        )
        for metric, title, estimate in metrics:
            key = f"{name_of(spec)}.{row.policy}.bon{row.n}.{metric}"
            yield Score(rewarder, key, title, metric, spec, estimate, about, row)


def name_of(spec: DatasetSpec) -> str:
    """Return the dataset's name in the results."""
    return spec.name or spec.benchmark


def hub_of(spec: DatasetSpec) -> str:
    """Return the dataset of the hub; empty for a file."""
    return "" if spec.path else spec.hub or adapter(spec.benchmark).hub


def model_id(card: Card) -> tuple[str, str]:
    """Return developer and name of a model of the hub; the developer of others is `unknown`."""
    if re.fullmatch(r"[\w.-]+/[\w.-]+", card.model) and not card.model.startswith("."):
        developer, _, name = card.model.partition("/")
        return developer, name
    plain = re.fullmatch(r"[\w.-]+", card.model)
    return "unknown", card.model if plain else card.name


def is_remote(card: Card) -> bool:
    """Whether a model runs at an endpoint of another machine."""
    host = urlsplit(str(card.engine_args.get("base_url", ""))).hostname or ""
    return card.engine == "openai" and host not in ("", "localhost", "127.0.0.1", "::1")
