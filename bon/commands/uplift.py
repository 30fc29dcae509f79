"""`bon uplift`: gains by training on what rewarders prefer."""

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from bon.commands import options
from bon.commands.options import emit
from bon.core.console import show_listing
from bon.core.errors import BonError


def uplift(
    directory: options.Directory,
    questions: Annotated[
        Path, Argument(help="Questions to evaluate on, none of them in the run: a data file.")
    ],
    benchmark: Annotated[
        str, Option(help="Benchmark of these questions; the run's if unset.")
    ] = "",
    method: Annotated[list[str] | None, Option(help="sft or dpo; repeatable.")] = None,
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
        Option(help="Write data, TRL script and settings of all arms here instead of training."),
    ] = None,
    add: Annotated[
        list[str] | None,
        Option(
            metavar="ARM=CHECKPOINT",
            help="Evaluate a checkpoint trained elsewhere; repeatable, trains nothing.",
        ),
    ] = None,
    limit: options.Limit = None,
    quiet: options.Quiet = False,
    as_json: options.Json = False,
) -> None:
    """Train a policy on what each rewarder prefers, and measure its gain on other questions."""
    from typing import get_args

    from bon.analysis.uplift import uplift_rows
    from bon.engines.tuning import Method
    from bon.experiment.config import DatasetSpec
    from bon.running.reporting import open_run
    from bon.storage.store import Store
    from bon.training.uplift import Study
    from bon.training.uplift import uplift as run_uplift

    known: dict[str, Method] = {name: name for name in get_args(Method)}
    if unknown := [name for name in method or [] if name not in known]:
        raise BonError(f"no method {unknown[0]!r}", f"one of {', '.join(known)}")
    with Store(directory, readonly=True) as store:
        own = open_run(store).experiment.questions
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
        export=export,
        added=tuple((arm, Path(path)) for arm, path in options.pairs_of("--add", add).items()),
    )
    results = run_uplift(directory, study, quiet=quiet or as_json)
    if isinstance(results, list):
        emit(list(map(str, results)), lambda: "\n".join(map(str, results)), as_json)
        return

    def text() -> str:
        accuracy = f"greedy {results.greedy:.3f}, sampled {results.sampled:.3f}"
        lines = [
            show_listing(uplift_rows(results)),
            "",
            f"{results.policy} untrained: {accuracy} on {results.num_evaluated:,} questions",
        ]
        lines += [m.sentence for m in results.methods]
        return "\n".join([*lines, *(f"  - {line}" for line in results.warnings)])

    emit(results, text, as_json)
