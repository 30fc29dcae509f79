"""Options shared by several commands, and output as text or JSON."""

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal

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
File = Annotated[
    Path | None,
    Argument(help="Experiment: a YAML file, or a name (bon list experiments)."),
]


def _cards(role: Literal["policies", "rewarders"]) -> Callable[[str], list[str]]:
    """Return what completes the name of a shipped card."""

    def complete(incomplete: str) -> list[str]:
        from bon.experiment.cards import shipped

        return [name for name in shipped(role) if name.startswith(incomplete)]

    return complete


Policies = Annotated[
    list[str] | None,
    Option(
        "--policy",
        metavar="CARD",
        autocompletion=_cards("policies"),
        help="Policy of an experiment without a file; repeatable.",
    ),
]
Rewarders = Annotated[
    list[str] | None,
    Option(
        "--rewarder",
        metavar="CARD",
        autocompletion=_cards("rewarders"),
        help="A rewarder of it; repeatable.",
    ),
]
Tasks = Annotated[
    list[str] | None,
    Option("--questions", metavar="NAME[=FILE]", help="Its questions; repeatable."),
]
Pairs = Annotated[
    list[str] | None,
    Option("--pairs", metavar="NAME[=FILE]", help="Its preference pairs; repeatable."),
]
Samples = Annotated[int | None, Option("--n", help="Its responses per question.", min=1)]
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


def experiment_of(
    policies: list[str] | None,
    rewarders: list[str] | None,
    questions: list[str] | None,
    pairs: list[str] | None,
    n: int | None,
) -> dict[str, Any]:
    """Return the experiment that the options describe, named by its first parts; or nothing."""

    def dataset(text: str) -> dict[str, str]:
        name, separator, path = text.partition("=")
        if separator and not path:
            raise BonError(f"{text!r} names no file", f"{name}=FILE, or {name} alone")
        return {"benchmark": name} | ({"path": path} if path else {})

    parts: dict[str, Any] = {
        "questions": [dataset(text) for text in questions or []],
        "policies": [{"card": card} for card in policies or []],
        "pairs": [dataset(text) for text in pairs or []],
        "rewarders": [{"card": card} for card in rewarders or []],
    }
    if n is not None:
        parts["policies"] = [policy | {"n": n} for policy in parts["policies"]]
    elif not any(parts.values()):
        return {}
    cards = (policies or [])[:1]
    shown = [Path(card).stem if card.endswith((".yaml", ".yml")) else card for card in cards]
    shown += [task["benchmark"] for task in parts["questions"][:1]]
    name = re.sub(r"[^A-Za-z0-9._+]+", "-", "-".join(shown)).strip("-._+")[:100]
    return {"name": name or "experiment"} | parts


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
            fix += f"; --retry-errors retries the {errors:,} errors even if all have failed twice, "
            fix += "--set cluster.max_error_share=SHARE accepts them"
        raise Incomplete(
            f"the run is not complete: {some(completeness['missing'])} "
            f"(report so far: {report_path})",
            fix,
        )
