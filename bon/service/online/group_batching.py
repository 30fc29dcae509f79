"""Groups of requests for one question, held until enough have come and then judged together.

Trainers send one response per request, and a comparison needs the others. A group is judged when
it is full or its time is up, with the responses that came. A late response is judged with those
that are there, until as much time has passed again; after that the next group begins. A client
that hangs up before the judging leaves the group.
"""

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

T = TypeVar("T")
Judge = Callable[[list[str]], Awaitable[T]]


@dataclass(eq=False, slots=True)
class _Member(Generic[T]):
    texts: list[str]
    result: "asyncio.Future[tuple[T, int]]"


@dataclass(eq=False, slots=True)
class _Group(Generic[T]):
    judge: Judge[T]
    size: int
    wait: float
    members: list[_Member[T]] = field(default_factory=list)
    late: bool = False

    def texts(self) -> list[str]:
        return [text for member in self.members for text in member.texts]


class Groups(Generic[T]):
    """The open groups by key."""

    def __init__(self) -> None:
        self._open: dict[Hashable, _Group[T]] = {}
        self._judging: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        return len(self._open)

    async def join(
        self, key: Hashable, texts: list[str], size: int, wait: float, judge: Judge[T]
    ) -> tuple[T, int]:
        """Return the group's judgement and the index of the first of `texts` in it.

        A full group has `size` responses; an incomplete one is judged after `wait` seconds, by the
        `judge` of its first member.
        """
        loop = asyncio.get_running_loop()
        group = self._open.get(key)
        if group is None:
            group = self._open[key] = _Group(judge, size, wait)
            loop.call_later(wait, self._due, key, group)
        member = _Member(texts, loop.create_future())
        group.members.append(member)
        if group.late or len(group.texts()) >= group.size:
            self._judge(key, group)
        try:
            return await member.result
        except asyncio.CancelledError:
            if not group.late and self._open.get(key) is group:
                group.members.remove(member)
            raise

    def _due(self, key: Hashable, group: _Group[T]) -> None:
        """Judge a group whose time is up; close one whose time was up before."""
        if self._open.get(key) is not group:
            return
        if group.late or not group.members:
            del self._open[key]
            return
        group.late = True
        asyncio.get_running_loop().call_later(group.wait, self._due, key, group)
        self._judge(key, group)

    def _judge(self, key: Hashable, group: _Group[T]) -> None:
        if len(group.texts()) >= group.size:
            del self._open[key]
        waiting = [
            (member.result, sum(len(other.texts) for other in group.members[:place]))
            for place, member in enumerate(group.members)
            if not member.result.done()
        ]

        async def judge(texts: list[str]) -> None:
            """Judge, and give the result to every member that still waits."""
            try:
                result, failure = await group.judge(texts), None
            except Exception as error:
                failure = error
            for future, index in waiting:
                if not future.done() and failure:
                    future.set_exception(failure)
                elif not future.done():
                    future.set_result((result, index))

        task = asyncio.create_task(judge(group.texts()))
        self._judging.add(task)
        task.add_done_callback(self._judging.discard)

        def left(_: "asyncio.Future[tuple[T, int]]") -> None:
            if all(future.cancelled() for future, _ in waiting):
                task.cancel()  # every client has hung up

        for future, _ in waiting:
            future.add_done_callback(left)
