"""Items that ask in rounds are finished one by one, while an engine has them in its caches."""

import asyncio

from bon.dispatch.worker import Host, JudgeTask
from bon.rewarders.base import Item
from bon.work.setup import prepare
from tests.engines.fake_endpoint import Reply, serve

ITEMS = 12


def test_an_item_is_done_before_many_others_are_begun(make_experiment, tmp_path):
    def answer(_, body) -> Reply:
        said = {"content": "Answer 1 is better"}
        return 200, {}, {"choices": [{"index": 0, "message": said, "finish_reason": "stop"}]}

    experiment = make_experiment()
    judge = experiment["rewarders"][0] | {"engine": "openai", "model": "m"}
    experiment |= {"rewarders": [judge], "judging": {"design": "knockout"}}
    texts = {f"key{i}": f"text {i}" for i in range(6)}
    tasks = [
        JudgeTask(Item("question", f"q{i}", f"item {i}", (), texts), (), 1) for i in range(ITEMS)
    ]
    with serve(answer) as server:
        judge["engine_args"] = {
            "base_url": server.url,
            "api_key_env": None,
            "concurrency": 2,
            "max_concurrency": 2,
        }
        host = Host(prepare(experiment, tmp_path).specs())

        async def all_at_once():
            reply = await host.run("judge", tasks)
            await host.close()
            return reply

        reply = asyncio.run(all_at_once())
        asked = [body["messages"][0]["content"].partition("|")[0] for body in server.bodies]
    assert len(reply.judgements) == len(asked) == ITEMS * 5 * 2  # a knockout of six, both orders
    assert [row.item for row in reply.judgements] == sorted(
        (row.item for row in reply.judgements), key=lambda name: int(name[1:])
    )
    last = {name: place for place, name in enumerate(asked)}
    first = {name: len(asked) - 1 - place for place, name in enumerate(reversed(asked))}
    for i in range(ITEMS - 4):
        assert last[f"item {i}"] < first[f"item {i + 4}"]
