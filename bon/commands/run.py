"""Commands that compute, and those that plan and watch runs."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Option

from bon.commands import options
from bon.commands.options import echo, emit
from bon.core.base_models import guessed_base, without_mark
from bon.core.errors import BonError

if TYPE_CHECKING:
    from bon.planning.plan import Plan
    from bon.work.setup import Setup


def run(
    file: options.File = None,
    policies: options.Policies = None,
    rewarders: options.Rewarders = None,
    questions: options.Tasks = None,
    pairs: options.Pairs = None,
    n: options.Samples = None,
    out: options.RunOut = None,
    limit: options.Limit = None,
    seed: options.Seed = None,
    sets: options.Sets = None,
    ray_address: options.RayAddress = None,
    retry_errors: options.Retry = False,
    replace: options.Replace = False,
    allow_remote_code: options.RemoteCode = False,
    pilot: Annotated[
        int | None,
        Option(help="Judge about this many questions first; estimate the study size.", min=20),
    ] = None,
    quiet: options.Quiet = False,
    as_json: options.Json = False,
) -> None:
    """Run an experiment, or resume it: only missing rows are computed."""
    from bon.running.runner import run as run_setup

    given = options.experiment_of(policies, rewarders, questions, pairs, n)
    settings = options.settings_of(sets, limit, seed, ray_address)
    if allow_remote_code:
        settings.append("allow_remote_code=true")
    setup = _setup(file, given, settings)
    directory = run_directory(out, setup, file)
    silent = quiet or as_json
    if pilot is not None:
        from bon.planning.plan import make_plan

        count = make_plan(setup, directory).questions.count
        settings.append(f"questions.subset={min(1.0, pilot / count):g}")
        setup = _setup(file, given, settings)
    if not (silent or (directory / "run.sqlite").exists()):
        _say_needs(setup)
    path = run_setup(setup, directory, quiet=silent, retry_errors=retry_errors, replace=replace)
    options.print_results(path, as_json)
    if pilot is not None and not silent:
        from bon.analysis.correlation.power import needed
        from bon.running.reporting import read_results

        counts = {rows.name: rows.count for rows in make_plan(setup, directory).pairs}
        judged = min(pilot, count)
        for v in read_results(directory).verdicts:
            study = needed(v, judged, counts.get(v.benchmark, 0), count / judged)
            echo(study.sentence if study else "")


def _say_needs(setup: "Setup") -> None:
    """Say what a large experiment takes, where cards say enough to know."""
    if any(model.card.size or model.card.price for model in setup.models):
        from bon.commands.plan_text import needs
        from bon.core.console import say
        from bon.planning.plan import make_plan

        plan = make_plan(setup, here=setup.experiment.cluster.address is None)
        for line in needs(plan) if plan.is_large else ():
            say(line)


def plan(
    file: options.File = None,
    policies: options.Policies = None,
    rewarders: options.Rewarders = None,
    questions: options.Tasks = None,
    pairs: options.Pairs = None,
    n: options.Samples = None,
    out: options.RunOut = None,
    limit: options.Limit = None,
    seed: options.Seed = None,
    sets: options.Sets = None,
    assumptions: Annotated[bool, Option("--assumptions", help="Show what is assumed.")] = False,
    as_json: options.Json = False,
) -> None:
    """Estimate calls, reuse and cost before running."""
    from bon.commands.plan_text import show_plan, wrapped
    from bon.planning.plan import make_plan

    given = options.experiment_of(policies, rewarders, questions, pairs, n)
    setup = _setup(file, given, options.settings_of(sets, limit, seed))
    directory = run_directory(out, setup, file)
    plan = make_plan(setup, directory, here=setup.experiment.cluster.address is None)
    outlook = _outlook(setup, plan)

    def text() -> str:
        return "\n\n".join(
            filter(None, (show_plan(plan, assumptions=assumptions), wrapped(outlook)))
        )

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


def _setup(file: Path | None, given: dict[str, Any], settings: list[str]) -> "Setup":
    """Prepare the experiment of a file, or the one that options describe."""
    from bon.experiment.overrides import apply_overrides
    from bon.work.setup import prepare, read_experiment

    if file and given:
        fix = "write them into the file, change its settings by --set, or leave out the file"
        raise BonError(f"{file} and options describe two experiments", fix)
    if file:
        return read_experiment(file, settings)
    if given:
        return prepare(apply_overrides(given, settings), Path.cwd(), "command line")
    fix = "name a file, or --policy, --questions, --rewarder and --pairs"
    raise BonError("no experiment is given", fix)


def run_directory(out: Path | None, setup: "Setup", file: Path | None) -> Path:
    """Return the run directory: `out`, that of a run's own experiment.yaml, or runs/NAME."""
    if not out and file and file.name == "experiment.yaml":
        out = file.parent if (file.parent / "run.sqlite").is_file() else None
    return out or Path("runs") / setup.experiment.name.replace(" ", "-")
