"""`bon curate propose`: draw items from the runs' pools with known inclusion probabilities."""

import hashlib
import io
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from PIL import Image

import bon
from bon.analysis.results.record import Record
from bon.core.console import say, show_listing
from bon.core.errors import BonError
from bon.core.files import write_atomic
from bon.curating.draw import Selection, StrategyCount, select
from bon.curating.items import CuratedItem, item_key, write_items
from bon.curating.judged_runs import JudgedRun, judged_runs
from bon.curating.labelling.annotations import current
from bon.curating.pools import (
    FilterCount,
    PooledText,
    QuestionPool,
    build_pools,
    split_of,
)
from bon.curating.recipe import STRATEGIES, Curation
from bon.curating.workbench import Workbench
from bon.policies.prompting import question_block


class ProposedFrom(Record):
    """A run that items were drawn from; `sha256` is the hash of its contents at that time.

    `path` is as in the recipe, so no path of this machine is published.
    """

    name: str
    path: str
    sha256: str
    bon: str
    policies: tuple[str, ...]
    rewarders: tuple[str, ...]
    questions: int
    candidates: int
    judgements: int


class Population(Record):
    """All (right, wrong) pairs, to which weights lead back; `reachable` may be drawn."""

    questions: int
    pairs: int
    reachable: int


class Proposal(Record):
    """How the items were drawn (proposal.json)."""

    bon: str
    seed: int
    recipe_sha256: str
    runs: tuple[ProposedFrom, ...]
    filters: tuple[FilterCount, ...]
    population: Population
    strategies: tuple[StrategyCount, ...]
    wanted: int
    items: int
    public: int
    missing_images: int = 0

    def text(self) -> str:
        """Return tables of filters and strategies, and remarks, for the terminal."""
        strategies = [
            {
                "strategy": part.strategy,
                "quota": part.wanted,
                "drawn": part.drawn,
                "of": f"{part.available:,} in {part.questions:,} questions",
                "description": STRATEGIES[part.strategy],
            }
            for part in self.strategies
        ]
        filters = show_listing([row.model_dump() for row in self.filters])
        return "\n".join([filters, "", show_listing(strategies), "", *self._remarks()])

    def _remarks(self) -> Iterator[str]:
        held_out = self.items - self.public
        yield f"{self.items} of {self.wanted} items: {self.public} public, {held_out} held out."
        if any(part.drawn < part.wanted for part in self.strategies):
            yield "To fill a quota, add candidates or questions, or raise per_question."
        if self.population.reachable < self.population.pairs:
            yield (
                f"Weights lead back to only {self.population.reachable:,} of "
                f"{self.population.pairs:,} pairs: no strategy draws the others. A quota for the "
                "control reaches all."
            )
        if self.missing_images:
            yield f"{self.missing_images} images are missing and will not be shown."


def propose(bench: Workbench, *, quiet: bool = False) -> Proposal:
    """Draw the items of the recipe and write items.parquet, proposal.json and images/.

    The same runs and recipe give the same items.

    Raises:
        BonError: nothing can be drawn, or annotated items would disappear.
    """
    recipe = bench.recipe
    with judged_runs(bench) as runs:
        say(f"reading {', '.join(run.name for run in runs)}", quiet=quiet)
        built = build_pools(runs, recipe.filters)
        pools = built.by_question
        if not pools:
            counts = (f"{row.filter} {row.before} to {row.after}" for row in built.counts)
            raise BonError(
                "after the filters no question has both a right and a wrong answer: "
                + ", ".join(counts),
                f"switch filters off in {bench.recipe_path}, or name more runs",
            )
        selection = select(pools, recipe)
        if not selection.drawn_by:
            raise BonError(
                "no strategy of the recipe has anything to draw",
                f"change quotas in {bench.recipe_path}: gold draws wherever there is a pair",
            )
        items = _items(bench, pools, recipe, selection)
        annotated = {row.item for row in current(bench.annotations_path)}
        if lost := annotated - {item.key for item in items}:
            raise BonError(
                f"{len(lost)} annotated items would no longer be in {bench.directory}",
                "restore the recipe, or start another folder: bon curate init",
            )
        pairs = [len(pool.right) * len(pool.wrong) for pool in pools.values()]
        images = [len(pools[i.question].question.images) - len(i.images) for i in items]
        proposal = Proposal(
            bon=bon.__version__,
            seed=recipe.seed,
            recipe_sha256=hashlib.sha256(bench.recipe_path.read_bytes()).hexdigest(),
            runs=tuple(map(_source, runs, recipe.runs)),
            filters=tuple(built.counts),
            population=Population(
                questions=len(pairs), pairs=sum(pairs), reachable=selection.reachable
            ),
            strategies=tuple(selection.counts),
            wanted=recipe.items,
            items=len(items),
            public=sum(item.split == "public" for item in items),
            missing_images=sum(images),
        )
    write_items(items, bench.items_path)
    write_atomic(bench.proposal_path, proposal.model_dump_json(indent=1))
    return proposal


def _items(
    bench: Workbench, pools: Mapping[str, QuestionPool], recipe: Curation, selection: Selection
) -> list[CuratedItem]:
    """Return the items sorted by key, which reveals nothing of the draw, and copy their images."""
    images: dict[str, tuple[str, ...]] = {}
    items = []
    for drawn, strategies in selection.drawn_by.items():
        pool = pools[drawn[0]]
        question, texts = pool.question, [pool.texts[index] for index in drawn[1]]
        if question.key not in images:
            copies = (copy_image(bench.images, Path(ref.path)) for ref in question.images)
            images[question.key] = tuple(filter(None, copies))
        keys = tuple(text.key for text in texts)
        key = item_key(question.key, keys)
        item = CuratedItem(
            key=key,
            id=f"{question.id}-{key[:6]}",
            run=pool.run,
            question=question.key,
            prompt=question_block(question),
            images=images[question.key],
            responses=tuple(text.text for text in texts),
            text_keys=keys,
            policies=_policies(texts),
            answers=tuple(text.answer for text in texts),
            better=[text.correct for text in texts].index(True),
            strategy=strategies[0],
            probability=selection.probability[drawn],
            split=split_of(question, recipe.seed, recipe.held_out),
            subject=question.subject,
            dataset=question.dataset,
            drawn_by=tuple(strategies),
        )
        items.append(item)
    return sorted(items, key=lambda item: item.key)


def _policies(texts: Sequence[PooledText]) -> tuple[str, ...]:
    """Return one policy per text, the same for all if one policy wrote them all."""
    shared = set.intersection(*(set(text.policies) for text in texts))
    return tuple(min(shared or text.policies) for text in texts)


def copy_image(folder: Path, image: Path) -> str | None:
    """Copy an image into the folder under its hash; None if it is missing."""
    try:
        data = image.read_bytes()
        kind = Image.open(io.BytesIO(data)).format or ""
    except OSError:
        return None
    path = folder / f"{hashlib.sha256(data).hexdigest()}.{kind.lower()}"
    if not path.is_file():
        folder.mkdir(parents=True, exist_ok=True)
        write_atomic(path, data)
    return f"{folder.name}/{path.name}"


def _source(run: JudgedRun, path: str) -> ProposedFrom:
    return ProposedFrom(
        name=run.name,
        path=path,
        sha256=run.content_hash(),
        bon=str(run.store.meta("versions", {}).get("bon", "")),
        policies=tuple(loaded.card.name for loaded in run.setup.policies),
        rewarders=tuple(loaded.card.name for loaded in run.setup.rewarders),
        questions=len(run.tables.questions),
        candidates=len(run.tables.candidates),
        judgements=len(run.tables.judgements),
    )
