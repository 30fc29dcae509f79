"""Responses under every answer extractor, without a run or a model.

Answers to questions without options have one extractor; there the graders are compared.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from types import MappingProxyType

import numpy as np
import pandas as pd

from bon.analysis.calibration.calibrate import agreement_of
from bon.analysis.calibration.grader_labels import check_grader
from bon.analysis.data.arrays import read
from bon.analysis.estimators.picks import as_picks, choices
from bon.analysis.estimators.resampling import draw, from_draws
from bon.analysis.results import ReadDifferently, ReaderScore, Regraded
from bon.analysis.results.calibration import GraderCheck
from bon.core.errors import BonError
from bon.core.keys import text_key
from bon.core.records import Question
from bon.core.text import option_letters
from bon.formats import forms_of
from bon.formats.answers import Answered, Answers, Text, read_answers
from bon.formats.score_tables import WITHOUT_TEXT
from bon.graders import GRADERS, Grade, graded_key, grader_of, grades, is_usable
from bon.importing.import_files import with_questions
from bon.policies.extractors import (
    EXTRACTORS,
    Extractor,
    declines,
    extract_answer,
    extract_for,
    pattern_letter,
)
from bon.running.reporting import open_run, read_results
from bon.storage.store import Store
from bon.work.imported_cards import is_run
from bon.work.run_tables import run_tables

ENDING = 160
"""Last characters of a response in the results."""


def regrade_files(
    files: Sequence[Path],
    extractors: Mapping[str, Extractor],
    *,
    graders: Sequence[str] = ("all",),
    columns: Mapping[str, str],
    form: str = "",
    questions: str = "",
) -> Regraded:
    """Extract the answers of these files, or of one run, with each extractor."""
    if is_run(files):
        answers = _answers_of_run(files[0])
        return regraded(answers, extractors, graders, gradings(files[0]))
    formats = forms_of(files, form, columns)
    for file, format_ in formats:
        if format_.table != "answers":
            raise BonError(f"{file} holds {format_.table}, not answers", "give files with texts")
    with TemporaryDirectory() as folder, Store(Path(folder)) as store:
        complete = [(file, with_questions(file, f, questions, store)) for file, f in formats]
        answers = read_answers(complete, store.images)
    return regraded(answers, extractors, graders)


def _answers_of_run(directory: Path) -> Answers:
    with Store(directory, readonly=True) as store:
        setup, answers = open_run(store), Answers()
        for question in store.questions():
            texts = tuple(
                Text(row.index, row.policy, None if row.outcome == "error" else row.text)
                for row in setup.candidates(store, question.key)
                if row.finish != WITHOUT_TEXT
            )
            if texts:
                answers.questions.append(Answered(question, texts))
    if not answers.questions:
        raise BonError(f"{directory} holds no response texts", "give the files they came from")
    return answers


def extractors(names: Sequence[str], pattern: str) -> dict[str, Extractor]:
    """Return the extractors of these names (`all`: every one), and the pattern's if given."""
    known = ["all", *EXTRACTORS, *GRADERS]
    unknown = [name for name in names if name not in known]
    if unknown:
        fix = f"choose among {', '.join(known)}"
        raise BonError(f"no answer extractor {unknown[0]!r}, and no grader", fix)
    chosen = {name: read for name, read in EXTRACTORS.items() if "all" in names or name in names}
    if pattern:
        try:
            chosen["pattern"] = pattern_letter(pattern)
        except ValueError as error:
            raise BonError(f"--pattern: {error.args[0]}", *map(str, error.args[1:])) from None
    return chosen


Reader = Callable[[Question, str], Grade]


def _extracting(extract: Extractor) -> Reader:
    def read(question: Question, text: str) -> Grade:
        letter = extract(text, option_letters(question.options), question.options)
        return Grade(letter, float(letter is not None and letter == question.answer))

    return read


def _grading(name: str) -> Reader:
    def read(question: Question, text: str) -> Grade:
        graded = replace(question, meta={**question.meta, "grader": name})
        (grade,) = grades(graded, [extract_for(graded, text).letter])
        return _labelled(grade.credit) if grade.answer else grade

    return read


def gradings(directory: Path) -> dict[str, Reader]:
    """Return what each model that graded a run's answers has stored, by its name."""
    with Store(directory, readonly=True) as store:
        specs = store.query(
            "SELECT DISTINCT rewarder, spec FROM judgements WHERE item_kind = 'question' "
            "AND item NOT IN (SELECT key FROM questions)"
        )
        names = Counter(name for name, _ in specs)
        return {
            name if names[name] == 1 else f"{name} ({spec[:6]})": _stored(store.graded(spec))
            for name, spec in specs
        }


def _stored(rows: Iterable[tuple[str, str, float]]) -> Reader:
    known = {(item, text): grade for item, text, grade in rows}

    def read(question: Question, text: str) -> Grade:
        key = graded_key(question, extract_for(question, text).letter, text_key(text))
        grade = known.get((question.grading_key, key))
        return Grade(None, 0.0) if grade is None else _labelled(grade)

    return read


def _labelled(credit: float) -> Grade:
    return Grade({0.0: "wrong", 1.0: "right"}.get(credit, f"{credit:.2f}"), credit)


def _graders(names: Sequence[str]) -> dict[str, Reader]:
    """Return the graders of these names; of all, those whose packages are installed."""
    chosen = [name for name in GRADERS if name in names or ("all" in names and is_usable(name))]
    for name in chosen:
        grader_of(name)
    if not chosen:
        raise BonError("the questions have no options", f"choose among all, {', '.join(GRADERS)}")
    return {name: _grading(name) for name in chosen}


def regraded(
    answers: Answers,
    extractors: Mapping[str, Extractor],
    graders: Sequence[str] = ("all",),
    stored: Mapping[str, Reader] = MappingProxyType({}),
) -> Regraded:
    """Extract the answers with each extractor; compare graders if no question has options.

    `stored`: grades that models have given. Rubrics have no others.
    """
    questions = [row for row in answers.questions if row.question.options]
    readers = {name: _extracting(extract) for name, extract in extractors.items()}
    if not questions:
        questions = answers.questions
        rubrics = any(row.question.meta.get("rubric") for row in questions)
        readers = ({} if rubrics else _graders(graders)) | dict(stored)
    accuracies: list[list[float]] = []  # by question, the accuracy of each extractor
    guesses = dict.fromkeys(readers, 0.0)
    unread = dict.fromkeys(readers, 0)
    differ, total, errors, declined = [], 0, 0, 0
    for row in questions:
        options = row.question.options
        correct = dict.fromkeys(readers, 0.0)
        for response in row.texts:
            total += 1
            errors += response.text is None
            text = response.text or ""
            read = {name: reader(row.question, text) for name, reader in readers.items()}
            declined += declines(text) and extract_answer(text, options, "strict").letter is None
            for name, grade in read.items():
                correct[name] += grade.credit
                if grade.answer is None:
                    unread[name] += 1
                    guesses[name] += 1 / len(options) if options else 0
            if len(set(read.values())) > 1:
                differ.append(
                    ReadDifferently(
                        id=row.question.id, index=response.index, answer=row.question.answer,
                        letters={name: grade.answer for name, grade in read.items()},
                        ending=text[-ENDING:],
                    )
                )  # fmt: skip
        accuracies.append([count / max(len(row.texts), 1) for count in correct.values()])
    values = np.array(accuracies)
    draws = draw(len(values), 2000, 0, "questions").means(values)
    scores = from_draws(values.mean(axis=0), draws, len(values), "questions", 0.95)
    return Regraded(
        num_questions=len(values),
        num_answers=total,
        num_errors=errors,
        num_declined=declined,
        readers=tuple(
            ReaderScore(
                reader=name, accuracy=score, num_unread=unread[name],
                guessing=(score.value or 0.0) + guesses[name] / total,
            )
            for name, score in zip(readers, scores, strict=True)
        ),
        differ=tuple(differ),
    )  # fmt: skip


def against_labels(directory: Path, table: pd.DataFrame) -> GraderCheck:
    """Compare a run's grader with labels of some of its answers.

    table: item, label, annotator, probability.
    """
    results = read_results(directory)
    consensus, _ = agreement_of(table, results.options)
    chances = table.dropna(subset="probability").groupby("item")["probability"].first()
    labels = {str(item): float(label) for item, label in consensus.dropna().items()}
    known = {str(item): float(chance) for item, chance in chances.items()}
    with Store(directory, readonly=True) as store:
        setup = open_run(store)
        run = read(run_tables(setup, store))
    picks = as_picks(choices(run, results))
    return check_grader(run.pools, picks, labels, known, results.options)
