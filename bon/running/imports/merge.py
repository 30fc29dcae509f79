"""Merge runs of one experiment: its shards, computed by independent machines.

Rows have content keys, so merging is a union: the tables equal those of an unsplit run.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from itertools import islice
from operator import itemgetter
from pathlib import Path
from typing import Any, TypeVar

import yaml

from bon.core.console import say
from bon.core.errors import BonError
from bon.core.files import removed_on_error, write_atomic
from bon.core.records import Candidate, ImageRef, Judgement, PreferencePair, Question
from bon.engines.endpoints.ledger import LEDGER, Ledger, spent_by_spec
from bon.planning.completeness import completeness
from bon.planning.setup import Setup, prepare
from bon.planning.spec_aliases import with_stored_specs
from bon.running.start import now, set_leaks
from bon.storage.store import Store

PAGE = 1000
Shard = tuple[int, int]
"""(index, count), from 1."""
RowT = TypeVar("RowT", Candidate, Judgement)
RecordT = TypeVar("RecordT", Question, PreferencePair)


def merge_runs(
    directories: Sequence[Path], out: Path, *, partial: bool = False, quiet: bool = False
) -> None:
    """Write the union of runs into a new directory; `partial` allows missing shards.

    Raises BonError for different experiments, a missing shard, or an `out` that holds a run.
    """
    if out.resolve() in {directory.resolve() for directory in directories}:
        raise BonError(f"{out} is one of the runs to merge", "choose another --out")
    with removed_on_error(out), ExitStack() as stack:
        runs = [stack.enter_context(Store(path, readonly=True)) for path in directories]
        setups = [_setup(run) for run in runs]
        for run, setup in zip(runs[1:], setups[1:], strict=True):
            _check_same((runs[0], setups[0]), (run, setup))
        shards = _shards(runs, partial=partial)
        store = stack.enter_context(Store(out))
        if store.meta("experiment") is not None:
            raise BonError(f"{out} holds a run already", "choose another --out")
        with store.transaction():
            _write(store, setups[0], runs, shards)
        _merge_ledgers(store, setups[0], runs)
        if completeness(setups[0], store).complete:
            store.set_meta(finished=now())
        raw = yaml.safe_dump(setups[0].raw, sort_keys=False, allow_unicode=True)
        write_atomic(out / "experiment.yaml", raw)
        counts = [store.count(table) for table in ("candidates", "judgements")]
    say(f"{len(runs)} runs: {counts[0]} candidates, {counts[1]} judgements", quiet=quiet)


def _merge_ledgers(store: Store, setup: Setup, runs: Sequence[Store]) -> None:
    names = {model.spec: model.card.name for model in setup.models}
    costs: Counter[tuple[str, str]] = Counter()
    for run in runs:
        spent = spent_by_spec(run.directory / LEDGER)
        costs.update({(names.get(spec, ""), spec): usd for spec, usd in spent.items()})
    if costs:
        ledger = Ledger(store.directory / LEDGER)
        ledger.carry(dict(costs))
        ledger.close()


def read_shard(text: str) -> Shard:
    """Parse `3/8`, the third of eight shards."""
    match = re.fullmatch(r"(\d+)/(\d+)", text)
    if not match or not 1 <= int(match[1]) <= int(match[2]):
        raise BonError(f"--shard {text!r} is not a shard", "write --shard 3/8 for the third")
    return int(match[1]), int(match[2])


def _setup(run: Store) -> Setup:
    """Return a run's experiment, with cards of this folder where its own does not exist."""
    raw, base = run.meta("experiment"), run.meta("base")
    if raw is None:
        raise BonError(f"{run.directory} holds no experiment yet", "give finished runs")
    folder = Path(base) if Path(base).is_dir() else Path.cwd()
    return with_stored_specs(prepare(raw, folder, str(run.directory)), run)


def _check_same(first: tuple[Store, Setup], other: tuple[Store, Setup]) -> None:
    expected, actual = _identity(*first), _identity(*other)
    for key in expected | actual:
        if expected.get(key) != actual.get(key):
            raise BonError(
                f"{other[0].directory} is a run of another experiment than {first[0].directory}: "
                f"{key} is {actual.get(key, 'not there')}, not {expected.get(key, 'not there')}",
                "merge runs of one experiment; what another run holds is read by `from: RUN`",
            )


def _identity(run: Store, setup: Setup) -> dict[str, Any]:
    """Return everything that shapes the rows of a run, but no paths."""
    experiment = setup.experiment
    identity: dict[str, Any] = {"seed": experiment.seed}
    for spec in (experiment.questions, *experiment.pairs):
        settings = spec.model_dump(mode="json", exclude={"path"}, exclude_none=True)
        identity[f"dataset {spec.name or spec.benchmark}"] = settings
    for dataset in run.meta("datasets", []):
        contents = sorted((dataset.get("files") or {}).values()) or dataset.get("commit")
        identity[f"data of {dataset['benchmark']}"] = contents
    identity["judging"] = experiment.judging.model_dump(mode="json", exclude={"repeat_check"})
    for policy in setup.policies:
        identity[f"policy {policy.card.name}"] = (policy.spec, policy.card.n)
    for rewarder in setup.rewarders:
        card = rewarder.card
        identity[f"rewarder {card.name}"] = (rewarder.spec, card.votes, card.orders)
    return identity


def _shards(runs: Sequence[Store], *, partial: bool) -> list[Shard]:
    """Return the shard of each run, (1, 1) for a whole one."""
    shards: list[Shard] = [tuple(run.meta("shard") or (1, 1)) for run in runs]
    counts = {count for _, count in shards}
    if len(counts) > 1:
        named = zip(runs, shards, strict=True)
        listing = ", ".join(f"{run.directory} {index}/{count}" for run, (index, count) in named)
        raise BonError(
            f"the runs are parts of different divisions: {listing}", "merge one division"
        )
    missing = sorted(set(range(1, counts.pop() + 1)) - {index for index, _ in shards})
    if missing and not partial:
        raise BonError(
            f"of {shards[0][1]} shards, {', '.join(map(str, missing))} are missing",
            "give their runs too, or --partial for what there is",
        )
    return shards


def _write(store: Store, setup: Setup, runs: Sequence[Store], shards: Sequence[Shard]) -> None:
    """Write everything of the runs; where rows differ, those of the run named first hold."""
    questions = _interleave([run.questions() for run in runs], shards, lambda row: row.key)
    store.set_questions(_with_images(store, question) for question in questions)
    pairs = _interleave([run.pairs() for run in runs], shards, lambda row: row[1].key)
    store.set_pairs((benchmark, _with_images(store, pair)) for benchmark, pair in pairs)
    bad = (row for run in runs for row in run.query("SELECT dataset, id, reason FROM bad_rows"))
    store.set_bad_rows(dict.fromkeys(bad))  # every shard has read every row
    for model in setup.models:
        for effort in filter(None, (run.effort(model.spec) for run in runs)):
            store.add_effort(model.spec, effort)
    for errors in (False, True):  # another run may have the row that failed in one
        for run in runs:
            for candidates in _pages(run.stored_candidates(), errors):
                store.add_candidates(candidates)
            for judgements in _pages(run.stored_judgements(), errors):
                store.add_judgements(judgements)
    _write_meta(store, setup, runs)
    set_leaks(store)


def _pages(rows: Iterator[RowT], errors: bool) -> Iterator[list[RowT]]:
    """Yield pages of the rows that are errors, or of those that are not."""
    selected = (row for row in rows if (row.outcome == "error") == errors)
    while page := list(islice(selected, PAGE)):
        yield page


def _interleave(
    tables: Sequence[Iterable[Any]], shards: Sequence[Shard], key: Callable[[Any], str]
) -> Iterable[Any]:
    """Return the rows of all runs in the order of an unsplit run, without duplicates."""
    unique: dict[str, Any] = {}
    if shards[0][1] > 1:  # (position, index) is the order before the split
        placed = (
            (place, index, row)
            for rows, (index, _) in zip(tables, shards, strict=True)
            for place, row in enumerate(rows)
        )
        ordered = [row for *_, row in sorted(placed, key=itemgetter(0, 1))]
    else:
        ordered = [row for rows in tables for row in rows]
    for row in ordered:
        unique.setdefault(key(row), row)
    return unique.values()


def _with_images(store: Store, record: RecordT) -> RecordT:
    """Copy a record's images to the new directory; a missing file stays named."""

    def copied(image: ImageRef) -> ImageRef:
        path = Path(image.path)
        if not path.is_file():
            return ImageRef(image.sha256, str(store.images.path(image.sha256)))
        return store.images.put(path.read_bytes())

    return replace(record, images=tuple(map(copied, record.images)))


def _write_meta(store: Store, setup: Setup, runs: Sequence[Store]) -> None:
    first = runs[0]
    unions = {
        name: {key: value for run in reversed(runs) for key, value in run.meta(name, {}).items()}
        for name in ("failed", "engines", "readers", "specs")
    }
    notes = dict.fromkeys(note for run in runs for note in run.meta("notes", []))
    store.set_meta(
        experiment=setup.raw,
        base=str(setup.base.resolve()),
        started=min(run.meta("started") for run in runs),
        finished=None,
        versions=first.meta("versions", {}),
        **unions,
        notes=list(notes),
        files=first.meta("files", []),
        datasets=first.meta("datasets", []),
        compute_seconds=sum(run.meta("compute_seconds", 0.0) for run in runs),
        merged=[str(run.directory) for run in runs],
    )
