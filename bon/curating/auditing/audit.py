"""`bon curate audit`: the audit of the items at any stage, and what is missing for more."""

from collections import Counter
from collections.abc import Iterator

import pandas as pd

import bon
from bon.analysis.report.audit_page import Suspected, audit_page
from bon.analysis.results import Options
from bon.analysis.results.audit import CurationAudit, ItemsAudit, LabelAudit
from bon.analysis.results.phrasing import names, plural
from bon.core.errors import BonError
from bon.core.files import write_atomic
from bon.curating.auditing.audit_text import blocks, findings, warnings
from bon.curating.auditing.item_audit import Evidence, items_audit
from bon.curating.auditing.shortcut_audit import shortcut_audit
from bon.curating.labelling.assignment import required_answers
from bon.curating.labelling.consensus import Labelling, label_audit, load_labelling
from bon.curating.proposing.item_judgements import credits, verdicts
from bon.curating.proposing.judged_runs import judged_runs
from bon.curating.workbench import Workbench

MAX_SUSPECTS = 30
"""Number of suspicious items that the page shows."""


def audit(bench: Workbench) -> CurationAudit:
    """Audit a benchmark from its files and its runs."""
    recipe = bench.recipe
    options = Options(seed=recipe.seed)
    labelling = load_labelling(bench)
    evidence = load_evidence(bench)
    labels = label_audit(labelling, options)
    items = items_audit(labelling, evidence, options)
    shortcuts = shortcut_audit(bench.items, evidence, options)
    return CurationAudit(
        benchmark=bench.name,
        bon=bon.__version__,
        items=len(bench.items),
        questions=len({item.question for item in bench.items}),
        held_out=sum(item.split == "held-out" for item in bench.items),
        strategies=dict(Counter(item.strategy for item in bench.items)),
        labels=labels,
        by_rewarders=items,
        shortcuts=shortcuts,
        findings=tuple(findings(labels, items, shortcuts)),
        warnings=tuple(warnings(labels, items, shortcuts)),
        blocks=tuple(blocks(shortcuts)),
        missing=(
            *_missing_labels(bench, labelling, labels),
            *_missing_verdicts(bench, items, evidence),
        ),
    )


def load_evidence(bench: Workbench) -> Evidence:
    """Read verdicts and likelihoods from the runs of the recipe, if they can be opened."""
    try:
        with judged_runs(bench) as runs:
            blind = {
                loaded.card.name
                for run in runs
                for loaded in run.setup.rewarders
                if loaded.card.image_filter == "drop"
            }
            likelihood = {
                (question, text): value
                for run in runs
                for question, text, value in run.store.query(
                    "SELECT question, text_key, MAX(logprob / num_tokens) FROM candidates "
                    "WHERE logprob IS NOT NULL AND num_tokens > 0 GROUP BY question, text_key"
                )
            }
        return Evidence(credits(bench), verdicts(bench), frozenset(blind), likelihood)
    except BonError as error:
        return Evidence(missing=str(error))


def write_audit(bench: Workbench) -> CurationAudit:
    """Write audit.json and audit.html."""
    result = audit(bench)
    page = audit_page(result, suspects(bench, result))
    write_atomic(bench.audit_path, result.model_dump_json(indent=1))
    write_atomic(bench.audit_page, page)
    return result


def suspects(bench: Workbench, result: CurationAudit) -> list[Suspected]:
    """Return items to inspect: contradicted by people first, then the most negative item-rest r."""
    contradicted = result.labels.contradicted if result.labels else ()
    by_rewarders = result.by_rewarders
    negative = by_rewarders.suspects if by_rewarders else ()
    numbers = {row.key: row for row in by_rewarders.items} if by_rewarders else {}
    labelling = load_labelling(bench)
    both = [key for key in negative if key in contradicted]
    order = dict.fromkeys([*both, *contradicted, *negative])
    return [
        Suspected(
            id=item.id,
            prompt=item.prompt,
            responses=item.responses,
            better=item.better,
            images=tuple(bench.directory / name for name in item.images),
            consensus=labelling.outcomes.get(item.key, ""),
            contradicted=item.key in contradicted,
            numbers=numbers.get(item.key),
        )
        for item in (labelling.by_key[key] for key in list(order)[:MAX_SUSPECTS])
    ]


def _missing_labels(
    bench: Workbench, labelling: Labelling, labels: LabelAudit | None
) -> Iterator[str]:
    if labels is None:
        yield (
            "Labels: nobody has labelled an item -> bon serve, then /annotate/"
            f"{bench.name}; or bon curate annotate {bench.directory} items.csv"
        )
        return
    annotating = bench.recipe.annotating
    choices = [[row.choice for row in rows] for rows in labelling.answers.values()]
    if short := sum(len(row) < required_answers(annotating, row) for row in choices):
        yield f"Labels: {short} of {labels.answered} labelled items need another answer."
    if labels.unresolved:
        yield f"Labels: {len(labels.unresolved)} items have no consensus."
    if not any(len(row) > 1 for row in choices):
        yield "Agreement: no item has two answers -> a second annotator"


def _missing_verdicts(
    bench: Workbench, items: ItemsAudit | None, evidence: Evidence
) -> Iterator[str]:
    judge = f"bon curate judge {bench.directory}"
    if evidence.missing:
        yield f"Rewarders: the runs cannot be read: {evidence.missing}"
    elif items is None:
        yield f"Rewarders: none has judged an item -> {judge}"
    else:
        decided = evidence.credits.stack().dropna().index
        judged = evidence.verdicts[["item", "rewarder"]].drop_duplicates()
        silent = judged[~pd.MultiIndex.from_frame(judged).isin(decided)]["rewarder"].value_counts()
        lacking = {
            row.rewarder: len(items.items) - row.items - int(silent.get(row.rewarder, 0))
            for row in items.rewarders
        }
        if short := [name for name, count in lacking.items() if count]:
            yield (
                f"Rewarders: not every item was judged by {names(short, 4)} (up to "
                f"{max(lacking.values())} missing) -> {judge}"
            )
        for name, count in silent.items():
            yield (
                f"Verdicts: {name} judged {plural(int(count), 'item')} without a verdict: unparsed "
                "replies or errors, which count for nothing and are not asked again."
            )
        if items.rasch_missing:
            yield f"Rasch: {items.rasch_missing}"
