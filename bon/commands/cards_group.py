"""`bon list`, `show` and `doctor`: what comes with bon, and what this machine lacks for it."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from bon.commands.options import Json
from bon.core.errors import BonError, ExitCode


def list_(
    what: Annotated[
        str,
        typer.Argument(
            help="policies, rewarders, benchmarks, rules, formats, exports or experiments."
        ),
    ],
    as_json: Json = False,
) -> None:
    """List the cards, benchmarks, rules, formats, exports or experiments that come with bon."""
    from bon.exports import EXPORTS
    from bon.running.catalogue import listing, show_listing

    found = [{"name": one.name, "title": one.title} for one in EXPORTS.values()]
    rows = found if what == "exports" else listing(what)
    typer.echo(json.dumps(rows, indent=1) if as_json else show_listing(rows))


def show(name: Annotated[str, typer.Argument(help="A card: its name or its path.")]) -> None:
    """Show one card in full, with its prompt for a sample question."""
    from bon.running.catalogue import show_card

    typer.echo(show_card(name))


def doctor(
    directory: Annotated[
        Path | None, typer.Argument(help="A run directory to check; else this machine.")
    ] = None,
    repair: Annotated[
        bool, typer.Option("--repair", help="Mend the run directory; a backup stays in it.")
    ] = False,
    rewarder: Annotated[
        str, typer.Option("--rewarder", help="Load this card's model and try it on known pairs.")
    ] = "",
    allow_remote_code: Annotated[
        bool, typer.Option("--allow-remote-code", help="Let its checkpoint run code of its own.")
    ] = False,
    pin: Annotated[
        str,
        typer.Option(
            "--pin", metavar="NAME", help="Print today's commits for a card or an experiment."
        ),
    ] = "",
    as_json: Json = False,
) -> None:
    """Check this machine, a run directory or a rewarder: what is wrong, and how to mend it."""
    if pin:
        _print_pins(pin, as_json=as_json)
        return
    if rewarder:
        _try_rewarder(rewarder, allow_remote_code=allow_remote_code, as_json=as_json)
        return
    if directory is not None:
        _check_run(directory, repair=repair, as_json=as_json)
        return
    if repair:
        raise BonError("--repair mends a run directory", "name it: bon doctor RUN --repair")
    from bon.commands.doctor import examine, show_findings

    findings = examine()
    typer.echo(
        json.dumps([vars(each) for each in findings], indent=1)
        if as_json
        else show_findings(findings)
    )


def _print_pins(name: str, *, as_json: bool) -> None:
    from bon.running.commits import pins

    found = pins(name)
    if as_json:
        typer.echo(json.dumps(dict(found), indent=1))
    elif not found:
        typer.echo(f"{name}: every model has its revision, or is not of the hub")
    for card, commit in () if as_json else found:
        typer.echo(f"- {{card: {card}, revision: {commit}}}")


def _check_run(directory: Path, *, repair: bool, as_json: bool) -> None:
    from bon.running.checkup import check_run, repair_run, show_checks

    checks, backup = repair_run(directory) if repair else (check_run(directory), None)
    typer.echo(
        json.dumps([asdict(each) for each in checks], indent=1) if as_json else show_checks(checks)
    )
    if backup is not None:
        typer.echo(f"mended; as it was: {backup}", err=True)
    elif any(each.faults for each in checks):
        raise typer.Exit(ExitCode.INCOMPLETE)


def _try_rewarder(name: str, *, allow_remote_code: bool, as_json: bool) -> None:
    from bon.running.tryout import show_tryout, try_rewarder

    found = try_rewarder(name, allow_remote_code=allow_remote_code)
    typer.echo(json.dumps(asdict(found), indent=1) if as_json else show_tryout(found))
    if found.faults:
        raise typer.Exit(ExitCode.INCOMPLETE)
