"""`bon curate propose`: items drawn from the runs' pools, each with the chance that it had."""

import hashlib
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

import bon
from bon.core.errors import BonError
from bon.core.files import write_atomic
from bon.core.records import ImageRef
from bon.curating.annotations import current
from bon.curating.drawing import Drawable, Members
from bon.curating.items import CuratedItem, item_key, write_items
from bon.curating.judged_runs import JudgedRun, judged_runs
from bon.curating.on_items import coded, tables_of
from bon.curating.proposal import EnsembleFilter, Population, Proposal, ProposedFrom
from bon.curating.question_pools import PooledText, QuestionPool, pools, split_of
from bon.curating.selecting import Selection, select
from bon.curating.strategies import Kept, all_wrong, entropies, everything, pairs_of
from bon.curating.wanted import Curation
from bon.curating.workbench import Workbench
from bon.policies.question import question_block
from bon.running.saying import say


def propose(bench: Workbench, *, quiet: bool = False) -> Proposal:
    """Draw the items of the recipe and write items.parquet, proposal.json and images/.

    The same runs and recipe give the same items.

    Raises:
        BonError: there is nothing to draw, the recipe names a rewarder that no run has, or items
            that people annotated would be gone.
    """
    recipe = bench.recipe
    with judged_runs(bench) as runs:
        say(f"reading {', '.join(run.name for run in runs)}", quiet=quiet)
        found = pools(runs, recipe.filters)
        if not found.by_question:
            raise BonError(
                "after the filters no question has both a right and a wrong answer: "
                + ", ".join(f"{one.filter} {one.before} to {one.after}" for one in found.counts),
                f"switch filters off in {bench.recipe_path}, or name more runs",
            )
        heard = _heard(runs, found.by_question, recipe, quiet=quiet)
        drawn = select(found.by_question, recipe, heard.kept, heard.entropies)
        if not drawn.drawn_by:
            raise BonError(
                "no strategy of the recipe found anything to draw",
                f"change quotas in {bench.recipe_path}: gold draws wherever there is a pair",
            )
        items = _items(bench, found.by_question, recipe, drawn)
        _check_annotated(bench, items)
        pairs = [len(pool.right) * len(pool.wrong) for pool in found.by_question.values()]
        proposal = Proposal(
            bon=bon.__version__,
            seed=recipe.seed,
            recipe_sha256=hashlib.sha256(bench.recipe_path.read_bytes()).hexdigest(),
            runs=tuple(map(_described, runs, recipe.runs)),
            filters=tuple(found.counts),
            ensemble=heard.ensemble,
            population=Population(
                questions=len(pairs), pairs=sum(pairs), reachable=drawn.reachable
            ),
            strategies=tuple(drawn.counts),
            wanted=recipe.items,
            items=len(items),
            public=sum(item.split == "public" for item in items),
            missing_images=sum(
                len(found.by_question[item.question].question.images) - len(item.images)
                for item in items
            ),
        )
    write_items(items, bench.items_path)
    write_atomic(bench.proposal_path, proposal.model_dump_json(indent=1))
    return proposal


@dataclass(frozen=True)
class _Heard:
    """What rewarders said of the pools, as far as the recipe asks."""

    kept: Kept
    entropies: Mapping[str, Mapping[Members, float]]
    ensemble: EnsembleFilter | None = None


def _heard(
    runs: Sequence[JudgedRun], found: Mapping[str, QuestionPool], recipe: Curation, *, quiet: bool
) -> _Heard:
    models = recipe.filters.ensemble
    known = {str(name) for run in runs for name in run.tables.rewarders["rewarder"]}
    for model in models:
        if model not in known:
            raise BonError(
                f"filters.ensemble names {model!r}, which no run has as a rewarder",
                f"choose among {', '.join(sorted(known))}",
            )
    if not (models or recipe.quotas.get("disagreement")):
        return _Heard(everything, {})
    pairs = pairs_of(found)
    say(f"looking up what rewarders said of {len(pairs):,} pairs", quiet=quiet)
    said = coded(tables_of(runs, pairs))
    disputed = entropies(pairs, np.stack([one.code for one in said.values()], axis=1))
    if not models:
        return _Heard(everything, disputed)
    wrong, unknown = all_wrong(pairs, np.stack([said[name].code for name in models], axis=1))
    report = EnsembleFilter(models=models, before=len(pairs), after=len(wrong), unknown=unknown)
    return _Heard(lambda *pair: pair in wrong, disputed, report)


def _items(
    bench: Workbench, found: Mapping[str, QuestionPool], recipe: Curation, drawn: Selection
) -> list[CuratedItem]:
    """The items by their keys, which say nothing of how they were drawn; images are copied."""
    images = {
        key: tuple(filter(None, (_copied(bench.images, ref) for ref in found[key].question.images)))
        for key in sorted({question for question, _ in drawn.drawn_by})
    }
    items = [_item(found[one[0]], one, recipe, drawn, images[one[0]]) for one in drawn.drawn_by]
    return sorted(items, key=lambda item: item.key)


def _item(
    pool: QuestionPool,
    one: Drawable,
    recipe: Curation,
    drawn: Selection,
    images: tuple[str, ...],
) -> CuratedItem:
    question, texts = pool.question, [pool.texts[place] for place in one[1]]
    keys = tuple(text.key for text in texts)
    correct = tuple(text.correct for text in texts)
    key = item_key(question.key, keys)
    return CuratedItem(
        key=key,
        id=f"{question.id}-{key[:6]}",
        run=pool.run,
        question=question.key,
        prompt=question_block(question),
        images=images,
        responses=tuple(text.text for text in texts),
        text_keys=keys,
        policies=_policies(texts),
        answers=tuple(text.answer for text in texts),
        correct=correct,
        better=None if all(correct) else correct.index(True),
        strategy=drawn.drawn_by[one][0],
        probability=drawn.probability[one],
        split=split_of(question, recipe.seed, recipe.held_out),
        subject=question.subject,
        dataset=question.dataset,
        drawn_by=tuple(drawn.drawn_by[one]),
    )


def _policies(texts: Sequence[PooledText]) -> tuple[str, ...]:
    """Of each text a policy that gave it: one that gave them all, where there is one."""
    shared = set.intersection(*(set(text.policies) for text in texts))
    return tuple(min(shared or text.policies) for text in texts)


def _copied(folder: Path, image: ImageRef) -> str | None:
    """The image beside the items, named by its content; None where it is gone."""
    try:
        data = Path(image.path).read_bytes()
        kind = Image.open(io.BytesIO(data)).format or ""
    except OSError:
        return None
    path = folder / f"{image.sha256}.{kind.lower()}"
    if not path.is_file():
        folder.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f".{path.name}.tmp")
        temporary.write_bytes(data)
        temporary.replace(path)
    return f"{folder.name}/{path.name}"


def _check_annotated(bench: Workbench, items: Sequence[CuratedItem]) -> None:
    """Refuse to lose what people have said."""
    there = {item.key for item in items}
    lost = {row.item for row in current(bench.annotations_path)} - there
    if lost:
        raise BonError(
            f"{len(lost)} items that people annotated would no longer be in {bench.directory}",
            "take the recipe back to what it was, or start another folder: bon curate init",
        )


def _described(run: JudgedRun, path: str) -> ProposedFrom:
    return ProposedFrom(
        name=run.name,
        path=path,
        sha256=run.content_hash(),
        bon=str(run.store.meta("versions", {}).get("bon", "")),
        policies=tuple(one.card.name for one in run.setup.policies),
        rewarders=tuple(one.card.name for one in run.setup.rewarders),
        questions=len(run.tables.questions),
        candidates=len(run.tables.candidates),
        judgements=len(run.tables.judgements),
    )
