"""The folder of a benchmark in the making, and what lies where in it."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from bon.core.errors import BonError
from bon.curating.items import CuratedItem, read_items
from bon.curating.wanted import Curation, read_curation


@dataclass(frozen=True)
class Workbench:
    """One folder. Steps read and write these files; nothing else is kept anywhere."""

    directory: Path

    @property
    def name(self) -> str:
        """The benchmark's name: its folder's."""
        return self.directory.resolve().name

    @property
    def recipe_path(self) -> Path:
        """What is wanted (init writes it, people edit it)."""
        return self.directory / "recipe.yaml"

    @property
    def items_path(self) -> Path:
        """What was proposed."""
        return self.directory / "items.parquet"

    @property
    def proposal_path(self) -> Path:
        """How it was proposed: runs and their hashes, filters with counts in and out."""
        return self.directory / "proposal.json"

    @property
    def images(self) -> Path:
        """The images of the items, named by their content."""
        return self.directory / "images"

    @property
    def judging_path(self) -> Path:
        """The experiment that judges what the runs did not."""
        return self.directory / "judge.yaml"

    @property
    def judged(self) -> Path:
        """The run of that experiment."""
        return self.directory / "judged"

    @property
    def drafts_path(self) -> Path:
        """A judge's label, rationale and tag of each item."""
        return self.directory / "drafts.jsonl"

    @property
    def annotations_path(self) -> Path:
        """What people said (SQLite)."""
        return self.directory / "annotations.sqlite"

    @property
    def audit_path(self) -> Path:
        """What the audit found, as numbers."""
        return self.directory / "audit.json"

    @property
    def audit_page(self) -> Path:
        """The same to look at."""
        return self.audit_path.with_suffix(".html")

    @property
    def prediction_path(self) -> Path:
        """How well it predicts on questions that were held out."""
        return self.directory / "prediction.json"

    @cached_property
    def recipe(self) -> Curation:
        """The recipe, checked."""
        return read_curation(self.recipe_path)

    @cached_property
    def items(self) -> list[CuratedItem]:
        """The proposed items."""
        if not self.items_path.is_file():
            raise BonError(
                f"{self.directory} has no proposed items yet",
                f"bon curate propose {self.directory}",
            )
        return read_items(self.items_path)


def open_workbench(directory: Path) -> Workbench:
    """The folder, if it is one."""
    bench = Workbench(directory)
    if not bench.recipe_path.is_file():
        raise BonError(
            f"{directory} is no benchmark in the making: it has no recipe.yaml",
            f"start one: bon curate init RUN --out {directory}",
        )
    return bench
