"""Online models in Ray actors, with actors of the test's own."""

import asyncio
from types import SimpleNamespace

from bon.dispatch import cluster
from bon.service.online.backend import RayActors
from bon.service.online.selector import Selector
from bon.service.settings import Online


def test_a_start_ends_when_models_are_loaded(tmp_path, monkeypatch):

    async def story():
        loading = asyncio.Event()

        async def node_():
            return "node"

        async def load_():
            await loading.wait()
            return {}

        class Actor:
            node, load = SimpleNamespace(remote=node_), SimpleNamespace(remote=load_)

        monkeypatch.setattr(cluster, "start_host", lambda *_: Actor())
        monkeypatch.setattr("ray.is_initialized", lambda: True)
        head = {"name": "head", "kind": "scalar", "engine": "echo"}
        online = Online.model_validate({"rewarders": [head]})
        selector = Selector(online, tmp_path)
        backend = RayActors(selector.specs(), online.scaling, None)
        start = asyncio.create_task(backend.start())
        await asyncio.sleep(0.1)
        assert not start.done()
        assert not backend.ready()
        loading.set()
        await asyncio.wait_for(start, 5)
        assert backend.ready()

    asyncio.run(story())
