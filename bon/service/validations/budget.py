"""The operator's money: how much validations and online requests may cost.

A validation that costs money states a cap (`cluster.spending_cap`, which the runner keeps). The
cap is reserved until the validation has ended; then its actual cost counts.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path

from bon.core.errors import BonError
from bon.experiment.config import Card, Price
from bon.planning.plan import make_plan
from bon.service.settings import Limits
from bon.service.validations.jobs import FINAL, Jobs
from bon.storage.store import Store
from bon.work.setup import Setup

ONLINE = "online"
"""Stands in for the validation of paid online requests."""


class Budget:
    """Spent and reserved money by owner; `directory` maps a validation to its run."""

    def __init__(self, limits: Limits, jobs: Jobs, directory: Callable[[str], Path]) -> None:
        self._limits, self._jobs, self._directory = limits, jobs, directory

    def left(self, owner: str, except_for: str = "") -> float:
        """Return the US dollars that an owner may still spend, one validation not counted."""
        used: defaultdict[str, float] = defaultdict(float)
        for key, name, cap, cost in self._jobs.rows("SELECT * FROM money"):
            if key != except_for:
                validation = self._jobs.get(key)
                reserved = validation is not None and validation.state not in FINAL
                used[name] += cost if cost is not None else cap if reserved else self._cost(key)
        own = self._limits.dollars_per_owner - used[owner]
        return max(0.0, min(own, self._limits.dollars - sum(used.values())))

    def check(self, owner: str, setup: Setup, key: str = "") -> None:
        """Refuse a validation that would cost money without a cap, or more than is left."""
        if not paid(loaded.card for loaded in setup.models):
            return
        cap, left = setup.experiment.cluster.spending_cap, self.left(owner, key)
        if cap is None:
            dollars = make_plan(setup).totals()["dollars"]
            fix = f"set cluster.spending_cap; you have ${left:,.2f} left on this server"
            raise BonError(f"this experiment costs money, about ${dollars:,.2f} by its plan", fix)
        if cap > left:
            raise BonError(
                f"cluster.spending_cap ${cap:,.2f} is more than the ${left:,.2f} you have left",
                "set a lower one, or ask the operator (limits.dollars_per_owner, limits.dollars)",
            )

    def reserve(self, key: str, owner: str, setup: Setup) -> None:
        """Reserve the cap of a checked validation."""
        if paid(loaded.card for loaded in setup.models):
            cap = setup.experiment.cluster.spending_cap
            self._jobs.rows("INSERT OR REPLACE INTO money VALUES (?, ?, ?, NULL)", key, owner, cap)

    def settle(self, key: str) -> None:
        """Record the cost of a validation that is about to be deleted."""
        self._jobs.rows("UPDATE money SET cost = ? WHERE validation = ?", self._cost(key), key)

    def add(self, owner: str, dollars: float) -> None:
        """Add the cost of an online request."""
        if dollars > 0:
            self._jobs.rows(
                "INSERT INTO money VALUES (?, ?, 0, ?) "
                "ON CONFLICT (validation) DO UPDATE SET cost = cost + excluded.cost",
                f"{ONLINE}:{owner}", owner, dollars,
            )  # fmt: skip

    def _cost(self, key: str) -> float:
        try:
            with Store(self._directory(key), readonly=True) as store:
                return store.cost()
        except BonError:  # it never began
            return 0.0


def paid(cards: Iterable[Card]) -> bool:
    """Whether a call of one of these cards costs money."""
    prices = (card.cost for card in cards if card.engine == "openai")
    priced = (price for price in prices if isinstance(price, Price))
    return any(price.input_per_million + price.output_per_million > 0 for price in priced)
