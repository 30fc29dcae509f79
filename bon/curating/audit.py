"""`bon curate audit`: whether labels hold, and whether length, position or format tell them."""

from collections.abc import Iterator, Sequence

import numpy as np

import bon
from bon.analysis.calibration.agreement import MISSING, agreement
from bon.analysis.estimators.resampling import draw, draw_clusters, from_draws, wilson
from bon.analysis.results import Estimate, Options, Record
from bon.analysis.results.phrasing import bounded, percent, share
from bon.core.files import write_atomic
from bon.core.text import FEATURES
from bon.curating.items import CuratedItem
from bon.curating.label_audit import UNRESOLVED, Labelling, load_labelling
from bon.curating.labelling.annotation_queue import required_answers
from bon.curating.labelling.annotations import CANNOT
from bon.curating.workbench import Workbench

WARN, BLOCK = 0.55, 0.6
"""Accuracy of a shortcut above which it is warned of, and above which it stops a freeze, where the
interval lies above chance: small sets vary that much."""
MAX_ERROR = 0.05
MIN_DECIDED = 10
"""Items with a consensus below which no label error is stated."""


class Shortcut(Record):
    """A rule blind to image and meaning; `says` is the share of items that it decides."""

    rule: str
    accuracy: Estimate
    says: float


class CurationAudit(Record):
    """The whole of audit.json; `blocks` stop `bon curate freeze`.

    `label_error`: items whose consensus is not the labelled response (`contradicted`), of those
    with a consensus.
    """

    benchmark: str
    bon: str
    items: int
    questions: int
    held_out: int
    answered: int
    label_error: Estimate
    contradicted: tuple[str, ...]
    shortcuts: tuple[Shortcut, ...]
    findings: tuple[str, ...]
    warnings: tuple[str, ...]
    blocks: tuple[str, ...]
    missing: tuple[str, ...]


def audit(bench: Workbench) -> CurationAudit:
    """Audit a benchmark from its files."""
    options, labelling = Options(seed=bench.recipe.seed), load_labelling(bench)
    against = labelling.against
    error = wilson(sum(against.values()), len(against), options.level)
    rules = shortcuts(bench.items, options)
    findings, warnings, blocks = [], [], []
    if labelling.answers:
        text = f"Annotators have a consensus on {error.n} of {len(bench.items)} items"
        few = f"too few for a label error, which needs {MIN_DECIDED}"
        enough = error.n >= MIN_DECIDED
        findings.append(f"{text}: {f'label error {share(error)}' if enough else few}.")
        if enough and (error.value or 0) > MAX_ERROR:
            warnings.append(
                f"Label error is above {percent(MAX_ERROR, 0)}: review the contradicted items "
                f"({sum(against.values())})."
            )
        findings += _agreement(labelling, bench.recipe.annotating.annotators_per_item, options)
    if rules:
        best = max(rules, key=lambda rule: rule.accuracy.value or 0)
        findings.append(
            f"Of rules that read nothing, “{best.rule}” is right most often: on "
            f"{share(best.accuracy)} of the items; 50% is chance."
        )
    for rule in rules:
        value, low = rule.accuracy.value or 0, rule.accuracy.low or 0
        if low > 0.5 and value > BLOCK:
            blocks.append(
                f"“{rule.rule}” is right on {share(rule.accuracy)} of the items, above "
                f"{percent(BLOCK, 0)}: a rewarder could score without reading"
            )
        elif low > 0.5 and value > WARN:
            warnings.append(f"“{rule.rule}” is right on {share(rule.accuracy)} of the items.")
    return CurationAudit(
        benchmark=bench.name,
        bon=bon.__version__,
        items=len(bench.items),
        questions=len({item.question for item in bench.items}),
        held_out=sum(item.split == "held-out" for item in bench.items),
        answered=len(labelling.answers),
        label_error=error,
        contradicted=tuple(key for key, wrong in against.items() if wrong),
        shortcuts=rules,
        findings=tuple(findings),
        warnings=tuple(warnings),
        blocks=tuple(blocks),
        missing=tuple(_missing(bench, labelling)),
    )


def write_audit(bench: Workbench) -> CurationAudit:
    """Write audit.json."""
    result = audit(bench)
    write_atomic(bench.audit_path, result.model_dump_json(indent=1))
    return result


def shortcuts(items: Sequence[CuratedItem], options: Options) -> tuple[Shortcut, ...]:
    """Return how often length, format and position alone tell the right response.

    An item that a rule does not decide counts one half. Items of one question are resampled
    together.
    """
    sides = [(item.responses[item.better], item.responses[item.wrong]) for item in items]
    gaps = {name: np.array([of(a) - of(b) for a, b in sides]) for name, of in FEATURES.items()}
    length = gaps.pop("length")
    gaps = {"longer": length, "shorter": -length} | gaps
    gaps["first"] = np.array([1.0 - 2 * item.better for item in items])
    _, clusters = np.unique([item.question for item in items], return_inverse=True)
    draws = draw_clusters(clusters, 0 * clusters, options.draws, options.seed, "curated items")
    found = []
    for name, gap in gaps.items():
        if gap.any():
            credit = (np.sign(gap)[:, None] + 1) / 2
            (accuracy,) = from_draws(
                credit.mean(axis=0), draws.means(credit), len(gap), "questions", options.level
            )
            found.append(Shortcut(rule=name, accuracy=accuracy, says=float((gap != 0).mean())))
    return tuple(found)


def _agreement(labelling: Labelling, usual: int, options: Options) -> Iterator[str]:
    """Say how often the `usual` annotators of an item agree; further ones adjudicate."""
    firsts = [rows[:usual] for rows in labelling.answers.values() if len(rows) > 1]
    names = sorted({row.choice for rows in firsts for row in rows} - {CANNOT})
    codes = {name: code for code, name in enumerate(names)}
    ratings = np.full((len(firsts), usual), MISSING)
    for codes_of_item, rows in zip(ratings, firsts, strict=True):
        codes_of_item[: len(rows)] = [codes.get(row.choice, MISSING) for row in rows]
    if usual > 1 and firsts:
        draws = draw(len(firsts), options.draws, options.seed, "annotated items")
        equal, alpha = agreement(ratings, draws, options.level)
        yield (
            f"Annotators agree on {share(equal)} of {equal.n} items; Krippendorff's alpha is "
            f"{bounded(alpha)}."
        )


def _missing(bench: Workbench, labelling: Labelling) -> Iterator[str]:
    if not labelling.answers:
        yield (
            f"Labels: nobody has labelled an item -> bon serve --annotate {bench.directory}, then "
            f"/annotate/{bench.name}"
        )
        return
    choices = [[row.choice for row in rows] for rows in labelling.answers.values()]
    if short := sum(len(row) < required_answers(bench.recipe.annotating, row) for row in choices):
        yield f"Labels: {short} of {len(choices)} labelled items need another answer."
    if unresolved := [*labelling.outcomes.values()].count(UNRESOLVED):
        yield f"Labels: {unresolved} items have no consensus."


def audit_text(audit: CurationAudit) -> str:
    """Return the audit as lines for the terminal."""
    title = f"{audit.benchmark}: {audit.items} items of {audit.questions} questions"
    parts = (
        (title, audit.findings),
        ("Caveats:", audit.warnings),
        ("Stops the freeze:", audit.blocks),
        ("Missing:", audit.missing),
    )
    return "\n".join(
        line for title, rows in parts if rows for line in (title, *(f"  - {row}" for row in rows))
    )
