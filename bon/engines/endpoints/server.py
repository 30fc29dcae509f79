"""A server that bon starts for a card (`serve:`): on loopback, on its worker's GPUs."""

import asyncio
import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator, Mapping
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any

import httpx

from bon.core.errors import BonError
from bon.engines.free_gpu_memory import USABLE, alone_on_gpus, wait_for_room
from bon.engines.settings import OpenAISettings

API_KEY = "VLLM_API_KEY"
"""Environment variable with the key of a vLLM server, which the client reads too."""

READY_SECONDS = 3600.0
RESTARTS = 5
END_SECONDS = 20.0
TAIL = 3
_COMMANDS = {
    "vllm": ("vllm.entrypoints.openai.api_server", "--model"),
    "sglang": ("sglang.launch_server", "--model-path"),
}
# The process group ends when its stdin closes, however the worker that holds it ends.
_GROUP = (
    "exec 3<&0; (trap '' TERM; cat <&3 >/dev/null; kill -TERM 0; "
    f"sleep {END_SECONDS:.0f}; kill -KILL 0) & "
    'exec "$@" 3<&- </dev/null'
)


class Server:
    """The server of one model, restarted after a crash on the same port."""

    def __init__(self, settings: OpenAISettings) -> None:
        """Start it and wait until it answers; BonError with its last lines if it does not."""
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self._root = f"http://127.0.0.1:{port}"
        self.url = f"{self._root}/v1"
        self.command = _command(settings)
        self._place = ["--host", "127.0.0.1", "--port", str(port)]
        self._name = f"the {settings.serve} server of {settings.model}"
        self._log = Path(settings.log or f"{tempfile.mkdtemp(prefix='bon-server-')}/server.log")
        self._log.parent.mkdir(parents=True, exist_ok=True)
        # Ray sets it for workers with GPUs.
        gpus = os.environ.get("CUDA_VISIBLE_DEVICES")
        self._share = (settings.engine_args.gpu_memory_utilization or USABLE) if gpus else 0.0
        self._deaths, self._restarting = 0, asyncio.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        if settings.serve == "vllm":
            os.environ.setdefault(API_KEY, secrets.token_hex(16))
        self._start()

    async def revive(self) -> None:
        """Start the server again if its process has ended."""
        async with self._restarting:
            if self._process is None or (code := self._process.poll()) is None:
                return
            self._deaths += 1
            if self._deaths > RESTARTS:
                raise self._failure(f"ended {self._deaths} times, the last with code {code}")
            warnings.warn(f"{self._name} ended with code {code}: restarted", stacklevel=2)
            self.end()
            await asyncio.to_thread(self._start_again)

    def _start_again(self) -> None:
        with alone_on_gpus() if self._share else nullcontext():
            if self._share:
                wait_for_room(self._share)
            self._start()

    def end(self) -> None:
        """End the server and its children."""
        process, self._process = self._process, None
        if process is None:
            return
        assert process.stdin is not None
        process.stdin.close()
        with suppress(subprocess.TimeoutExpired):
            process.wait(END_SECONDS)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def _start(self) -> None:
        with self._log.open("ab") as log:
            process = self._process = subprocess.Popen(
                ["/bin/sh", "-c", _GROUP, "sh", *self.command, *self._place],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        deadline = time.monotonic() + READY_SECONDS
        try:
            with httpx.Client(trust_env=False, timeout=5) as client:
                while time.monotonic() < deadline:
                    if (code := process.poll()) is not None:
                        raise self._failure(f"ended with code {code} before it was ready")
                    with suppress(httpx.TransportError):
                        if client.get(f"{self._root}/health").is_success:
                            return
                    time.sleep(0.2)
            raise self._failure(f"was not ready within {READY_SECONDS:.0f} s")
        except BaseException:
            self.end()
            raise

    def _failure(self, reason: str) -> BonError:
        lines = map(str.strip, self._log.read_text("utf-8", "replace").splitlines())
        tail = " | ".join(list(filter(None, lines))[-TAIL:])
        return BonError(f"{self._name} {reason}: {tail or 'no output'}", f"see {self._log}")


def _command(settings: OpenAISettings) -> list[str]:
    assert settings.serve is not None
    module, model = _COMMANDS[settings.serve]
    # Requests define sampling; a checkpoint's own defaults must not.
    flags = {"generation_config": "vllm"} if settings.serve == "vllm" else {}
    flags |= settings.engine_args.model_dump(exclude_unset=True)
    flags |= {"revision": settings.revision} if settings.revision else {}
    program = settings.serve_command or [sys.executable, "-m", module]
    return [*program, model, settings.model, *_flags(flags)]


def _flags(values: Mapping[str, Any]) -> Iterator[str]:
    """Write flags given by their Python names for a command line."""
    for name, value in values.items():
        if value is not None:
            yield f"--{'no-' if value is False else ''}{name.replace('_', '-')}"
        if value is not None and not isinstance(value, bool):
            for each in value if isinstance(value, list) else [value]:
                yield json.dumps(each) if isinstance(each, Mapping) else str(each)
