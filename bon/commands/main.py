"""The command line: `bon --help`. A command's module is imported when it is used."""

import gc
import math
import os
import shutil
import sys
from collections.abc import Iterator, Mapping
from pkgutil import resolve_name
from typing import Annotated, Any, ClassVar, NoReturn

import typer
import typer.core
import typer.main
from typer import Option

import bon
from bon.core.console import wrapped
from bon.core.errors import BonError, ExitCode
from bon.core.files import file_error, private_files
from bon.core.text import printable

WIDE = 80
"""Columns below which help is plain text: tables cut the names of options."""
PANELS = ("Start", "Run", "Judge and decide", "Bring in and take out", "Curate", "Serve")
START, RUN, DECIDE, TRANSFER, CURATE, SERVE = PANELS

_COMMANDS: dict[str, tuple[str, ...]] = {
    START: (
        "bon.commands.run:run",
        "bon.commands.start:demo",
        "bon.commands.start:init",
        "bon.commands.start:doctor",
        "bon.commands.start:list_",
        "bon.commands.start:show",
        "bon.commands.start:prompts",
    ),
    RUN: (
        "bon.commands.run:plan",
        "bon.commands.run:status",
        "bon.commands.uplift:uplift",
    ),
    DECIDE: (
        "bon.commands.decide:report",
        "bon.commands.serve:view",
        "bon.commands.decide:gate",
        "bon.commands.calibrate:calibrate",
        "bon.commands.decide:pool",
        "bon.commands.decide:compare",
        "bon.commands.decide:recommend",
        "bon.commands.decide:correlate",
        "bon.commands.decide:regrade",
    ),
    TRANSFER: (
        "bon.commands.transfer:import_",
        "bon.commands.transfer:export",
    ),
    CURATE: ("bon.commands.curate:curate",),
    SERVE: (
        "bon.commands.serve:serve",
        "bon.commands.serve:client",
        "bon.commands.serve:token",
    ),
}
"""Module and function, or app of functions, of each command, by panel of `bon --help`."""


class _Commands(Mapping[str, Any]):
    """Commands by name; a command's module is imported when it is looked up."""

    _places: ClassVar = {
        place.partition(":")[2].strip("_").replace("_", "-"): (place, panel)
        for panel, places in _COMMANDS.items()
        for place in places
    }

    def __getitem__(self, name: str) -> Any:
        place, panel = self._places[name]
        found = resolve_name(place)
        if not isinstance(found, typer.Typer):
            alone = typer.Typer(add_completion=False)
            alone.command()(found)
            found = alone
        command: Any = typer.main.get_command(found)
        command.name, command.rich_help_panel = name, panel
        for each in (command, *getattr(command, "commands", {}).values()):
            if shutil.get_terminal_size().columns < WIDE:
                each.rich_markup_mode = None
            each.short_help = " ".join((each.help or "").partition("\n\n")[0].split())
            for parameter in _plain([*each.params, each.get_help_option(typer.Context(each))]):
                parameter.callback = _finite(parameter.callback)
        return command

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)


def _plain(parameters: list[Any]) -> list[Any]:
    """Hide the type of flags, which the help shows as <bool>."""
    for parameter in parameters:
        if getattr(parameter, "is_bool_flag", False):
            parameter.metavar = ""
    return parameters


def _finite(callback: Any) -> Any:
    """Return the callback of an option that takes no nan and no infinity."""

    def check(context: Any, parameter: Any, value: Any) -> Any:
        if isinstance(value, float) and not math.isfinite(value):
            raise typer.BadParameter(f"{value} is not a finite number", context, parameter)
        return callback(context, parameter, value) if callback else value

    return check


class _Lazy(typer.core.TyperGroup):
    """Has all commands without importing their modules."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands: Any = _Commands()

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the options of `bon` itself."""
        return _plain(super().get_params(ctx))


UsageError: type[Exception] = typer.BadParameter.__bases__[0]

app = typer.Typer(
    name="bon",
    cls=_Lazy,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    help="Does a reward-model benchmark predict which reward model picks better answers?\n\n"
    "bon demo runs a small complete validation on this machine, without a GPU. "
    "A rewarder is any model or rule that scores or ranks responses.",
)


def _version(value: bool) -> None:
    if value:
        typer.echo(f"bon {bon.__version__}")
        raise typer.Exit


@app.callback()
def _main(
    version: Annotated[
        bool, Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    pass


@private_files()
def main() -> NoReturn:
    """Run the command line; every outcome is one line and one of `ExitCode`."""
    os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "4")  # idle BLAS threads sleep, not spin
    gc.set_threshold(100_000)  # the default of 700 costs a tenth of a report
    try:
        sys.exit(app(prog_name="bon", standalone_mode=False))
    except BonError as error:
        _exit_with(error)
    except UsageError as error:
        if type(error).__name__ == "NoArgsIsHelpError":  # a group without a command
            typer.echo(str(error))
            sys.exit(ExitCode.MISTAKE)
        _exit_with(usage_error(error))
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(ExitCode.UNEXPECTED)
    except OSError as error:
        _exit_with(file_error(error))
    finally:
        gc.freeze()  # no collection at exit


def _exit_with(error: BonError) -> NoReturn:
    text = "\n".join(f"bon: {line}" for line in str(error).split("\n"))
    color = "red" if sys.stderr.isatty() and not os.environ.get("NO_COLOR") else None
    typer.secho(printable(wrapped(text, sys.stderr)), err=True, fg=color)
    sys.exit(error.exit_code)


def usage_error(error: Any) -> BonError:
    """Convert typer's usage error to a BonError that shows the correct usage."""
    message = " ".join(error.format_message().split()).rstrip(".")
    path, pieces = "bon", "COMMAND [OPTIONS]"
    if error.ctx:
        path = error.ctx.command_path
        pieces = " ".join(error.ctx.command.collect_usage_pieces(error.ctx)).replace("{", "")
    command = path.removeprefix("bon").strip()
    usage = f"{path} {pieces.replace('}', '').upper()} (see {path} --help)"
    return BonError(f"{command}: {message}".removeprefix(": "), usage)
