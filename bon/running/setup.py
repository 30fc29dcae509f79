"""An experiment with everything it names found and checked: cards, prompts, kinds, names."""

import difflib
import os
import sys
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bon.choosing.rules import RULES
from bon.core.errors import BonError
from bon.experiment.cards import Loaded, Room, load_policy, load_rewarder
from bon.experiment.config import CardRef, Experiment, PolicyCard, RewarderCard
from bon.experiment.overrides import override
from bon.experiment.refusals import all_of, validate
from bon.experiment.yamlfile import Origin, read_document
from bon.rewarders.again import reading
from bon.rewarders.judge import Protocol
from bon.rewarders.registry import code_hash, registered, rewarder_class
from bon.running.pinning import pinned
from bon.running.worker import ModelSpec, PolicySpec, RewarderSpec

if TYPE_CHECKING:
    from bon.analysis.results import Options

EXPERIMENTS = Path(__file__).parents[1] / "experiment" / "shipped"


@dataclass(frozen=True)
class Setup:
    """What a run needs to know before it loads anything. `base` is the experiment's folder."""

    experiment: Experiment
    base: Path
    policies: tuple[Loaded[PolicyCard], ...]
    rewarders: tuple[Loaded[RewarderCard], ...]
    ensembles: tuple[Loaded[RewarderCard], ...] = ()
    raw: dict[str, Any] = field(default_factory=dict)

    @property
    def models(self) -> list[Loaded[PolicyCard] | Loaded[RewarderCard]]:
        """Everything that runs, policies first."""
        return [*self.policies, *self.rewarders]

    def protocol(self, rewarder: Loaded[RewarderCard]) -> Protocol:
        """How a rewarder is asked about candidates."""
        return Protocol(
            spec=rewarder.spec,
            votes=rewarder.card.votes,
            design=self.experiment.judging.design,
            retries=self.experiment.cluster.retries,
        )

    def specs(self) -> dict[str, ModelSpec]:
        """Every model by name, as a worker needs it."""
        allowed = self.experiment.allow_remote_code
        retries = self.experiment.cluster.retries
        found: dict[str, ModelSpec] = {
            policy.card.name: PolicySpec(policy, retries, allowed) for policy in self.policies
        }
        for rewarder in self.rewarders:
            found[rewarder.card.name] = RewarderSpec(
                rewarder, self.protocol(rewarder), allowed, registered(rewarder.card)
            )
        return found

    def pair_votes(self, rewarder: Loaded[RewarderCard]) -> dict[str, int]:
        """Votes asked of a rewarder on each reward benchmark."""
        return {
            spec.name or spec.benchmark: spec.votes or rewarder.card.votes
            for spec in self.experiment.pairs
        }


def read_experiment(path: Path, assignments: list[str] | None = None) -> Setup:
    """The experiment in a YAML file or of a shipped name, `key=value` settings laid over it."""
    file, base = find_experiment(path)
    document = override(read_document(file), assignments or [])
    return prepare(document.data, base, document.origin)


def find_experiment(path: Path) -> tuple[Path, Path]:
    """The file of an experiment, and the folder that its paths start from.

    A bare name is a shipped experiment; its paths start from the current folder.
    """
    if path.exists() or path.suffix or path.name != str(path):
        return path, path.parent
    known = shipped_experiments()
    if path.name not in known:
        close = difflib.get_close_matches(path.name, known, n=1, cutoff=0.4)
        hint = f"did you mean {close[0]!r}?" if close else f"shipped: {', '.join(known)}"
        raise BonError(f"no experiment {path.name!r}", f"{hint} (one of your own ends in .yaml)")
    return known[path.name], Path.cwd()


def shipped_experiments() -> dict[str, Path]:
    """Name -> file of the experiments that come with the package."""
    return {file.stem: file for file in sorted(EXPERIMENTS.glob("*.yaml"))}


def prepare(raw: Mapping[str, Any], base: Path, where: str | Origin = "experiment") -> Setup:
    """Validate an experiment and find the cards it names; all that is wrong is said at once."""
    origin = Origin(where) if isinstance(where, str) else where
    experiment = validate(Experiment, raw, origin)
    seed = experiment.seed

    asked = _pinned(experiment, "policies", base, origin)
    policies = all_of(partial(load_policy, ref, base, seed, at) for ref, at in asked)
    judges = _pinned(experiment, "rewarders", base, origin)
    cards = all_of(partial(_rewarder, ref, base, seed, at) for ref, at in judges)
    models = _each_its_replies(card for card in cards if card.card.kind != "ensemble")
    _unique([policy.card.name for policy in policies] + [card.card.name for card in cards])
    _unique([spec.name or spec.benchmark for spec in experiment.pairs])
    _check_counting(experiment, [policy.card for policy in policies], origin)
    _check_deciding(experiment, models, origin)
    ensembles = tuple(card for card in cards if card.card.kind == "ensemble")
    names = {card.card.name for card in models}
    for ensemble in ensembles:
        for member in ensemble.card.members:
            if member not in names:
                raise BonError(
                    f"ensemble {ensemble.card.name!r}: no rewarder {member!r} in this experiment",
                    f"name it under `rewarders:`, or one of {', '.join(sorted(names)) or 'those'}",
                )
    named = {
        room: [ref for ref, _ in refs]
        for room, refs in (("policies", asked), ("rewarders", judges))
    }
    written = {**raw, **{room: refs for room, refs in named.items() if refs}}
    return Setup(experiment, base, tuple(policies), models, ensembles, written)


def _pinned(
    experiment: Experiment, room: Room, base: Path, origin: Origin
) -> list[tuple[CardRef, Origin]]:
    """The cards that an experiment names, each with where; what is `from` somewhere is pinned."""
    refs = getattr(experiment, room)
    places = [origin.inside(room, at) for at in range(len(refs))]
    makers = (partial(pinned, ref, room, base, at) for ref, at in zip(refs, places, strict=True))
    return [(ref, at) for refs, at in zip(all_of(makers), places, strict=True) for ref in refs]


def _check_counting(experiment: Experiment, policies: list[PolicyCard], origin: Origin) -> None:
    """Refuse what the analysis would refuse after all has been paid for."""
    n, most = experiment.analysis.n, min(policy.n for policy in policies)
    if n is not None and n > most:
        raise BonError(
            f"{origin.place(('analysis', 'n'))}: analysis.n: found {n}, but {most} candidates "
            "are sampled per question",
            f"choose at most {most}, or raise n of the policies",
        )
    for at, rule in enumerate(experiment.analysis.rules):
        if rule not in RULES:
            raise BonError(
                f"{origin.place(('analysis', 'rules', at))}: analysis.rules: no rule {rule!r}",
                f"choose among {', '.join(RULES)}",
            )


def _check_deciding(
    experiment: Experiment, models: tuple[Loaded[RewarderCard], ...], origin: Origin
) -> None:
    """Refuse looks at rewarders that cannot be asked as it goes, or at too few to compare."""
    decide = experiment.judging.decide
    if decide is None:
        return
    place = f"{origin.place(('judging', 'decide'))}: judging.decide"
    for loaded in models:
        if loaded.card.brought:
            raise BonError(
                f"{place}: {loaded.card.name} is read from files and cannot be asked as it goes",
                "leave it out, or leave out judging.decide",
            )
    if len(models) < (2 if decide == "best" else 1):
        raise BonError(f"{place}: {len(models)} rewarders", "name those to decide between")


def _rewarder(ref: CardRef, base: Path, seed: int, origin: Origin) -> Loaded[RewarderCard]:
    """A rewarder whose class can be imported, a user's own from beside the experiment too."""
    loaded = load_rewarder(ref, base, seed, origin)
    if loaded.card.kind == "python":
        sys.path.extend(p for p in (str(base.resolve()), os.getcwd()) if p not in sys.path)
    if loaded.card.kind == "ensemble":
        return loaded
    rewarder_class(loaded.card)
    return replace(loaded, code=code_hash(loaded.card))


def _each_its_replies(models: Iterable[Loaded[RewarderCard]]) -> tuple[Loaded[RewarderCard], ...]:
    """Rewarders that differ only in how replies are read: all but the first ask for their own."""
    first: dict[str, str] = {}
    found = []
    for loaded in models:
        read_by = reading(loaded.card)
        if first.setdefault(loaded.specs.card, read_by) != read_by:
            loaded = replace(loaded, specs=replace(loaded.specs, card=loaded.specs.with_rule))
        found.append(loaded)
    return tuple(found)


def _unique(names: list[str]) -> None:
    for name, count in Counter(names).items():
        if count > 1:
            raise BonError(
                f"the name {name!r} is used {count} times", "give one a `name:` of its own"
            )


def options(setup: Setup) -> "Options":
    """How the experiment asks for its analysis."""
    from bon.analysis.results import Options

    wanted = setup.experiment.analysis
    return Options(
        n=wanted.n,
        axis=wanted.axis,
        rules=wanted.rules,
        target_r=wanted.target_r,
        ties=wanted.ties,
        draws=wanted.bootstrap,
        seed=setup.experiment.seed,
        level=wanted.confidence,
        unparsed=wanted.unparsed,
        aggregate=wanted.aggregate,
        covariates=wanted.covariates,
    )
