"""Write results.json, report, tables and figures of a run. Loads no model."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from bon.analysis.results import Estimate, ModelCost, Results, RunCompleteness, Uplift
from bon.core.console import say, show_listing
from bon.core.errors import BonError, Incomplete, some
from bon.core.files import write_atomic
from bon.core.validation import validate
from bon.experiment.cards import Loaded
from bon.experiment.config import AnalysisConfig, PolicyCard
from bon.experiment.overrides import override
from bon.experiment.yamlfile import Document
from bon.storage.database import DATABASE
from bon.storage.store import Store
from bon.work.completeness import completeness
from bon.work.setup import Setup, options, prepare
from bon.work.stored_models import with_stored_specs

if TYPE_CHECKING:
    from bon.analysis.data.arrays import Run
    from bon.analysis.estimators.picks import Picks
    from bon.analysis.report import QuestionView

BASELINES = ("pass@1", "majority vote", "oracle")
"""Baselines that a terminal shows."""

UPLIFT = "uplift"
"""The folder of a run with gains by training, and the file of imported ones in it."""

PER = 1000
"""Costs are per this many candidates or judgements."""


def read_results(directory: Path) -> Results:
    """Return the results of a run's present rows and settings, analysed again if it has changed.

    A folder without database, such as a published one, is what its results say.

    Raises:
        Incomplete: the run has changed since it was analysed, and lacks rows.
        BonError: there are no results of this version, or the database cannot be read.
    """
    results = _written_results(directory)
    if not (directory / DATABASE).exists():
        return results
    with Store(directory, readonly=True) as store:
        if results.run.state == store.state:
            return results
        missing = completeness(open_run(store), store).missing
    if missing:
        raise Incomplete(
            f"{directory}: the run is not complete: {some(missing)}",
            f"finish it: bon run {directory / 'experiment.yaml'} --out {directory}",
        )
    report_run(directory, quiet=True)
    return _written_results(directory)


def _written_results(directory: Path) -> Results:
    path = directory / "results.json"
    try:
        return Results.model_validate_json(path.read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        raise BonError(f"{directory} holds no results.json", f"bon report {directory}") from None
    except ValidationError:
        raise BonError(f"{path} is from another version", f"bon report {directory}") from None


def open_run(store: Store, settings: Sequence[str] = ()) -> Setup:
    """Return the experiment of a run, with these `analysis.KEY=VALUE` settings."""
    raw, base = store.meta("experiment"), store.meta("base")
    if raw is None or base is None:
        raise BonError(
            f"{store.directory} holds no experiment yet: it failed to start, or is starting",
            "run it: bon run FILE --out DIRECTORY",
        )
    setup = with_stored_specs(prepare(raw, Path(base), str(store.directory)), store)
    for setting in settings:
        if not setting.startswith("analysis."):
            raise BonError(
                f"--set {setting}: a report can change the analysis only",
                "set analysis.KEY=VALUE here, and anything else at `bon run`",
            )
    if not settings:
        return setup
    document = Document({"analysis": setup.raw.get("analysis") or {}})
    changed = override(document, list(settings))
    analysis = validate(AnalysisConfig, changed.data["analysis"], changed.origin.inside("analysis"))
    experiment = setup.experiment.model_copy(update={"analysis": analysis})
    return replace(setup, experiment=experiment)


def report_run(
    directory: Path,
    *,
    quiet: bool = False,
    figures: bool = False,
    settings: Sequence[str] = (),
    counts: RunCompleteness | None = None,
) -> Path:
    """Write results.json, report.html and tables/ of a run and return the report's path.

    A complete run also prints its finding. `figures` writes every figure to figures/ as PNG, SVG
    and PDF. `settings` (`analysis.KEY=VALUE`) apply to this report alone.
    `counts` saves counting the rows again.
    """
    from bon.analysis.artifacts import write_figures, write_tables
    from bon.analysis.data.arrays import read
    from bon.analysis.data.gold_pairs import warning
    from bon.analysis.estimators.depth import depth
    from bon.analysis.estimators.picks import as_picks, choices
    from bon.analysis.report import write_report
    from bon.analysis.run import analyse
    from bon.work.run_tables import deep_tables, run_tables

    page = directory / "report.html"
    with Store(directory, readonly=True) as store:
        setup = open_run(store, settings)
        tables = run_tables(setup, store)
        counts = counts or completeness(setup, store)
        tables.meta["completeness"] = counts
        arrays = read(tables)
        results = analyse(arrays, options(setup))
        extra: dict[str, object] = {"costs": model_costs(setup, store)}
        if (deep := deep_tables(setup, store)) is not None and len(deep.candidates):
            extra["depth"] = depth(read(deep), options(setup))
        extra["trained"] = tuple(gains_by_training(directory, results))
        results = results.model_copy(update=extra)
        picks = choices(arrays, results)
        write_tables(results, directory / "tables", picks)
        write_atomic(directory / "results.json", results.model_dump_json(indent=1))
        views = question_views(setup, store, arrays, as_picks(picks))
        write_report(results, views, page, images=True)
    if figures:
        write_figures(results, directory / "figures")
    if counts.complete:
        sentences = [method.sentence for study in results.trained for method in study.methods]
        if by_gold := arrays.tables.meta.get("read_as_pairs"):
            sentences.append(warning(by_gold))
        for line in (*leaderboards(results), *sentences, f"report: {page}"):
            say(line, quiet=quiet)
    return page


def gains_by_training(directory: Path, results: Results) -> Iterator[Uplift]:
    """Yield the study of `bon uplift` in a run."""
    study = directory / UPLIFT / "uplift.json"
    if study.is_file():
        try:
            yield Uplift.model_validate_json(study.read_bytes())
        except ValidationError:
            say(f"{study} is from another version and left out: bon uplift {directory} …")


def leaderboards(results: Results) -> list[str]:
    """Return tables of rewarders by policy, or benchmark, the verdict, and what to take."""
    from bon.analysis.finding.first_page import first_page
    from bon.analysis.finding.verdict import reversed_scores
    from bon.analysis.report.leaderboard import leaderboard, trained_methods
    from bon.analysis.results.phrasing import scaled

    def cell(estimate: Estimate | None, sign: bool = False) -> str:
        """Return 72.0% [66, 78], or +17.8 [+11, +25]."""
        if estimate is None or estimate.value is None:
            return ""
        return scaled(estimate, sign=sign, unit="" if sign else "%", bounds=0)

    tables = []
    for policy in results.policies:
        methods = trained_methods(results, policy.policy)
        rows = [
            {
                "": row.name,
                f"Best-of-{policy.n}": cell(row.accuracy),
                "vs majority vote": cell(row.best.versus_majority, sign=True)
                if row.best and row.standing != "is"
                else "",
                "benchmark": cell(row.score),
                **{f"trained ({m})": cell(row.trained.get(m), sign=True) for m in methods},
            }
            for row in leaderboard(results, policy)
            if not row.baseline or row.name in BASELINES
        ]
        tables += [f"{policy.policy}:" if len(results.policies) > 1 else "", show_listing(rows), ""]
    if not results.policies:
        tables += _benchmark_tables(results)
    page = first_page(results)
    choice = f"{page.choice} {page.because}".strip()
    return [*tables, results.finding.sentence, choice, *reversed_scores(results.benchmarks)]


def _benchmark_tables(results: Results) -> Iterator[str]:
    from bon.analysis.results.phrasing import share

    places = {(r.benchmark, r.rewarder): r.places for r in results.ranks}
    for name in dict.fromkeys(b.benchmark for b in results.benchmarks):
        rows = [
            {
                "": b.rewarder,
                "rank": places.get((name, b.rewarder), "-"),
                f"{name}, macro": share(b.macro),
                "overall": share(b.overall),
            }
            for b in sorted(results.benchmarks, key=lambda b: (-(b.macro.value or 0), b.rewarder))
            if b.benchmark == name
        ]
        yield f"{show_listing(rows)}\n"


def model_costs(setup: Setup, store: Store) -> tuple[ModelCost, ...]:
    """Return the cost of every model that was called, rows that no longer count included."""
    dollars = store.costs()
    costs = (
        _model_cost(loaded, store, dollars.get(loaded.spec, 0.0))
        for loaded in setup.models
        if not loaded.card.imported
    )
    return tuple(filter(None, costs))


def _model_cost(loaded: Loaded[Any], store: Store, dollars: float) -> ModelCost | None:
    ((count, seconds, prompt_tokens, reply_tokens),) = store.query(
        "SELECT SUM(outcome != 'error'), TOTAL(seconds), TOTAL(num_prompt_tokens), "
        f"TOTAL(num_tokens) FROM {loaded.table} WHERE spec = ?",
        (loaded.spec,),
    )
    if not count:
        return None
    card, scale = loaded.card, PER / count
    effort = store.effort(loaded.spec)
    worker_seconds = effort.busy + effort.waited if effort else 0.0
    priced = dollars > 0 or card.price is not None
    return ModelCost(
        model=card.name,
        role="policy" if isinstance(card, PolicyCard) else "rewarder",
        number=count,
        unit="GPU-seconds" if card.placement.gpus else "worker seconds",
        seconds=seconds * scale * (card.placement.gpus or 1) if seconds else None,
        prompt_tokens=prompt_tokens * scale,
        reply_tokens=reply_tokens * scale,
        dollars=dollars * scale if priced else None,
        cache_hit_rate=effort.cached / effort.read if effort and effort.read else None,
        waited=effort.waited / worker_seconds if effort and worker_seconds else None,
        loading=effort.loading if effort else None,
    )


def question_views(
    setup: Setup, store: Store, arrays: "Run", picks: "Picks"
) -> Iterator["QuestionView"]:
    """Yield what the report's question browser shows."""
    from bon.analysis.report import build_views

    texts = dict(store.query("SELECT text_key, text FROM candidates"))
    questions = {question.key: question for question in store.questions()}
    specs = [rewarder.spec for rewarder in setup.rewarders]
    replies = (
        "SELECT key, CASE text WHEN '' THEN error ELSE text END FROM judgements "
        f"WHERE spec IN ({', '.join('?' * len(specs))}) AND item = ?"
    )

    def rationales(question: str) -> dict[str, str]:
        return dict(store.query(replies, (*specs, question)))

    return build_views(arrays, questions, texts.__getitem__, rationales, picks)
