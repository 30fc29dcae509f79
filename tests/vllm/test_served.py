"""`serve: vllm`: bon starts the real server, starts it again after a crash, and ends it."""

import os
import signal
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import psutil
import pytest

found = find_spec("vllm")
if found is None or found.origin is None:  # a folder of that name is not the package
    pytest.skip("vllm is not installed: see tests/vllm/run.sh", allow_module_level=True)

from tiny_checkpoint import image  # noqa: E402

from bon.core.sampling import Sampling  # noqa: E402
from bon.engines import build  # noqa: E402
from bon.engines.base import GenerateRequest, Message  # noqa: E402

MODULE = "vllm.entrypoints.openai.api_server"
pytestmark = [pytest.mark.model, pytest.mark.slow, pytest.mark.timeout(900)]


def servers() -> set[int]:
    """Running servers (one that was killed stays a zombie for a while)."""
    children = psutil.Process().children(recursive=True)
    running = [each for each in children if each.status() != psutil.STATUS_ZOMBIE]
    return {each.pid for each in running if each.cmdline()[1:3] == ["-m", MODULE]}


@pytest.mark.long
def test_a_served_model_survives_a_crash_of_its_server(
    tmp_path: Path, checkpoint: Path, hf: Any, flags: dict[str, Any], session: Any
) -> None:
    pixels = {"mm_processor_kwargs": {"max_pixels": 6272}, "enable_chunked_prefill": False}
    settings = {"model": str(checkpoint), "serve": "vllm", "engine_args": flags | pixels}
    others = servers()  # of other tests
    engine = build("openai", settings | {"log": str(tmp_path / "server.log")})
    turn = Message("user", (image(1), "What is in the picture?"))
    request = GenerateRequest((turn,), Sampling(temperature=0, max_tokens=8), (1,))
    expected = session.run(hf.generate(request)).samples[0].text
    assert session.run(engine.generate(request)).samples[0].text == expected
    (server,) = servers() - others
    os.kill(server, signal.SIGKILL)
    with pytest.warns(UserWarning, match="restarted"):
        assert session.run(engine.generate(request)).samples[0].text == expected
    assert len(servers() - others) == 1
    session.run(engine.close())
    assert servers() == others
    assert (tmp_path / "server.log").stat().st_size
