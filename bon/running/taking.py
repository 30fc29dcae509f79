"""What models said elsewhere, brought into a run: their questions, candidates and judgements.

Rows are joined by what they say. A question of a file or of another run is the one of this
experiment that has its content key, or else its id with the same options and right answer.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

from bon.choosing.opinion import shown_of
from bon.core.errors import BonError
from bon.core.keys import content_key
from bon.core.records import Candidate, ImageRef, Judgement, Question
from bon.experiment.cards import Loaded
from bon.experiment.config import IMPORTED, Elsewhere, PolicyCard, RewarderCard
from bon.formats.answers import Answers, Text, read_answers
from bon.formats.joined import Known, joined
from bon.formats.tabled import SIDES, WITHOUT_TEXT, Label, read_tables
from bon.policies.ask import candidate_key, read, text_key
from bon.running.answered import candidate_of, keep_theirs, notes_of_answers
from bon.running.brought import Brought, attribute, judgements
from bon.running.pinning import forms_of, found_files, is_run, models_in, spec_in
from bon.running.saying import say
from bon.running.setup import Setup
from bon.running.store import Store

Policy = Loaded[PolicyCard]
FROM_COLUMNS = "`from: {{columns: {{{role}: COLUMN}}}}`"
"""How an experiment names the column of a role of a file that it reads."""


class Taking:
    """Everything that the `from` references of an experiment name. `bad` rows cannot be used."""

    def __init__(self, setup: Setup, store: Store) -> None:
        self.bad: list[tuple[str, str, str]] = []
        self._setup = setup
        self._store = store
        self._read: dict[str, Answers] = {}

    def questions(self) -> Iterator[Question]:
        """The questions that the policies were asked, in the order in which they are read."""
        seen: set[str] = set()
        limit = self._setup.experiment.questions.limit
        for policy in self._setup.policies:
            for question in self._questions(policy):
                if question.key not in seen and (limit is None or len(seen) < limit):
                    seen.add(question.key)
                    yield question

    def fill(self, *, quiet: bool) -> None:
        """Write the candidates and judgements of the active questions and pairs."""
        notes: list[str] = []
        theirs: list[tuple[Candidate, Text]] = []
        for policy in self._setup.policies:
            source = policy.card.elsewhere
            if source is None:
                continue
            paths = self._paths(source)
            rows: Iterable[Candidate]
            if is_run(paths):
                rows = self._candidates_of_run(policy, paths[0])
            else:
                answers = self._answers(policy)
                found = list(self._candidates_of(policy, answers))
                theirs += found
                rows = (row for row, _ in found)
                notes += notes_of_answers(answers, policy.card.reader)
            made = self._store.add_candidates(rows)
            if not made:
                raise BonError(
                    f"{policy.card.name}: none of the questions of {paths[0]} is asked here",
                    "leave out `questions:`, or name the benchmark that it answers",
                )
            asked = len({row.question for row in made})
            total = self._store.count("questions", "active > 0")
            some = f", of {asked} of {total} questions" if asked < total else ""
            if some:
                notes.append(f"{policy.card.name} answers {asked} of {total} questions.")
            say(f"{policy.card.name}: {len(made)} candidates from {paths[0]}{some}", quiet=quiet)
        for rewarder in self._setup.rewarders:
            if rewarder.card.elsewhere is None:
                self._go_on(rewarder)
            else:
                made_here = self._store.add_judgements(self._judgements(rewarder))
                where = self._paths(rewarder.card.elsewhere)[0]
                say(f"{rewarder.card.name}: {len(made_here)} judgements from {where}", quiet=quiet)
        self._store.set_meta(notes=notes)
        keep_theirs(self._store.directory, theirs)

    def provenance(self) -> list[dict[str, Any]]:
        """What was read: each path of the references, with the hash that pins it."""
        return [
            {"benchmark": path.stem, "revision": None, "files": {str(path): model.card.model}}
            for model in self._setup.models
            if model.card.elsewhere is not None
            for path in self._paths(model.card.elsewhere)
        ]

    # -- where things are ---------------------------------------------------------------

    def _paths(self, source: Elsewhere) -> list[Path]:
        return found_files(source, self._setup.base)

    def _run_of(self, policy: Policy) -> Path | None:
        source = policy.card.elsewhere
        paths = self._paths(source) if source is not None else []
        return paths[0] if is_run(paths) else None

    def _answers(self, policy: Policy) -> Answers:
        name, source = policy.card.name, policy.card.elsewhere
        assert source is not None
        if name not in self._read:
            about = self._setup.experiment.questions.benchmark
            forms = []
            for path, form in forms_of(self._paths(source), source):
                if form.bare and about == IMPORTED:
                    raise BonError(
                        f"{path} holds neither questions nor options",
                        "add `questions:`, the benchmark that it is about",
                    )
                lacks = form.bare or (form.imageless and about != IMPORTED)
                forms.append((path, joined(form, self._known, about) if lacks else form))
            found = read_answers(
                forms, self._store.images, columns=source.columns, advice=FROM_COLUMNS
            )
            self.bad += [(name, row.id, row.reason) for row in found.bad]
            self._read[name] = found
        return self._read[name]

    @cached_property
    def _known(self) -> list[Known]:
        """The questions of this experiment for logs that hold none, without their images."""
        return [
            (None, {"id": q.id, "question": q.text, "options": list(q.options), "answer": q.answer})
            for q in self._store.questions()
        ]

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

    # -- candidates ---------------------------------------------------------------------

    @cached_property
    def _here(self) -> "_Questions":
        return _Questions(self._store)

    def _candidates_of(self, policy: Policy, answers: Answers) -> Iterator[tuple[Candidate, Text]]:
        card, spec = policy.card, policy.spec
        for row in answers.questions:
            question = self._here.find(row.question, card.name)
            for text in row.texts if question is not None else ():
                if text.index < card.n:
                    assert question is not None
                    yield candidate_of(card.name, spec, card.reader, question, text), text

    def _candidates_of_run(self, policy: Policy, directory: Path) -> Iterator[Candidate]:
        card, spec = policy.card, policy.spec
        with Store(directory, readonly=True) as run:
            theirs = _spec(run, "policies", card.elsewhere)
            for asked in run.questions():
                question = self._here.find(asked, card.name)
                rows = run.candidates(theirs, asked.key) if question is not None else []
                for row in rows:
                    if row.index < card.n:
                        assert question is not None
                        yield _candidate(card, spec, question, row)

    # -- judgements ---------------------------------------------------------------------

    def _go_on(self, rewarder: Loaded[RewarderCard]) -> None:
        """What this rewarder said in the runs that candidates are from; it adds what is missing.

        Raises:
            BonError: there are candidates whose texts nobody gave, which it cannot judge.
        """
        for policy in self._setup.policies:
            where = "spec = ? AND finish = ?", (policy.spec, WITHOUT_TEXT)
            if policy.card.brought and self._store.has("candidates", *where):
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
                spec = _spec(run, "rewarders", source)
                yield from self._copied(rewarder, run, spec)
            return
        spoken = [
            one for one in read_tables(forms_of(paths, source)).spoken if one.rewarder == source.of
        ]
        found = Brought()
        attribute(found, spoken, self._items(found, self._scored(source, rewarder.card.name)))
        name, aggregate = rewarder.card.name, rewarder.card.aggregate
        self.bad += [(name, row.id, row.reason) for row in found.bad]
        for said in found.said.values():
            yield from judgements(found, name, rewarder.spec, said, aggregate)

    def _copied(self, rewarder: Loaded[RewarderCard], run: Store, spec: str) -> Iterator[Judgement]:
        """What a run files under a spec, as judgements of this rewarder on what is asked here."""
        name, mine = rewarder.card.name, rewarder.spec
        pairs = {pair.key: pair.key for _, pair in self._store.pairs()}
        found = ((one.key, self._here.find(one, name)) for one in run.questions())
        items = pairs | {key: one.key for key, one in found if one is not None}
        for page in run.replies(spec):
            for row in page:
                if row.item in items:
                    item = items[row.item]
                    key = content_key(mine, item, shown_of(row), row.vote)
                    yield row._replace(key=key, item=item, rewarder=name, spec=mine)

    def _scored(self, source: Elsewhere, name: str) -> Policy:
        """The policy whose candidates scores are about."""
        policies = self._setup.policies
        if source.policy:
            policies = tuple(one for one in policies if one.card.name == source.policy)
        if len(policies) != 1:
            names = ", ".join(one.card.name for one in self._setup.policies)
            raise BonError(
                f"{name}: its scores may be about the candidates of several policies",
                f"say whose: `from: {{files: …, policy: NAME}}`, one of {names}",
            )
        return policies[0]

    def _items(self, found: Brought, policy: Policy) -> dict[tuple[str, str], str]:
        """The keys of questions and pairs by their ids; those of which two have one id are out."""
        items: dict[tuple[str, str], set[str]] = defaultdict(set)
        for question in self._store.questions():
            items["question", question.id].add(question.key)
            found.responses[question.key] = {
                row.index: row.text_key for row in self._store.candidates(policy.spec, question.key)
            }
        for _, pair in self._store.pairs():
            items["pair", pair.id].add(pair.key)
            chosen, rejected = pair.responses[pair.preferred], pair.responses[1 - pair.preferred]
            told: Mapping[Label, str] = dict(
                zip(SIDES, (text_key(chosen), text_key(rejected)), strict=True)
            )
            found.responses[pair.key] = dict(told)
        return {label: next(iter(keys)) for label, keys in items.items() if len(keys) == 1}


class _Questions:
    """The questions of this experiment, found by what another file or run says of them."""

    def __init__(self, store: Store) -> None:
        self._by_key: dict[str, Question] = {}
        self._by_id: dict[str, list[Question]] = defaultdict(list)
        for question in store.questions():
            self._by_key[question.key] = question
            self._by_id[question.id].append(question)

    def find(self, said: Question, name: str) -> Question | None:
        """The same question here; None where it is not asked.

        Raises:
            BonError: its id is asked here with other options or another right answer.
        """
        if said.key in self._by_key:
            return self._by_key[said.key]
        named = self._by_id.get(said.id, [])
        checks: tuple[tuple[str, Callable[[Question], Any]], ...] = (
            ("options", lambda one: [option.strip() for option in one.options]),
            ("right answer", lambda one: one.answer),
        )
        for what, of in checks:
            agreeing = [one for one in named if of(one) == of(said)]
            if named and not agreeing:
                raise BonError(
                    f"{name}, question {said.id!r}: its {what} there: {of(said)!r}, "
                    f"here: {of(named[0])!r}",
                    "name the dataset and revision that were answered under `questions:`",
                )
            named = agreeing
        if len(named) > 1:
            named = [one for one in named if one.text == said.text][:1] or named
        return named[0] if len(named) == 1 else None


def _spec(run: Store, room: Any, source: Elsewhere | None) -> str:
    assert source is not None
    (model,) = [one for one in models_in(run, room) if one.card.name == source.of]
    return spec_in(run, model)


def _candidate(card: PolicyCard, spec: str, question: Question, row: Candidate) -> Candidate:
    """A candidate of another run as one of this card, read by its reader."""
    said = row.answer, row.outcome
    if row.outcome != "error" and row.finish != WITHOUT_TEXT:
        said = read(row.text, question.options, card.reader)
    return row._replace(
        key=candidate_key(spec, question.key, row.index),
        question=question.key,
        policy=card.name,
        spec=spec,
        answer=said[0],
        outcome=said[1],
    )
