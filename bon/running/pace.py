"""How fast a run goes and how long it still takes, from what its own work has taken so far."""

import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal

from bon.running.work import Source, Stage

WINDOW_SECONDS = 30.0
WARM_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class StageProgress:
    """Items of a stage; `known` of the done ones lacked nothing. `rate` is items per second."""

    stage: Stage
    done: int
    total: int
    known: int
    rate: float | None


@dataclass(frozen=True, slots=True)
class Left:
    """Seconds that a run still takes.

    `at most`: a bound, since calls may be saved. `perhaps`: some of its models have not been
    measured, and others stand for them.
    """

    seconds: float
    known: Literal["about", "at most", "perhaps"] = "about"


class Pace:
    """Looks at sources whenever work has come back."""

    def __init__(
        self, sources: Iterable[Source], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._clock = clock
        self._stages: dict[Stage, list[Source]] = {}
        for source in sources:
            self._stages.setdefault(source.stage, []).append(source)
        self._items = {stage: _Window() for stage in self._stages}
        self._work = _Window()
        self.look()

    def look(self) -> None:
        """Note how far everything is."""
        now = self._clock()
        for stage, sources in self._stages.items():
            back = sum(source.answered for source in sources)
            self._items[stage].note(now, back, any(source.open for source in sources))
        every = self._sources()
        seconds = sum(source.seconds for source in every)
        self._work.note(now, seconds, any(source.open for source in every))

    def stages(self) -> list[StageProgress]:
        """Every stage with the rate of its own last work; a finished one keeps its rate."""
        return [
            StageProgress(
                stage,
                sum(source.done for source in sources),
                sum(source.total for source in sources),
                sum(source.known for source in sources),
                self._items[stage].rate,
            )
            for stage, sources in self._stages.items()
        ]

    def left(self) -> Left | None:
        """What the whole run still takes; None while nothing is known of some of its models."""
        pace = self._work.rate
        if not pace:
            return None
        measured = {source.model for source in self._sources() if source.answered}
        worker_seconds, begun, known = 0.0, True, True
        for source in self._sources():
            missing = source.total - source.done
            each = self._each(source) if missing else 0.0
            if each is None:
                return None
            worker_seconds += missing * each
            if missing:
                begun &= any(mate.answered for mate in self._stages[source.stage])
                known &= source.model in measured
        seconds = worker_seconds / pace
        return Left(seconds, "perhaps" if not known else "about" if begun else "at most")

    def _sources(self) -> list[Source]:
        return [source for sources in self._stages.values() for source in sources]

    def _each(self, source: Source) -> float | None:
        """Worker's seconds per item: measured; or from the model's calls; or from its stage."""
        if source.answered:
            return source.seconds / source.passed
        mates = [mate for mate in self._stages[source.stage] if mate.answered]
        own = self._per_call(source)
        if own is not None:
            foretold = [(mate, self._per_call(mate)) for mate in mates]
            wanted = sum(mate.passed * mate.calls * call for mate, call in foretold if call)
            took = sum(mate.seconds for mate, call in foretold if call)
            # Equal texts and questions that need no judge save calls: as many here as there.
            return own * source.calls * (took / wanted if wanted else 1.0)
        if mates:
            return sum(mate.seconds for mate in mates) / sum(mate.passed for mate in mates)
        return None

    def _per_call(self, source: Source) -> float | None:
        """What a call takes the model, by its other stages; or other rewarders, by theirs."""
        others = [
            other
            for other in self._sources()
            if other.answered and "generate" != other.stage != source.stage != "generate"
        ]
        others = [other for other in others if other.model == source.model] or others
        calls = sum(other.passed * other.calls for other in others)
        return sum(other.seconds for other in others) / calls if calls else None


class _Window:
    """A rate over the last seconds in which there was work: waiting for others counts nothing."""

    def __init__(self) -> None:
        self._before: float | None = None
        self._busy = 0.0
        self._active = False
        self._seen = deque([(0.0, 0.0)])

    def note(self, now: float, amount: float, active: bool) -> None:
        """`amount` has come back so far; `active` whether more is under way."""
        if self._before is not None and (self._active or amount > self._seen[-1][1]):
            self._busy += now - self._before
        self._before, self._active = now, active
        if amount > self._seen[-1][1]:
            self._seen.append((self._busy, amount))
        seen = self._seen
        # Until the first answer models were loaded: it is left out as soon as others say more.
        if len(seen) > 2 and seen[0] == (0.0, 0.0) and seen[-1][0] - seen[1][0] >= WARM_SECONDS:
            seen.popleft()
        while len(seen) > 2 and seen[1][0] <= self._busy - WINDOW_SECONDS:
            seen.popleft()

    @property
    def rate(self) -> float | None:
        """Amount per second; None before anything has come back."""
        (start, before), (end, amount) = self._seen[0], self._seen[-1]
        return (amount - before) / (end - start) if end > start else None
