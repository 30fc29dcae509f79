"""Restore a run from `bon export`: the same rows, so the same numbers.

An export freezes every model: none is called, and no card, prompt or checkpoint is needed.
"""

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from bon.core.console import say
from bon.core.errors import BonError
from bon.core.records import Candidate, Judgement
from bon.experiment.yamlfile import read_document
from bon.formats.base import whole_rows
from bon.storage.store import Store
from bon.work.imported_cards import frozen, imported_model
from bon.work.setup import Setup, prepare
from bon.work.starting import now, set_leaks, starting

EXPERIMENT = "experiment.yaml"
RecordT = TypeVar("RecordT")


def frozen_experiment(setup: Setup, store: Store) -> dict[str, Any]:
    """Return a run's experiment with frozen models, for readers who have only its rows."""
    experiment = {key: value for key, value in setup.raw.items() if key != "cluster"}
    experiment["policies"] = [frozen(store, "policies", m.card, m.spec) for m in setup.policies]
    rewarders = [frozen(store, "rewarders", m.card, m.spec) for m in setup.rewarders]
    rewarders += [m.card.model_dump(mode="json", exclude_defaults=True) for m in setup.ensembles]
    if rewarders:
        experiment["rewarders"] = rewarders
    return experiment


def is_export(path: Path) -> bool:
    """Whether a folder was written by `bon export`."""
    return all((path / name).is_file() for name in ("candidates.parquet", EXPERIMENT))


def restore(folder: Path, out: Path, *, replace: bool = False, quiet: bool = False) -> None:
    """Restore a run from an export; BonError for a missing table or unreadable row."""
    document = read_document(folder / EXPERIMENT)
    setup = prepare(document.data, folder, document.origin)
    models = {model.card.model: model for model in setup.models}
    names = {spec.name or spec.benchmark for spec in setup.experiment.pairs}
    with Store(out) as store, starting(setup, store, replace=replace):
        if (folder / "images").is_dir():
            shutil.copytree(folder / "images", store.images.folder, dirs_exist_ok=True)
        rows = _rows(folder, "questions")
        store.set_questions(_stored(row, store.read_question) for row in rows)
        pairs = (_stored(row, store.read_pair) for row in _rows(folder, "pairs"))
        store.set_pairs((pair.dataset, pair) for pair in pairs if pair.dataset in names)
        for row in _rows(folder, "candidates"):
            if model := models.get(imported_model(row["spec"])):
                store.add_candidates([Candidate(**{**_fields(Candidate, row), "spec": model.spec})])
        for row in _rows(folder, "judgements"):
            if model := models.get(imported_model(row["spec"])):
                shown = tuple(filter(None, (row["shown"] or "").split(",")))
                values = {**_fields(Judgement, row), "spec": model.spec, "shown": shown}
                store.add_judgements([Judgement(**values)])
        set_leaks(store)
        store.set_meta(finished=now())
        counts = [store.count(table) for table in ("questions", "candidates", "judgements")]
    say("{} questions, {} candidates, {} judgements".format(*counts), quiet=quiet)


def _rows(folder: Path, table: str) -> Iterator[dict[str, Any]]:
    path = folder / f"{table}.parquet"
    if not path.is_file():
        raise BonError(f"{folder} has no table {table}", "give a whole folder of `bon export`")
    yield from (row for _, row in whole_rows(path, "export it again"))


def _fields(record: Any, row: dict[str, Any]) -> dict[str, Any]:
    try:
        return {name: row[name] for name in record.__annotations__}
    except KeyError as error:
        raise BonError(f"a row has no column {error}", "export it again") from None


def _stored(row: dict[str, Any], read: Callable[[str], RecordT]) -> RecordT:
    """Return the question or pair of a row, read as the store reads its own."""
    try:
        values = {name: value for name, value in row.items() if name != "leaked"}
        return read(json.dumps(values | {"meta": json.loads(row["meta"])}))
    except (KeyError, TypeError, ValueError) as error:
        raise BonError(f"a row cannot be read: {error}", "export it again") from None
