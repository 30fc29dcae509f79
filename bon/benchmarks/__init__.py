"""Datasets as questions and preference pairs: one file per benchmark, imported when it is used.

`load_questions` and `load_pairs` read lazily and yield a record or a `BadRow` for each row.
"""

import difflib
import importlib
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from bon.benchmarks.base import Adapter, BadRow, Context, Form, Row, RowError
from bon.benchmarks.rows import RawRow, hub_files, hub_rows, local_files, local_rows
from bon.core.errors import BonError
from bon.core.images import ImageError, ImageStore
from bon.core.keys import content_key
from bon.core.plugins import Added
from bon.core.records import PreferencePair, Question
from bon.experiment.config import DatasetSpec

__all__ = [
    "ADDED",
    "BENCHMARKS",
    "BadRow",
    "adapter",
    "benchmarks",
    "load_pairs",
    "load_questions",
    "provenance",
]

BENCHMARKS = (
    "mmmu_pro",
    "multiple_choice",
    "vl_rewardbench",
    "multimodal_rewardbench",
    "mm_rlhf",
    "mmrb2",
    "preference",
)
ADDED: Added[Adapter] = Added("bon.benchmarks")
"""Adapters of users and of other packages, by the name that an experiment gives."""
RecordT = TypeVar("RecordT", Question, PreferencePair)


def adapter(name: str) -> Adapter:
    """The benchmark of that name."""
    found: Adapter | None
    if name in BENCHMARKS:
        found = importlib.import_module(f"bon.benchmarks.{name}").ADAPTER
    else:
        found = ADDED.get(name)
    if found is None:
        known = benchmarks()
        close = difflib.get_close_matches(name, known, n=1, cutoff=0.4)
        hint = f"did you mean {close[0]!r}?" if close else f"known: {', '.join(known)}"
        raise BonError(f"no benchmark {name!r}", hint)
    return found


def benchmarks() -> list[str]:
    """The names of all benchmarks, those of other packages last."""
    return [*BENCHMARKS, *ADDED.names()]


def load_questions(spec: DatasetSpec, images: ImageStore) -> Iterator[Question | BadRow]:
    """The questions of a downstream benchmark, at most `spec.limit` good ones."""
    return _load(spec, images, "questions", Question)


def load_pairs(spec: DatasetSpec, images: ImageStore) -> Iterator[PreferencePair | BadRow]:
    """The preference pairs of a reward benchmark, at most `spec.limit` good ones."""
    return _load(spec, images, "pairs", PreferencePair)


def provenance(spec: DatasetSpec) -> dict[str, Any]:
    """Where the rows come from: files with their hashes, or the hub's commit."""
    found = adapter(spec.benchmark)
    if spec.path is not None:
        import hashlib

        files = local_files(Path(spec.path), found.config(spec.config), spec.split or found.split)
        hashes = {}
        for file in files:
            with file.open("rb") as data:
                hashes[str(file)] = hashlib.file_digest(data, "sha256").hexdigest()
        return {"benchmark": spec.benchmark, "revision": spec.revision, "files": hashes}
    hub = spec.hub or found.hub
    try:
        from huggingface_hub import HfApi

        commit = HfApi().dataset_info(hub, revision=spec.revision).sha
    except Exception:  # Offline with a cached copy is fine; the commit is then not known.
        commit = None
    return {"benchmark": spec.benchmark, "revision": spec.revision, "hub": hub, "commit": commit}


def _load(
    spec: DatasetSpec, images: ImageStore, kind: str, record: type[RecordT]
) -> Iterator[RecordT | BadRow]:
    found = adapter(spec.benchmark)
    if found.kind != kind:
        raise BonError(
            f"benchmark {spec.benchmark!r} holds {found.kind}, not {kind}",
            f"name it under `{found.kind}:`",
        )
    # Checked at once, not when the first row is asked for.
    return _records(spec, Context(spec, images), found, _rows(spec, found), record)


def _records(
    spec: DatasetSpec,
    context: Context,
    found: Adapter,
    rows: Iterator[RawRow],
    record: type[RecordT],
) -> Iterator[RecordT | BadRow]:
    columns: Mapping[str, str] | None = None
    seen: set[int] = set()  # Keys, as numbers: the one thing here that grows with the rows.
    times: dict[str, int] = {}
    good, first_reason = 0, ""
    for number, (folder, values) in enumerate(rows):
        if good == spec.limit:
            break
        if isinstance(values, BadRow):
            first_reason = first_reason or values.reason
            yield values
            continue
        if columns is None:
            columns = choose_columns(spec, found.forms, values)
        row = Row(values, columns, folder, number)
        try:
            made = found.convert(context, row)
        except (RowError, ImageError) as error:
            first_reason = first_reason or str(error)
            yield BadRow(row.id, str(error))
            continue
        assert isinstance(made, record)
        # Rows that say the very same are still separate rows, as the published scores count.
        short = int(made.key[:15], 16)
        if short in seen:
            times[made.key] = times.get(made.key, 1) + 1
            made = replace(made, key=content_key(made.key, times[made.key]))
        seen.add(short)
        good += 1
        yield made
    if found.check is not None:
        found.check(context)
    if good == 0:
        where = spec.path or spec.hub or found.hub
        if first_reason:
            raise BonError(
                f"no row of {where} could be used; the first: {first_reason}",
                "check `path` and `columns`",
            )
        raise BonError(f"{where} has no rows", "check `path`, `config` and `split`")


def _rows(spec: DatasetSpec, found: Adapter) -> Iterator[RawRow]:
    config, split = found.config(spec.config), spec.split or found.split
    if spec.path is not None:
        return local_rows(local_files(Path(spec.path), config, split))
    hub = spec.hub or found.hub
    if not hub:
        raise BonError(
            f"benchmark {spec.benchmark!r} has no data of its own",
            "give `path: FILE_OR_FOLDER` or `hub: OWNER/NAME`",
        )
    if found.files:
        return hub_files(hub, split, spec.revision, found.files)
    return hub_rows(hub, config, split, spec.revision, stream=spec.limit is not None)


def choose_columns(
    spec: DatasetSpec,
    forms: tuple[Form, ...],
    values: Mapping[str, Any],
    advice: str = "`columns: {{{role}: COLUMN}}`",
) -> dict[str, str]:
    """Role -> column for a dataset whose first row is `values`.

    `advice` is how the user names the column of a `{role}`.
    """
    known = sorted({role for form in forms for role in [*form.need, *form.may]})
    for role, named in spec.columns.items():
        if role not in known:
            raise BonError(
                f"columns: {spec.benchmark} has no role {role!r}", f"roles: {', '.join(known)}"
            )
        absent = [part.strip() for part in named.split(",") if part.strip() not in values]
        if named and absent:
            raise BonError(
                f"columns: no column {absent[0]!r} for {role}", f"there are {', '.join(values)}"
            )
    closest: list[str] = []
    for form in forms:
        need = {**form.need, **{r: c for r, c in spec.columns.items() if r in form.need}}
        missing = [
            f"{role} ({column})"
            for role, column in need.items()
            if any(part.strip() not in values for part in column.split(","))
        ]
        if not missing:
            return {**form.may, **need, **spec.columns}
        if not closest or len(missing) < len(closest):
            closest = missing
    raise BonError(
        f"the data has no column for {', '.join(closest)}; it has {', '.join(values)}",
        f"name the right one: {advice.format(role=closest[0].split(' ')[0])}",
    )
