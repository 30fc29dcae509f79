"""Who pays for requests, at which price: the budget of a batch of work.

Like all context between a worker and its engine it travels as a context variable.
"""

import asyncio
from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import AbstractContextManager, asynccontextmanager
from contextvars import ContextVar
from copy import copy
from dataclasses import dataclass, field
from functools import cache

from bon.core.errors import BonError, SpendingCapReached
from bon.core.ledger import Account, Ledger, Reservation
from bon.engines.metering import within

_DELIVERED: ContextVar[set[str] | None] = ContextVar("delivered", default=None)
GRACE_SECONDS = 60.0
"""After its time limit a request is given so long to be settled."""


@dataclass
class Charge:
    """What a request cost in US dollars, and the replies that it bought, by key."""

    dollars: float
    replies: Mapping[str, str] = field(default_factory=dict)


@dataclass
class Budget:
    """Who pays for the requests of a batch of work, at which price, and what ended the batch.

    `input_price`, `output_price`: US dollars per million tokens. `files`: replies are kept until
    the run has filed their rows. After `stopped` no request of the batch goes out any more.
    """

    ledger: Ledger
    model: str = ""
    spec: str = ""
    input_price: float = 0.0
    output_price: float = 0.0
    account: Account | None = None
    files: bool = False
    stopped: BonError | None = None

    @property
    def is_priced(self) -> bool:
        """Whether requests cost money."""
        return self.input_price + self.output_price > 0

    def dollars(self, prompt_tokens: float, completion_tokens: float) -> float:
        """Return the price of so many tokens."""
        return (prompt_tokens * self.input_price + completion_tokens * self.output_price) / 1e6

    @asynccontextmanager
    async def reserve(
        self, most: float, seconds: float, cap: float | None
    ) -> AsyncIterator[Charge]:
        """Wait until `most` dollars are reserved; what is charged at the end was spent.

        seconds: the request's time limit. cap: that of its model. SpendingCapReached if a cap has
        no room.
        """
        request = Reservation(
            self.model, self.spec, most, cap, seconds + GRACE_SECONDS, self.account
        )
        pause, charge = 0.02, Charge(most)  # spent, unless something better becomes known
        while True:
            if self.stopped is not None:
                error = copy(self.stopped)
                error.rows = ()
                raise error
            refusal = await self.ledger.reserve(request) if most > 0 else ""
            if refusal == "":
                break
            if refusal is not None:
                problem, _, fix = refusal.partition(" -> ")
                fix = fix or "raise it and run the same command: paid replies are kept"
                raise SpendingCapReached(problem, fix)
            await asyncio.sleep(pause)
            pause = min(0.5, 1.5 * pause)
        try:
            yield charge
        finally:
            if most > 0:
                await self.ledger.settle(request.id, charge.dollars, charge.replies)

    async def bought(self, keys: Collection[str]) -> dict[str, str]:
        """Return what was bought before and is not filed, but for what this item was given."""
        if not self.is_priced:
            return {}
        return await self.ledger.bought(
            [key for key in keys if key not in (_DELIVERED.get() or ())]
        )

    async def deliver(self, keys: Collection[str]) -> None:
        """Note that the item at hand has these replies: outside a run they are used up."""
        delivered = _DELIVERED.get()
        if not self.is_priced:
            return
        if self.files and delivered is not None:
            delivered.update(keys)
        else:
            await self.ledger.forget(keys)


_BUDGET: ContextVar[Budget | None] = ContextVar("budget", default=None)


def budget() -> Budget:
    """Return the budget of the batch at hand: outside any, one without a price."""
    return _BUDGET.get() or _free()


@cache
def _free() -> Budget:
    return Budget(Ledger())


def paying(budget: Budget) -> AbstractContextManager[Budget]:
    """Let a budget pay for everything that is requested inside."""
    return within(_BUDGET, budget)


def stop(error: BonError) -> None:
    """End the batch at hand; what stops the run goes before what stops a model."""
    at_hand = _BUDGET.get()
    if at_hand is not None and (
        at_hand.stopped is None or (error.stops_run and not at_hand.stopped.stops_run)
    ):
        at_hand.stopped = error


def purchases() -> AbstractContextManager[set[str]]:
    """Collect the keys of the replies that an item receives: they are filed with its rows."""
    return within(_DELIVERED, set[str]())
