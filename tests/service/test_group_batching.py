"""Groups that wait: who comes, who is late, who leaves."""

import asyncio

import pytest

from bon.service.api.rewards import RatedGroup
from bon.service.online.group_batching import Groups
from bon.service.online.selector import Usage


class Judge:
    """Says the length of each text; keeps what it was asked."""

    def __init__(self, seconds=0.0, error=None):
        self.asked = []
        self.ended = 0
        self._seconds, self._error = seconds, error

    async def __call__(self, texts):
        self.asked.append(texts)
        await asyncio.sleep(self._seconds)
        if self._error:
            raise self._error
        self.ended += 1
        return RatedGroup([float(len(text)) for text in texts], 1.0, None, Usage(), 0)


def member(groups, judge, text, size=3, wait=0.05, key="k"):
    return asyncio.create_task(groups.join(key, [text], size, wait, judge))


def own(result):
    rated, place = result
    return rated.rewards[place]


def test_whoever_hangs_up_before_the_judging_leaves_the_group():
    async def story():
        groups, judge = Groups(), Judge()
        staying, leaving = member(groups, judge, "a"), member(groups, judge, "bb")
        await asyncio.sleep(0)
        leaving.cancel()
        await asyncio.sleep(0)
        others = member(groups, judge, "ccc"), member(groups, judge, "dddd")
        assert [own(result) for result in await asyncio.gather(staying, *others)] == [1, 3, 4]
        assert judge.asked == [["a", "ccc", "dddd"]]
        assert len(groups) == 0

    asyncio.run(story())


def test_a_judging_that_nobody_waits_for_ends():
    async def story():
        groups, judge = Groups(), Judge(seconds=5)
        members = [member(groups, judge, text) for text in ("a", "b", "c")]
        await asyncio.sleep(0.01)
        members[0].cancel()
        await asyncio.sleep(0.01)
        assert len(asyncio.all_tasks()) == 4  # this one, the two that wait, and the judging
        for item in members:
            item.cancel()
        await asyncio.sleep(0.01)
        assert len(asyncio.all_tasks()) == 1
        assert judge.ended == 0

    asyncio.run(story())


def test_a_group_that_everybody_left_is_forgotten_unjudged():
    async def story():
        groups, judge = Groups(), Judge()
        member(groups, judge, "a").cancel()
        alone = member(groups, judge, "b")
        await asyncio.sleep(0)
        alone.cancel()
        await asyncio.sleep(0.1)
        assert (len(groups), judge.asked) == (0, [])

    asyncio.run(story())


def test_late_members_and_the_next_group():
    async def story():
        groups, judge = Groups(), Judge()
        first = [member(groups, judge, text) for text in ("a", "bb")]
        assert [own(result) for result in await asyncio.gather(*first)] == [1, 2]
        assert own(await member(groups, judge, "ccc")) == 3
        assert judge.asked == [["a", "bb"], ["a", "bb", "ccc"]]
        following = [member(groups, judge, text) for text in ("x", "y", "z")]
        await asyncio.gather(*following)
        assert judge.asked[-1] == ["x", "y", "z"]

    asyncio.run(story())


def test_a_failure_is_told_to_each_member():
    async def story():
        groups, judge = Groups(), Judge(error=ValueError("no"))
        members = [member(groups, judge, text) for text in ("a", "b", "c")]
        result = await asyncio.gather(*members, return_exceptions=True)
        assert [type(item) for item in result] == [ValueError] * 3

    asyncio.run(story())


@pytest.mark.parametrize("size", [1, 2, 5])
def test_groups_of_other_keys_do_not_mix(size):
    async def story():
        groups, judge = Groups(), Judge()
        keys = [(key, str(number)) for key in "ab" for number in range(size)]
        members = [member(groups, judge, key + text, size, 5, key) for key, text in keys]
        await asyncio.gather(*members)
        assert sorted(len({text[0] for text in requests}) for requests in judge.asked) == [1, 1]

    asyncio.run(story())
