"""Train a policy on what each rewarder prefers, and evaluate what came of it: `bon uplift`.

Three stages, each resumable: the choices of every arm, one checkpoint per arm (a Ray task, kept
under the key of everything that shaped it), and an ordinary run of all checkpoints as policies.
"""

import json
import os
import shutil
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from bon.analysis.results.uplift import Uplift
from bon.analysis.uplift import Outcomes, analyse_uplift
from bon.benchmarks import load_questions
from bon.benchmarks.base import BadRow
from bon.benchmarks.leaks import plain
from bon.core.console import say
from bon.core.errors import BonError, Incomplete, one_line, some
from bon.core.files import write_atomic
from bon.core.images import ImageStore
from bon.core.ledger import LEDGER
from bon.core.records import Question
from bon.dispatch.connection import connected
from bon.dispatch.tasks import run_tasks
from bon.engines.settings import TransformersSettings
from bon.engines.tuning import Example, FineTuned, Method, Tuning
from bon.experiment.cards import Loaded, settings_of
from bon.experiment.config import DatasetSpec, PolicyCard
from bon.exports.preferences import messages_of, unjudged_note
from bon.running.reporting import UPLIFT, open_run, read_results, report_run
from bon.running.runner import compute
from bon.running.start import start
from bon.storage.store import Store
from bon.training.arms import Arm, Choices, choose
from bon.training.elsewhere import added_arms, export_arms
from bon.work.run_tables import run_tables
from bon.work.setup import Setup, located, prepare

UNTRAINED = "untrained"
GREEDY = ".greedy"
DONE = "training.json"
RATES: dict[Method, tuple[int, float]] = {"sft": (64, 3e-4), "dpo": (32, 1e-4)}
"""Batch and peak rate by method, for full fine-tuning of a small policy."""


@dataclass(frozen=True)
class Study:
    """Settings of a training study.

    `questions`: the data to evaluate on, and `samples` per question beside a greedy response.
    `added`: checkpoints by arm; with any, arms that have one are evaluated and none is trained.
    """

    methods: tuple[Method, ...]
    rewarders: tuple[str, ...]
    questions: DatasetSpec
    seeds: int = 1
    steps: int = 24
    batch: int | None = None
    rate: float | None = None
    beta: float = 0.1
    samples: int = 1
    policy: str = ""
    added: tuple[tuple[str, Path], ...] = ()


def uplift(directory: Path, study: Study, *, quiet: bool = False) -> Uplift:
    """Run or continue a study in RUN/uplift; return its results (uplift.json).

    Raises:
        BonError: the run lacks what training needs, or questions to evaluate on were trained on.
        Incomplete: an arm failed; the others are kept.
    """
    results_of_run = read_results(directory)
    setup, policy, choices, arms = _prepared(
        directory, study, quiet=quiet, elsewhere=bool(study.added)
    )
    folder = directory / UPLIFT
    own, checkpoints = added_arms(dict(study.added), arms)
    missing = [arm for arm in arms if arm.label not in checkpoints]
    if study.added:
        missing = [arm for arm in missing if is_trained(folder, arm)]
    arms = [*missing, *own]
    folders = train(folder, missing, choices, policy, setup, quiet=quiet) | checkpoints
    evaluation = evaluate(folder, arms, folders, policy, setup, study, quiet=quiet)
    results = analyse_uplift(
        _outcomes(evaluation, arms),
        results_of_run,
        policy=policy.card.name,
        num_questions=len(choices.questions),
        num_unjudged_by_key=choices.by_key,
        seed=setup.experiment.seed,
    )
    write_atomic(directory / UPLIFT / "uplift.json", results.model_dump_json(indent=1))
    report_run(directory, quiet=True)
    return results


def export(directory: Path, study: Study, out: Path, *, quiet: bool = False) -> list[Path]:
    """Write what a study trains on, a script for TRL and its settings; return the paths."""
    _, policy, choices, arms = _prepared(directory, study, quiet=quiet, elsewhere=True)
    return export_arms(arms, choices, policy, study.seeds, out)


def _prepared(
    directory: Path, study: Study, *, quiet: bool, elsewhere: bool = False
) -> tuple[Setup, Loaded[PolicyCard], Choices, list[Arm]]:
    with Store(directory, readonly=True) as store:
        setup = open_run(store)
        policy = _policy(setup, study, elsewhere)
        names = _rewarders(setup, study.rewarders)
        choices = choose(setup, store, policy, names, setup.experiment.seed)
    line = f"training on {len(choices.questions):,} questions of {policy.card.name}"
    if choices.unjudged:
        line += f"; {choices.unjudged:,} with different answers were not judged by all rewarders"
    say(line, quiet=quiet)
    if choices.by_key:
        say(unjudged_note(choices.by_key, directory), quiet=quiet)
    refuse_overlap(choices.questions, study.questions, directory)
    arms = [
        Arm(name, _tuning(study, method, seed), rows, policy.spec)
        for method in study.methods
        for seed in range(study.seeds)
        for name, rows in choices.by_arm.items()
    ]
    return setup, policy, choices, arms


def _policy(setup: Setup, study: Study, elsewhere: bool) -> Loaded[PolicyCard]:
    name = study.policy
    known = {policy.card.name: policy for policy in setup.policies}
    if name and name not in known:
        raise BonError(f"the run has no policy {name!r}", f"one of {', '.join(known)}")
    if not name and len(known) != 1:
        raise BonError(
            f"the run has {len(known)} policies", f"--policy {next(iter(known), 'NAME')}"
        )
    policy = known[name or next(iter(known))]
    if policy.card.engine != "transformers" and not elsewhere:
        raise BonError(
            f"{policy.card.name} runs on {policy.card.engine}: its weights cannot be trained here",
            "train elsewhere: --export FOLDER, then --add ARM=CHECKPOINT",
        )
    return policy


def _rewarders(setup: Setup, names: tuple[str, ...]) -> list[str]:
    known = [rewarder.card.name for rewarder in setup.rewarders]
    if unknown := [name for name in names if name not in known]:
        raise BonError(f"the run has no rewarder {unknown[0]!r}", f"one of {', '.join(known)}")
    return list(names) or known


def _tuning(study: Study, method: Method, seed: int) -> Tuning:
    batch, rate = RATES[method]
    return Tuning(
        method, study.steps, study.batch or batch, study.rate or rate, study.beta, seed=seed
    )


def refuse_overlap(trained: Iterable[Question], spec: DatasetSpec, base: Path) -> None:
    """Raise BonError if questions to evaluate on share content, image or cluster with trained ones.

    Texts of questions without images are compared whatever their layout (bon.benchmarks.leaks).
    """
    images_of = ImageStore(base / UPLIFT / "evaluation" / "images")

    def marks(row: Question) -> set[str]:
        shown = {image.sha256 for image in row.images}
        text = plain("\n".join([row.text, *row.options]))
        cluster = f"cluster {row.meta['cluster']}" if "cluster" in row.meta else row.key
        return {row.key, cluster, *(shown or {text})}

    known = {mark for question in trained for mark in marks(question)}
    rows = (row for row in load_questions(spec, images_of) if not isinstance(row, BadRow))
    shared = [row.id for row in rows if known & marks(row)]
    if shared:
        raise BonError(
            f"{len(shared):,} questions to evaluate on are trained on, or share an image or a "
            f"cluster with one that is ({some(shared)})",
            "evaluate on other questions",
        )


# ------------------------------------------------------------------ training


def train(
    folder: Path,
    arms: list[Arm],
    choices: Choices,
    policy: Loaded[PolicyCard],
    setup: Setup,
    *,
    quiet: bool = False,
) -> dict[str, Path]:
    """Train the arms that have no checkpoint yet; return the folder of each by label."""
    folders = {arm.label: checkpoint(folder, arm) for arm in arms}
    missing = [arm for arm in arms if not is_trained(folder, arm)]
    if not missing:
        return folders
    for part in (folder / "checkpoints").glob("*.part"):  # of a training that was killed
        shutil.rmtree(part, ignore_errors=True)
    card, settings = policy.card, _settings(policy, setup)
    messages = {question.key: messages_of(question, policy) for question in choices.questions}
    failed = {}
    with connected(setup.experiment.cluster, quiet=quiet) as connection:
        tasks = [
            (settings, _examples(arm, messages), arm.tuning, str(folders[arm.label]))
            for arm in missing
        ]
        placement = card.placement
        results = run_tasks(train_arm, tasks, connection, cpus=placement.cpus, gpus=placement.gpus)
        for done, (index, result) in enumerate(results, start=1):
            arm = missing[index]
            if isinstance(result, FineTuned):
                state = f"loss {result.first_loss:.3f} to {result.last_loss:.3f}"
                say(f"trained {arm.label} ({done}/{len(missing)}): {state}", quiet=quiet)
            else:
                failed[arm.label] = one_line(result, 200)
    if failed:
        name, reason = next(iter(failed.items()))
        raise Incomplete(
            f"{len(failed)} of {len(arms)} arms failed ({name}: {reason})",
            "the same command trains what is missing",
        )
    return folders


def checkpoint(folder: Path, arm: Arm) -> Path:
    """Return where an arm's checkpoint is kept."""
    return folder / "checkpoints" / f"{arm.label}-{arm.key[:10]}"


def is_trained(folder: Path, arm: Arm) -> bool:
    """Whether an arm's training is finished; it is never repeated then."""
    return (checkpoint(folder, arm) / DONE).is_file()


def _settings(policy: Loaded[PolicyCard], setup: Setup) -> TransformersSettings:
    settings = settings_of(policy, remote_code=setup.experiment.allow_remote_code)
    assert isinstance(settings, TransformersSettings)
    return settings


def _examples(arm: Arm, messages: dict[str, Any]) -> list[Example]:
    pairs = arm.tuning.method == "dpo"
    return [
        Example(messages[row.question], row.chosen, row.rejected if pairs else None)
        for row in arm.rows
    ]


def train_arm(
    settings: TransformersSettings, examples: list[Example], tuning: Tuning, folder: str
) -> FineTuned:
    """Train one arm; its folder appears whole, with DONE in it, or not at all."""
    from bon.engines.hf.fine_tuning import fine_tune

    part = Path(f"{folder}.{os.getpid()}.part")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    try:
        result = fine_tune(settings, examples, tuning, part)
        (part / DONE).write_text(json.dumps(asdict(tuning) | asdict(result)), encoding="utf-8")
        shutil.rmtree(folder, ignore_errors=True)
        part.rename(folder)
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return result


# ------------------------------------------------------------------ evaluation


def evaluate(
    folder: Path,
    arms: list[Arm],
    folders: dict[str, Path],
    policy: Loaded[PolicyCard],
    setup: Setup,
    study: Study,
    *,
    quiet: bool = False,
) -> Path:
    """Run every checkpoint, and the untrained policy, as policies on the study's questions."""
    models = {UNTRAINED: policy.model_path} | {
        arm.label: str(folders[arm.label].resolve()) for arm in arms
    }
    card = policy.card.model_dump(mode="json", by_alias=True, exclude_unset=True)
    card |= {"prompt": {"text": policy.prompt.text}, "revision": None}
    cards: list[dict[str, Any]] = []
    for label, model in models.items():
        sampled = card | {"name": label, "model": model, "n": study.samples}
        greedy = {**(card.get("sampling") or {}), "temperature": 0.0}
        cards += [sampled, sampled | {"name": label + GREEDY, "n": 1, "sampling": greedy}]
    raw = {
        "name": UPLIFT,
        "seed": setup.experiment.seed,
        "questions": located(study.questions, Path()).model_dump(mode="json", exclude_unset=True),
        "policies": cards,
        **{key: setup.raw.get(key) for key in ("grading", "reading")},
        "cluster": setup.raw.get("cluster") or {},
        "allow_remote_code": setup.experiment.allow_remote_code,
    }
    out = folder / "evaluation"
    evaluation = prepare(raw, Path(), UPLIFT)
    with Store(out) as store:
        start(evaluation, store, replace=True, quiet=True)
        counts = compute(evaluation, store, quiet=quiet, ledger=folder.parent / LEDGER)
    if not counts.complete:
        raise Incomplete(f"{out} is not complete", "the same command evaluates what is missing")
    return out


def _outcomes(directory: Path, arms: list[Arm]) -> list[Outcomes]:
    """Return the accuracy of each checkpoint by question."""
    with Store(directory, readonly=True) as store:
        candidates = run_tables(open_run(store), store).candidates
    correct = candidates.groupby(["policy", "question"])["correct"].mean()
    untrained = Arm(UNTRAINED, replace(arms[0].tuning, seed=0), (), "")
    return [
        Outcomes(
            arm.name,
            arm.tuning.method,
            arm.tuning.seed,
            correct.loc[label + GREEDY].astype(float),
            correct.loc[label].astype(float),
        )
        for arm, label in [(untrained, UNTRAINED), *((arm, arm.label) for arm in arms)]
    ]
