"""`bon uplift`: gains by training on what rewarders prefer."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from bon.commands import options
from bon.commands.options import emit
from bon.core.console import show_listing
from bon.core.errors import BonError

if TYPE_CHECKING:
    from bon.analysis.results import Uplift


def uplift(
    directory: options.Directory,
    questions: Annotated[
        Path, Argument(help="Questions to evaluate on, none of them in the run: a data file.")
    ],
    benchmark: Annotated[
        str, Option(help="Benchmark of these questions; the run's by default.")
    ] = "",
    method: Annotated[list[str] | None, Option(help="sft or dpo, repeatable.")] = None,
    rewarders: Annotated[str, Option(help="Rewarders, separated by commas; all if unset.")] = "",
    policy: Annotated[str, Option(help="Policy to train; needed if the run has several.")] = "",
    seeds: Annotated[int, Option(min=1, help="Trainings per arm.")] = 1,
    steps: Annotated[int, Option(min=1, help="Steps per training.")] = 24,
    batch: Annotated[int | None, Option(min=1, help="Examples per step.")] = None,
    rate: Annotated[float | None, Option(min=0, help="Peak learning rate.")] = None,
    beta: Annotated[float, Option(min=0, help="Beta of DPO.")] = 0.1,
    samples: Annotated[int, Option(min=1, help="Sampled responses per question.")] = 1,
    export: Annotated[
        Path | None,
        Option(help="Write all arms' data, settings and TRL script here, untrained."),
    ] = None,
    add: Annotated[
        list[str] | None,
        Option(
            metavar="ARM=CHECKPOINT",
            help="Evaluate a checkpoint trained elsewhere; repeatable.",
        ),
    ] = None,
    limit: options.Limit = None,
    quiet: options.Quiet = False,
    as_json: options.Json = False,
) -> None:
    """Train a policy on what each rewarder prefers, and measure its gain on other questions."""
    from typing import get_args

    from bon.engines.tuning import Method
    from bon.experiment.config import DatasetSpec
    from bon.running.reporting import open_run
    from bon.storage.store import Store
    from bon.training.uplift import Study
    from bon.training.uplift import export as export_arms
    from bon.training.uplift import uplift as run_uplift

    known: dict[str, Method] = {name: name for name in get_args(Method)}
    if unknown := [name for name in method or [] if name not in known]:
        raise BonError(f"no method {unknown[0]!r}", f"one of {', '.join(known)}")
    with Store(directory, readonly=True) as store:
        own, *_ = open_run(store).experiment.questions
    spec = DatasetSpec(
        benchmark=benchmark or own.benchmark,
        path=str(questions.absolute()),
        columns=own.columns if not benchmark else {},
        config=own.config if not benchmark else None,
        limit=limit,
        name="evaluation",
    )
    study = Study(
        methods=tuple(known[name] for name in method or ["dpo"]),
        rewarders=tuple(filter(None, (name.strip() for name in rewarders.split(",")))),
        questions=spec,
        seeds=seeds,
        steps=steps,
        batch=batch,
        rate=rate,
        beta=beta,
        samples=samples,
        policy=policy,
        added=tuple((arm, Path(path)) for arm, path in options.pairs_of("--add", add).items()),
    )
    if export is not None:
        paths = [str(path) for path in export_arms(directory, study, export, quiet=as_json)]
        emit(paths, lambda: "\n".join(paths), as_json)
        return
    results = run_uplift(directory, study, quiet=quiet or as_json)
    emit(results, lambda: _shown(results), as_json)


def _shown(study: "Uplift") -> str:
    """Return the arms, the sentence of each method and warnings."""
    from bon.analysis.uplift import uplift_rows

    accuracy = f"greedy {study.greedy:.3f}, sampled {study.sampled:.3f}"
    lines = [
        show_listing(uplift_rows(study)),
        "",
        f"{study.policy} untrained: {accuracy} on {study.num_evaluated:,} questions",
        *(m.sentence for m in study.methods),
    ]
    return "\n".join([*lines, *(f"  - {line}" for line in study.warnings)])
