"""Runs of one experiment put together: shards of it, from machines that know nothing of each other.

Rows lie under content keys, so merging is a union: the tables are those of a run that was never
split. Runs of different experiments are refused.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

import yaml

from bon.core.errors import BonError
from bon.core.files import write_atomic
from bon.core.records import Candidate, ImageRef, Judgement, PreferencePair, Question
from bon.experiment.config import DatasetSpec
from bon.running.completeness import completeness
from bon.running.filed import filed
from bon.running.saying import say
from bon.running.setup import Setup, prepare
from bon.running.start import now, set_leaks
from bon.running.store import Store

PAGE = 1000
Shard = tuple[int, int]
"""Which part of how many, counted from 1."""
RowT = TypeVar("RowT", Candidate, Judgement)
RecordT = TypeVar("RecordT", Question, PreferencePair)


def merge_runs(
    directories: Sequence[Path], out: Path, *, partial: bool = False, quiet: bool = False
) -> None:
    """Write the union of runs into a new directory; `partial`: also where shards are missing.

    Raises:
        BonError: they are runs of different experiments, a shard is missing, or `out` holds a run.
    """
    if out.resolve() in {directory.resolve() for directory in directories}:
        raise BonError(f"{out} is one of the runs to merge", "choose another --out")
    with ExitStack() as stack:
        runs = [stack.enter_context(Store(one, readonly=True)) for one in directories]
        setups = [_setup(run) for run in runs]
        for run, setup in zip(runs[1:], setups[1:], strict=True):
            _check_same((runs[0], setups[0]), (run, setup))
        shards = _shards(runs, partial=partial)
        store = stack.enter_context(Store(out))
        if store.meta("experiment") is not None:
            raise BonError(f"{out} holds a run already", "choose another --out")
        with store.transaction():
            differing = _write(store, setups[0], runs, shards)
        if completeness(setups[0], store).complete:
            store.set_meta(finished=now())
        raw = yaml.safe_dump(setups[0].raw, sort_keys=False, allow_unicode=True)
        write_atomic(out / "experiment.yaml", raw)
        theirs = [run.directory / "imported.jsonl" for run in runs]
        lines = {line: None for file in theirs if file.is_file() for line in file.open()}
        if lines:
            write_atomic(out / "imported.jsonl", "".join(lines))
        counts = [store.count(table) for table in ("candidates", "judgements")]
    say(f"{len(runs)} runs: {counts[0]} candidates, {counts[1]} judgements", quiet=quiet)
    if differing:
        say(f"{differing} rows differ between runs; those of the run named first hold", quiet=quiet)


def read_shard(text: str) -> Shard:
    """`3/8` as the third of eight."""
    place, slash, of = text.partition("/")
    try:
        found = int(place), int(of)
    except ValueError:
        found = (0, 0)
    if not slash or not 1 <= found[0] <= found[1]:
        raise BonError(f"--shard {text!r} is no part of a whole", "write --shard 3/8 for the third")
    return found


def _setup(run: Store) -> Setup:
    """The experiment of a run, its cards found here where its machine's folder is not."""
    raw, base = run.meta("experiment"), run.meta("base")
    if raw is None:
        raise BonError(f"{run.directory} holds no experiment yet", "give finished runs")
    folder = Path(base) if Path(base).is_dir() else Path.cwd()
    return filed(prepare(raw, folder, str(run.directory)), run)


def _check_same(first: tuple[Store, Setup], other: tuple[Store, Setup]) -> None:
    one, two = _identity(*first), _identity(*other)
    for key in one | two:
        if one.get(key) != two.get(key):
            raise BonError(
                f"{other[0].directory} is a run of another experiment than {first[0].directory}: "
                f"{key} is {two.get(key, 'not there')}, not {one.get(key, 'not there')}",
                "merge runs of one experiment; what another run holds is read by `from: RUN`",
            )


def _identity(run: Store, setup: Setup) -> dict[str, Any]:
    """All that shapes the rows of a run, wherever its files lie."""
    experiment = setup.experiment
    found: dict[str, Any] = {"seed": experiment.seed}
    for spec in (experiment.questions, *experiment.pairs):
        found[f"dataset {spec.name or spec.benchmark}"] = _named(spec)
    for one in run.meta("datasets", []):
        contents = sorted((one.get("files") or {}).values()) or one.get("commit")
        found[f"data of {one['benchmark']}"] = contents
    found["judging"] = experiment.judging.model_dump(mode="json", exclude={"repeat_check"})
    for policy in setup.policies:
        found[f"policy {policy.card.name}"] = (policy.spec, policy.card.n)
    for rewarder in setup.rewarders:
        card = rewarder.card
        found[f"rewarder {card.name}"] = (rewarder.spec, card.votes, card.orders)
    return found


def _named(spec: DatasetSpec) -> dict[str, Any]:
    return spec.model_dump(mode="json", exclude={"path"}, exclude_none=True)


def _shards(runs: Sequence[Store], *, partial: bool) -> list[Shard]:
    """Which part each run is; the whole where they were not split."""
    found: list[Shard] = [tuple(run.meta("shard") or (1, 1)) for run in runs]
    parts = {of for _, of in found}
    if len(parts) > 1:
        named = zip(runs, found, strict=True)
        said = ", ".join(f"{run.directory} {place}/{of}" for run, (place, of) in named)
        raise BonError(f"the runs are parts of different divisions: {said}", "merge one division")
    missing = sorted(set(range(1, parts.pop() + 1)) - {place for place, _ in found})
    if missing and not partial:
        raise BonError(
            f"of {found[0][1]} shards, {', '.join(map(str, missing))} are missing",
            "give their runs too, or --partial for what there is",
        )
    return found


def _write(store: Store, setup: Setup, runs: Sequence[Store], shards: Sequence[Shard]) -> int:
    """Everything of the runs; returns how many rows differ between them."""
    store.set_questions(
        _kept(store, question)
        for _, question in _in_order((run.questions() for run in runs), shards, lambda q: q.key)
    )
    store.set_pairs(
        (benchmark, _kept(store, pair))
        for _, (benchmark, pair) in _in_order(
            (run.pairs() for run in runs), shards, lambda row: row[1].key
        )
    )
    bad = (row for run in runs for row in run.query("SELECT dataset, id, reason FROM bad_rows"))
    store.set_bad_rows(dict.fromkeys(bad))  # every shard has read every row
    for model in setup.models:
        for spent in filter(None, (run.effort(model.spec) for run in runs)):
            store.add_effort(model.spec, spent)
    differing = 0
    overlapping = len(set(shards)) < len(shards)
    for errors in (False, True):  # what one run failed at, another may have
        for run in runs:
            for candidates in _pages(run.stored_candidates(), errors):
                if overlapping and not errors:
                    differing += _differing(store, "candidates", candidates)
                store.add_candidates(candidates)
            for judgements in _pages(run.stored_judgements(), errors):
                if overlapping and not errors:
                    differing += _differing(store, "judgements", judgements)
                store.add_judgements(judgements)
    _write_meta(store, setup, runs)
    set_leaks(store)
    return differing


def _pages(rows: Iterator[RowT], errors: bool) -> Iterator[list[RowT]]:
    """The rows that are errors, or those that are not, a page at a time."""
    wanted = (row for row in rows if (row.outcome == "error") == errors)
    while page := list(islice(wanted, PAGE)):
        yield page


def _in_order(walks: Iterable[Iterable[Any]], shards: Sequence[Shard], key: Any) -> Iterator[Any]:
    """(order, row) of all runs in the order of an unsplit run, each row once."""
    of = shards[0][1]
    numbered = [
        (((at, place) if of > 1 else (run, at)), row)
        for run, (walk, (place, _)) in enumerate(zip(walks, shards, strict=True))
        for at, row in enumerate(walk)
    ]
    seen: set[str] = set()
    for order, row in sorted(numbered, key=lambda one: one[0]):
        if key(row) not in seen:
            seen.add(key(row))
            yield order, row


def _kept(store: Store, record: RecordT) -> RecordT:
    """The record with its images in the new directory; one whose file is gone stays named."""

    def kept(image: ImageRef) -> ImageRef:
        path = Path(image.path)
        if not path.is_file():
            return ImageRef(image.sha256, str(store.images.path(image.sha256)))
        return store.images.put(path.read_bytes())

    return replace(record, images=tuple(map(kept, record.images)))


def _differing(store: Store, table: str, rows: Sequence[Candidate | Judgement]) -> int:
    """How many of these rows are there already with another text."""
    count = 0
    for row in rows:
        sql = f"SELECT 1 FROM {table} WHERE key = ? AND text != ?"
        count += bool(store.query(sql, (row.key, row.text)))
    return count


def _write_meta(store: Store, setup: Setup, runs: Sequence[Store]) -> None:
    first = runs[0]

    def union(name: str) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for run in reversed(runs):
            found |= run.meta(name, {})
        return found

    notes = dict.fromkeys(note for run in runs for note in run.meta("notes", []))
    store.set_meta(
        experiment=setup.raw,
        base=str(setup.base.resolve()),
        started=min(run.meta("started") for run in runs),
        finished=None,
        versions=first.meta("versions", {}),
        failed=union("failed"),
        engines=union("engines"),
        readers=union("readers"),
        specs=union("specs"),
        notes=list(notes),
        files=first.meta("files", []),
        datasets=first.meta("datasets", []),
        compute_seconds=sum(run.meta("compute_seconds", 0.0) for run in runs),
        merged=[str(run.directory) for run in runs],
    )
