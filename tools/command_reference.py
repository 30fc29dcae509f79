"""A hook of mkdocs: docs/commands.md becomes what typer writes about the commands."""

from typing import Any

import typer.main
from typer.cli import get_docs_for_click

from bon.commands.main import app


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """Return the reference of commands, or any other page as it is."""
    if page.file.src_uri != "commands.md":
        return markdown
    command = typer.main.get_command(app)
    context = typer.Context(command, info_name="bon")
    return get_docs_for_click(obj=command, ctx=context, name="bon", title="Commands")
