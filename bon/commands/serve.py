"""`bon serve` and `bon token`. Imported with the command line: nothing heavy at the top."""

import signal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from bon.service.tokens import Tokens

token_app = typer.Typer(no_args_is_help=True, help="Tokens of a server: who may do what.")

Data = Annotated[
    Path | None,
    typer.Option(envvar="BON_DATA", help="Data directory of the server; ./bon-data by default."),
]
Config = Annotated[
    Path | None,
    typer.Option("--config", envvar="BON_CONFIG", help="Settings, a YAML file (ray_configs/)."),
]


def serve(
    data: Data = None,
    config: Config = None,
    host: Annotated[str | None, typer.Option(help="Address to listen on; 127.0.0.1.")] = None,
    port: Annotated[int | None, typer.Option(help="Port to listen on; 8321.")] = None,
    no_auth: Annotated[
        bool, typer.Option("--no-auth", help="Ask for no token; only on loopback.")
    ] = False,
    ray_address: Annotated[
        str | None,
        typer.Option(envvar="BON_RAY_ADDRESS", help="A running Ray cluster; else local ones."),
    ] = None,
    annotate: Annotated[
        list[Path] | None,
        typer.Option(help="A benchmark in the making (bon curate) that people label here."),
    ] = None,
) -> None:
    """Serve validations, pages and the online selector."""
    from bon.core.errors import BonError

    try:
        from bon.service.app import serve as run_server
        from bon.service.settings import read_settings
    except ModuleNotFoundError as error:
        raise BonError(
            f"bon serve needs the package {error.name!r}", "pip install 'bon[service]'"
        ) from None
    flags: dict[str, object] = {
        "data": data,
        "host": host,
        "port": port,
        "ray_address": ray_address,
        "annotate": annotate or None,
    }
    # A server that was told to stop ends as its supervisor expects: by the signal itself.
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    run_server(read_settings(config, auth=False if no_auth else None, **flags))


@token_app.command()
def add(
    name: Annotated[str, typer.Argument(help="Who it is for; owner of what is submitted.")],
    role: Annotated[str, typer.Option(help="annotate, read, submit or admin.")] = "submit",
    data: Data = None,
) -> None:
    """Make a token and print it, once."""
    typer.echo(_tokens(data).add(name, role))


@token_app.command(name="list")
def list_(data: Data = None) -> None:
    """List the tokens' names and roles."""
    import time

    for name, role, created in _tokens(data).listed():
        day = time.strftime("%Y-%m-%d", time.gmtime(created))
        typer.echo(f"{name:<32} {role:<8} {day}")


@token_app.command()
def revoke(
    name: Annotated[str, typer.Argument(help="The name it was made with.")], data: Data = None
) -> None:
    """Make a token useless at once."""
    _tokens(data).revoke(name)


def _tokens(data: Path | None) -> "Tokens":
    from bon.service.state import open_tokens

    return open_tokens((data or Path("bon-data")).absolute())
