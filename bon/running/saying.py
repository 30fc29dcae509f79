"""Lines for a person, beside whatever a command writes."""


def say(text: str, *, quiet: bool = False) -> None:
    """One line for a person, on stderr."""
    if not quiet:
        from rich.console import Console  # which takes longer to import than to be used

        Console(stderr=True, highlight=False, soft_wrap=True).print(text, markup=False)
