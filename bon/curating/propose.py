"""`bon curate draw`: items of runs' pools or preference sets, with inclusion probabilities."""

import tempfile
from collections import Counter
from collections.abc import Iterable, Sequence
from random import Random
from typing import Any

import bon
from bon.analysis.results.record import Record
from bon.benchmarks import load_pairs
from bon.core.console import say, show_listing
from bon.core.errors import BonError
from bon.core.files import write_atomic
from bon.core.images import ImageStore
from bon.core.keys import item_seed, text_key
from bon.core.records import ImageRef, PreferencePair
from bon.curating.draw import STRATEGIES, StrategyCount, select
from bon.curating.items import CuratedItem, item_key, write_items, write_pairs
from bon.curating.judged_runs import judged_runs
from bon.curating.labelling.annotations import current
from bon.curating.pools import (
    FilterCount,
    PooledText,
    build_pools,
    signature,
    signature_of,
    split_of,
)
from bon.curating.workbench import Workbench
from bon.exports.contents import file_name
from bon.exports.preferences import load_image
from bon.policies.prompting import question_block
from bon.work.setup import located


class Proposal(Record):
    """How the items were drawn (proposal.json). `sources`: runs or sets, as in the recipe."""

    bon: str
    seed: int
    sources: tuple[dict[str, Any], ...]
    filters: tuple[FilterCount, ...]
    strategies: tuple[StrategyCount, ...]
    wanted: int
    items: int
    public: int

    def text(self) -> str:
        """Return tables of filters and strategies for the terminal."""
        strategies = [
            {
                "strategy": part.strategy,
                "drawn": part.drawn,
                "of": f"{part.available:,} pairs of {part.questions:,} questions",
                "description": STRATEGIES.get(part.strategy, "a pair of this set"),
            }
            for part in self.strategies
        ]
        held_out = self.items - self.public
        total = f"{self.items} of {self.wanted} items: {self.public} public, {held_out} held out."
        lines = [show_listing([row.model_dump() for row in self.filters]), ""]
        lines += [show_listing(strategies), "", total]
        if self.items < self.wanted:
            lines.append("For more items, name further runs or sets, or raise per_question.")
        return "\n".join(lines)


def propose(bench: Workbench, *, quiet: bool = False) -> Proposal:
    """Draw the items of the recipe and write items.parquet, pairs.parquet and proposal.json.

    The same sources and recipe give the same items.
    """
    recipe = bench.recipe
    items, drawn = (_from_sets if recipe.pairs else _from_runs)(bench, quiet)
    annotated = {row.item for row in current(bench.annotations_path)}
    if lost := annotated - {item.key for item in items}:
        raise BonError(
            f"{len(lost)} annotated items would no longer be in {bench.directory}",
            "restore the recipe, or draw into another folder: --out",
        )
    proposal = Proposal(
        bon=bon.__version__,
        seed=recipe.seed,
        wanted=recipe.items,
        items=len(items),
        public=sum(item.split == "public" for item in items),
        **drawn,
    )
    write_items(items, bench.items_path)
    write_pairs(items, bench.directory, bench.pairs_path)
    write_atomic(bench.proposal_path, proposal.model_dump_json(indent=1))
    return proposal


def _from_runs(bench: Workbench, quiet: bool) -> tuple[list[CuratedItem], dict[str, Any]]:
    recipe = bench.recipe
    with judged_runs(bench) as runs:
        say(f"reading {', '.join(recipe.runs)}", quiet=quiet)
        built = build_pools(runs)
        sources = [
            {"run": run.path, "policies": [loaded.card.name for loaded in run.setup.policies]}
            for run in runs
        ]
    selection = select(built.by_question, recipe)
    if not selection.pairs:
        counts = (f"{row.filter} {row.before} to {row.after}" for row in built.counts)
        raise BonError(
            f"no question has both a right and a wrong answer to draw: {', '.join(counts)}",
            "name another run: one with gold answers and several answers per question",
        )
    items = []
    for pair, (strategy, probability) in selection.pairs.items():
        pool = built.by_question[pair.question]
        question = pool.question
        texts = sorted((pool.texts[pair.right], pool.texts[pair.wrong]), key=lambda text: text.key)
        key = item_key(question.key, [text.key for text in texts])
        items.append(
            CuratedItem(
                key=key,
                id=f"{question.id}-{key[:6]}",
                question=question.key,
                prompt=question_block(question),
                images=_copied(bench, question.images),
                responses=tuple(text.text for text in texts),
                policies=_policies(texts),
                answers=tuple(text.answer for text in texts),
                better=[text.correct for text in texts].index(True),
                strategy=strategy,
                probability=probability,
                split=split_of(signature_of(question), recipe.seed, recipe.held_out),
                subject=question.subject,
                dataset=question.dataset,
            )
        )
    items.sort(key=lambda item: item.key)  # which reveals nothing of the draw
    return items, {"sources": sources, "filters": built.counts, "strategies": selection.counts}


def _policies(texts: Sequence[PooledText]) -> tuple[str, ...]:
    """Return one policy per text, the same for all if one policy wrote them all."""
    shared = set.intersection(*(set(text.policies) for text in texts))
    return tuple(min(shared or text.policies) for text in texts)


def _from_sets(bench: Workbench, quiet: bool) -> tuple[list[CuratedItem], dict[str, Any]]:
    """Draw a simple random sample of the pairs of all sets, each pair once."""
    recipe = bench.recipe
    read: dict[str, tuple[str, PreferencePair]] = {}
    rows = 0
    with tempfile.TemporaryDirectory() as folder:
        images = ImageStore(folder)
        for spec in recipe.pairs:
            say(f"reading {spec.title}", quiet=quiet)
            for pair in load_pairs(located(spec, bench.directory), images):
                rows += 1
                if isinstance(pair, PreferencePair):
                    question = signature([pair.prompt], pair.images)
                    key = item_key(question, map(text_key, pair.responses))
                    read.setdefault(key, (question, pair))
        drawn = sorted(
            Random(item_seed(recipe.seed, "sets")).sample(
                sorted(read), min(recipe.items, len(read))
            )
        )
        share = len(drawn) / max(len(read), 1)
        items = [_item_of(bench, key, *read[key], share) for key in drawn]
    available, taken = (Counter(read[key][1].dataset for key in keys) for keys in (read, drawn))
    strategies = [
        StrategyCount(
            strategy=name,
            available=count,
            questions=len({question for question, pair in read.values() if pair.dataset == name}),
            drawn=taken[name],
        )
        for name, count in available.items()
    ]
    sources = [spec.model_dump(mode="json", exclude_unset=True) for spec in recipe.pairs]
    filters = [FilterCount(filter="usable pairs that occur once", before=rows, after=len(read))]
    return items, {"sources": sources, "filters": filters, "strategies": strategies}


def _item_of(
    bench: Workbench, key: str, question: str, pair: PreferencePair, probability: float
) -> CuratedItem:
    order = sorted((0, 1), key=lambda i: text_key(pair.responses[i]))
    return CuratedItem(
        key=key,
        id=f"{pair.id}-{key[:6]}",
        question=question,
        prompt=pair.prompt,
        images=_copied(bench, pair.images),
        responses=tuple(pair.responses[i] for i in order),
        policies=("", ""),
        answers=("", ""),
        better=order.index(pair.preferred),
        strategy=pair.dataset,
        probability=probability,
        split=split_of(question, bench.recipe.seed, bench.recipe.held_out),
        dataset=pair.dataset,
    )


def _copied(bench: Workbench, images: Iterable[ImageRef]) -> tuple[str, ...]:
    """Copy images into the workbench under their hashes; return their names."""
    names = []
    for image in map(load_image, images):
        path = bench.images / file_name(image)
        if not path.is_file():
            path.parent.mkdir(parents=True, exist_ok=True)
            write_atomic(path, image.data)
        names.append(f"{path.parent.name}/{path.name}")
    return tuple(names)
