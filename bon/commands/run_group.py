"""`bon demo`, `run`, `plan` and `status`: what computes, and what it will or did compute."""

import json
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bon.commands.options import Json, Out, Quiet, Replace, print_results
from bon.core.errors import BonError

if TYPE_CHECKING:
    from bon.analysis.results import Results
    from bon.running.live import Watcher

Sets = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="KEY=VALUE", help="Change a setting, e.g. judging.design=knockout"
    ),
]
Limit = Annotated[int | None, typer.Option(help="Only the first LIMIT questions.", min=1)]
Seed = Annotated[int | None, typer.Option(help="Seed of the experiment.")]
Address = Annotated[
    str | None,
    typer.Option(envvar="BON_RAY_ADDRESS", help="A running Ray cluster; else a local one."),
]
Retry = Annotated[bool, typer.Option("--retry-errors", help="Ask again what failed before.")]
RemoteCode = Annotated[
    bool, typer.Option("--allow-remote-code", help="Let cards run code that comes with a model.")
]
Track = Annotated[
    list[str] | None,
    typer.Option(help="Also show it in tensorboard, mlflow or wandb, while it runs."),
]
PILOT_WIDTH = 0.15
"""The width of r's interval that a pilot plans for, unless `bon plan` is asked for another."""
File = Annotated[
    Path, typer.Argument(help="The experiment: a YAML file, or a name of `list experiments`.")
]


def demo(
    out: Out = Path("runs/demo"),
    limit: Limit = None,
    seed: Seed = None,
    sets: Sets = None,
    ray_address: Address = None,
    replace: Replace = False,
    track: Track = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Run the embedded miniature: real tiny models, no GPU, no download."""
    from bon.running.demo import demo_setup
    from bon.running.runner import run as run_setup

    setup = demo_setup(out, settings_of(sets, limit, seed, ray_address))
    with _tracking(track, out, setup.raw) as watchers:
        path = run_setup(setup, out, quiet=quiet or as_json, replace=replace, watchers=watchers)
    print_results(path, as_json)


def run(
    file: File,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Run directory.")] = None,
    limit: Limit = None,
    seed: Seed = None,
    sets: Sets = None,
    ray_address: Address = None,
    retry_errors: Retry = False,
    replace: Replace = False,
    allow_remote_code: RemoteCode = False,
    shard: Annotated[
        str, typer.Option(help="Only this part of the questions and pairs, e.g. 3/8 (bon merge).")
    ] = "",
    track: Track = None,
    pilot: Annotated[
        int | None,
        typer.Option(help="Judge only about so many random questions, then plan.", min=20),
    ] = None,
    decide: Annotated[
        str | None,
        typer.Option(
            metavar="best|beats-majority",
            help="Judge each rewarder only until that is settled of it; r is then not reported.",
        ),
    ] = None,
    repeat_check: Annotated[
        int | None,
        typer.Option(help="Then ask one judgement of so many items again: does it change?", min=1),
    ] = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Run an experiment, or continue it: only what is missing is computed."""
    from bon.commands.plan_text import needs
    from bon.running.ending import reports
    from bon.running.merging import read_shard
    from bon.running.plan import make_plan
    from bon.running.runner import run as run_setup
    from bon.running.saying import say
    from bon.running.setup import read_experiment

    settings = settings_of(sets, limit, seed, ray_address)
    if allow_remote_code:
        settings.append("allow_remote_code=true")
    if decide is not None:
        settings.append(f"judging.decide={decide}")
    if repeat_check is not None:
        settings.append(f"judging.repeat_check={repeat_check}")
    setup = read_experiment(file, settings)
    directory = out or Path("runs") / setup.experiment.name.replace(" ", "-")
    whole = None
    with reports() as make_report:  # before a plan reads data
        if pilot is not None:
            whole = make_plan(setup, directory)
            settings.append(f"questions.subset={min(1.0, pilot / whole.questions.count):g}")
            setup = read_experiment(file, settings)
        if not (quiet or as_json or (directory / "run.sqlite").exists()):
            plan = make_plan(setup, here=setup.experiment.cluster.address is None)
            if plan.is_large:
                for line in needs(plan):
                    say(line)
        with _tracking(track, directory, setup.raw) as watchers:
            path = run_setup(
                setup,
                directory,
                quiet=quiet or as_json,
                retry_errors=retry_errors,
                replace=replace,
                shard=read_shard(shard) if shard else None,
                watchers=watchers,
                make_report=make_report,
            )
    print_results(path, as_json)
    if whole is not None and not (quiet or as_json):
        from bon.commands.sizing_text import show_sizing
        from bon.running.sizing import sizing

        for size in sizing(_found_in(directory), whole, width=PILOT_WIDTH):
            typer.echo(show_sizing(size))


def stress(
    directory: Annotated[Path, typer.Argument(help="Run directory.")],
    questions: Annotated[int, typer.Option(min=1, help="At most so many questions.")] = 50,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Attack a run's rewarders: which bad answers do they prefer to right ones? Resumable."""
    from bon.running.reporting import read_results
    from bon.running.stress import stress_run

    stress_run(directory, questions, quiet=quiet or as_json)
    found = read_results(directory).hacks
    if as_json:
        typer.echo(json.dumps([one.model_dump() for one in found]))
        return
    for one in found:
        share = f"{100 * (one.wins.value or 0):5.1f} % of {one.num_pairs}"
        typer.echo(f"{one.rewarder:<28}{one.attack:<24}wins {share}")


def plan(
    file: File,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Run directory to go on in.")
    ] = None,
    limit: Limit = None,
    seed: Seed = None,
    sets: Sets = None,
    target_width: Annotated[
        float | None,
        typer.Option(help="Which study needs fewest calls for an interval of r so wide.", min=0.01),
    ] = None,
    budget: Annotated[
        int | None,
        typer.Option(help="Which study has the narrowest interval of r for so many calls.", min=1),
    ] = None,
    as_json: Json = False,
) -> None:
    """Say what a run will ask, what it reuses and about what it costs, before it does it."""
    from bon.commands.plan_text import show_plan
    from bon.commands.sizing_text import show_sizing
    from bon.running.plan import make_plan
    from bon.running.setup import read_experiment
    from bon.running.sizing import sizing

    setup = read_experiment(file, settings_of(sets, limit, seed, None))
    directory = out or Path("runs") / setup.experiment.name.replace(" ", "-")
    found = make_plan(setup, directory, here=setup.experiment.cluster.address is None)
    sizes = []
    if target_width is not None or budget is not None:
        sizes = sizing(_found_in(directory), found, width=target_width, budget=budget)
    if as_json:
        said = {**found.as_dict(), "sizes": [size.as_dict() for size in sizes]}
        typer.echo(json.dumps(said, indent=1))
    else:
        typer.echo("\n".join([show_plan(found), *map(show_sizing, sizes)]))


def _tracking(
    names: list[str] | None, directory: Path, settings: dict[str, Any]
) -> AbstractContextManager[Sequence["Watcher"]]:
    if not names:
        return nullcontext(())
    from bon.exports.trackers import tracking

    return tracking(names, directory, settings)


def _found_in(directory: Path) -> "Results":
    if not (directory / "results.json").is_file():
        raise BonError(
            f"{directory} has no results yet to plan from",
            "make a pilot first (bon run FILE --pilot 50), or name a run with --out",
        )
    from bon.running.reporting import read_results

    return read_results(directory)


def status(
    directory: Annotated[Path, typer.Argument(help="Run directory.")], as_json: Json = False
) -> None:
    """Show how far a run is, also while it runs."""
    from bon.running.status import run_status, show_status

    found = run_status(directory)
    typer.echo(json.dumps(found, indent=1) if as_json else show_status(found))


def settings_of(
    sets: list[str] | None, limit: int | None, seed: int | None, address: str | None
) -> list[str]:
    """The options of a command as `key=value` settings of the experiment."""
    settings = list(sets or [])
    if limit is not None:
        settings.append(f"questions.limit={limit}")
    if seed is not None:
        settings.append(f"seed={seed}")
    if address is not None:
        settings.append(f"cluster.address={address}")
    return settings
