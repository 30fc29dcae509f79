"""The server, its tokens, and reward functions of its clients. Nothing heavy at the top."""

import getpass
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from urllib.parse import urlencode

import typer
from typer import Argument, Option

from bon.commands.options import Json, echo, emit
from bon.core.console import show_listing
from bon.core.errors import BonError, suggestion

if TYPE_CHECKING:
    from bon.service.server.access import Tokens

token = typer.Typer(no_args_is_help=True, help="Manage access tokens of a server.")

Data = Annotated[
    Path | None,
    Option(envvar="BON_DATA", help="Data directory of the server; ./bon-data by default."),
]


def serve(
    data: Data = None,
    config: Annotated[
        Path | None,
        Option("--config", envvar="BON_CONFIG", help="YAML file with settings (ray_configs/)."),
    ] = None,
    host: Annotated[str | None, Option(help="Host address; 127.0.0.1 by default.")] = None,
    port: Annotated[int | None, Option(help="Port; 8321 by default.")] = None,
    root_path: Annotated[
        str | None, Option(help="Prefix under which a proxy serves it, e.g. /bon.")
    ] = None,
    no_auth: Annotated[bool, Option("--no-auth", help="Require no token (loopback).")] = False,
    ray_address: Annotated[
        str | None,
        Option(envvar="BON_RAY_ADDRESS", help="Address of a Ray cluster; local if unset."),
    ] = None,
    annotate: Annotated[
        list[Path] | None, Option(help="Benchmark (bon curate) to label here.")
    ] = None,
) -> None:
    """Serve validations, pages and online Best-of-N."""
    with _packages():
        from bon.service.app import serve as run_server
        from bon.service.settings import read_settings
    settings: dict[str, object] = {
        "data": data,
        "host": host,
        "port": port,
        "root_path": root_path,
        "ray_address": ray_address,
        "annotate": annotate or None,
    }
    # A supervisor expects a stopped server to end by the signal itself.
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    run_server(read_settings(config, auth=False if no_auth else None, **settings))


@contextmanager
def _packages() -> Iterator[None]:
    """Name the package that an import of the service lacks."""
    try:
        yield
    except ModuleNotFoundError as error:
        fix = "pip install 'bon[service]'"
        raise BonError(f"this needs the package {error.name!r}", fix) from None


def view(
    runs: Annotated[list[Path], Argument(help="Run directories, or folders of them.")],
    port: Annotated[int, Option(help="Port; 0: any free one.", min=0, max=65_535)] = 8322,
) -> None:
    """Read reports and their questions in a browser, on this machine alone and without tokens."""
    with _packages():
        from bon.service.view import view as show_reports
    show_reports(runs, port)


UNITS = {"m": 60, "h": 3600, "d": 86_400, "w": 604_800}


@token.command()
def add(
    name: Annotated[str, Argument(help="User, who owns what is submitted with it.")],
    role: Annotated[str, Option(help="annotate, read, submit or admin.")] = "submit",
    expires: Annotated[str, Option(help="Lifetime, e.g. 12h or 30d; unlimited by default.")] = "",
    data: Data = None,
) -> None:
    """Create a token and print it, once."""
    until = time.time() + _seconds(expires) if expires else None
    echo(_tokens(data).add(name, role, until, getpass.getuser()))


@token.command(name="list")
def list_(data: Data = None, as_json: Json = False) -> None:
    """List names and roles of the tokens, with the days on which they begin and expire."""
    rows = []
    for name, role, *times in _tokens(data).listed():
        days = [time.strftime("%Y-%m-%d", time.gmtime(at)) if at else "" for at in times]
        rows.append(
            dict(zip(("name", "role", "begins", "expires"), (name, role, *days), strict=True))
        )
    emit(rows, lambda: show_listing(rows), as_json)


@token.command()
def revoke(name: Annotated[str, Argument(help="Name of the token.")], data: Data = None) -> None:
    """Revoke a token at once."""
    _tokens(data).revoke(name, getpass.getuser())


def _seconds(duration: str) -> float:
    """Return the seconds of a duration in minutes, hours, days or weeks."""
    number, unit = duration[:-1], duration[-1:]
    if unit not in UNITS or not number.isdecimal() or not 0 < int(number) <= 99_999:
        raise BonError(f"--expires {duration!r} is not a duration", "write 90m, 12h, 30d or 8w")
    return int(number) * UNITS[unit]


def _tokens(data: Path | None) -> "Tokens":
    from bon.service.server.state import open_tokens

    return open_tokens((data or Path("bon-data")).absolute())


# ------------------------------------------------------------------ clients

TEMPLATES = Path(__file__).parent / "clients"
SHARED = "ask"
"""The template that the others include."""

SKIPS_NULL = ("trl",)
"""Trainers that leave out completions without a reward."""


def trainers() -> list[str]:
    """List the supported trainers."""
    return sorted(path.stem for path in TEMPLATES.glob("*.jinja") if path.stem != SHARED)


def client(
    trainer: Annotated[str, Argument(help="trl, verl or openrlhf.")],
    rewarder: Annotated[str, Option(help="Name of an online rewarder.")],
    url: Annotated[str, Option(help="Address of `bon serve`.")] = "http://127.0.0.1:8321",
    rule: Annotated[str, Option(help="Selection rule; by default the kind's first.")] = "",
    on_unparsed: Annotated[str, Option(help="error or null.")] = "",
) -> None:
    """Print a trainer's reward function that queries `bon serve` (docs/reward_server.md)."""
    echo(reward_function(trainer, url, rewarder=rewarder, rule=rule, on_unparsed=on_unparsed))


def reward_function(trainer: str, url: str, **settings: str) -> str:
    """Fill in a trainer's template; settings that are not defaults become query parameters."""
    from jinja2 import Environment, FileSystemLoader

    from bon.choosing.rules import RULES
    from bon.core.validation import is_address, validate
    from bon.service.api.rewards import RewardQuery

    if trainer not in trainers():
        raise BonError(f"no file for the trainer {trainer!r}", f"one of {', '.join(trainers())}")
    if not is_address(url) or not url.isprintable() or set(url) & set('"\\ '):
        raise BonError(f"{url!r} is not an address", "write http://HOST:PORT")
    if (rule := settings.get("rule", "")) and rule not in RULES:
        raise BonError(f"no rule {rule!r}", suggestion(rule, RULES))
    if not settings.get("on_unparsed"):
        settings["on_unparsed"] = "null" if trainer in SKIPS_NULL else "error"
    validate(RewardQuery, settings, "bon client")
    query = urlencode({k: value for k, value in settings.items() if value not in ("", "error")})
    templates = Environment(loader=FileSystemLoader(TEMPLATES), keep_trailing_newline=False)
    address = f"{url.rstrip('/')}/get_reward?{query}"
    return templates.get_template(f"{trainer}.jinja").render(url=address)
