"""Load and check an experiment with everything that it names."""

import os
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bon.benchmarks import BENCHMARKS
from bon.benchmarks.step_labels import SEPARATOR
from bon.choosing.rules import RULES
from bon.core.errors import BonError, suggestion
from bon.core.records import LMMS_EVAL, Candidate
from bon.core.validation import Origin, all_of, validate
from bon.dispatch.worker import ModelSpec
from bon.experiment.cards import Loaded, Role, load_policy, load_rewarder
from bon.experiment.config import PRICED, CardRef, DatasetSpec, Experiment, PolicyCard, RewarderCard
from bon.experiment.overrides import override
from bon.experiment.yamlfile import read_document
from bon.rewarders.item_judging import Protocol
from bon.rewarders.registry import code_hash, registered, rewarder_class
from bon.rewarders.reply_parsing import parser_key
from bon.storage.database import DATABASE
from bon.storage.store import Store
from bon.work.grading import check_grader, load_grader, load_reader
from bon.work.imported_cards import of_pool, pinned
from bon.work.judging_scope import drawn

if TYPE_CHECKING:
    from bon.analysis.results import Options

OPEN_PROMPTS = {"cot": "open", "direct": "open-direct", "cot-boxed": "open-boxed"}
"""What stands for a shipped prompt where questions may have no options."""

EXPERIMENTS = Path(__file__).parents[1] / "experiment" / "shipped"


@dataclass(frozen=True)
class Setup:
    """An experiment and its loaded cards; `base` is the experiment's folder."""

    experiment: Experiment
    base: Path
    policies: tuple[Loaded[PolicyCard], ...]
    rewarders: tuple[Loaded[RewarderCard], ...]
    ensembles: tuple[Loaded[RewarderCard], ...] = ()
    grader: Loaded[RewarderCard] | None = None
    reader: Loaded[RewarderCard] | None = None
    raw: dict[str, Any] = field(default_factory=dict)

    @property
    def models(self) -> list[Loaded[PolicyCard] | Loaded[RewarderCard]]:
        """Return all models: policies, rewarders, and those that grade or read answers."""
        return [*self.policies, *self.rewarders, *self.assistants]

    @property
    def assistants(self) -> tuple[Loaded[RewarderCard], ...]:
        """Return the models that grade or read answers."""
        return tuple(filter(None, (self.grader, self.reader)))

    def map_models(self, function: Callable[[Loaded[Any]], Loaded[Any]]) -> "Setup":
        """Return the setup with a function applied to every model."""
        return replace(
            self,
            policies=tuple(map(function, self.policies)),
            rewarders=tuple(map(function, self.rewarders)),
            grader=self.grader and function(self.grader),
            reader=self.reader and function(self.reader),
        )

    def is_deep(self, rewarder: Loaded[RewarderCard]) -> bool:
        """Return whether a rewarder scores the further candidates of `judging.deep`."""
        deep, card = self.experiment.judging.deep, rewarder.card
        if any(card.name == model.card.name for model in self.assistants):
            return deep is not None
        if deep is None or card.imported or rewarder_class(card).arity != "one":
            return False
        return not deep.rewarders or card.name in deep.rewarders

    def depth(
        self,
        policy: Loaded[PolicyCard],
        question: str,
        rewarder: Loaded[RewarderCard] | None = None,
    ) -> int:
        """Return how many candidates of a question there are, or a rewarder is shown."""
        deep, subset = self.experiment.judging.deep, self.experiment.subset
        if deep is None or policy.card.imported or (rewarder and not self.is_deep(rewarder)):
            return policy.card.n
        return max(policy.card.n, deep.n if drawn(question, min(deep.share, subset)) else 0)

    def candidates(self, store: Store, question: str) -> list[Candidate]:
        """Return the candidates of all policies, n each."""
        rows = (store.candidates(p.spec, question, p.card.n) for p in self.policies)
        return [*chain.from_iterable(rows)]

    def protocol(self, rewarder: Loaded[RewarderCard]) -> Protocol:
        """Return the judging protocol of a rewarder."""
        return Protocol(
            spec=rewarder.spec,
            votes=rewarder.card.votes,
            design=self.experiment.judging.design,
            retries=self.experiment.cluster.retries,
        )

    def specs(self) -> dict[str, ModelSpec]:
        """Return the model specs for workers, by name."""
        allowed = self.experiment.allow_remote_code
        retries = self.experiment.cluster.retries
        specs = [ModelSpec(policy, allowed, retries=retries) for policy in self.policies]
        specs += [
            ModelSpec(each, allowed, self.protocol(each), own=registered(each.card))
            for each in (*self.rewarders, *self.assistants)
        ]
        return {spec.loaded.card.name: spec for spec in specs}

    def pair_votes(self, rewarder: Loaded[RewarderCard]) -> dict[str, int]:
        """Return the votes of a rewarder per comparison on each reward benchmark."""
        return {spec.title: spec.votes or rewarder.card.votes for spec in self.experiment.pairs}


def read_experiment(path: Path, assignments: list[str] | None = None) -> Setup:
    """Read an experiment from a file or by its shipped name; `key=value` settings override it."""
    file, base = find_experiment(path)
    document = override(read_document(file), assignments or [])
    return prepare(document.data, base, document.origin)


def find_experiment(path: Path) -> tuple[Path, Path]:
    """Return the file of an experiment and the base of its relative paths.

    A bare name is a shipped experiment, relative to the current folder; the copy in a run directory
    is relative to where the run started.
    """
    if path.name == "experiment.yaml" and (path.parent / DATABASE).is_file():
        with Store(path.parent, readonly=True) as store:
            return path, Path(store.meta("base", path.parent))
    if path.exists() or path.suffix or path.name != str(path):
        return path, path.parent
    known = shipped_experiments()
    if path.name not in known:
        hint = suggestion(path.name, known, f"shipped: {', '.join(known)}", 0.4)
        raise BonError(f"no experiment {path.name!r}", f"{hint} (one of your own ends in .yaml)")
    return known[path.name], Path.cwd()


def shipped_experiments() -> dict[str, Path]:
    """Return the files of the shipped experiments by name."""
    return {file.stem: file for file in sorted(EXPERIMENTS.glob("*.yaml"))}


def prepare(raw: Mapping[str, Any], base: Path, where: str | Origin = "experiment") -> Setup:
    """Validate an experiment and load its cards; all errors are raised together."""
    origin = Origin(where) if isinstance(where, str) else where
    experiment = validate(Experiment, raw, origin)
    seed = experiment.seed

    policy_refs = _pinned(experiment, "policies", base, origin)
    free = any(
        task.benchmark in BENCHMARKS and BENCHMARKS[task.benchmark].grader
        for task in experiment.questions
    )
    alone = all(map(foreign, experiment.questions))
    load = partial(_open_policy, alone=alone) if free else load_policy
    policies = all_of(partial(load, ref, base, seed, at) for ref, at in policy_refs)
    rewarder_refs = _pinned(experiment, "rewarders", base, origin)
    cards = all_of(partial(_rewarder, ref, base, seed, at) for ref, at in rewarder_refs)
    models = _separate_specs(card for card in cards if card.card.kind != "ensemble")
    grader = load_grader(experiment, base, origin.inside("grading"))
    if grader is not None:
        check_grader(grader, models)
    reader = load_reader(experiment, policies, base, origin.inside("reading"))
    assistants = [*filter(None, (grader, reader))]
    names = [loaded.card.name for loaded in policies]
    names += [loaded.card.name for loaded in (*cards, *assistants)]
    tasks = [spec.title for spec in experiment.questions]
    for group in (names, tasks, [spec.title for spec in experiment.pairs]):
        for name, count in Counter(group).items():
            if count > 1:
                fix = "give one a `name:` of its own"
                raise BonError(f"the name {name!r} is used {count} times", fix)
    _check_counting(experiment, min((each.card.n for each in policies), default=0), origin)
    _check_deep(experiment, {loaded.card.name: loaded for loaded in models}, origin)
    ensembles = tuple(card for card in cards if card.card.kind == "ensemble")
    judges = sorted(model.card.name for model in models)
    for ensemble in ensembles:
        for member in set(ensemble.card.members) - set(judges):
            raise BonError(
                f"ensemble {ensemble.card.name!r}: no rewarder {member!r} in this experiment",
                f"name it under `rewarders:`, or one of {', '.join(judges) or 'those'}",
            )
    _check_steps(experiment, models, origin)
    _check_priced(experiment, [*policies, *models, *assistants], origin)
    resolved = dict(raw)
    for role, refs in (("policies", policy_refs), ("rewarders", rewarder_refs)):
        if refs:
            resolved[role] = [ref for ref, _ in refs]
    own = tuple(policies), models, ensembles, grader, reader
    return Setup(experiment, base, *own, resolved)


def _pinned(
    experiment: Experiment, role: Role, base: Path, origin: Origin
) -> list[tuple[CardRef, Origin]]:
    """Return the card references with their origins; imported ones are pinned."""

    def cards_of(index: int, ref: CardRef) -> list[tuple[CardRef, Origin]]:
        at, refs = origin.inside(role, index), [ref]
        if isinstance(ref, Mapping) and "pool" in ref and role == "policies":
            refs = of_pool(ref, base, at)
        return [(card, at) for each in refs for card in pinned(each, role, base, at)]

    named = all_of(partial(cards_of, *each) for each in enumerate(getattr(experiment, role)))
    return [*chain.from_iterable(named)]


def _check_counting(experiment: Experiment, most: int, origin: Origin) -> None:
    """Raise before the run what the analysis would raise after it; most: candidates, if any."""
    n = experiment.analysis.n
    if n is not None and 0 < most < n:
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


def _check_priced(experiment: Experiment, models: Iterable[Loaded[Any]], origin: Origin) -> None:
    """Refuse a cap on what nobody knows the price of."""
    cards = [each.card for each in models if each.card.engine == "openai"]
    unpriced = [c.name for c in cards if c.engine_args.get("base_url") and c.price is None]
    if experiment.cluster.spending_cap is not None and unpriced:
        raise BonError(
            f"{origin.place(('cluster', 'spending_cap'))}: cluster.spending_cap cannot count what "
            f"card {unpriced[0]!r} costs, which has no price",
            PRICED,
        )


def _check_steps(
    experiment: Experiment, models: Iterable[Loaded[RewarderCard]], origin: Origin
) -> None:
    """Refuse rewarders without step scores, or of other steps, where a benchmark labels steps."""
    named = [spec.benchmark for spec in experiment.pairs]
    labelled = [name for name in named if name in BENCHMARKS and BENCHMARKS[name].steps]
    for card in (model.card for model in models if labelled):
        if card.kind != "stepwise" or not (card.imported or card.step_separator == SEPARATOR):
            raise BonError(
                f"{origin.place(('rewarders',))}: card {card.name!r} scores no steps as "
                f"{labelled[0]} labels them",
                "give it `kind: stepwise` and a blank line as `step_separator`, or judge that "
                "benchmark in an experiment of its own",
            )


def _check_deep(
    experiment: Experiment, models: dict[str, Loaded[RewarderCard]], origin: Origin
) -> None:
    deep = experiment.judging.deep
    single = [n for n, loaded in models.items() if rewarder_class(loaded.card).arity == "one"]
    for at, name in enumerate(deep.rewarders if deep else ()):
        if name not in single:
            raise BonError(
                f"{origin.place(('judging', 'deep', 'rewarders', at))}: judging.deep: {name!r} is "
                f"no rewarder of this experiment that scores single candidates",
                f"choose among {', '.join(single) or 'such rewarders: scalar, pointwise, ...'}",
            )


def foreign(task: DatasetSpec) -> bool:
    """Whether a task is lmms-eval's, whose questions are whole prompts."""
    return task.benchmark.startswith(LMMS_EVAL)


def _open_policy(
    ref: CardRef, base: Path, seed: int, origin: Origin, *, alone: bool
) -> Loaded[PolicyCard]:
    """Load a policy with a prompt for questions that may have no options, or are prompts."""
    loaded = load_policy(ref, base, seed, origin)
    prompt = loaded.prompt
    if prompt.id in OPEN_PROMPTS:
        card = {"card": ref} if isinstance(ref, str) else ref
        other = {"text": "{{ question }}"} if alone else OPEN_PROMPTS[prompt.id]
        return load_policy({**card, "prompt": other}, base, seed, origin)
    letters = "letters" in prompt.wording and not re.search(r"\{%-?\s*if\b", prompt.wording)
    if letters or prompt.id in ("cot-vision", "direct-vision"):
        raise BonError(
            f"{origin.place(('prompt',))}: card {loaded.card.name!r}: prompt {prompt.id!r} asks "
            "for an option letter, and questions here may have no options",
            "use `prompt: open`, or `{% if options %}` in your own",
        )
    return loaded


def _rewarder(ref: CardRef, base: Path, seed: int, origin: Origin) -> Loaded[RewarderCard]:
    """Load a rewarder and its class, which may lie beside the experiment."""
    loaded = load_rewarder(ref, base, seed, origin)
    if loaded.card.kind == "python":
        sys.path.extend(p for p in (str(base.resolve()), os.getcwd()) if p not in sys.path)
    if loaded.card.kind == "ensemble":
        return loaded
    rewarder_class(loaded.card)
    return replace(loaded, code=code_hash(loaded.card))


def _separate_specs(models: Iterable[Loaded[RewarderCard]]) -> tuple[Loaded[RewarderCard], ...]:
    """Give own specs to rewarders that differ from an earlier one only in parsing."""
    first: dict[str, str] = {}
    separated = []
    for loaded in models:
        parser = parser_key(loaded.card)
        if first.setdefault(loaded.card_spec, parser) != parser:
            loaded = replace(loaded, card_spec=loaded.with_rule)
        separated.append(loaded)
    return tuple(separated)


def located(spec: DatasetSpec, base: Path) -> DatasetSpec:
    """Return a dataset with the absolute path of its files."""
    if spec.path is None:
        return spec
    return spec.model_copy(update={"path": str((base / os.path.expanduser(spec.path)).resolve())})


def options(setup: Setup) -> "Options":
    """Return the analysis options of an experiment."""
    from bon.analysis.results import Options

    settings = setup.experiment.analysis.model_dump()
    renamed = {"draws": settings.pop("bootstrap"), "level": settings.pop("confidence")}
    return Options(seed=setup.experiment.seed, **renamed, **settings)
