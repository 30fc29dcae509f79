"""A run made of what exists already: answers, scores and verdicts, in files of others."""

import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from bon.benchmarks import BadRow, load_questions
from bon.benchmarks.leaks import find_leaks
from bon.core.errors import BonError
from bon.core.keys import content_key
from bon.core.records import Question
from bon.experiment.config import IMPORTED, DatasetSpec
from bon.formats import named, recognise
from bon.formats.answers import Answers, read_answers
from bon.formats.base import Format, file_rows
from bon.formats.joined import Known, joined
from bon.formats.tabled import read_tables
from bon.policies.ask import text_key
from bon.running.answered import candidate_of, keep_theirs, notes_of_answers
from bon.running.brought import (
    Brought,
    bring,
    candidates,
    judgements,
    rewarder_cards,
    without_answers,
)
from bon.running.database import DATABASE
from bon.running.restoring import is_export, restore
from bon.running.saying import say
from bon.running.setup import Setup, prepare
from bon.running.start import now, starting
from bon.running.store import Store


def import_files(
    files: list[Path],
    policy: str,
    directory: Path,
    *,
    reader: str = "official",
    columns: Sequence[str] = (),
    form: str = "",
    questions: str = "",
    benchmark: str = "",
    replace: bool = False,
    quiet: bool = False,
) -> None:
    """Write what files hold into a run directory; each is known by its content.

    columns: ROLE=COLUMN of answer files. form: the format of all files, where that is not to be
    recognised. questions: the benchmark, file or run directory that logs without questions are
    about. benchmark: name of the reward benchmark that scored pairs are; its file's name.

    Raises:
        BonError: a file is missing, has no row that can be used or contradicts another.
    """
    if len(files) == 1 and is_export(files[0]):
        restore(files[0], directory, replace=replace, quiet=quiet)
        return
    if not policy:
        raise BonError("no name for who gave the answers", "add --policy NAME")
    if reader not in ("official", "strict"):
        raise BonError(f"no reader {reader!r}", "use official or strict")
    found = [(file, named(form) if form else recognise(file)) for file in files]
    texts = [(file, one) for file, one in found if one.table == "answers"]
    tables = [(file, one) for file, one in found if one.table != "answers"]
    with Store(directory) as store:
        texts = [(file, with_questions(file, one, questions, store)) for file, one in texts]
        answers = (
            read_answers(texts, store.images, columns=columns_named(columns))
            if texts
            else Answers()
        )
        brought = bring(
            read_tables(tables),
            benchmark or _benchmark(found),
            (
                (row.question, {text.index: text_key(text.text or "") for text in row.texts})
                for row in answers.questions
            ),
        )
        if not (answers.questions or brought.questions):
            raise BonError(
                f"{', '.join(map(str, files))}: no table says which candidates there are and who "
                "is right",
                "also give answers, or a table: id, question, candidates (bon list formats)",
            )
        setup = _setup(answers, brought, policy, reader, benchmark or _benchmark(found))
        with starting(setup, store, replace=replace):
            _write(store, setup, answers, brought, [file for file, _ in found])
            _say(store, answers, brought, quiet=quiet)


def _write(
    store: Store, setup: Setup, answers: Answers, brought: Brought, files: Sequence[Path]
) -> None:
    loaded = setup.policies[0]
    policy, spec, reader = loaded.card.name, loaded.spec, loaded.card.reader
    benchmark = setup.experiment.pairs[0].name if setup.experiment.pairs else ""
    store.set_questions([*(row.question for row in answers.questions), *brought.questions])
    store.set_pairs((benchmark, pair) for pair in brought.pairs)
    bad = [*((policy, row) for row in answers.bad), *(("scores", row) for row in brought.bad)]
    store.set_bad_rows((name, row.id, row.reason) for name, row in bad)
    made = [
        (candidate_of(policy, spec, reader, row.question, text), text)
        for row in answers.questions
        for text in row.texts
    ]
    store.add_candidates(row for row, _ in made)
    keep_theirs(store.directory, made)
    store.add_candidates(candidates(brought, policy, spec))
    for rewarder in setup.rewarders:
        card = rewarder.card
        said = brought.said[card.title]
        store.add_judgements(judgements(brought, card.name, rewarder.spec, said, card.aggregate))
    leaks = find_leaks(store.questions(), brought.pairs)
    store.mark_leaked({leak.question for leak in leaks}, {leak.pair for leak in leaks})
    store.set_meta(
        files=list(answers.sources),
        finished=now(),
        leaks=[[leak.question, leak.pair, leak.rule] for leak in leaks],
        datasets=[_provenance(file) for file in files],
        notes=[*_notes(brought), *notes_of_answers(answers, reader)],
    )


def _notes(brought: Brought) -> Iterator[str]:
    """What a reader of the report must know of tables."""
    if blank := without_answers(brought):
        yield (
            f"{blank} questions say who is right but not what the candidates answer: majority vote "
            "is a random choice there, and nothing is known of lengths."
        )
    if brought.pairs and not any(pair.prompt for pair in brought.pairs):
        yield "The pairs have no prompts: whether questions are in both sets is not known."
    for name, said in brought.said.items():
        items = len({item for item, one in said if one.kind == "question"})
        if 0 < items < len(brought.questions):
            yield f"{name} has scores of {items} of {len(brought.questions)} questions."


def _say(store: Store, answers: Answers, brought: Brought, *, quiet: bool) -> None:
    bad = len(answers.bad) + len(brought.bad)
    unread = f", {bad} rows that cannot be read" if bad else ""
    count = store.count("questions", "active > 0")
    size = len(answers.sources) or max(len(told.right) for told in brought.told.values())
    scored = f", {len(brought.pairs)} pairs, {len(brought.said)} rewarders" if brought.said else ""
    say(f"{count} questions x {size} candidates{scored}{unread}", quiet=quiet)
    if leaked := store.count("questions", "leaked > 0"):
        prompts = {pair.prompt for pair in brought.pairs}
        same = sum(question.text in prompts for question in store.questions())
        say(
            f"{leaked} questions are in both sets, {same} of them word for word: on those a score "
            "is not a prediction",
            quiet=quiet,
        )


def with_questions(file: Path, form: Format, questions: str, store: Store) -> Format:
    """The format with its questions, where its rows have none."""
    if not form.bare and not (form.imageless and questions):
        return form
    if not questions:
        raise BonError(
            f"{file} ({form.name}) holds neither questions nor options",
            "--questions names what it is about: a benchmark, a file or a run directory",
        )
    return joined(form, _known(questions, store), questions)


def _known(questions: str, store: Store) -> Iterator[Known]:
    path = Path(questions)
    if path.is_file():
        for folder, row in file_rows(path):
            if isinstance(row, BadRow):
                raise BonError(f"{path}, {row.id}: {row.reason}", "give a whole file")
            yield folder, row
        return
    if (path / DATABASE).is_file():
        with Store(path, readonly=True) as run:
            yield from ((None, _row_of(question)) for question in run.questions())
        return
    for found in load_questions(DatasetSpec(benchmark=questions), store.images):
        yield None, ({} if isinstance(found, BadRow) else _row_of(found))


def _row_of(question: Question) -> dict[str, Any]:
    return {
        "id": question.id,
        "question": question.text,
        "options": list(question.options),
        "answer": question.answer,
        "subject": question.subject,
        "topic_difficulty": question.difficulty,
        "images": [Path(image.path).read_bytes() for image in question.images],
    }


def columns_named(columns: Sequence[str]) -> dict[str, str]:
    """Role and column of each ROLE=COLUMN."""
    found = {}
    for each in columns:
        role, separator, column = each.partition("=")
        if not separator:
            raise BonError(f"--columns {each!r} has no '='", "write --columns response=output")
        found[role.strip()] = column
    return found


def _benchmark(found: Sequence[tuple[Path, Format]]) -> str:
    """The name of a reward benchmark that nobody named: the file that holds its pairs."""
    tables = {form.table: file.stem for file, form in reversed(found)}
    return tables.get("pairs") or tables.get("pair scores") or "pairs"


def _provenance(file: Path) -> dict[str, Any]:
    digest = {}
    if file.is_file():
        with file.open("rb") as data:
            digest[str(file)] = hashlib.file_digest(data, "sha256").hexdigest()
    return {"benchmark": file.stem, "revision": None, "files": digest}


def _setup(answers: Answers, brought: Brought, policy: str, reader: str, benchmark: str) -> Setup:
    """The experiment that the files are."""
    told = [repr(one) for one in brought.told.values()]
    identity = content_key("import", list(answers.sources), *([told] if told else []))
    widest = max((max(one.right) + 1 for one in brought.told.values()), default=0)
    raw: dict[str, Any] = {
        "name": f"{'scores' if brought.said else 'answers'} of {policy}",
        "questions": {"benchmark": "multiple_choice", "name": IMPORTED},
        "policies": [
            {
                "name": policy,
                "model": f"{IMPORTED}:{identity}",
                "engine": "none",
                "reader": reader,
                "prompt": "",
                "n": len(answers.sources) or widest,
            }
        ],
    }
    if brought.pairs:
        raw["pairs"] = [{"benchmark": "preference", "name": benchmark}]
    if brought.said:
        raw["rewarders"] = rewarder_cards(brought.said)
    return prepare(raw, Path.cwd())
