"""An experiment from start to report.

Where nothing is left to do and nothing has changed, neither Ray nor the analysis is imported.
"""

import json
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import bon
from bon.analysis.results.study import RunCompleteness
from bon.core.console import say
from bon.core.errors import Incomplete
from bon.core.records import BY_MODEL
from bon.dispatch.source import UPSTREAM, Source
from bon.experiment.cards import CardT, Loaded
from bon.experiment.config import PolicyCard
from bon.running.progress import Reporter, note_phase
from bon.running.start import start
from bon.running.tally import Tally
from bon.running.weights import fetch_weights
from bon.storage.database import DATABASE
from bon.storage.store import Store
from bon.work.completeness import completeness
from bon.work.preflight import check_models
from bon.work.setup import Setup, options
from bon.work.sources import GenerateSource, GradeSource, PairSource, QuestionSource, ReadSource
from bon.work.starting import now
from bon.work.stored_models import pin_commits, print_changed, with_commits


def run(
    setup: Setup,
    directory: Path,
    *,
    quiet: bool = False,
    retry_errors: bool = False,
    replace: bool = False,
    progress_file: Path | None = None,
) -> Path:
    """Run or continue an experiment in `directory` and return the path of its report.

    replace: take over the run of another experiment. progress_file: kept up to date for another
    process.
    """
    note_phase(progress_file, "preparing")
    if not (directory / DATABASE).exists():  # fail before any data are read
        from bon.dispatch.connection import starts_local_ray

        models = [model.card.name for model in setup.models]
        check_models(setup, models, here=starts_local_ray(setup.experiment.cluster.address))
    with Store(directory) as store:
        pin_commits(setup, store, quiet=quiet)
        setup = with_commits(setup, store)
        print_changed(setup, store, quiet=quiet)
        start(setup, store, retry_errors=retry_errors, replace=replace, quiet=quiet)
        counts = compute(setup, store, quiet=quiet, progress_file=progress_file)
        page, reported = directory / "report.html", _reported(setup, store)
    if reported is not None and page.exists():
        if counts.complete:
            say(reported["finding"]["sentence"], quiet=quiet)
            say(f"report: {page} (unchanged)", quiet=quiet)
        return page
    note_phase(progress_file, "analysing")
    from bon.running.reporting import report_run  # imports pandas, which a run does not need

    return report_run(directory, quiet=quiet, counts=counts)


def _reported(setup: Setup, store: Store) -> dict[str, Any] | None:
    """Return the written results if they are of the present rows and settings."""
    try:
        results: dict[str, Any] = json.loads((store.directory / "results.json").read_bytes())
        found = results["run"]["state"], results["run"]["bon_version"], results["options"]
    except (OSError, ValueError, LookupError, TypeError):  # none, or of another version
        return None
    same = found == (store.state, bon.__version__, options(setup).model_dump(mode="json"))
    return results if same else None


def compute(
    setup: Setup,
    store: Store,
    *,
    quiet: bool = False,
    progress_file: Path | None = None,
    ledger: Path | None = None,
) -> RunCompleteness:
    """Sample missing candidates and make missing judgements, on Ray.

    `ledger`: that of the run which this one belongs to, whose cap bounds both together.
    """
    sources = make_sources(setup, store)
    tally = Tally(setup, store, ledger)
    status = None
    if store.has("candidates") or store.has("judgements"):
        status = completeness(setup, store)
        _skip_complete(sources, status)
    if work_off(setup, tally, sources, quiet=quiet, progress_file=progress_file) or status is None:
        status = completeness(setup, store)
    finished = (store.meta("finished") or now()) if status.complete else None
    store.set_meta(finished=finished, engines=tally.engines)
    for model, reason in tally.failed.items():
        say(f"failed: {model}: {reason}", quiet=quiet)
    for model, undone in tally.undone.items():
        say(f"left undone: {len(undone)} of the items of {model}: {undone[0]}", quiet=quiet)
    if setup.policies and not store.has("candidates", "outcome != 'error'"):
        last = "; ".join(dict.fromkeys(tally.last_error.values()))
        reasons = dict.fromkeys(tally.failed.values()) or [
            f"every item of every policy failed{f' (last: {last})' if last else ''}"
        ]
        raise Incomplete(f"no candidate was sampled: {'; '.join(reasons)}")
    return status


def work_off(
    setup: Setup,
    tally: Tally,
    sources: list[Source],
    *,
    quiet: bool = False,
    progress_file: Path | None = None,
) -> bool:
    """Do all missing work of these sources on Ray; return whether there was any."""
    pending = [source for source in sources if source.has_work()]
    if not pending:
        return False
    from bon.dispatch.connection import connected, starts_local_ray

    # New candidates and answers are work for every rewarder.
    more = any(source.stage in UPSTREAM for source in pending)
    models = {source.model for source in (sources if more else pending)}
    cluster = setup.experiment.cluster
    check_models(setup, models, here=starts_local_ray(cluster.address))
    if starts_local_ray(cluster.address):
        loaded = [model for model in setup.models if model.card.name in models]
        fetch_weights(loaded, partial(say, quiet=quiet))
    with (
        connected(cluster, quiet=quiet) as connection,
        Reporter(sources, quiet=quiet, file=progress_file) as progress,
    ):
        tally.dispatch(sources, progress, connection)
    return True


def make_sources(setup: Setup, store: Store) -> list[Source]:
    """Return all work of an experiment, in order of priority."""
    policies = _distinct(setup.policies)
    generate = [GenerateSource(setup, store, policy) for policy in policies]
    rewarders = [r for r in _distinct(setup.rewarders) if not r.card.imported]
    pools: list[tuple[Loaded[PolicyCard], dict[str, Callable[[], bool]]]] = [
        (policy, {"generated": candidates.is_done})
        for policy, candidates in zip(policies, generate, strict=True)
    ]
    sources: list[Source] = [*generate]
    for policy, waits in pools:
        if setup.reader is not None and policy.card.extractor == BY_MODEL:
            sources.append(ReadSource(setup, store, policy, setup.reader, **waits))
            waits["settled"] = sources[-1].is_done
    if setup.grader is not None:
        sources += [GradeSource(setup, store, p, setup.grader, **waits) for p, waits in pools]
    if setup.experiment.pairs:
        sources += [PairSource(setup, store, rewarder) for rewarder in rewarders]
    sources += [
        QuestionSource(setup, store, policy, rewarder, **waits)
        for rewarder in rewarders
        for policy, waits in pools
    ]
    return sources


def _distinct(models: Sequence[Loaded[CardT]]) -> list[Loaded[CardT]]:
    """Return the models whose rows are their own: cards equal but for their name share them."""
    first: dict[str, Loaded[CardT]] = {}
    for model in models:
        card = model.card.model_copy(update={"name": "", "title": ""})
        first.setdefault(f"{model.spec} {card!r}", model)
    return [*first.values()]


def _skip_complete(sources: list[Source], status: RunCompleteness) -> None:
    """Skip the walk through complete sources; new candidates are work for every rewarder."""
    complete = {share.model for share in status.models if share.have == share.wanted}
    upstream = {source.model for source in sources if source.stage in UPSTREAM}
    for source in sources:
        if source.model in complete and (source.stage == "generate" or upstream <= complete):
            source.skip()
