"""Datasets as questions and preference pairs: one module per benchmark, imported on use.

`load_questions` and `load_pairs` read lazily and yield a record or a `BadRow` per row.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from bon.benchmarks.base import Adapter, Context, Form, Row, RowError, columns_in, named_columns
from bon.benchmarks.base import BadRow as BadRow
from bon.benchmarks.rows import RawRow, hub_files, hub_rows, local_files, local_rows
from bon.benchmarks.tasks import ADAPTERS as TASKS
from bon.core.errors import BonError
from bon.core.files import file_hash
from bon.core.images import ImageError, ImageStore
from bon.core.keys import content_key
from bon.core.records import LMMS_EVAL, PreferencePair, Question
from bon.core.registry import Registry
from bon.experiment.config import DatasetSpec

BENCHMARKS: Registry[Adapter] = Registry(
    "benchmark",
    "bon.benchmarks",
    lambda part: isinstance(part, Adapter),
    {
        "mmmu_pro": "bon.benchmarks.mmmu_pro:ADAPTER",
        "multiple_choice": "bon.benchmarks.questions:MULTIPLE_CHOICE",
        "open_ended": "bon.benchmarks.questions:OPEN_ENDED",
        **TASKS,
        "vl_rewardbench": "bon.benchmarks.vl_rewardbench:ADAPTER",
        "multimodal_rewardbench": "bon.benchmarks.multimodal_pairs:MULTIMODAL_REWARDBENCH",
        "mm_rlhf": "bon.benchmarks.multimodal_pairs:MM_RLHF",
        "mmrb2": "bon.benchmarks.mmrb2:ADAPTER",
        **dict.fromkeys(
            ("judgebench", "omni_rewardbench", "ppe", "reward_bench_2", "rm_bench"),
            "bon.benchmarks.responses:ADAPTERS",
        ),
        **dict.fromkeys(
            ("processbench", "visualprocessbench", "prmbench"),
            "bon.benchmarks.step_labels:ADAPTERS",
        ),
        "preference": "bon.benchmarks.preference:ADAPTER",
    },
    families={LMMS_EVAL: "bon.benchmarks.lmms_eval:lmms_task"},
)
"""Every benchmark's adapter by the name that an experiment gives."""
RecordT = TypeVar("RecordT", Question, PreferencePair)


def load_questions(spec: DatasetSpec, images: ImageStore) -> Iterator[Question | BadRow]:
    """Yield questions of a downstream benchmark, at most `spec.limit` valid ones."""
    return _load(spec, images, "questions", Question)


def load_pairs(spec: DatasetSpec, images: ImageStore) -> Iterator[PreferencePair | BadRow]:
    """Yield preference pairs of a reward benchmark, at most `spec.limit` valid ones."""
    return _load(spec, images, "pairs", PreferencePair)


def provenance(spec: DatasetSpec) -> dict[str, Any]:
    """Return the source of the rows: files with their hashes, or the hub's commit."""
    benchmark = BENCHMARKS[spec.benchmark]
    if spec.path is not None:
        config, split = benchmark.config(spec.config), spec.split or benchmark.split
        files = local_files(Path(spec.path), config, split)
        hashes = {str(path): file_hash(path) for path in files}
        return {"benchmark": spec.benchmark, "revision": spec.revision, "files": hashes}
    hub = spec.hub or benchmark.hub
    try:
        from huggingface_hub import HfApi

        commit = HfApi().dataset_info(hub, revision=spec.revision).sha
    except Exception:  # Offline with a cached copy is fine; the commit is then not known.
        commit = None
    return {"benchmark": spec.benchmark, "revision": spec.revision, "hub": hub, "commit": commit}


def _load(
    spec: DatasetSpec, images: ImageStore, kind: str, record: type[RecordT]
) -> Iterator[RecordT | BadRow]:
    benchmark = BENCHMARKS[spec.benchmark]
    if benchmark.kind != kind:
        raise BonError(
            f"benchmark {spec.benchmark!r} holds {benchmark.kind}, not {kind}",
            f"name it under `{benchmark.kind}:`",
        )
    if (spec.grader or spec.tolerance) and not benchmark.grader:
        raise BonError(
            f"benchmark {spec.benchmark!r} has no answers to grade: its questions have options",
            "leave out `grader` and `tolerance`, or use `benchmark: open_ended`",
        )
    # Checked now, not when the first row is read.
    return _records(spec, Context(spec, images), benchmark, _rows(spec, benchmark), record)


def _records(
    spec: DatasetSpec,
    context: Context,
    benchmark: Adapter,
    rows: Iterator[RawRow],
    record: type[RecordT],
) -> Iterator[RecordT | BadRow]:
    columns: Mapping[str, str] | None = None
    seen: dict[int, int] = {}  # by key as a number, since this grows with the rows
    valid, first_reason = 0, ""
    for number, (folder, values) in enumerate(rows):
        if valid == spec.limit:
            break
        if isinstance(values, BadRow):
            first_reason = first_reason or values.reason
            yield values
            continue
        if columns is None:
            columns = choose_columns(spec, benchmark.forms, values)
        row = Row(values, columns, folder, number)
        try:
            converted = benchmark.convert(context, row)
        except (RowError, ImageError) as error:
            first_reason = first_reason or str(error)
            yield BadRow(row.id, str(error))
            continue
        valid += 1
        for one in converted if isinstance(converted, list) else [converted]:
            assert isinstance(one, record)
            # Identical rows remain separate rows, as in the published scores.
            short = int(one.key[:15], 16)
            seen[short] = seen.get(short, 0) + 1
            known = seen[short] > 1
            yield replace(one, key=content_key(one.key, seen[short])) if known else one
    if benchmark.check is not None:
        benchmark.check(context)
    if valid == 0:
        where = spec.path or spec.hub or benchmark.hub
        if not first_reason:
            raise BonError(f"{where} has no rows", "check `path`, `config` and `split`")
        reason = f"no row of {where} could be used; the first: {first_reason}"
        raise BonError(reason, "check `path` and `columns`")


def _rows(spec: DatasetSpec, benchmark: Adapter) -> Iterator[RawRow]:
    config, split = benchmark.config(spec.config), spec.split or benchmark.split
    if spec.path is not None:
        return local_rows(local_files(Path(spec.path), config, split))
    hub = spec.hub or benchmark.hub
    if not hub:
        raise BonError(
            f"benchmark {spec.benchmark!r} has no data of its own",
            "give `path: FILE_OR_FOLDER` or `hub: OWNER/NAME`",
        )
    if benchmark.files:
        return hub_files(hub, split, spec.revision, benchmark.files)
    return hub_rows(hub, config, split, spec.revision, stream=spec.limit is not None)


def choose_columns(
    spec: DatasetSpec,
    forms: tuple[Form, ...],
    values: Mapping[str, Any],
    advice: str = "`columns: {{{role}: COLUMN}}`",
) -> dict[str, str]:
    """Return the column of each role for a dataset whose first row is `values`.

    advice: how the user names the column of a `{role}`.
    """
    known = {role for form in forms for role in [*form.need, *form.may]}
    named_columns(spec.columns, [(spec.benchmark, known, values)])
    lacking: list[list[str]] = []  # columns, by form
    fitting = [form for form in forms if spec.columns.keys() <= {*form.need, *form.may}]
    if not fitting:
        raise BonError(
            f"columns: {' and '.join(spec.columns)} are roles of different rows",
            "; or ".join(", ".join([*form.need, *form.may]) for form in forms),
        )
    for form in fitting:
        need = {**form.need, **{r: c for r, c in spec.columns.items() if r in form.need}}
        missing = [
            f"{role} ({column})"
            for role, column in need.items()
            if any(part not in values for part in columns_in(role, column))
        ]
        if not missing:
            return {**form.may, **need, **spec.columns}
        lacking.append(missing)
    closest = min(lacking, key=len)
    raise BonError(
        f"the data has no column for {', '.join(closest)}; it has {', '.join(values)}",
        f"name the right one: {advice.format(role=closest[0].split(' ')[0])}",
    )
