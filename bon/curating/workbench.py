"""The folder of a benchmark under construction."""

from functools import cached_property
from pathlib import Path

from bon.core.errors import BonError
from bon.curating.items import CuratedItem, read_items
from bon.curating.recipe import Curation, read_curation


class Workbench:
    """One folder and the files that the steps read and write."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.name = directory.resolve().name
        self.recipe_path = directory / "recipe.yaml"
        self.items_path = directory / "items.parquet"
        self.proposal_path = directory / "proposal.json"
        self.images = directory / "images"  # file names are content hashes
        self.pairs_path = directory / "pairs.parquet"  # the items as preference pairs
        self.annotations_path = directory / "annotations.sqlite"
        self.audit_path = directory / "audit.json"

    @cached_property
    def recipe(self) -> Curation:
        """The validated recipe."""
        return read_curation(self.recipe_path)

    @cached_property
    def items(self) -> list[CuratedItem]:
        """The proposed items."""
        if not self.items_path.is_file():
            raise BonError(
                f"{self.directory} has no proposed items yet",
                f"bon curate draw --out {self.directory}",
            )
        return read_items(self.items_path)


def open_workbench(directory: Path) -> Workbench:
    """Open a folder that `bon curate draw` created."""
    bench = Workbench(directory)
    if not bench.recipe_path.is_file():
        raise BonError(
            f"{directory} is not a benchmark under construction: it has no recipe.yaml",
            f"bon curate draw RUN --out {directory}",
        )
    return bench
