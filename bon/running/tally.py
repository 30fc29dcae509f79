"""What comes back from the workers: stored, counted, priced, and enough of it to stop a model."""

from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bon.core.console import say
from bon.core.errors import BonError, Incomplete
from bon.core.ledger import LEDGER, Ledger, spent_by_spec
from bon.core.records import Candidate, Judgement
from bon.dispatch.source import UPSTREAM, Source
from bon.dispatch.worker import Reply
from bon.running.progress import Reporter
from bon.storage.store import Store
from bon.work.completeness import HOPELESS_SHARE
from bon.work.reading import apply_readings
from bon.work.setup import Setup

if TYPE_CHECKING:
    from bon.dispatch.cluster import Dispatcher
    from bon.dispatch.connection import Connection

MIN_ROWS_TO_FAIL = 50


class Tally:
    """Store replies, count them and their cost, and stop a model that fails too often."""

    def __init__(self, setup: Setup, store: Store, ledger: Path | None = None) -> None:
        """`ledger`: that of the run to which the store belongs, if it is not the store's own."""
        self.failed: dict[str, str] = {}
        self.undone: dict[str, list[str]] = {}
        self.engines: dict[str, Any] = store.meta("engines", {})
        self._setup = setup
        self._config = setup.experiment.cluster
        self._store = store
        self._specs = {loaded.card.name: loaded.spec for loaded in setup.models}
        self._rows: Counter[str] = Counter()
        self._errors: Counter[str] = Counter()
        self.last_error: dict[str, str] = {}
        self._noted: set[str] = set()  # models whose engine is recorded
        self._estimated: set[str] = set()
        self._path = ledger or store.directory / LEDGER
        self._ledger: Path | None = None
        self._in_ledger = {loaded.card.name for loaded in setup.models if loaded.card.is_paid}
        self._outside_ledger = 0.0  # US dollars since the start
        self._stopped: BonError | None = None
        self._dispatcher: Dispatcher | None = None
        self._progress: Reporter | None = None

    def dispatch(self, sources: list[Source], progress: Reporter, connection: "Connection") -> None:
        """Run all sources to their end, or until the run may cost no more.

        Raises the BonError that stopped the run once all that was in flight is stored.
        """
        from bon.dispatch.cluster import Dispatcher

        costs = self._store.row_costs()
        if costs or self._path.exists() or self._in_ledger:
            self._ledger = self._path
            ledger = Ledger(self._path)
            ledger.carry(costs)
            ledger.close()

        def check() -> None:
            self._store.check_exists()
            self._show_progress()

        self._progress = progress
        self._dispatcher = Dispatcher(
            self._config,
            self._setup.specs(),
            sources,
            self.file,
            connection,
            self._ledger,
            check=check,
        )
        try:
            self._dispatcher.run()
        finally:
            # What is still reserved will never be settled.
            if self._ledger is not None and self._ledger.exists():
                with suppress(BonError):  # the disk is full: what it hides says so
                    Ledger(self._ledger).close()
        self._store.commit()
        if self._stopped is not None:
            raise self._stopped

    def file(self, source: Source, reply: Reply) -> None:
        """Store a reply's rows; stop its model, or the run, where it says or costs too much."""
        model, store = source.model, self._store
        rows: list[Candidate | Judgement] = [
            *store.add_candidates(reply.candidates, reply.seconds_per_row),
            *store.add_judgements(reply.judgements, reply.seconds_per_row),
        ]
        if self._setup.reader is not None and source.stage in UPSTREAM:
            questions = [row.question for row in reply.candidates]
            questions += [row.item for row in reply.judgements]
            apply_readings(self._setup, store, dict.fromkeys(questions))
        if reply.engine:
            store.add_effort(self._specs[model], reply.effort)
            self._record_engine(model, reply.engine)
        if reply.bought and self._dispatcher is not None:
            store.commit()
            self._dispatcher.forget(reply.bought)
        if reply.undone:
            self.undone.setdefault(model, []).append(reply.undone)
        if reply.failure and model not in self.failed:
            self._fail(model, reply.failure)
        if reply.stop_run:
            self._stop(reply.failure)
        if model not in self._in_ledger:
            self._outside_ledger += sum(row.cost for row in rows)
        self._check_cap()
        self._check_errors(model, rows)
        self._show_progress()

    def _show_progress(self) -> None:
        if self._progress is not None and self._dispatcher is not None:
            self._progress.update(self._dispatcher.busy_workers, self._dispatcher.waits)

    def _record_engine(self, model: str, engine: Mapping[str, Any]) -> None:
        self.engines[model] = engine
        if model not in self._noted:  # now: the run may be killed before its end
            self._noted.add(model)
            self._store.set_meta(engines=self.engines)
            if warning := engine.get("warning"):
                say(f"{model}: {warning}", quiet=False)
        if model not in self._estimated and engine.get("ledger", {}).get("estimated"):
            self._estimated.add(model)
            say(
                f"{model}: its endpoint reports no usable `usage`: tokens "
                "are counted here, and the bill may differ",
                quiet=False,
            )

    def _check_cap(self) -> None:
        """Stop a run that exceeds its cap by calls that no ledger reserves."""
        cap = self._config.spending_cap
        if cap is not None and self._outside_ledger and self._cost() >= cap:
            self._stop(
                f"the run has cost ${self._cost():.2f} and may cost ${cap:.2f} -> "
                "raise cluster.spending_cap and run the same command: paid replies are kept"
            )

    def _check_errors(self, model: str, rows: list[Candidate | Judgement]) -> None:
        self._rows[model] += len(rows)
        for row in rows:
            if row.outcome == "error":
                self._errors[model] += 1
                self.last_error[model] = row.error
        total, failed = self._rows[model], self._errors[model]
        allowed = max(HOPELESS_SHARE, self._config.max_error_share) * total
        if total >= MIN_ROWS_TO_FAIL and failed > allowed and model not in self.failed:
            self._fail(model, f"{failed} of {total} items failed (last: {self.last_error[model]})")

    def _cost(self) -> float:
        """Return the US dollars of the run so far."""
        spent = spent_by_spec(self._ledger) if self._ledger is not None else {}
        return sum(spent.values()) + self._outside_ledger

    def _stop(self, reason: str) -> None:
        """Send nothing more; what is in flight was paid for and is stored."""
        if self._stopped is None:
            self._stopped = Incomplete(reason)
            if self._dispatcher is not None:
                self._dispatcher.stop()

    def _fail(self, model: str, reason: str) -> None:
        self.failed[model] = reason
        self._store.set_meta(failed=self.failed)
        if self._dispatcher is not None:
            self._dispatcher.stop_model(model)
