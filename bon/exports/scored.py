"""What was measured of each rewarder, as one list that stores, pages and trackers read."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal
from urllib.parse import urlsplit

from bon.analysis.results import Estimate
from bon.analysis.results.best_of_n import BestOfN
from bon.benchmarks import adapter
from bon.experiment.cards import Loaded
from bon.experiment.config import Card, DatasetSpec, PolicyCard, RewarderCard
from bon.exports.contents import Contents

Metric = Literal["accuracy", "gain", "gap_closed"]


@dataclass(frozen=True, slots=True)
class Scored:
    """One number of one rewarder; `key` names it within the rewarder, `about` says how it came.

    Accuracies lie within 0 and 1, gains within -1 and 1; the share of the gap that a rewarder
    closes has no lower bound. `choice` is what was chosen where this is Best-of-N.
    """

    rewarder: Loaded[RewarderCard]
    key: str
    title: str
    metric: Metric
    dataset: DatasetSpec
    estimate: Estimate
    about: str
    choice: BestOfN | None = None


def scored(contents: Contents) -> Iterator[Scored]:
    """Rewarder by rewarder: its accuracy on reward benchmarks, then what its choices are worth."""
    setup = contents.setup
    for rewarder in (*setup.rewarders, *setup.ensembles):
        rows = (*_on_pairs(contents, rewarder), *_on_candidates(contents, rewarder))
        yield from (row for row in rows if row.estimate.value is not None)


def _on_pairs(contents: Contents, rewarder: Loaded[RewarderCard]) -> Iterator[Scored]:
    results = contents.results
    specs = {name_of(spec): spec for spec in contents.setup.experiment.pairs}
    asked = {said.rewarder: said for said in results.protocol.rewarders}
    for found in results.benchmarks:
        if found.rewarder != rewarder.card.name or found.benchmark not in specs:
            continue
        said = asked.get(found.rewarder)
        about = f"votes: {said.votes_pairs}, orders: {said.orders_pairs}, " if said else ""
        about += f"ties: {results.options.ties}"
        rows = [("macro", found.macro), ("overall", found.overall)]
        rows += [("natural", found.natural)] if found.natural else []
        rows += [(group.name, group.accuracy) for group in found.groups]
        for name, estimate in rows:
            yield Scored(
                rewarder, f"{found.benchmark}.{name}", f"{name} accuracy on {found.benchmark}",
                "accuracy", specs[found.benchmark], estimate, about,
            )  # fmt: skip


def _on_candidates(contents: Contents, rewarder: Loaded[RewarderCard]) -> Iterator[Scored]:
    results, spec = contents.results, contents.setup.experiment.questions
    for found in results.best_of_n:
        if found.rewarder != rewarder.card.name or not found.headline:
            continue
        about = (
            f"Best-of-{found.n} of {found.policy}, picked by this model; rule {found.rule}; "
            f"answers without a letter count as {results.options.unparsed}"
        )
        what: tuple[tuple[Metric, str, Estimate], ...] = (
            ("accuracy", f"Best-of-{found.n} accuracy", found.accuracy),
            ("gain", f"gain of Best-of-{found.n} over one answer", found.gain),
            ("gap_closed", f"gap to the oracle that Best-of-{found.n} closes", found.gap_closed),
        )
        for metric, title, estimate in what:
            key = f"{name_of(spec)}.{found.policy}.bon{found.n}.{metric}"
            yield Scored(rewarder, key, title, metric, spec, estimate, about, found)


def name_of(spec: DatasetSpec) -> str:
    """The name that results carry."""
    return spec.name or spec.benchmark


def hub_of(spec: DatasetSpec) -> str:
    """The dataset of the hub that was read; empty for a file, whatever its benchmark."""
    return "" if spec.path else spec.hub or adapter(spec.benchmark).hub


def policy_of(contents: Contents, name: str) -> Loaded[PolicyCard]:
    """The policy of that name."""
    return next(one for one in contents.setup.policies if one.card.name == name)


def model_id(card: Card) -> tuple[str, str]:
    """Who made a model and its name, as the hub has them; `unknown` where it is not from there."""
    if re.fullmatch(r"[\w.-]+/[\w.-]+", card.model) and not card.model.startswith("."):
        developer, _, name = card.model.partition("/")
        return developer, name
    plain = re.fullmatch(r"[\w.-]+", card.model)
    return "unknown", card.model if plain else card.name


def is_remote(card: Card) -> bool:
    """Whether a model runs with somebody else: at an endpoint that is not of this machine."""
    host = urlsplit(str(card.engine_args.get("base_url", ""))).hostname or ""
    return card.engine == "openai" and host not in ("", "localhost", "127.0.0.1", "::1")
