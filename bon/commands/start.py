"""Commands to begin with: the demo, the machine check, and what comes with bon."""

from pathlib import Path
from typing import Annotated

import typer
from typer import Argument, Option

from bon.commands import options
from bon.commands.options import echo, emit
from bon.core.errors import BonError, ExitCode


def demo(
    out: options.Out = Path("runs/demo"),
    limit: Annotated[
        int | None, Option(help="Use only the first N questions and preference pairs.", min=1)
    ] = None,
    seed: options.Seed = None,
    sets: options.Sets = None,
    ray_address: options.RayAddress = None,
    replace: options.Replace = False,
    quiet: options.Quiet = False,
    as_json: options.Json = False,
) -> None:
    """Run the embedded miniature: real tiny models, no GPU, no download."""
    from bon.running.demo import demo_setup
    from bon.running.runner import run

    smaller = [] if limit is None else [f"pairs.limit={limit}"]
    setup = demo_setup(out, smaller + options.settings_of(sets, limit, seed, ray_address))
    path = run(setup, out, quiet=quiet or as_json, replace=replace)
    options.print_results(path, as_json)


def init(
    file: Annotated[Path, Argument(help="File to write.")] = Path("study.yaml"),
    policies: options.Policies = None,
    rewarders: options.Rewarders = None,
    questions: options.Tasks = None,
    pairs: options.Pairs = None,
    n: Annotated[int, Option(help="Responses per question.", min=1)] = 8,
    limit: Annotated[int, Option(help="Use only the first LIMIT questions.", min=1)] = 200,
) -> None:
    """Write an experiment with comments; asks for what no option gives."""
    from bon.commands.init_experiment import ask, commented

    if file.exists():
        raise BonError(f"{file} exists", "name another file: bon init FILE")
    policies, rewarders, questions, pairs = ask(file.parent, policies, rewarders, questions, pairs)
    given = options.experiment_of(policies, rewarders, questions, pairs, n)
    text = commented(given, file, limit)
    with file.open("x", encoding="utf-8") as stream:
        stream.write(text)
    echo(f"wrote {file}; next: bon plan {file}")


def list_(
    what: Annotated[
        str,
        Argument(help="policies, rewarders, benchmarks, rules, formats, exports or experiments."),
    ],
    as_json: options.Json = False,
) -> None:
    """List the cards, benchmarks, rules, formats, exports or experiments that come with bon."""
    from bon.core.console import show_listing
    from bon.exports import EXPORTS
    from bon.work.catalogue import listing

    exports = [{"name": export.name, "title": export.title} for export in EXPORTS.values()]
    rows = exports if what == "exports" else listing(what)
    emit(rows, lambda: show_listing(rows), as_json)


def show(
    name: Annotated[str, Argument(help="Card (name or path), experiment or benchmark.")],
) -> None:
    """Show a card with its prompt, an experiment, or a benchmark with its columns."""
    from bon.work.catalogue import show_card

    echo(show_card(name))


def doctor(
    directory: Annotated[Path | None, Argument(help="Run directory; else this machine.")] = None,
    repair: Annotated[bool, Option("--repair", help="Save readable rows, after a backup.")] = False,
    rewarder: Annotated[
        str, Option("--rewarder", help="Test this card's model on known pairs.")
    ] = "",
    max_cost: options.MaxCost = None,
    allow_remote_code: options.RemoteCode = False,
    as_json: options.Json = False,
) -> None:
    """Check this machine, a run's database or a rewarder, and print how to fix problems."""
    if rewarder:
        from bon.running.rewarder_check import check_rewarder, format_rewarder_check

        check = check_rewarder(rewarder, allow_remote_code=allow_remote_code, max_cost=max_cost)
        emit(check, lambda: format_rewarder_check(check), as_json)
        if check.faults:
            raise typer.Exit(ExitCode.INCOMPLETE)
    elif directory is not None:
        from bon.storage import database

        damage = database.damage_of(directory)
        value = {
            "damage": damage,
            "backup": database.repair(directory) if damage and repair else None,
        }
        emit(value, lambda: "\n".join(f"{k}: {v or 'none'}" for k, v in value.items()), as_json)
        if damage and not repair:
            raise typer.Exit(ExitCode.INCOMPLETE)
    elif repair:
        raise BonError("--repair needs a run directory", "name it: bon doctor RUN --repair")
    else:
        from bon.commands.doctor import examine, show_findings

        findings = examine()
        emit(findings, lambda: show_findings(findings), as_json)


# ------------------------------------------------------------------ published prompts

prompts = typer.Typer(no_args_is_help=True, help="Manage published prompts that cards use.")

Names = Annotated[list[str] | None, Argument(help="Names; all by default.")]


@prompts.command(name="list")
def list_prompts(as_json: options.Json = False) -> None:
    """List published prompts with licence and state: pulled or not."""
    from bon.core.console import show_listing
    from bon.experiment.upstream import registry, state

    rows = [
        {"name": name, "state": state(entry), "licence": entry.licence, "verdict": entry.verdict}
        for name, entry in registry().items()
    ]
    emit(rows, lambda: show_listing(rows), as_json)


@prompts.command()
def pull(
    names: Names = None,
    mirror: Annotated[
        str | None,
        Option(help="URL or folder laid out as OWNER/NAME/COMMIT/PATH, instead of GitHub."),
    ] = None,
) -> None:
    """Download published prompts at their pinned commit and verify their SHA-256."""
    from bon.experiment import upstream

    base = upstream.GITHUB if mirror is None else mirror
    if mirror is not None and "://" not in mirror:
        base = Path(mirror).expanduser().resolve().as_uri()
    for name in names or upstream.registry():
        path, entry = upstream.pull(name, base), upstream.entry(name)
        echo(f"{name}: {path}\n  {entry.url()}\n  licence: {entry.licence}")
