"""Import questions, candidates and judgements of files and other runs into a run.

A question there matches the one here with its content key, or else with its id, options and
right answer.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

from bon.choosing.opinion import shown_of
from bon.core.console import say
from bon.core.errors import BonError
from bon.core.keys import content_key
from bon.core.records import Candidate, ImageRef, Judgement, Question
from bon.experiment.cards import Loaded
from bon.experiment.config import IMPORTED, Elsewhere, PolicyCard, RewarderCard
from bon.formats import forms_of
from bon.formats.answers import Answers, read_answers
from bon.formats.base import Format
from bon.formats.question_join import Known, joined, row_of
from bon.formats.score_tables import WITHOUT_TEXT, read_tables
from bon.importing.imported_rows import (
    ImportedRecords,
    attach_scores,
    candidate_of,
    judgements,
    notes_of_answers,
    sides_of,
)
from bon.policies.extractors import extract_for, was_cut
from bon.policies.generate import candidate_key
from bon.storage.store import Store
from bon.work.imported_cards import HUB, found_files, is_run, spec_in
from bon.work.setup import Setup

Policy = Loaded[PolicyCard]


class Imports:
    """All sources that the `from` settings of an experiment name; `bad` rows cannot be used."""

    def __init__(self, setup: Setup, store: Store) -> None:
        self.bad: list[tuple[str, str, str]] = []
        self._setup = setup
        self._store = store
        self._read: dict[str, Answers] = {}

    def questions(self) -> Iterator[Question]:
        """Yield the questions that the policies answered."""
        seen: set[str] = set()
        limit = self._setup.experiment.questions[0].limit
        for policy in self._setup.policies:
            for question in self._questions(policy):
                if question.key not in seen and (limit is None or len(seen) < limit):
                    seen.add(question.key)
                    yield question

    def fill(self, *, quiet: bool) -> None:
        """Store candidates and judgements of the active questions and pairs."""
        notes: list[str] = []
        for policy in self._setup.policies:
            source = policy.card.elsewhere
            if source is None:
                continue
            paths = self._paths(source)
            rows: Iterable[Candidate]
            if is_run(paths):
                rows = self._candidates_of_run(policy, paths[0], source.of)
            else:
                answers = self._answers(policy)
                rows = self._candidates_of(policy, answers)
                notes += notes_of_answers(answers, policy.card.extractor)
            stored = self._store.add_candidates(rows)
            if not stored:
                raise BonError(
                    f"{policy.card.name}: this experiment has none of the questions of {paths[0]}",
                    "leave out `questions:`, or name the benchmark that it answers",
                )
            covered = len({row.question for row in stored})
            total = self._store.count("questions", "active > 0")
            share = f", of {covered} of {total} questions" if covered < total else ""
            if share:
                notes.append(f"{policy.card.name} answers {covered} of {total} questions.")
            say(f"{policy.card.name}: {len(stored)} candidates from {paths[0]}{share}", quiet=quiet)
        for rewarder in self._setup.rewarders:
            if rewarder.card.elsewhere is None:
                self._copy_known(rewarder)
            else:
                judged = self._store.add_judgements(self._judgements(rewarder))
                path = self._paths(rewarder.card.elsewhere)[0]
                say(f"{rewarder.card.name}: {len(judged)} judgements from {path}", quiet=quiet)
        self._store.set_meta(notes=notes)

    def provenance(self) -> list[dict[str, Any]]:
        """Return every path that was read, with the hash that pins it."""
        return [
            {"benchmark": path.stem, "revision": None, "files": {str(path): model.card.model}}
            for model in self._setup.models
            if model.card.elsewhere is not None
            for path in self._paths(model.card.elsewhere)
        ]

    def _paths(self, source: Elsewhere | None) -> list[Path]:
        return [] if source is None else found_files(source, self._setup.base)

    def _run_of(self, policy: Policy) -> Path | None:
        paths = self._paths(policy.card.elsewhere)
        return paths[0] if is_run(paths) else None

    def _answers(self, policy: Policy) -> Answers:
        name, source = policy.card.name, policy.card.elsewhere
        assert source is not None
        if name not in self._read:
            task, *others = self._setup.experiment.questions
            if others:
                raise BonError(
                    f"{name}: files of answers belong to one task, and `questions:` lists "
                    f"{1 + len(others)}",
                    "name one task, or a run in `from:`",
                )
            benchmark = task.benchmark
            forms = []
            for path, form in forms_of(self._paths(source), source.format, source.columns):
                if form.bare and benchmark == IMPORTED:
                    raise BonError(
                        f"{path} holds neither questions nor options",
                        "add `questions:`, the benchmark that it is about",
                    )
                incomplete = form.bare or (form.imageless and benchmark != IMPORTED)
                if any(file.startswith(HUB) for file in source.files):
                    form = _without_folders(form)
                forms.append((path, joined(form, self._known, benchmark) if incomplete else form))
            answers = read_answers(
                forms, self._store.images, advice="`from: {{columns: {{{role}: COLUMN}}}}`",
                grader=task.grader, tolerance=task.tolerance,
            )  # fmt: skip
            self.bad += [(name, row.id, row.reason) for row in answers.bad]
            self._read[name] = answers
        return self._read[name]

    @cached_property
    def _known(self) -> list[Known]:
        """Questions of this experiment, without images, for logs that hold none."""
        return [(None, row_of(q, images=False)) for q in self._store.questions()]

    def _questions(self, policy: Policy) -> Iterator[Question]:
        directory = self._run_of(policy)
        if directory is None:
            yield from (row.question for row in self._answers(policy).questions)
            return
        with Store(directory, readonly=True) as run:
            for question in run.questions():
                yield replace(question, images=tuple(map(self._image, question.images)))

    def _image(self, image: ImageRef) -> ImageRef:
        return self._store.images.put(Path(image.path).read_bytes())

    @cached_property
    def _questions_here(self) -> "_QuestionIndex":
        return _QuestionIndex(self._store)

    def _candidates_of(self, policy: Policy, answers: Answers) -> Iterator[Candidate]:
        card, spec = policy.card, policy.spec
        for row in answers.questions:
            if question := self._questions_here.match(row.question, card.name):
                for text in row.texts:
                    if text.index < card.n:
                        yield candidate_of(card.name, spec, card.extractor, question, text)

    def _candidates_of_run(self, policy: Policy, directory: Path, name: str) -> Iterator[Candidate]:
        card, spec = policy.card, policy.spec
        with Store(directory, readonly=True) as run:
            run_spec = spec_in(run, name)
            for run_question in run.questions():
                if question := self._questions_here.match(run_question, card.name):
                    for row in run.candidates(run_spec, run_question.key):
                        if row.index < card.n:
                            yield _candidate(card, spec, question, row)

    def _copy_known(self, rewarder: Loaded[RewarderCard]) -> None:
        """Copy this rewarder's judgements from the runs that candidates come from.

        Raises BonError for candidates without texts, which it cannot judge.
        """
        for policy in (each for each in self._setup.policies if each.card.imported):
            if self._store.has(
                "candidates", "spec = ? AND finish = ?", (policy.spec, WITHOUT_TEXT)
            ):
                raise BonError(
                    f"{rewarder.card.name} cannot judge the candidates of {policy.card.name}: "
                    "their texts were not imported",
                    "import the answers, or leave the rewarder out",
                )
            directory = self._run_of(policy)
            if directory is not None:
                with Store(directory, readonly=True) as run:
                    rows = self._copied(rewarder, run, rewarder.spec)
                    self._store.add_judgements(rows)

    def _judgements(self, rewarder: Loaded[RewarderCard]) -> Iterator[Judgement]:
        source = rewarder.card.elsewhere
        assert source is not None
        paths = self._paths(source)
        if is_run(paths):
            with Store(paths[0], readonly=True) as run:
                yield from self._copied(rewarder, run, spec_in(run, source.of))
            return
        name, aggregate = rewarder.card.name, rewarder.card.aggregate
        rows = read_tables(forms_of(paths, source.format, source.columns)).judgements
        imported = ImportedRecords()
        items = self._items(imported, self._scored_policy(source, name))
        attach_scores(imported, [row for row in rows if row.rewarder == source.of], items)
        self.bad += [(name, row.id, row.reason) for row in imported.bad]
        for scores in imported.scores.values():
            yield from judgements(imported, name, rewarder.spec, scores, aggregate)

    def _copied(self, rewarder: Loaded[RewarderCard], run: Store, spec: str) -> Iterator[Judgement]:
        """Yield a run's judgements under a spec as judgements of this rewarder on items here."""
        name, new_spec = rewarder.card.name, rewarder.spec
        items = {pair.key: pair.key for _, pair in self._store.pairs()}
        for run_question in run.questions():
            if question := self._questions_here.match(run_question, name):
                items[run_question.key] = question.key
        for page in run.replies(spec):
            for row in page:
                if row.item in items:
                    item = items[row.item]
                    key = content_key(new_spec, item, shown_of(row), row.vote)
                    yield row._replace(key=key, item=item, rewarder=name, spec=new_spec)

    def _scored_policy(self, source: Elsewhere, name: str) -> Policy:
        """Return the policy whose candidates the scores are about."""
        policies = self._setup.policies
        if source.policy:
            policies = tuple(policy for policy in policies if policy.card.name == source.policy)
        if len(policies) != 1:
            names = ", ".join(policy.card.name for policy in self._setup.policies)
            raise BonError(
                f"{name}: its scores may be about the candidates of several policies",
                f"say whose: `from: {{files: …, policy: NAME}}`, one of {names}",
            )
        return policies[0]

    def _items(self, imported: ImportedRecords, policy: Policy) -> dict[tuple[str, str], str]:
        """Return the keys of questions and pairs by unique ids; note their responses."""
        items: dict[tuple[str, str], set[str]] = defaultdict(set)
        for question in self._store.questions():
            items["question", question.id].add(question.key)
            imported.responses[question.key] = {
                row.index: row.text_key for row in self._store.candidates(policy.spec, question.key)
            }
        for _, pair in self._store.pairs():
            items["pair", pair.id].add(pair.key)
            imported.responses[pair.key] = sides_of(pair)
        return {label: next(iter(keys)) for label, keys in items.items() if len(keys) == 1}


class _QuestionIndex:
    """The questions of this experiment, matched to those of another file or run."""

    def __init__(self, store: Store) -> None:
        self._by_key: dict[str, Question] = {}
        self._by_id: dict[str, list[Question]] = defaultdict(list)
        for question in store.questions():
            self._by_key[question.key] = question
            self._by_id[question.id].append(question)

    def match(self, other: Question, name: str) -> Question | None:
        """Return the same question here, or None.

        Raises BonError where its id has other options or another right answer here.
        """
        if other.key in self._by_key:
            return self._by_key[other.key]
        matches = self._by_id.get(other.id, [])
        fields: tuple[tuple[str, Callable[[Question], Any]], ...] = (
            ("options", lambda question: [option.strip() for option in question.options]),
            ("right answer", lambda question: question.answer),
        )
        for field, value_of in fields:
            agreeing = [match for match in matches if value_of(match) == value_of(other)]
            if matches and not agreeing:
                raise BonError(
                    f"{name}, question {other.id!r}: its {field} there: {value_of(other)!r}, "
                    f"here: {value_of(matches[0])!r}",
                    "name the dataset and revision that were answered under `questions:`",
                )
            matches = agreeing
        if len(matches) > 1:
            matches = [match for match in matches if match.text == other.text][:1] or matches
        return matches[0] if len(matches) == 1 else None


def _without_folders(form: Format) -> Format:
    """Return the format of rows that may not name files of this machine."""
    return replace(form, rows=lambda path: ((None, row) for _, row in form.rows(path)))


def _candidate(card: PolicyCard, spec: str, question: Question, row: Candidate) -> Candidate:
    """Return another run's candidate as one of this card, its answer extracted as here."""
    answer, outcome = row.answer, row.outcome
    if row.outcome != "error" and row.finish != WITHOUT_TEXT:
        cut = was_cut(row.finish, row.num_tokens)
        answer, outcome = extract_for(question, row.text, card.extractor, cut=cut)
    return row._replace(
        key=candidate_key(spec, question.key, row.index),
        question=question.key,
        policy=card.name,
        spec=spec,
        answer=answer,
        outcome=outcome,
    )
