"""Exports of a run, one entry of `EXPORTS` per format."""

import difflib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path

from bon.core.errors import BonError
from bon.core.files import staged
from bon.exports.contents import Contents
from bon.exports.every_eval_ever import write_every_eval_ever
from bon.exports.hub.dataset_folder import write_hub_folder
from bon.exports.hub.release import write_release
from bon.exports.tables import write_tabular
from bon.exports.tracking import write_wandb
from bon.exports.training import layouts
from bon.exports.training.preferences import Preferences, Target, Training, training_rows
from bon.running.reporting import open_run
from bon.storage.store import Store


@dataclass(frozen=True, slots=True)
class Export:
    """One format. `layout` writes training rows; with `write` only if preferences are requested."""

    name: str
    title: str
    write: Callable[[Contents, Path], list[Path]] | None = None
    layout: Callable[[Iterable[Training], Target], list[Path]] | None = None


EXPORTS = {
    export.name: export
    for export in (
        Export(
            "parquet", "all tables as Parquet, and training rows with --preferences",
            partial(write_tabular, suffix="parquet"), layouts.write_parquet,
        ),
        Export(
            "jsonl", "all tables as JSONL, and training rows with --preferences",
            partial(write_tabular, suffix="jsonl"), layouts.write_jsonl,
        ),
        Export("trl", "training rows for TRL (DPO, KTO)", layout=layouts.write_parquet),
        Export(
            "llama-factory", "training rows for LLaMA-Factory (stages dpo, rm, kto)",
            layout=layouts.write_llama_factory,
        ),
        Export(
            "ms-swift", "training rows for ms-swift (dpo, rm, kto)", layout=layouts.write_ms_swift
        ),
        Export(
            "every-eval-ever", "one log per rewarder for the public store, schema 0.3.0",
            write_every_eval_ever,
        ),
        Export(
            "hub-folder", "a dataset folder with its card, ready to upload",
            write_hub_folder,
        ),
        Export(
            "release", "one folder with everything that may be published, including the dataset",
            write_release,
        ),
        Export("wandb", "results for Weights & Biases", write_wandb),
    )
}  # fmt: skip


def export_run(
    directory: Path,
    out: Path,
    form: str,
    preferences: Preferences | None = None,
    organisation: str = "",
    *,
    replace: bool = False,
) -> list[Path]:
    """Export a run into a folder; returns the paths written.

    preferences: which training rows; by default right against wrong answers, if the format holds
    nothing else. organisation: who made the run, for public stores. replace: overwrite files.

    Raises:
        BonError: an unknown format or rewarder, nothing to train on, or a file with other contents.
    """
    if form not in EXPORTS:
        close = difflib.get_close_matches(form, EXPORTS, n=1, cutoff=0.5)
        hint = f"did you mean {close[0]!r}?" if close else f"use one of {', '.join(EXPORTS)}"
        raise BonError(f"no format {form!r}", hint)
    export = EXPORTS[form]
    if preferences and not export.layout:
        choices = ", ".join(name for name, other in EXPORTS.items() if other.layout)
        raise BonError(f"{form} holds no training rows", f"use --format {choices}")
    with Store(directory, readonly=True) as store, staged(out, replace=replace) as folder:
        contents = Contents(open_run(store), store, organisation)
        rows: Iterable[Training] = ()
        trains = export.layout and (preferences or not export.write)
        if trains:
            preferences = preferences or Preferences()
            rows = _not_empty(training_rows(contents.setup, store, preferences), preferences)
        paths = export.write(contents, folder) if export.write else []
        if trains and export.layout and preferences:
            stem = f"preferences-{preferences.by}" if export.write else "train"
            target = Target(folder, out, stem, contents.has_images, preferences.unpaired)
            paths += export.layout(rows, target)
    return [out / path.relative_to(folder) for path in paths]


def _not_empty(rows: Iterable[Training], preferences: Preferences) -> Iterable[Training]:
    rows = iter(rows)
    first = next(rows, None)
    if first is None:
        by = preferences.by
        why = "all are right or all are wrong" if by == "correct" else "it ranks them equally"
        raise BonError(
            f"no training rows by {by!r}: no question has two answers that differ ({why})",
            "choose another --preferences"
            + (" or a smaller --margin" if preferences.margin else ""),
        )
    return chain([first], rows)
