"""The command line: `bon --help`. Heavy imports happen inside the commands."""

import gc
import os
import signal
import sys
from typing import Annotated, NoReturn

import typer

import bon
from bon.commands import (
    batch_group,
    cards_group,
    client,
    converting,
    curating_group,
    decisions_group,
    pooling,
    prompts,
    recommending,
    results_group,
    run_group,
    serve,
)
from bon.commands.usage import UsageError, asks_for_help, mistake_of
from bon.core.errors import BonError, ExitCode
from bon.core.files import refusal_of

app = typer.Typer(
    name="bon",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    help="Does a reward-model benchmark predict which reward model picks better answers?\n\n"
    "[bold]bon demo[/bold] runs a small true validation on this machine, without a GPU.",
)
app.command()(serve.serve)
app.command()(client.client)
app.command()(run_group.demo)
app.command()(run_group.run)
app.command()(run_group.plan)
app.command()(run_group.stress)
app.command()(cards_group.doctor)
app.command()(run_group.status)
app.command()(results_group.report)
app.command()(decisions_group.gate)
app.command()(decisions_group.compare)
app.command()(pooling.pool)
app.command()(recommending.recommend)
app.command()(results_group.export)
app.command(name="import")(results_group.import_)
app.command()(results_group.merge)
app.command()(results_group.regrade)
app.command(name="list")(cards_group.list_)
app.command()(cards_group.show)
app.command()(results_group.correlate)
app.command(name="convert-head")(converting.convert_head)
app.add_typer(curating_group.app, name="curate")
app.add_typer(batch_group.app, name="batch")
app.add_typer(prompts.app, name="prompts")
app.add_typer(serve.token_app, name="token")


def _version(value: bool) -> None:
    if value:
        typer.echo(f"bon {bon.__version__}")
        raise typer.Exit


@app.callback()
def _main(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    pass


def main() -> None:
    """Entry point: how it ended is one line and one of `ExitCode`."""
    # numpy's threads are to sleep between two products, not to wait for the next one at full speed.
    os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "4")
    # Python looks for garbage after every 700 new objects: a tenth of what a report takes.
    gc.set_threshold(100_000)
    # So that what is in progress is let go of, and a local Ray ended, on the way out.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(ExitCode.TERMINATED))
    try:
        sys.exit(app(prog_name="bon", standalone_mode=False))
    except BonError as error:
        _refuse(error)
    except UsageError as error:
        if asks_for_help(error):
            typer.echo(str(error))
            sys.exit(ExitCode.MISTAKE)
        _refuse(mistake_of(error))
    except SystemExit as stopped:
        if stopped.code in (ExitCode.INTERRUPTED, ExitCode.TERMINATED):  # Ctrl-C by way of typer
            typer.echo("bon: stopped; the same command goes on from here", err=True)
        raise
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(ExitCode.UNEXPECTED)
    except OSError as error:
        _refuse(refusal_of(error))
    finally:
        gc.freeze()  # what there is ends with the process: it is not looked through for garbage


def _refuse(error: BonError) -> NoReturn:
    """Every mistake on a line of its own."""
    for line in str(error).split("\n"):
        typer.secho(f"bon: {line}", err=True, fg="red" if sys.stderr.isatty() else None)
    sys.exit(error.exit_code)
