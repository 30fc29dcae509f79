"""Exports of a run, one entry of `EXPORTS` per format."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from bon.core.errors import BonError
from bon.core.files import staged
from bon.core.registry import Registry
from bon.exports.contents import Contents, write_tables
from bon.exports.layouts import write_training_rows
from bon.exports.leaderboards import write_latex, write_markdown
from bon.exports.pool import write_pool
from bon.exports.preferences import Preferences
from bon.running.reporting import open_run
from bon.storage.store import Store


@dataclass(frozen=True, slots=True)
class Export:
    """One format: `write` writes what a run holds; `trains`: training rows, by preferences."""

    name: str
    title: str
    write: Callable[[Contents, Path], list[Path]]
    trains: bool = False


EXPORTS: Registry[Export] = Registry(
    "format",
    "bon.exports",
    lambda part: isinstance(part, Export),
    {
        export.name: export
        for export in (
            Export("parquet", "all tables as Parquet", write_tables),
            Export("trl", "training rows for TRL (DPO)", write_training_rows, trains=True),
            Export(
                "pool",
                "candidates for other rewarders, with a card (`policies: [{pool: FOLDER}]`)",
                write_pool,
            ),
            Export("latex", "the leaderboard as a table of a paper (booktabs)", write_latex),
            Export("markdown", "the leaderboard as a Markdown table", write_markdown),
        )
    },
)
"""Every format that a run is exported as, by name."""


def export_run(
    directory: Path,
    out: Path,
    form: str,
    preferences: Preferences | None = None,
    *,
    replace: bool = False,
) -> list[Path]:
    """Export a run into a folder; returns the paths written.

    preferences: which training rows; by default right against wrong answers. replace: overwrite
    files.
    """
    export = EXPORTS[form]
    if preferences and not export.trains:
        choices = ", ".join(name for name, other in EXPORTS.items() if other.trains)
        raise BonError(f"{form} holds no training rows", f"use --format {choices}")
    with Store(directory, readonly=True) as store, staged(out, replace=replace) as folder:
        contents = Contents(open_run(store), store, preferences or Preferences())
        paths = export.write(contents, folder)
    return [out / path.relative_to(folder) for path in paths]
