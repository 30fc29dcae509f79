"""Options shared by several commands, and output as text or JSON."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer
from typer import Argument, Option

from bon.core.console import wrapped
from bon.core.errors import BonError, Incomplete, some
from bon.core.text import printable

Directory = Annotated[Path, Argument(help="Run directory.")]
Directories = Annotated[list[Path], Argument(help="Run directories.")]
Out = Annotated[Path, Option("--out", "-o", help="Run directory; an existing one resumes.")]
OutFolder = Annotated[Path | None, Option("--out", "-o", help="Folder for figures and JSON.")]
RunOut = Annotated[Path | None, Option("--out", "-o", help="Run directory; runs/NAME by default.")]
File = Annotated[Path, Argument(help="Experiment: a YAML file, or a name (bon list experiments).")]
Sets = Annotated[
    list[str] | None,
    Option("--set", metavar="KEY=VALUE", help="Override a setting, e.g. judging.design=knockout"),
]
Limit = Annotated[int | None, Option(help="Use only the first LIMIT questions.", min=1)]
Seed = Annotated[int | None, Option(help="Seed of the experiment.")]
RayAddress = Annotated[
    str | None,
    Option(envvar="BON_RAY_ADDRESS", help="Address of a Ray cluster; a local one if unset."),
]
Retry = Annotated[bool, Option("--retry-errors", help="Retry rows that failed before.")]
Replace = Annotated[bool, Option("--replace", help="Replace another experiment's run.")]
RemoteCode = Annotated[bool, Option("--allow-remote-code", help="Run a model's own code.")]
MaxCost = Annotated[float | None, Option(help="Maximum cost in US dollars.", min=0)]
Columns = Annotated[
    list[str] | None,
    Option(metavar="ROLE=COLUMN", help="Columns of a role: response=output; repeatable."),
]
Questions = Annotated[str, Option(help="Benchmark, file or run with questions that logs lack.")]
Format = Annotated[str, Option("--format", help="Format of the files; detected if unset.")]
Json = Annotated[bool, Option("--json", help="Print JSON.")]
Quiet = Annotated[bool, Option("--quiet", "-q", help="Print only the result.")]


def echo(text: str | bytes | Path, *, err: bool = False, nl: bool = True) -> None:
    """Print what a command has to say: all of them print through here."""
    text = text.decode() if isinstance(text, bytes) else str(text)
    typer.echo(printable(text), err=err, nl=nl)


def emit(value: Any, text: Callable[[], str], as_json: bool) -> None:
    """Print `value` (models, dataclasses or plain data) as JSON, or else its text."""
    if as_json:
        from pydantic_core import to_json

        echo(to_json(value, indent=1, inf_nan_mode="null"))
    else:
        echo(wrapped(text(), sys.stdout))


def settings_of(
    sets: list[str] | None,
    limit: int | None = None,
    seed: int | None = None,
    address: str | None = None,
) -> list[str]:
    """Convert command-line options to `key=value` settings of the experiment."""
    options = {"questions.limit": limit, "seed": seed, "cluster.address": address}
    return [*(sets or []), *(f"{key}={v}" for key, v in options.items() if v is not None)]


def columns_of(columns: list[str] | None) -> dict[str, str]:
    """Split each ROLE=COLUMN."""
    return pairs_of("--columns", columns, "response=output")


def pairs_of(option: str, texts: list[str] | None, example: str = "ARM=FOLDER") -> dict[str, str]:
    """Split each NAME=VALUE of an option."""
    pairs = {}
    for text in texts or []:
        name, separator, value = text.partition("=")
        if not separator:
            raise BonError(f"{option} {text!r} has no '='", f"write {option} {example}")
        if name.strip() in pairs:
            raise BonError(f"{option} names {name.strip()} twice", "name it once")
        pairs[name.strip()] = value
    return pairs


def print_results(report_path: Path, as_json: bool) -> None:
    """Print the results beside a report if JSON was requested; Incomplete if rows are missing."""
    text = (report_path.parent / "results.json").read_text(encoding="utf-8")
    if as_json:
        echo(text)
    completeness = json.loads(text)["completeness"]
    if completeness["missing"]:
        errors = sum(model["errors"] for model in completeness["models"])
        fix = "run the same command again"
        if errors:
            fix += f"; --retry-errors retries the {errors:,} errors"
        raise Incomplete(
            f"the run is not complete: {some(completeness['missing'])} "
            f"(report so far: {report_path})",
            fix,
        )
