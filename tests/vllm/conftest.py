"""Real vLLM on the CPU: engines of three kinds over the same tiny checkpoint.

vLLM takes half a minute to start, so each engine and server starts once, the servers (own
processes) while the engines load.
"""

import asyncio
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", "1")
os.environ.setdefault("VLLM_LOGGING_LEVEL", "WARNING")
os.environ.setdefault("VLLM_HOST_IP", "127.0.0.1")  # as in workers of a local Ray
os.environ.setdefault("TORCH_COMPILE_DISABLE", "1")  # else the first batch waits 15 s
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "engines"))

FLAGS: dict[str, Any] = {
    "dtype": "float32",
    "enforce_eager": True,
    "max_model_len": 1024,
    "limit_mm_per_prompt": {"image": 7},
}
MAX_PIXELS = 6272  # half of a test's image: every engine has to shrink it, and alike


@pytest.fixture(scope="session")
def flags() -> dict[str, Any]:
    return FLAGS


class Session:
    """One event loop for all tests: vLLM's engine lives in the loop that it first served."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return self.loop.run_until_complete(work)

    def all(self, *work: Coroutine[Any, Any, Any]) -> list[Any]:
        async def gather() -> list[Any]:
            return list(await asyncio.gather(*work))

        return self.loop.run_until_complete(gather())


@pytest.fixture(scope="session")
def session() -> Iterator[Session]:
    made = Session()
    yield made
    made.loop.close()


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from tiny_checkpoint import make_checkpoint

    return make_checkpoint(tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="session")
def scored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same model with a reward head."""
    from tiny_checkpoint import make_checkpoint

    return make_checkpoint(tmp_path_factory.mktemp("scored"), head=True)


@pytest.fixture(scope="session")
def hf(scored: Path, session: Session) -> Iterator[Any]:
    from bon.engines import build

    engine = build("transformers", {"model": str(scored), "head": "auto", "max_pixels": MAX_PIXELS})
    yield engine
    session.run(engine.close())


class Server:
    """A `vllm serve` of one's own, started at once and waited for when it is needed."""

    def __init__(self, model: Path, log: Path, *flags: str) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.log = log
        command = [
            sys.executable, "-m", "vllm.entrypoints.openai.api_server",
            "--model", str(model), "--served-model-name", "tiny",
            "--host", "127.0.0.1", "--port", str(self.port),
            "--dtype", "float32", "--enforce-eager", "--max-model-len", "1024",
            "--limit-mm-per-prompt", '{"image": 7, "video": 0}',
            "--mm-processor-kwargs", json.dumps({"max_pixels": MAX_PIXELS}), *flags,
        ]  # fmt: skip
        self.process = subprocess.Popen(
            command, stdout=log.open("wb"), stderr=subprocess.STDOUT, start_new_session=True
        )

    @property
    def url(self) -> str:
        self._wait()
        return f"http://127.0.0.1:{self.port}/v1"

    def _wait(self, seconds: float = 900) -> None:
        import httpx

        end = time.monotonic() + seconds
        while time.monotonic() < end and self.process.poll() is None:
            try:
                if httpx.get(f"http://127.0.0.1:{self.port}/health").status_code == 200:
                    return
            except httpx.TransportError:
                pass
            time.sleep(0.5)
        pytest.fail(f"the server did not start:\n{self.log.read_text()[-3000:]}")

    def stop(self) -> None:
        self.process.terminate()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()


@pytest.fixture(scope="session")
def servers(
    checkpoint: Path, scored: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Server]]:
    logs = tmp_path_factory.mktemp("logs")
    made = {
        # Without chunks, for the reason given in bon.engines.vllm; and with the checkpoint's own
        # generation_config, which the requests have to override.
        "generate": Server(
            checkpoint,
            logs / "generate.log",
            "--no-enable-chunked-prefill",
            "--enable-prompt-tokens-details",
        ),
        "reward": Server(
            scored, logs / "reward.log", "--runner", "pooling", "--convert", "classify"
        ),
    }
    yield made
    for server in made.values():
        server.stop()


@pytest.fixture(scope="session")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where `engine` leaves what it compiles."""
    return tmp_path_factory.mktemp("compiled")


@pytest.fixture(scope="session")
def engine(servers: Any, checkpoint: Path, session: Session, compiled: Path) -> Iterator[Any]:
    from bon.engines import build

    with patch.dict(os.environ, TORCHINDUCTOR_CACHE_DIR=str(compiled)):
        built = build(
            "vllm", {"model": str(checkpoint), "max_pixels": MAX_PIXELS, "engine_args": FLAGS}
        )
    yield built
    session.run(built.close())


@pytest.fixture(scope="session")
def rewarder(servers: Any, scored: Path, session: Session) -> Iterator[Any]:
    from bon.engines import build

    built = build(
        "vllm",
        {"model": str(scored), "task": "reward", "max_pixels": MAX_PIXELS, "engine_args": FLAGS},
    )
    yield built
    session.run(built.close())


@pytest.fixture(scope="session")
def client(servers: dict[str, Server], session: Session) -> Iterator[Any]:
    yield from _client(servers["generate"], session)


@pytest.fixture(scope="session")
def reward_client(servers: dict[str, Server], session: Session) -> Iterator[Any]:
    yield from _client(servers["reward"], session)


def _client(server: Server, session: Session) -> Iterator[Any]:
    from bon.engines import build

    built = build(
        "openai",
        {"base_url": server.url, "model": "tiny", "api_key_env": None, "endpoint": "vllm"},
    )
    yield built
    session.run(built.close())
