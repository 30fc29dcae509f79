"""Commands that compute, and those that plan and watch runs."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Option

from bon.commands import options
from bon.commands.options import echo, emit
from bon.core.base_models import guessed_base, without_mark

if TYPE_CHECKING:
    from bon.planning.plan import Plan
    from bon.work.setup import Setup


def run(
    file: options.File,
    out: options.RunOut = None,
    limit: options.Limit = None,
    seed: options.Seed = None,
    sets: options.Sets = None,
    ray_address: options.RayAddress = None,
    retry_errors: options.Retry = False,
    replace: options.Replace = False,
    allow_remote_code: options.RemoteCode = False,
    pilot: Annotated[
        int | None, Option(help="Judge about PILOT questions; estimate the study size.", min=20)
    ] = None,
    repeat_check: Annotated[
        int | None,
        Option(help="Number of items to judge twice.", min=1),
    ] = None,
    quiet: options.Quiet = False,
    as_json: options.Json = False,
) -> None:
    """Run an experiment, or resume it: only missing rows are computed."""
    from bon.commands.plan_text import needs
    from bon.core.console import say
    from bon.planning.plan import make_plan
    from bon.running.runner import run as run_setup
    from bon.work.setup import read_experiment

    settings = options.settings_of(sets, limit, seed, ray_address)
    if allow_remote_code:
        settings.append("allow_remote_code=true")
    if repeat_check is not None:
        settings.append(f"judging.repeat_check={repeat_check}")
    setup = read_experiment(file, settings)
    directory = run_directory(out, setup, file)
    silent = quiet or as_json
    if pilot is not None:
        count = make_plan(setup, directory).questions.count
        settings.append(f"questions.subset={min(1.0, pilot / count):g}")
        setup = read_experiment(file, settings)
    if not (silent or (directory / "run.sqlite").exists()):
        plan = make_plan(setup, here=setup.experiment.cluster.address is None)
        for line in needs(plan) if plan.is_large else ():
            say(line)
    path = run_setup(
        setup,
        directory,
        quiet=silent,
        retry_errors=retry_errors,
        replace=replace,
    )
    options.print_results(path, as_json)
    if pilot is not None and not silent:
        from bon.analysis.correlation.power import needed
        from bon.running.reporting import read_results

        pairs = {rows.name: rows.count for rows in make_plan(setup, directory).pairs}
        judged = min(pilot, count)
        for v in read_results(directory).verdicts:
            study = needed(v, judged, pairs.get(v.benchmark, 0), count / judged)
            echo(study.sentence if study else "")


def plan(
    file: options.File,
    out: options.RunOut = None,
    limit: options.Limit = None,
    seed: options.Seed = None,
    sets: options.Sets = None,
    as_json: options.Json = False,
) -> None:
    """Estimate calls, reuse and cost before running."""
    from bon.commands.plan_text import show_plan, wrapped
    from bon.planning.plan import make_plan
    from bon.work.setup import read_experiment

    setup = read_experiment(file, options.settings_of(sets, limit, seed))
    directory = run_directory(out, setup, file)
    plan = make_plan(setup, directory, here=setup.experiment.cluster.address is None)
    outlook = _outlook(setup, plan)

    def text() -> str:
        return "\n\n".join(filter(None, (show_plan(plan), wrapped(outlook))))

    emit({**plan.as_dict(), "outlook": outlook}, text, as_json)


def _outlook(setup: "Setup", plan: "Plan") -> list[str]:
    """Say how likely each answer is for these rewarders, questions and pairs, by benchmark."""
    from bon.analysis.correlation.power import planned

    cards = [loaded.card for loaded in setup.rewarders]
    bases = {without_mark(c.family or guessed_base(c.model or c.name)) or c.name for c in cards}
    lines = []
    for pairs in plan.pairs:
        found = planned(len(cards), len(bases), plan.questions.count, pairs.count)
        lines += [f"{pairs.name}: {line}" for line in found]
    return lines


def status(directory: options.Directory, as_json: options.Json = False) -> None:
    """Show the progress of a run, running or not."""
    from bon.running.status import format_status, run_status

    progress = run_status(directory)
    emit(progress, lambda: format_status(progress), as_json)


def stress(
    directory: options.Directory,
    questions: Annotated[int, Option(min=1, help="Maximum number of questions.")] = 50,
    quiet: options.Quiet = False,
    as_json: options.Json = False,
) -> None:
    """Test whether rewarders prefer adversarial answers to right ones; resumable."""
    from bon.analysis.results.phrasing import percent
    from bon.core.console import show_listing
    from bon.running.reporting import read_results
    from bon.running.stress import stress_run

    stress_run(directory, questions, quiet=quiet or as_json)
    hacks = read_results(directory).hacks
    tables: dict[str, list[dict[str, str]]] = {}
    for hack in hacks:
        wins = f"{percent(hack.wins.value)} of {hack.num_pairs}"
        tables.setdefault(hack.rewarder, []).append({"attack": hack.attack, "wins": wins})
    emit(
        hacks,
        lambda: "\n\n".join(f"{name}:\n{show_listing(rows)}" for name, rows in tables.items()),
        as_json,
    )


def run_directory(out: Path | None, setup: "Setup", file: Path) -> Path:
    """Return the run directory: `out`, that of a run's own experiment.yaml, or runs/NAME."""
    if out is None and file.name == "experiment.yaml" and (file.parent / "run.sqlite").is_file():
        return file.parent
    return out or Path("runs") / setup.experiment.name.replace(" ", "-")
