"""`bon prompts`: published prompts that cards may refer to, fetched and checked by the user."""

import json
from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(no_args_is_help=True, help="Published judge prompts that cards refer to.")

Names = Annotated[list[str] | None, typer.Argument(help="Names; all of them by default.")]
Mirror = Annotated[
    str | None,
    typer.Option(help="A URL or folder laid out as OWNER/NAME/COMMIT/PATH, instead of GitHub."),
]


@app.command(name="list")
def list_(as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False) -> None:
    """Say which published prompts are known, under what licence, and which are here."""
    from bon.experiment.upstream import registry, state
    from bon.running.catalogue import show_listing

    rows = [
        {"name": name, "state": state(found), "licence": found.licence, "verdict": found.verdict}
        for name, found in registry().items()
    ]
    typer.echo(json.dumps(rows, indent=1) if as_json else show_listing(rows))


@app.command()
def pull(names: Names = None, mirror: Mirror = None) -> None:
    """Fetch published prompts at their pinned commit, check them and keep them in the cache."""
    from bon.experiment import upstream

    base = upstream.GITHUB if mirror is None else mirror
    if mirror is not None and "://" not in mirror:
        base = Path(mirror).expanduser().resolve().as_uri()
    for name in names or upstream.registry():
        found = upstream.entry(name)
        path = upstream.pull(name, base)
        typer.echo(f"{name}: {path}\n  {found.url()}\n  licence: {found.licence}")


@app.command()
def show(name: Annotated[str, typer.Argument(help="Name of a published prompt.")]) -> None:
    """Print a pulled prompt as the template that judges are sent."""
    from bon.experiment.upstream import published

    typer.echo(published(name).text)


@app.command()
def verify(names: Names = None) -> None:
    """Check the cached files against their registered SHA-256; exit 1 if one is damaged."""
    from bon.experiment import upstream

    damaged = False
    for name in names or upstream.registry():
        found = upstream.entry(name)
        state = upstream.state(found)
        damaged = damaged or state == "damaged"
        if state == "pulled":
            upstream.published(name)  # also finds its text in the file
        hint = {"not pulled": f" (bon prompts pull {name})", "damaged": " (delete it, pull again)"}
        typer.echo(f"{name}: {state}{hint.get(state, '')}")
    if damaged:
        raise typer.Exit(1)
