"""Sources of work for one model."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import ClassVar, Literal

from bon.dispatch.worker import Payload

Stage = Literal["generate", "read", "benchmark", "grade", "judge"]
UPSTREAM: tuple[Stage, ...] = ("generate", "read")
"""The stages that others wait for, and whose rows are new work for them."""


class Source(ABC):
    """Payloads for one model, in the order of its items.

    `total` and `done` count items, `known` those complete beforehand, `answered` those that came
    back after `seconds` of the workers' time, `open` those in flight. `finished`: no more payloads
    will come. An item takes at most `calls` calls.
    """

    stage: ClassVar[Stage]

    def __init__(self, model: str, total: int, calls: int) -> None:
        self.model = model
        self.total = total
        self.calls = calls
        self.done = 0
        self.known = 0
        self.answered = 0
        self.seconds = 0.0
        self.open = 0
        self.finished = False
        self._steps = self.steps()
        self._buffer: list[Payload] = []
        self._first: int | None = None  # the first incomplete item

    @property
    def passed(self) -> int:
        """Items done since the first incomplete one: those before it took no time."""
        return self.done - (self._first or 0)

    def take(self, count: int) -> list[Payload]:
        """Return up to `count` payloads; fewer where no more are ready."""
        payloads, self._buffer = self._buffer[:count], self._buffer[count:]
        self.open += len(payloads)
        while len(payloads) < count and not self.finished:
            try:
                step = next(self._steps)
            except StopIteration:
                self.finished = True
                break
            if step is None:
                break
            if step and self._first is None:
                self._first = self.done
            payloads += step
            self.open += len(step)
            self.done += not step
            self.known += not step
        return payloads

    def answer(self, count: int, seconds: float) -> None:
        """Count items that came back, and the seconds of a worker's time they took."""
        self.open -= count
        self.done += count
        self.answered += count
        self.seconds += seconds

    def is_done(self) -> bool:
        """Whether nothing is in flight and no more payloads will come."""
        return self.finished and not self.open

    def skip(self) -> None:
        """Mark every item as complete."""
        self.done = self.known = self.total
        self.finished = True

    def has_work(self) -> bool:
        """Whether there is work now, or will be when other sources have progressed."""
        if not self._buffer:
            self._buffer = self.take(1)
            self.open -= len(self._buffer)
        return bool(self._buffer)

    @abstractmethod
    def steps(self) -> Iterator[list[Payload] | None]:
        """Yield the payload of each item: [] if it is complete, None to be asked again later."""
