"""Start a run: read its data and record its settings, in one transaction."""

from collections.abc import Iterable, Iterator
from typing import TypeVar

from bon.benchmarks import BadRow, load_pairs, load_questions, provenance
from bon.core.console import say
from bon.core.records import BY_MODEL, PreferencePair, Question
from bon.core.validation import together
from bon.importing.import_runs import Imports
from bon.storage.store import Store
from bon.work.grading import needs_grader
from bon.work.preflight import check_axis, unread_images
from bon.work.setup import Setup, located
from bon.work.starting import set_leaks, starting

T = TypeVar("T", Question, PreferencePair)


def start(
    setup: Setup,
    store: Store,
    *,
    retry_errors: bool = False,
    replace: bool = False,
    quiet: bool = False,
) -> None:
    """Make the run one of this experiment, with today's data.

    Raises BonError, and leaves the run as it was, if the data cannot be read or, without `replace`,
    the run belongs to another experiment.
    """
    with starting(setup, store, retry_errors=retry_errors, replace=replace) as again:
        counts = _load_data(setup, store, quiet=quiet)
        by_model = "active > 0 AND json_extract(data, '$.meta.grader') = ?"
        if setup.grader is None and store.count("questions", by_model, (BY_MODEL,)):
            raise needs_grader("questions")
        pairs = ((name, pair.group) for name, pair in store.pairs())
        check_axis(setup.experiment.analysis.axis, pairs)
        say(counts, quiet=quiet)
        shown = "active > 0 AND json_array_length(data, '$.images') > 0"
        with_images = [table for table in ("questions", "pairs") if store.count(table, shown)]
        if unread := unread_images(setup, with_images, download=True):
            raise together(unread)
    if again:
        say(f"{again:,} items that failed are asked again", quiet=quiet)
    errors = {model.card.name: store.errors(model.table, model.spec) for model in setup.models}
    if total := sum(errors.values()):
        named = ", ".join(f"{model} {count:,}" for model, count in errors.items() if count)
        say(f"{total:,} errors are kept ({named}): --retry-errors retries them", quiet=quiet)


def _load_data(setup: Setup, store: Store, *, quiet: bool) -> str:
    """Read questions and preference pairs into the run, mark leaks, and return what was read."""
    bad: list[tuple[str, str, str]] = []
    experiment, base = setup.experiment, setup.base
    imports = Imports(setup, store)
    imported = experiment.imported

    def usable(rows: Iterable[T | BadRow], name: str) -> Iterator[T]:
        for row in rows:
            if isinstance(row, BadRow):
                bad.append((name, row.id, row.reason))
            else:
                yield row

    def pairs() -> Iterator[tuple[str, PreferencePair]]:
        for spec in experiment.pairs:
            name = spec.title
            rows = load_pairs(located(spec, base), store.images)
            yield from ((name, row) for row in usable(rows, name))

    def questions() -> Iterator[Question]:
        for task in experiment.questions:
            rows = load_questions(located(task, base), store.images)
            yield from usable(rows, task.title)

    num_questions = store.set_questions(imports.questions() if imported else questions())
    num_pairs = store.set_pairs(pairs())
    imports.fill(quiet=quiet)
    store.set_bad_rows([*bad, *imports.bad])
    leaks = set_leaks(store)
    specs = [*(() if imported else experiment.questions), *experiment.pairs]
    store.set_meta(
        datasets=[*imports.provenance(), *(provenance(located(spec, base)) for spec in specs)],
    )
    unreadable = f", {len(bad)} rows that cannot be read" if bad else ""
    leaked = f", {leaks} questions in both" if leaks else ""
    return f"{num_questions} questions, {num_pairs} preference pairs{leaked}{unreadable}"
