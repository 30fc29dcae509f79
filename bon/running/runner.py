"""An experiment from start to report."""

import gc
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path
from typing import Any

from bon.core.errors import BonError, Incomplete, SpendingCapReached
from bon.core.records import Candidate, Judgement
from bon.running.cluster import Dispatcher
from bon.running.commits import at_commits, keep_commits
from bon.running.completeness import Completeness, completeness
from bon.running.connection import Connection, connected, own_ray
from bon.running.database import DATABASE
from bon.running.ending import MakeReport, reports
from bon.running.filed import filed, say_changed
from bon.running.live import Live, Watcher
from bon.running.looks import Looks
from bon.running.preflight import check_models, retiring
from bon.running.progress import Reporter, note_phase, reporting
from bon.running.repeating import FOLDER, repeat_sources
from bon.running.saying import say
from bon.running.setup import Setup
from bon.running.start import now, start
from bon.running.store import Store
from bon.running.work import GenerateSource, PairSource, QuestionSource, Source
from bon.running.worker import Reply

MIN_ROWS_TO_FAIL = 50


def run(
    setup: Setup,
    directory: Path,
    *,
    quiet: bool = False,
    retry_errors: bool = False,
    replace: bool = False,
    shard: tuple[int, int] | None = None,
    progress_file: Path | None = None,
    watchers: Sequence[Watcher] = (),
    make_report: MakeReport | None = None,
) -> Path:
    """Run or continue an experiment in `directory`; returns the path of its report.

    `replace` takes over the run of another experiment. `shard` is the part (place, parts) of the
    questions and pairs that this machine does. `progress_file` is kept up to date for
    a watcher in another process; `watchers` are told in this one how the run goes. `make_report`
    of whoever has read data already, which may have started threads (`reports`).
    """
    if shard is not None and setup.experiment.judging.decide is not None:
        raise BonError(
            "judging.decide looks at all questions together, and a shard holds a part of them",
            "leave out --shard, or judging.decide",
        )
    note_phase(progress_file, "preparing")
    with nullcontext(make_report) if make_report else reports() as made:
        if not (directory / DATABASE).exists():  # all is to be asked: no data are read in vain
            models = [model.card.name for model in setup.models]
            check_models(setup, models, here=own_ray(setup.experiment.cluster.address))
        with Store(directory) as store:
            setup = filed(setup, store, running=True)
            keep_commits(setup, store, quiet=quiet)
            setup = at_commits(setup, store)
            say_changed(setup, store, quiet=quiet)
            start(
                setup, store, retry_errors=retry_errors, replace=replace, shard=shard, quiet=quiet
            )
            found = compute(
                setup, store, quiet=quiet, progress_file=progress_file, watchers=watchers
            )
        note_phase(progress_file, "analysing")
        return made(directory, found=found).tell(quiet=quiet)


def compute(
    setup: Setup,
    store: Store,
    *,
    quiet: bool = False,
    progress_file: Path | None = None,
    watchers: Sequence[Watcher] = (),
) -> Completeness:
    """Sample what candidates are missing and make what judgements are missing, on Ray."""
    sources = make_sources(setup, store)
    tally = Tally(setup, store, Live(watchers))
    began = time.monotonic()
    found = None
    if store.has("candidates") or store.has("judgements"):
        found = _counted(setup, store)
        _pass_over(sources, found, together=setup.experiment.judging.decide is not None)
    with ExitStack() as stack:
        if setup.experiment.judging.repeat_check:
            repeats = stack.enter_context(Store(store.directory / FOLDER))
            repeats.forget_errors()
            sources += repeat_sources(setup, store, repeats, sources)
        worked = work_off(setup, tally, sources, quiet=quiet, progress_file=progress_file)
    if worked or found is None:
        found = _counted(setup, store)
    seconds = store.meta("compute_seconds", 0.0) + time.monotonic() - began
    store.set_meta(compute_seconds=seconds, engines=tally.engines)
    if found.complete:
        store.set_meta(finished=now())
    for model, reason in tally.failed.items():
        say(f"failed: {model}: {reason}", quiet=quiet)
    if not store.has("candidates", "outcome != 'error'"):
        reasons = dict.fromkeys(tally.failed.values()) or ["every item of every policy failed"]
        raise Incomplete(f"no candidate could be sampled: {'; '.join(reasons)}")
    return found


def work_off(
    setup: Setup,
    tally: "Tally",
    sources: list[Source],
    *,
    quiet: bool = False,
    progress_file: Path | None = None,
) -> bool:
    """Do all that these sources still lack, on Ray; whether there was anything."""
    busy = [source for source in sources if source.has_work()]  # each counts what is done
    if busy:
        # New candidates are work for every rewarder, and what is judged may be asked again.
        later = [s for s in sources if s in busy or (s.stage == "repeat" and not s.finished)]
        if any(source.stage == "generate" for source in busy):
            later = sources
        models = {source.model for source in later}
        check_models(setup, models, here=own_ray(setup.experiment.cluster.address))
        for line in retiring(setup, models):
            say(line, quiet=quiet)
        asked = any(model.card.placement.runtime_env for model in setup.models)
        address = setup.experiment.cluster.address
        with (
            connected(address, quiet=quiet, environments=asked) as rays,
            reporting(sources, quiet=quiet, file=progress_file) as progress,
        ):
            tally.dispatch(sources, progress, rays)
    return bool(busy)


@contextmanager
def _left_alone() -> Iterator[None]:
    """What is there stays there: it is not looked through for garbage as rows come and go."""
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def _counted(setup: Setup, store: Store) -> Completeness:
    with _left_alone():
        return completeness(setup, store)


def make_sources(setup: Setup, store: Store) -> list[Source]:
    """All work of an experiment in order of priority."""
    generate = [GenerateSource(store, policy) for policy in setup.policies]
    sources: list[Source] = [*generate]
    asked = [rewarder for rewarder in setup.rewarders if not rewarder.card.brought]
    for rewarder in asked:
        protocol, votes = setup.protocol(rewarder), setup.pair_votes(rewarder)
        if setup.experiment.pairs:
            sources.append(PairSource(store, rewarder, protocol, votes))
    looks = [
        Looks(setup, store, policy) if setup.experiment.judging.decide else None
        for policy in setup.policies
    ]
    for rewarder in asked:
        for policy, first, looking in zip(setup.policies, generate, looks, strict=True):
            sources.append(
                QuestionSource(
                    store,
                    policy,
                    rewarder,
                    setup.protocol(rewarder),
                    judging=setup.experiment.judging,
                    subset=setup.experiment.questions.subset,
                    generated=_all_back(first),
                    looks=looking,
                )
            )
    return sources


def _pass_over(sources: list[Source], found: Completeness, *, together: bool) -> None:
    """What lacks nothing need not be walked again; new candidates are work for every rewarder.

    together: what one rewarder lacks may be more work for the others.
    """
    done = {share.model for share in found.models if share.have == share.wanted}
    policies = {share.model for share in found.models if share.role == "policy"}
    if together and len(done) < len(found.models):
        done &= policies
    for source in sources:
        if source.model in done and (source.stage == "generate" or policies <= done):
            source.pass_over()


class Tally:
    """Files what comes back, and stops a model that fails too often."""

    def __init__(self, setup: Setup, store: Store, live: Live | None = None) -> None:
        self.failed: dict[str, str] = {}
        self._setup = setup
        self._store = store
        self._specs = {loaded.card.name: loaded.spec for loaded in setup.models}
        self._rows: Counter[str] = Counter()
        self._errors: Counter[str] = Counter()
        self._last_error: dict[str, str] = {}
        # What each model ran on, this time or, where nothing was left to do, before.
        self.engines: dict[str, Any] = store.meta("engines", {})
        self._noted: set[str] = set()
        self._cost = 0.0
        self._live = live or Live()
        self._dispatcher: Dispatcher | None = None
        self._progress: Reporter | None = None

    def dispatch(self, sources: list[Source], progress: Reporter, rays: Connection) -> None:
        """Run all sources to their end."""
        stores = {self._store, *(s.kept_in for s in sources if s.kept_in is not None)}
        self._cost = sum(store.cost() for store in stores)
        self._progress = progress
        config = self._setup.experiment.cluster
        self._dispatcher = Dispatcher(config, self._setup.specs(), sources, self.file, rays)
        try:
            with _left_alone():
                self._dispatcher.run()
        finally:
            self._live.tell(self._cost)
        for store in stores:
            store.commit()

    def file(self, source: Source, reply: Reply) -> None:
        """Commit a reply's rows; a model that cannot go on is stopped and the others go on."""
        store = source.kept_in or self._store
        rows: list[Candidate | Judgement] = [
            *store.add_candidates(reply.candidates, reply.each),
            *store.add_judgements(reply.judgements, reply.each),
        ]
        model = source.model
        if reply.engine:  # it has worked
            store.add_effort(self._specs[model], reply.effort)
        self._rows[model] += len(rows)
        for row in rows:
            if row.outcome == "error":
                self._errors[model] += 1
                self._last_error[model] = row.error
        if reply.engine:
            self.engines[model] = reply.engine
            if model not in self._noted:  # with its first rows: nobody may be there at the end
                self._noted.add(model)
                self._store.set_meta(engines=self.engines)
        if reply.failure:
            self._fail(model, reply.failure)
            if reply.stop_run:
                raise Incomplete(reply.failure)
        self._cost += sum(row.cost for row in rows)
        self._live.note(model, rows, self._cost)
        cap = self._setup.experiment.cluster.spending_cap
        if cap is not None and self._cost >= cap:
            raise SpendingCapReached(
                f"the run has cost ${self._cost:.2f} and may cost ${cap:.2f}",
                "raise cluster.spending_cap and run the same command: what was bought is kept",
            )
        share = self._setup.experiment.cluster.max_error_share
        if self._rows[model] >= MIN_ROWS_TO_FAIL and model not in self.failed:
            errors = self._errors[model]
            if errors > share * self._rows[model]:
                reason = f"{errors} of {self._rows[model]} items failed"
                self._fail(model, f"{reason} (last: {self._last_error[model]})")
        if self._progress is not None:
            self._progress.update()

    def _fail(self, model: str, reason: str) -> None:
        self.failed[model] = reason
        self._store.set_meta(failed=self.failed)
        if self._dispatcher is not None:
            self._dispatcher.stop_model(model)


def _all_back(source: Source) -> Callable[[], bool]:
    return lambda: source.finished and source.open == 0
