"""`bon import`: a run from responses, scores and verdicts in files of other tools."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from bon.benchmarks import BENCHMARKS, BadRow, load_pairs, load_questions
from bon.core.console import say
from bon.core.errors import BonError
from bon.core.files import file_hash, removed_on_error
from bon.core.keys import content_key, text_key
from bon.core.records import BY_MODEL, Question
from bon.experiment.config import IMPORTED, DatasetSpec
from bon.formats import FORMATS, forms_of
from bon.formats.answers import Answers, read_answers
from bon.formats.base import ROLES, Format, columns_of, whole_rows
from bon.formats.question_join import Known, joined, row_of
from bon.formats.score_tables import read_tables
from bon.graders import grader_of
from bon.importing.imported_rows import (
    ImportedRecords,
    beyond_options,
    candidate_of,
    candidates,
    judgements,
    notes_of_answers,
    records_from_tables,
)
from bon.storage.store import Store
from bon.work.imported_cards import is_run, rewarder_cards
from bon.work.setup import Setup, prepare
from bon.work.starting import now, set_leaks, starting


def import_files(
    files: list[Path],
    policy: str,
    directory: Path,
    *,
    extractor: str = "official",
    grader: str = "",
    columns: Mapping[str, str] | None = None,
    form: str = "",
    questions: str = "",
    benchmark: str = "",
    replace: bool = False,
    quiet: bool = False,
) -> Answers:
    """Import files into a run directory; formats are detected unless `form` names one.

    `columns` maps roles to columns of response files. `questions` is the benchmark, file or run
    with the questions of logs that lack them, `benchmark` the name of the imported pairs, whose
    adapter reads pairs with texts. `grader` grades free answers whose rows name none.
    Returns the responses read.
    """
    texts_only = {"extractor": extractor} if extractor != "official" else {}
    texts_only |= {"grader": grader} if grader else {}
    if grader:
        grader_of(grader)
    if extractor == BY_MODEL:
        raise BonError(
            "--extractor llm: a model reads responses in a run, not at import",
            "give `bon run` an experiment with `policies: [{from: FILE, name: NAME, extractor: "
            "llm}]` and `reading: CARD` (docs/graders.md)",
        )
    readers = {file: name for file in files if (name := _pairs_adapter(file, benchmark))}
    if len(readers) == len(files):
        refuse_unused("their benchmark says how pairs are read", columns=columns)
    formats = forms_of([file for file in files if file not in readers], form, columns)
    tables = [(file, f) for file, f in formats if f.table != "answers"]
    if len(tables) == len(formats):
        refuse_unused("no file holds responses to read", **texts_only)
    named_benchmark = benchmark
    benchmark = benchmark or _benchmark([(f, FORMATS["pairs"]) for f in readers] or formats)
    with removed_on_error(directory), Store(directory) as store:
        pairs = [
            row
            for file, name in readers.items()
            for row in load_pairs(
                DatasetSpec(benchmark=name, path=str(file), columns={"image": ""}, name=benchmark),
                store.images,
            )
        ]
        texts = [
            (file, with_questions(file, f, questions, store))
            for file, f in formats
            if f.table == "answers"
        ]
        answers = read_answers(texts, store.images, grader=grader) if texts else Answers()
        if not any(f.bare or f.imageless for _, f in formats):
            refuse_unused("the files hold their questions", questions=questions)
        keys: Iterator[tuple[Question, Mapping[int | str, str]]] = (
            (row.question, {text.index: text_key(text.text or "") for text in row.texts})
            for row in answers.questions
        )
        scores = records_from_tables(read_tables(tables), benchmark, keys, pairs)
        if not (answers.questions or scores.questions or (scores.pairs and scores.scores)):
            _refuse_unknown_columns(tables)
            raise BonError(
                f"{', '.join(map(str, files))}: no table says which candidates there are and "
                "which are correct",
                "also give responses, or a table: id, question, candidates (bon list formats)",
            )
        if not scores.pairs:
            refuse_unused("the files hold no pairs", benchmark=named_benchmark)
        if not (answers.questions or scores.questions):
            refuse_unused("the files hold no candidates", policy=policy)
        if not policy and (answers.questions or scores.questions):
            raise BonError("the responses have no policy name", "add --policy NAME")
        setup = _setup(answers, scores, policy, extractor, benchmark)
        with starting(setup, store, replace=replace):
            _write(store, setup, answers, scores, files)
            _print_summary(store, answers, scores, files, quiet=quiet)
    return answers


def refuse_unused(why: str, **settings: object) -> None:
    """Raise BonError for an option that has a value and is not used."""
    for name, value in settings.items():
        if value:
            raise BonError(f"--{name} is not used: {why}", "leave it out")


def _refuse_unknown_columns(tables: Sequence[tuple[Path, Format]]) -> None:
    """Raise BonError for a file that passes for pairs alone, and has columns that are not read."""
    for file, form in tables:
        columns = columns_of(file)
        if form.name == "pairs" and (others := sorted(columns - ROLES["pairs"])):
            raise BonError(
                f"{file} has {', '.join(others)}, but no column of the right answers or responses",
                "name them: --columns answer=COLUMN --columns response=COLUMN",
            )


def _write(
    store: Store, setup: Setup, answers: Answers, scores: ImportedRecords, files: Sequence[Path]
) -> None:
    benchmark = setup.experiment.pairs[0].name if setup.experiment.pairs else ""
    store.set_questions([*(row.question for row in answers.questions), *scores.questions])
    store.set_pairs((benchmark, pair) for pair in scores.pairs)
    notes, policy = [*_notes(scores)], ""
    for loaded in setup.policies:  # one, or none of a benchmark alone
        policy, spec, extractor = loaded.card.name, loaded.spec, loaded.card.extractor
        store.add_candidates(
            candidate_of(policy, spec, extractor, row.question, text)
            for row in answers.questions
            for text in row.texts
        )
        store.add_candidates(candidates(scores, policy, spec))
        notes += notes_of_answers(answers, extractor)
    bad = [*((policy, row) for row in answers.bad), *(("scores", row) for row in scores.bad)]
    store.set_bad_rows((name, row.id, row.reason) for name, row in bad)
    for rewarder in setup.rewarders:
        card = rewarder.card
        values = scores.scores[card.title]
        store.add_judgements(judgements(scores, card.name, rewarder.spec, values, card.aggregate))
    set_leaks(store)
    hashes = [{str(file): file_hash(file)} if file.is_file() else {} for file in files]
    store.set_meta(
        files=list(answers.sources),
        finished=now(),
        datasets=[
            {"benchmark": file.stem, "revision": None, "files": own}
            for file, own in zip(files, hashes, strict=True)
        ],
        notes=notes,
    )


def _notes(scores: ImportedRecords) -> Iterator[str]:
    """Caveats for the report."""
    if blank := sum(not row.answers for row in scores.labels.values()):
        yield (
            f"{blank} questions say who is right but not what the candidates answer: majority vote "
            "is a random choice there, and nothing is known of lengths."
        )
    if scores.questions and scores.pairs and not any(pair.prompt for pair in scores.pairs):
        yield "The pairs have no prompts: whether questions are in both sets is not known."
    for name, values in scores.scores.items():
        items = len({item for item, value in values if value.kind == "question"})
        if 0 < items < len(scores.questions):
            yield f"{name} has scores of {items} of {len(scores.questions)} questions."


def _print_summary(
    store: Store, answers: Answers, scores: ImportedRecords, files: Sequence[Path], *, quiet: bool
) -> None:
    parts = []
    if count := store.count("questions", "active > 0"):
        size = len(answers.sources) or max(len(row.right) for row in scores.labels.values())
        parts.append(f"{count} questions x {size} candidates")
    if scores.scores:
        parts.append(f"{len(scores.pairs)} pairs, {len(scores.scores)} rewarders")
    say(", ".join(parts), quiet=quiet)
    if bad := [*answers.bad, *scores.bad]:
        where = f"{files[0]} " if len(files) == 1 else ""
        first = f"{where}{bad[0].id}: {bad[0].reason}"
        say(f"rows that cannot be read: {len(bad)}, the first: {first}", quiet=quiet)
    if answers.grader:
        why = {"number": "are numbers", "math": "are formulas (numbers by number)"}.get(
            answers.grader, "are texts"
        )
        say(
            f"free answers are graded by {answers.grader}: the right ones {why} (--grader names "
            "another)",
            quiet=quiet,
        )
    if beyond := beyond_options(answers):
        say(
            f"{len(beyond)} questions whose right letter is no option, the first: {beyond[0]}; "
            "every response to them counts as wrong",
            quiet=quiet,
        )
    if leaked := store.count("questions", "leaked > 0"):
        prompts = {pair.prompt for pair in scores.pairs}
        same = sum(question.text in prompts for question in store.questions())
        say(
            f"{leaked} questions appear in both sets, {same} of them word for word, so their "
            "scores predict nothing",
            quiet=quiet,
        )


def with_questions(file: Path, form: Format, questions: str, store: Store) -> Format:
    """Join the named questions to a format whose rows lack them."""
    if not form.bare and not (form.imageless and questions):
        return form
    if not questions:
        raise BonError(
            f"{file} ({form.name}) holds neither questions nor options",
            "name them with --questions: a benchmark, a file or a run directory",
        )
    return joined(form, _questions_in(questions, store), questions)


def _questions_in(questions: str, store: Store) -> Iterator[Known]:
    path = Path(questions)
    if path.is_file():
        yield from whole_rows(path, "give a whole file")
        return
    if is_run([path]):
        with Store(path, readonly=True) as run:
            yield from ((None, row_of(question)) for question in run.questions())
        return
    for question in load_questions(DatasetSpec(benchmark=questions), store.images):
        yield None, ({} if isinstance(question, BadRow) else row_of(question))


def _benchmark(formats: Sequence[tuple[Path, Format]]) -> str:
    """Name the reward benchmark after the file that holds its pairs."""
    stems = {form.table: file.stem for file, form in reversed(formats)}
    named = stems.get("pairs") or stems.get("pair scores") or stems.get("wide scores") or "pairs"
    return "imported pairs" if named in ("pairs", "pair_scores") else named


def _pairs_adapter(file: Path, benchmark: str) -> str:
    """Return the adapter for a file of pairs with texts: the benchmark's own, or `preference`."""
    columns = columns_of(file)
    known = [name for name in (benchmark, "preference") if name in BENCHMARKS]
    fits = (
        name
        for name in known
        if BENCHMARKS[name].kind == "pairs"
        and any({*form.need.values()} <= columns for form in BENCHMARKS[name].forms)
    )
    return "" if "rewarder" in columns else next(fits, "")


def _setup(
    answers: Answers, scores: ImportedRecords, policy: str, extractor: str, benchmark: str
) -> Setup:
    """Return the experiment that the files amount to."""
    rows = [repr(row) for row in scores.labels.values()]
    identity = content_key("import", list(answers.sources), *([rows] if rows else []))
    widest = max((max(row.right) + 1 for row in scores.labels.values()), default=0)
    card = {
        "name": policy,
        "model": f"{IMPORTED}:{identity}",
        "engine": "none",
        "extractor": extractor,
        "prompt": "",
        "n": len(answers.sources) or widest,
    }
    raw: dict[str, Any] = {
        "name": f"{'scores' if scores.scores else 'answers'} of {policy or benchmark}",
        "questions": {"benchmark": "multiple_choice", "name": IMPORTED},
        "policies": [card],
    }
    if not (answers.questions or scores.questions):
        raw |= {"questions": {"benchmark": IMPORTED}, "policies": []}
    if scores.pairs:
        raw["pairs"] = [{"benchmark": "preference", "name": benchmark}]
    if scores.scores:
        raw["rewarders"] = rewarder_cards(scores.scores)
    return prepare(raw, Path.cwd())
