"""The command line: `bon --help`. Heavy imports happen inside the commands."""

import gc
import os
import sys
from collections.abc import Callable
from typing import Annotated, Any, NoReturn

import typer
import typer.core
from typer import Option

import bon
from bon.commands import calibrate, curate, decide, run, serve, start, transfer, uplift
from bon.core.console import wrapped
from bon.core.errors import BonError, ExitCode
from bon.core.files import file_error, private_files

PANELS = ("Start", "Run", "Judge and decide", "Bring in and take out", "Curate", "Serve")
START, RUN, DECIDE, TRANSFER, CURATE, SERVE = PANELS


class _Panels(typer.core.TyperGroup):
    """Lists commands by panel."""

    def list_commands(self, ctx: Any) -> list[str]:
        panels = {name: command.rich_help_panel for name, command in self.commands.items()}  # type: ignore[attr-defined]
        return sorted(panels, key=lambda name: PANELS.index(panels[name]))


UsageError: type[Exception] = typer.BadParameter.__bases__[0]

app = typer.Typer(
    name="bon",
    cls=_Panels,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    help="Does a reward-model benchmark predict which reward model picks better answers?\n\n"
    "[bold]bon demo[/bold] runs a small complete validation on this machine, without a GPU. "
    "A rewarder is any model or rule that scores or ranks responses.",
)
_COMMANDS: dict[str, list[Callable[..., None]]] = {
    START: [run.run, start.demo, start.doctor, start.list_, start.show],
    RUN: [run.plan, run.status, run.stress, uplift.uplift],
    DECIDE: [
        *(decide.report, decide.gate, calibrate.calibrate, decide.compare, decide.pool),
        *(decide.recommend, decide.correlate, decide.regrade),
    ],
    TRANSFER: [transfer.import_, transfer.export, transfer.convert_head],
    SERVE: [serve.serve, serve.client],
}
for _panel, _commands in _COMMANDS.items():
    for _command in _commands:
        _name = _command.__name__.strip("_").replace("_", "-")
        app.command(_name, rich_help_panel=_panel)(_command)
app.add_typer(start.prompts_app, name="prompts", rich_help_panel=START)
app.add_typer(curate.app, name="curate", rich_help_panel=CURATE)
app.add_typer(serve.token_app, name="token", rich_help_panel=SERVE)


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
    typer.secho(wrapped(text, sys.stderr), err=True, fg=color)
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
