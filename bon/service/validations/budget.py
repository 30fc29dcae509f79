"""The operator's money: how much validations and online requests may cost.

One ledger (DATA/ledger.sqlite) has both. An online request reserves the most that each of its calls
can cost, under its owner. A validation that costs money states a cap (`cluster.spending_cap`,
which its own ledger keeps); the cap is reserved until it has ended, then its actual cost counts.
"""

import asyncio

from bon.core.errors import BonError
from bon.core.ledger import Account, Ledger, Reservation
from bon.planning.plan import make_plan
from bon.service.settings import Settings
from bon.service.validations.jobs import FINAL, Jobs
from bon.storage.store import Store
from bon.work.setup import Setup

VALIDATION = ""
"""Stands in for the model under which validations are reserved; their key is the spec."""


class ServerBudget:
    """Spent and reserved money by owner."""

    def __init__(self, settings: Settings, jobs: Jobs, ledger: Ledger) -> None:
        self._limits, self._runs = settings.limits, settings.runs
        self._jobs, self._ledger = jobs, ledger

    def account(self, owner: str) -> Account:
        """Return what an owner's requests are charged to."""
        return Account(owner, self._limits.dollars_per_owner, self._limits.dollars)

    def left(self, owner: str, key: str = "") -> float:
        """Return the US dollars that an owner may still spend, one validation not counted."""
        with self._jobs.write():
            for ended in self._ledger.reservations(VALIDATION):
                validation = self._jobs.get(ended)
                if validation is None or validation.state in FINAL:
                    self.settle(ended)
        own = self._limits.dollars_per_owner - self._ledger.committed(owner=owner)
        left = min(own, self._limits.dollars - self._ledger.committed())
        return max(0.0, left + (self._ledger.committed(spec=key) if key else 0.0))

    def reserve(self, owner: str, setup: Setup, key: str) -> None:
        """Reserve the cap of a validation; BonError without one, or for more than is left."""
        if not any(loaded.card.is_paid for loaded in setup.models):
            return
        self.settle(key)
        cap, left = setup.experiment.cluster.spending_cap, self.left(owner, key)
        if cap is None:
            dollars = make_plan(setup).totals()["dollars"]
            fix = f"set cluster.spending_cap; you have ${left:,.2f} left on this server"
            raise BonError(f"this experiment costs money, about ${dollars:,.2f} by its plan", fix)
        most = cap - self._ledger.committed(spec=key)
        if most <= 0:
            return  # its own ledger refuses whatever costs money
        account = self.account(owner)
        wanted = Reservation(VALIDATION, key, most, seconds=0.0, account=account, id=key)
        if cap > left or asyncio.run(self._ledger.reserve(wanted)) != "":
            raise BonError(
                f"cluster.spending_cap ${cap:,.2f} is more than the ${left:,.2f} you have left",
                "set a lower one, or ask the operator (limits.dollars_per_owner, limits.dollars)",
            )

    def settle(self, key: str) -> None:
        """Count what a validation has cost in place of its cap."""
        try:
            with Store(self._runs / key, readonly=True) as store:
                cost = store.cost()
        except BonError:  # it never began
            cost = 0.0
        before = self._ledger.settled(spec=key)
        asyncio.run(self._ledger.settle(key, max(0.0, cost - before)))
