"""Online models that load, fail to load or die: 503 with the reason, and they come again."""

import asyncio
import threading
from types import ModuleType

import pytest
from typer.testing import CliRunner

from bon.commands.main import app as command_line
from bon.core.errors import BonError, EngineDied
from bon.dispatch import worker
from bon.dispatch.worker import JudgeTask
from bon.rewarders.base import Item
from bon.service.errors import ApiError
from bon.service.online import backend as backends
from bon.service.online.selector import Selector
from bon.service.settings import Online
from tests.engines.fake_endpoint import serve
from tests.service.server import serving
from tests.service.test_killed import workers_of
from tests.service.test_online import asks
from tests.service.test_serve import cards, wait_ready

HEAD = {"name": "head", "kind": "scalar", "engine": "echo"}
TASK = JudgeTask(Item("question", "q", "Which?", (), {"a": "one", "b": "two"}), (), 1)


def head(tmp_path, monkeypatch):
    """A backend in this process with one model, whose attempts to load follow at once."""
    monkeypatch.setattr(backends, "RETRY_SECONDS", (0.05, 0.05))
    online = Online.model_validate({"rewarders": [HEAD], "backend": "process"})
    selector = Selector(online, tmp_path)
    return selector.backend, next(iter(selector.specs()))


def test_a_model_that_does_not_load_at_start_is_tried_again(tmp_path, monkeypatch):
    real, refused = worker.build, threading.Event()

    def build(*arguments):
        if not refused.is_set():
            raise BonError("the disk is not mounted yet")
        return real(*arguments)

    monkeypatch.setattr(worker, "build", build)

    async def story():
        backend, model = head(tmp_path, monkeypatch)
        await backend.start()
        assert not backend.ready()
        with pytest.raises(ApiError, match="the disk is not mounted yet") as error:
            await backend.run(model, [TASK])
        assert error.value.status == 503
        assert error.value.retry
        refused.set()
        while not backend.ready():
            await asyncio.sleep(0.01)
        reply = await backend.run(model, [TASK])
        assert len(reply.judgements) == 2
        await backend.close()

    asyncio.run(story())


def test_a_model_that_died_is_loaded_again(tmp_path, monkeypatch):
    async def story():
        backend, model = head(tmp_path, monkeypatch)
        await backend.start()
        (engine,) = backend._host._engines.values()

        async def reward(request):
            raise EngineDied("the engine's process has ended")

        monkeypatch.setattr(engine, "reward", reward)
        with pytest.raises(ApiError, match="process has ended") as error:
            await backend.run(model, [TASK])
        assert error.value.status == 503
        assert len((await backend.run(model, [TASK])).judgements) == 2
        await backend.close()

    asyncio.run(story())


@pytest.mark.ray
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_worker_that_restarts_is_no_full_queue(tmp_path, ray_address):
    body = {"rewarder": "head", "messages": asks(), "candidates": ["a", "b"]}
    with serving(tmp_path, online=cards(), ray_address=ray_address) as served:
        early = served.client.post("/v1/score", json=body)
        assert early.status_code in (200, 503)
        wait_ready(served.client)
        for process in workers_of(ray_address):
            process.kill()
        answers = [served.client.post("/v1/score", json=body)]
        while answers[-1].status_code != 200:
            answers.append(served.client.post("/v1/score", json=body))
        refused = answers[:-1]
        assert {answer.status_code for answer in refused} == {503}
        assert all("retry-after" in answer.headers for answer in refused)
        assert "its worker failed" in refused[0].json()["error"]["message"]


@pytest.mark.parametrize(("after", "survives"), [("10", True), ("1", False)])
def test_a_trainer_waits_for_a_model_that_loads(monkeypatch, capsys, after, survives):
    """Minutes long, while a reward that cannot be had ends it soon."""

    def loading(number, _):
        if number < 20:
            return 503, {"retry-after": after}, {"error": "it is being loaded"}
        return 200, {}, [{"score": 1.0}]

    with serve(loading) as server:
        words = ["client", "trl", "--url", server.url.removesuffix("/v1"), "--rewarder", "head"]
        printed = CliRunner().invoke(command_line, words)
        assert printed.exit_code == 0, printed.output
        module = ModuleType("reward")
        exec(compile(printed.output, "trl.py", "exec"), vars(module))
        monkeypatch.setattr(module.time, "sleep", lambda _: None)
        if survives:
            assert module.ask({}) == [{"score": 1.0}]
            assert "it is being loaded" in capsys.readouterr().out
        else:
            with pytest.raises(RuntimeError, match="it is being loaded"):
                module.ask({})
            assert len(server.bodies) == 5
