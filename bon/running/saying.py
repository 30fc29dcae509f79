"""Lines for a person, beside whatever a command writes."""

from dataclasses import dataclass
from pathlib import Path


def say(text: str, *, quiet: bool = False) -> None:
    """One line for a person, on stderr."""
    if not quiet:
        from rich.console import Console  # which takes longer to import than to be used

        Console(stderr=True, highlight=False, soft_wrap=True).print(text, markup=False)


@dataclass(frozen=True)
class Reported:
    """A report that was written, and what is to be said of the run."""

    path: Path
    said: tuple[str, ...] = ()

    def tell(self, *, quiet: bool) -> Path:
        """Say it; where the report is."""
        for line in self.said:
            say(line, quiet=quiet)
        return self.path
