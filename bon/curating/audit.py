"""`bon curate audit`: everything that is known of the items, at any stage, and what is missing."""

from collections import Counter
from collections.abc import Iterator

import bon
from bon.analysis.report.audit_page import Suspected, audit_page
from bon.analysis.results import Options
from bon.analysis.results.audited import CurationAudit, ItemsAudit, LabelAudit
from bon.analysis.results.phrasing import names
from bon.core.files import write_atomic
from bon.curating.annotations import current
from bon.curating.assigning import gold_checks, places_wanted
from bon.curating.audit_words import blocks, findings, warnings
from bon.curating.consensus import Labelling, label_audit
from bon.curating.drafts import UNREAD, read_drafts
from bon.curating.evidence import Evidence, evidence
from bon.curating.item_audit import items_audit
from bon.curating.shortcut_audit import shortcut_audit
from bon.curating.workbench import Workbench

SHOWN = 30
"""How many items the page shows to be looked at."""


def audit(bench: Workbench) -> CurationAudit:
    """Audit a benchmark in the making, from its files and its runs."""
    recipe = bench.recipe
    options = Options(seed=recipe.seed)
    labelling = labelling_of(bench)
    found = evidence(bench)
    labels = label_audit(labelling, options)
    by_rewarders = items_audit(labelling, found, recipe.filters.ensemble, options)
    shortcuts = shortcut_audit(bench.items, found, options)
    return CurationAudit(
        benchmark=bench.name,
        bon=bon.__version__,
        items=len(bench.items),
        questions=len({item.question for item in bench.items}),
        held_out=sum(item.split == "held-out" for item in bench.items),
        strategies=dict(Counter(item.strategy for item in bench.items)),
        labels=labels,
        by_rewarders=by_rewarders,
        shortcuts=shortcuts,
        findings=tuple(findings(labels, by_rewarders, shortcuts)),
        warnings=tuple(warnings(labels, by_rewarders, shortcuts)),
        blocks=tuple(blocks(shortcuts)),
        missing=tuple(_missing(bench, labelling, labels, by_rewarders, found)),
    )


def labelling_of(bench: Workbench) -> Labelling:
    """The items with the answers that count, and the drafts that could be read."""
    recipe = bench.recipe
    drafts = read_drafts(bench.drafts_path)
    return Labelling(
        bench.items,
        current(bench.annotations_path),
        {key: draft.label for key, draft in drafts.items() if draft.label != UNREAD},
        recipe.annotating.annotators_per_item,
        gold_checks(bench.items, recipe.annotating, recipe.seed),
    )


def write_audit(bench: Workbench) -> CurationAudit:
    """audit.json, and audit.html beside it, with the items to look at."""
    found = audit(bench)
    page = audit_page(found, suspected(bench, found))
    write_atomic(bench.audit_path, found.model_dump_json(indent=1))
    write_atomic(bench.audit_page, page)
    return found


def suspected(bench: Workbench, found: CurationAudit) -> list[Suspected]:
    """The items to look at: what people contradict first, then the most negative."""
    contradicted = found.labels.contradicted if found.labels else ()
    negative = found.by_rewarders.suspects if found.by_rewarders else ()
    items = {item.key: item for item in bench.items}
    by_key = {one.key: one for one in found.by_rewarders.items} if found.by_rewarders else {}
    outcomes = labelling_of(bench).outcomes
    both = [key for key in negative if key in contradicted]
    order = dict.fromkeys([*both, *contradicted, *negative])
    return [
        Suspected(
            id=items[key].id,
            prompt=items[key].prompt,
            responses=items[key].responses,
            better=items[key].better,
            images=tuple(bench.images.parent / name for name in items[key].images),
            consensus=outcomes.get(key, ""),
            contradicted=key in contradicted,
            numbers=by_key.get(key),
        )
        for key in list(order)[:SHOWN]
    ]


def _missing(
    bench: Workbench,
    labelling: Labelling,
    labels: LabelAudit | None,
    items: ItemsAudit | None,
    found: Evidence,
) -> Iterator[str]:
    """What the audit could not say, and the command that would let it."""
    where = bench.directory
    annotating = bench.recipe.annotating
    if labels is None:
        yield (
            "Labels: nobody has labelled an item -> bon serve, then /annotate/"
            f"{bench.name}; or bon curate annotate {where} items.jsonl --to jsonl"
        )
    else:
        said = {key: [row.choice for row in rows] for key, rows in labelling.answers.items()}
        wanting = [
            key
            for key, choices in said.items()
            if len(choices) < places_wanted(annotating, choices)
        ]
        if wanting:
            yield f"Labels: {len(wanting)} of {labels.answered} labelled items want another answer."
        if labels.unresolved:
            yield f"Labels: {len(labels.unresolved)} items have no consensus."
        if not any(len(rows) > 1 for rows in labelling.answers.values()):
            yield "Agreement: no item has two answers -> a second annotator"
    if found.missing:
        yield f"Rewarders: the runs cannot be read: {found.missing}"
    elif items is None:
        yield f"Rewarders: none has judged an item -> bon curate judge {where}"
    else:
        lacking = {one.rewarder: len(items.items) - one.items for one in items.rewarders}
        short = [name for name, many in lacking.items() if many]
        if short:
            yield (
                f"Rewarders: not every item was judged by {names(short, 4)} (up to "
                f"{max(lacking.values())} missing) -> bon curate judge {where}"
            )
        if items.rasch_missing:
            yield f"Rasch: {items.rasch_missing}"
