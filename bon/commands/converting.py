"""`bon convert-head`: a reward head where vLLM looks for it."""

from pathlib import Path
from typing import Annotated

import typer

from bon.core.errors import BonError


def convert_head(
    source: Annotated[Path, typer.Argument(help="Folder of the checkpoint.")],
    target: Annotated[Path, typer.Argument(help="A new folder to write.")],
    head: Annotated[
        str, typer.Option(help="The head's name, where it is no usual one.", metavar="NAME")
    ] = "auto",
) -> None:
    """Write a checkpoint with TRL's or another value head as one that vLLM's classify loads."""
    try:
        from bon.engines.convert_head import convert_head as convert
    except ImportError as error:
        raise BonError(
            f"this needs the package {error.name}", "pip install 'bon[transformers]'"
        ) from None

    done = convert(source, target, head)
    typer.echo(f"{done.source} of {source} is {done.name} of {target}")
    scores = ", ".join(f"{score:.6g}" for score in done.after)
    typer.echo(f"both score the same on {len(done.after)} conversations: {scores}")
    typer.echo(f"as a card: model: {target}, engine: vllm, engine_args: {{task: reward}}")
