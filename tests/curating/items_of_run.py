"""Items made by hand from a run, where a test is not about how they are drawn."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from bon.core.records import Candidate, Question
from bon.curating.item_judgements import credits
from bon.curating.items import CuratedItem, item_key, write_items
from bon.curating.judged_runs import begin
from bon.curating.workbench import Workbench
from bon.policies.prompting import question_block
from bon.running.reporting import open_run
from bon.storage.store import Store


def every_pair(run: Path) -> list[CuratedItem]:
    """Of each question and policy each right text with each wrong one."""
    return [
        curated(run, question, sorted([one, other], key=_key), one)
        for question, right, wrong in texts_of(run)
        for one in right
        for other in wrong
    ]


def texts_of(run: Path) -> Iterator[tuple[Question, list[Candidate], list[Candidate]]]:
    """Questions with the right and the wrong texts of each policy."""
    with Store(run, readonly=True) as store:
        for question in store.questions():
            for policy in open_run(store).policies:
                rows = store.candidates(policy.spec, question.key)
                texts = sorted({row.text_key: row for row in rows}.values(), key=_key)
                right = [row for row in texts if row.answer == question.answer]
                yield question, right, [row for row in texts if row not in right]


def curated(
    run: Path, question: Question, rows: Sequence[Candidate], better: Candidate
) -> CuratedItem:
    """An item of these responses."""
    keys = tuple(map(_key, rows))
    return CuratedItem(
        key=item_key(question.key, keys),
        id="-".join([question.id, *(key[:4] for key in keys)]),
        run=run.name,
        question=question.key,
        prompt=question_block(question),
        images=(),
        responses=tuple(row.text for row in rows),
        text_keys=keys,
        policies=tuple(row.policy for row in rows),
        answers=tuple(row.answer or "" for row in rows),
        better=list(rows).index(better),
        strategy="gold",
        probability=0.5,
        split="public",
    )


def _key(row: Candidate) -> str:
    return row.text_key


def bench_of(run: Path, items: list[CuratedItem], folder: Path) -> Workbench:
    """A folder with these items of the run."""
    bench = begin([run], folder)
    write_items(items, bench.items_path)
    return bench


def missing(bench: Workbench) -> dict[str, int]:
    """Number of items on which each rewarder has no verdict."""
    return {str(name): int(count) for name, count in credits(bench).isna().sum().items()}
