"""What is taken out of a run, one file per format: trainers, harnesses, stores, pages of models."""

import difflib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path

from bon.core.errors import BonError
from bon.exports.contents import Contents
from bon.exports.every_eval_ever import write_every_eval_ever
from bon.exports.hub_folder import write_hub_folder
from bon.exports.importable import write_importable
from bon.exports.inspect_log import write_inspect
from bon.exports.llama_factory import write_llama_factory
from bon.exports.model_page import write_model_page
from bon.exports.ms_swift import write_ms_swift
from bon.exports.openrlhf import write_openrlhf
from bon.exports.preferences import Preferences, Target, Training, training_rows
from bon.exports.release import write_release
from bon.exports.tabular import write_tabular
from bon.exports.trackers import write_tracked
from bon.exports.trl import write_jsonl, write_parquet
from bon.running.reporting import open_run
from bon.running.store import Store

Layout = Callable[[Iterable[Training], Target], list[Path]]
"""Writes training rows as one trainer reads them."""
Writer = Callable[[Contents, Path], list[Path]]
"""Writes what else a format holds."""


@dataclass(frozen=True, slots=True)
class Export:
    """One format: what it is, how it is written, and how it lays out training rows, if it does.

    `whole` formats hold training rows only where they are asked for, beside everything else.
    """

    name: str
    title: str
    write: Writer | None = None
    layout: Layout | None = None

    @property
    def whole(self) -> bool:
        """Whether it is written without training rows too."""
        return self.write is not None


EXPORTS = {
    export.name: export
    for export in (
        Export(
            "parquet", "every table of the run, as Parquet, and training rows with --preferences",
            partial(write_tabular, ending="parquet"), write_parquet,
        ),
        Export(
            "jsonl", "every table of the run, as JSONL, and training rows with --preferences",
            partial(write_tabular, ending="jsonl"), write_jsonl,
        ),
        Export("import", "answers, scores and verdicts that `bon import` reads", write_importable),
        Export("trl", "training rows for TRL's DPO and KTO", layout=write_parquet),
        Export(
            "llama-factory", "training rows for LLaMA-Factory's stages dpo, rm and kto",
            layout=write_llama_factory,
        ),
        Export("ms-swift", "training rows for ms-swift's dpo, rm and kto", layout=write_ms_swift),
        Export(
            "openrlhf", "training rows for OpenRLHF's RM and DPO, of questions without images",
            layout=write_openrlhf,
        ),
        Export(
            "every-eval-ever", "a log per rewarder for the public store, schema 0.3.0",
            write_every_eval_ever,
        ),
        Export(
            "model-page", "results for a reward model's page: .eval_results and model-index",
            write_model_page,
        ),
        Export("inspect", "what was chosen, as a log for `inspect view`", write_inspect),
        Export(
            "hub-folder", "a dataset folder with its card, ready to upload (also --hub-folder DIR)",
            write_hub_folder,
        ),
        Export(
            "release", "everything that may be passed on in one folder, the dataset among it",
            write_release,
        ),
        *(
            Export(name, f"curves and results for {title}", partial(write_tracked, name=name))
            for name, title in (
                ("tensorboard", "TensorBoard"), ("mlflow", "MLflow"), ("wandb", "W&B"),
            )
        ),
    )
}  # fmt: skip


def export_run(
    directory: Path,
    out: Path,
    form: str,
    preferences: Preferences | None = None,
    organisation: str = "",
) -> list[Path]:
    """Write what a format holds into a folder; returns the paths.

    preferences: which training rows, for formats that hold any; right against wrong answers by
    default where a format holds nothing else. organisation: who made the run, for public stores.

    Raises:
        BonError: an unknown format, a rewarder that the run does not have, nothing to train on.
    """
    export = _named(form)
    if preferences and not export.layout:
        lays_out = ", ".join(name for name, one in EXPORTS.items() if one.layout)
        raise BonError(f"{form} holds no training rows", f"use --format {lays_out}")
    written = []
    with Store(directory, readonly=True) as store:
        held = Contents(open_run(store), store, organisation)
        rows = None
        if export.layout and (preferences or not export.whole):
            wanted = preferences or Preferences()
            rows = _some(training_rows(held.setup, store, wanted), wanted)
        out.mkdir(parents=True, exist_ok=True)
        if export.write:
            written += export.write(held, out)
        if export.layout and rows is not None:
            stem = f"preferences-{wanted.by}" if export.whole else "train"
            target = Target(out, stem, held.has_images, wanted.unpaired)
            written += export.layout(rows, target)
    return written


def _named(form: str) -> Export:
    if form not in EXPORTS:
        close = difflib.get_close_matches(form, EXPORTS, n=1, cutoff=0.5)
        hint = f"did you mean {close[0]!r}?" if close else f"use one of {', '.join(EXPORTS)}"
        raise BonError(f"no format {form!r}", hint)
    return EXPORTS[form]


def _some(rows: Iterable[Training], wanted: Preferences) -> Iterable[Training]:
    """The same rows, of which there is one at least."""
    rest = iter(rows)
    first = next(rest, None)
    if first is None:
        why = "all are right or all are wrong" if wanted.by == "correct" else "it ranks them alike"
        raise BonError(
            f"nothing to train on by {wanted.by!r}: of no question do two answers differ ({why})",
            "choose another --preferences" + (" or a smaller --margin" if wanted.margin else ""),
        )
    return chain([first], rest)
