"""Lines for a person, beside whatever a command writes."""

from rich.console import Console


def say(text: str, *, quiet: bool = False) -> None:
    """One line for a person, on stderr."""
    if not quiet:
        Console(stderr=True, highlight=False, soft_wrap=True).print(text, markup=False)
