"""A rewarder on the echo engine, which receives the answer key; the rewarder does not."""

from collections.abc import Mapping

from bon.engines.echo import answer_key
from bon.rewarders.base import Item, Rewarder, Verdict


class OnEcho(Rewarder):
    """Delegates to `rewarder` with the answer key of every call in the engine's context."""

    def __init__(self, rewarder: Rewarder, correct: Mapping[str, bool]) -> None:
        super().__init__(rewarder.card, rewarder.prompt, rewarder.engine)
        self.arity = rewarder.arity  # type: ignore[misc]  # of the instance, as the wrapped one's
        self._rewarder = rewarder
        self._correct = correct

    async def judge(
        self, item: Item, shown: tuple[str, ...], seeds: tuple[int, ...]
    ) -> list[Verdict]:
        """Judge; of two correct responses neither is marked as the better one."""
        key = tuple(self._correct[response] for response in shown)
        if self.arity == "two" and all(key):
            key = (False, False)
        with answer_key(key):
            return await self._rewarder.judge(item, shown, seeds)
