"""Record the settings of a run that starts, in one transaction."""

import platform
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import yaml

import bon
from bon.benchmarks.leaks import find_leaks
from bon.core.errors import BonError
from bon.core.files import write_atomic
from bon.core.keys import content_key
from bon.core.records import BY_MODEL, Judgement
from bon.engines import ENGINES
from bon.experiment.config import RewarderCard
from bon.formats.score_tables import WITHOUT_TEXT
from bon.policies.extractors import EXTRACTOR_VERSIONS, extract_for, was_cut
from bon.rewarders.reply_parsing import parser_key, reparse
from bon.storage.row_validation import NOT_UNICODE
from bon.storage.store import Store
from bon.work.reading import ASKED, apply_readings
from bon.work.setup import Setup

MARK = "# The experiment of this run, written by bon.\n"


@contextmanager
def starting(
    setup: Setup, store: Store, *, retry_errors: bool = False, replace: bool = False
) -> Iterator[int]:
    """Record the settings of a run; the body sets its active questions and pairs.

    Yields how many items that failed are asked again.

    One transaction: everything changes at its end, or nothing.
    """
    previous = store.meta("experiment")
    file = store.directory / "experiment.yaml"
    text = MARK + str(yaml.safe_dump(setup.raw, sort_keys=False, allow_unicode=True))
    own = not file.exists() or file.read_text("utf-8", errors="replace").startswith(MARK)
    if previous is None and not own:
        raise BonError(
            f"{store.directory} holds an {file.name} of your own, which a run would overwrite",
            "choose another --out, for example a folder in it",
        )
    with store.transaction():
        store.set_meta(
            specs={model.card.name: model.own_spec for model in setup.models},
            experiment=setup.raw,
            base=str(setup.base.resolve()),
            started=store.meta("started") or now(),
            cards=content_key([model.card.model_dump(mode="json") for model in setup.models]),
            grading=setup.grader.spec if setup.grader else "",
            versions=_versions(),
            failed={},
        )
        again = store.forget_errors(always=retry_errors)
        questions, pairs = _active(store, "questions"), _active(store, "pairs")
        yield again
        if previous is not None and not replace:
            _check_same(setup, store, previous.get("name", "experiment"), questions)
            _check_whole(setup, store, previous, {"questions": questions, "pairs": pairs})
        _parse_again(setup, store)
        if store.changed:
            store.set_meta(finished=None)
    write_atomic(file, text)


def now() -> str:
    """Return the time in UTC as ISO 8601."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def _active(store: Store, table: str) -> set[str]:
    return {key for (key,) in store.query(f"SELECT key FROM {table} WHERE active > 0")}


def _check_whole(
    setup: Setup, store: Store, previous: dict[str, Any], before: dict[str, set[str]]
) -> None:
    """Refuse data of which a part is gone, as after a download that was cut."""
    same = [name for name in before if previous.get(name) == setup.raw.get(name)]
    for name in same if previous.get("policies") == setup.raw.get("policies") else ():
        left = before[name] & _active(store, name)
        if left < before[name]:
            raise BonError(
                f"{len(left):,} of the {len(before[name]):,} {name} of {store.directory} are left "
                "in its data, and the experiment names the same data",
                "put them back, or add --replace to continue with what is left (rows stay)",
            )


def _check_same(setup: Setup, store: Store, name: str, questions: set[str]) -> None:
    """Refuse an experiment that shares nothing with the run.

    Cards, models, n, limits, rewarders and reward benchmarks change within one experiment. It is
    another one if it has none of the run's questions, or another name and none of its policies.
    """
    if not (store.has("candidates") and questions):
        return
    if questions.isdisjoint(_active(store, "questions")):
        other = "none of its questions is among those that the run asks"
    elif setup.experiment.name != name and not any(
        store.has("candidates", "spec = ?", (policy.spec,)) for policy in setup.policies
    ):
        other = "it has another name and none of the run's policies"
    else:
        return
    raise BonError(
        f"{store.directory} is a run of another experiment, {name!r}: {other}",
        "choose another --out, or add --replace to continue with this one there (rows stay)",
    )


def _parse_again(setup: Setup, store: Store) -> None:
    """Parse all responses and replies of a model again where its parser has changed."""
    readers = store.meta("readers", {})
    for policy in setup.policies:
        mode, noted = policy.card.extractor, EXTRACTOR_VERSIONS[policy.card.extractor]
        if setup.reader is not None and mode == BY_MODEL:
            noted = f"{noted} {setup.reader.spec}"
        if readers.get(policy.spec, mode) != noted:
            questions = store.all_questions()
            rows = store.query(
                "SELECT key, question, text, finish, num_tokens FROM candidates WHERE spec = ? "
                "AND outcome != 'error' AND finish != ?",
                (policy.spec, WITHOUT_TEXT),
            )
            store.set_answers(
                (*extract_for(questions[question], text, mode, cut=was_cut(*end)), key)
                for key, question, text, *end in rows
                if question in questions
            )
        readers[policy.spec] = noted
    if setup.reader is not None:
        apply_readings(setup, store, dict(store.query(ASKED, (setup.reader.spec,))))
    for rewarder in setup.rewarders:
        rule = parser_key(rewarder.card)
        if readers.get(rewarder.spec) != rule:
            for page in store.replies(rewarder.spec) if rule else ():
                store.set_readings(_parse_judgement(rewarder.card, row) for row in page)
            readers[rewarder.spec] = rule
    store.set_meta(readers=readers)


def _parse_judgement(card: RewarderCard, row: Judgement) -> Judgement:
    """Parse a reply again; the store's own note on its text stays."""
    parsed = reparse(card, row)
    note = NOT_UNICODE if NOT_UNICODE in row.error else ""
    return parsed._replace(error="; ".join(filter(None, (parsed.error, note))))


def set_leaks(store: Store) -> int:
    """Mark active questions that preference pairs hold too; return their number."""
    pairs = store.pairs() if store.has("questions", "active > 0") else ()
    leaks = find_leaks(store.questions(), (pair for _, pair in pairs))
    questions = {leak.question for leak in leaks}
    store.mark_leaked(questions, {leak.pair for leak in leaks})
    store.set_meta(leaks=[[leak.question, leak.pair, leak.rule] for leak in leaks])
    return len(questions)


def _versions() -> dict[str, str]:
    """Return versions of the packages that results depend on."""
    versions = {"bon": bon.__version__, "python": platform.python_version()}
    engines = [name for entry in ENGINES.values() for names in entry.packages for name in names]
    for name in (*engines, "ray", "numpy", "scipy"):
        with suppress(PackageNotFoundError):
            versions[name] = version(name)
    return versions
