"""`bon curate draw`: items of runs' pools or preference sets, with inclusion probabilities."""

import hashlib
import io
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any

from PIL import Image

import bon
from bon.analysis.results.record import Record
from bon.benchmarks import load_pairs
from bon.benchmarks.leaks import plain
from bon.core.console import say, show_listing
from bon.core.errors import BonError
from bon.core.files import write_atomic
from bon.core.images import ImageStore
from bon.core.keys import content_key, item_seed, text_key
from bon.core.records import PreferencePair
from bon.curating.draw import Selection, StrategyCount, select
from bon.curating.items import CuratedItem, item_key, write_items, write_pairs
from bon.curating.judged_runs import JudgedRun, judged_runs
from bon.curating.labelling.annotations import current
from bon.curating.pools import (
    FilterCount,
    PooledText,
    QuestionPool,
    build_pools,
    signature,
    split_of,
)
from bon.curating.recipe import MEANINGS, Curation
from bon.curating.workbench import Workbench
from bon.policies.prompting import question_block
from bon.work.setup import located


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
    runs: tuple[ProposedFrom, ...] = ()
    sets: tuple[dict[str, Any], ...] = ()
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
                "description": MEANINGS.get(part.strategy, "uniform over the pairs of all sets"),
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
    """Draw the items of the recipe and write items.parquet, pairs.parquet and proposal.json.

    The same sources and recipe give the same items.

    Raises:
        BonError: nothing can be drawn, or annotated items would disappear.
    """
    items, proposal = (_from_sets if bench.recipe.pairs else _from_runs)(bench, quiet)
    annotated = {row.item for row in current(bench.annotations_path)}
    if lost := annotated - {item.key for item in items}:
        raise BonError(
            f"{len(lost)} annotated items would no longer be in {bench.directory}",
            "restore the recipe, or draw into another folder: --out",
        )
    write_items(items, bench.items_path)
    write_pairs(items, bench.directory, bench.pairs_path)
    write_atomic(bench.proposal_path, proposal.model_dump_json(indent=1))
    return proposal


def _from_runs(bench: Workbench, quiet: bool) -> tuple[list[CuratedItem], Proposal]:
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
        pairs = [len(pool.right) * len(pool.wrong) for pool in pools.values()]
        images = [len(pools[i.question].question.images) - len(i.images) for i in items]
        return items, _proposal(
            bench,
            items,
            runs=tuple(map(_source, runs, recipe.runs)),
            filters=tuple(built.counts),
            population=Population(
                questions=len(pairs), pairs=sum(pairs), reachable=selection.reachable
            ),
            strategies=tuple(selection.counts),
            missing_images=sum(images),
        )


def _from_sets(bench: Workbench, quiet: bool) -> tuple[list[CuratedItem], Proposal]:
    """Draw a simple random sample of the pairs of all sets, each pair once."""
    recipe = bench.recipe
    with tempfile.TemporaryDirectory() as folder:
        images = ImageStore(folder)
        read: dict[str, tuple[str, PreferencePair]] = {}
        rows = 0
        for spec in recipe.pairs:
            say(f"reading {spec.name or spec.benchmark}", quiet=quiet)
            for pair in load_pairs(located(spec, bench.directory), images):
                rows += 1
                if isinstance(pair, PreferencePair):
                    texts = sorted(map(text_key, pair.responses))
                    read.setdefault(item_key(_question_of(pair), texts), (pair.dataset, pair))
        drawn = Random(item_seed(recipe.seed, "sets")).sample(
            sorted(read), min(recipe.items, len(read))
        )
        share = len(drawn) / len(read)
        items = [_item_of(bench, key, *read[key], share) for key in sorted(drawn)]
    available, taken = (Counter(read[key][0] for key in keys) for keys in (read, drawn))
    questions = defaultdict(set)
    for name, pair in read.values():
        questions[name].add(_question_of(pair))
    return items, _proposal(
        bench,
        items,
        sets=tuple(spec.model_dump(mode="json", exclude_unset=True) for spec in recipe.pairs),
        filters=(FilterCount(filter="unusable, or twice", unit="pairs", before=rows,
                             after=len(read)),),
        population=Population(
            questions=len(set().union(*questions.values())), pairs=len(read), reachable=len(read)
        ),
        strategies=tuple(
            StrategyCount(
                strategy=name,
                wanted=taken[name],
                questions=len(questions[name]),
                available=count,
                drawn=taken[name],
            )
            for name, count in available.items()
        ),
    )  # fmt: skip


def _question_of(pair: PreferencePair) -> str:
    """Return the key of a pair's question, whichever set holds it."""
    return content_key("question of", plain(pair.prompt), sorted(i.sha256 for i in pair.images))


def _item_of(
    bench: Workbench, key: str, dataset: str, pair: PreferencePair, probability: float
) -> CuratedItem:
    keys = [text_key(text) for text in pair.responses]
    order = sorted((0, 1), key=keys.__getitem__)
    question, recipe = _question_of(pair), bench.recipe
    copies = (copy_image(bench.images, Path(image.path)) for image in pair.images)
    return CuratedItem(
        key=key,
        id=f"{pair.id}-{key[:6]}",
        run="",
        question=question,
        prompt=pair.prompt,
        images=tuple(filter(None, copies)),
        responses=tuple(pair.responses[i] for i in order),
        text_keys=tuple(keys[i] for i in order),
        policies=("", ""),
        answers=("", ""),
        better=order.index(pair.preferred),
        strategy=dataset,
        probability=probability,
        split=split_of(question, recipe.seed, recipe.held_out),
        dataset=dataset,
        drawn_by=(dataset,),
    )


def _proposal(bench: Workbench, items: Sequence[CuratedItem], **drawn: Any) -> Proposal:
    return Proposal(
        bon=bon.__version__,
        seed=bench.recipe.seed,
        recipe_sha256=hashlib.sha256(bench.recipe_path.read_bytes()).hexdigest(),
        wanted=bench.recipe.items,
        items=len(items),
        public=sum(item.split == "public" for item in items),
        **drawn,
    )


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
            split=split_of(signature(question), recipe.seed, recipe.held_out),
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
