"""`serve:`: the server that bon starts for a card, with a small one in the place of vLLM's."""

import asyncio
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from bon.core.errors import BonError
from bon.core.sampling import Sampling
from bon.engines import build
from bon.engines.base import GenerateRequest, Message
from bon.engines.endpoints import server as served
from bon.experiment.cards import load_rewarder, settings_of
from bon.planning.model_sizes import fit_of
from bon.work.stored_models import unpinned

STUB = Path(__file__).with_name("stub_server.py")


def settings(folder: Path, **more: Any) -> dict[str, Any]:
    command = [sys.executable, str(STUB), str(folder)]
    values = {"model": "org/m", "serve": "vllm", "serve_command": command, "retry_wait": 0.05}
    return values | {"log": str(folder / "servers" / "card.log")} | more


def ask(text: str) -> GenerateRequest:
    return GenerateRequest((Message("user", (text,)),), Sampling(max_tokens=9), (1, 2))


def starts(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "starts").read_text().splitlines()]


def gone(pid: int) -> bool:
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        if not psutil.pid_exists(pid) or psutil.Process(pid).status() == "zombie":
            return True
        time.sleep(0.05)
    return False


def test_a_server_is_started_restarted_after_a_crash_and_ended(tmp_path: Path) -> None:
    flags = {"max_model_len": 512, "enforce_eager": True, "enable_prefix_caching": False,
             "limit_mm_per_prompt": {"image": 7}}  # fmt: skip
    engine = build("openai", settings(tmp_path, revision="abc", engine_args=flags))

    async def talk() -> list[Any]:
        texts = ["one", "two", "please die", "three"]
        generations = await asyncio.gather(*(engine.generate(ask(text)) for text in texts))
        await engine.close()
        return list(generations)

    with pytest.warns(UserWarning, match="vllm server of org/m ended with code 9: restarted"):
        generations = asyncio.run(talk())
    assert {len(each.samples) for each in generations} == {2}
    first, second = starts(tmp_path)
    assert first["arguments"] == second["arguments"]  # the port too: the address stays
    command = " ".join(first["arguments"])
    assert command.startswith("--model org/m --generation-config vllm --max-model-len 512 ")
    assert '--limit-mm-per-prompt {"image": 7} --enforce-eager --no-enable-prefix-cach' in command
    assert " --revision abc --host 127.0.0.1 --port " in command
    assert gone(first["pid"])
    assert gone(second["pid"])
    assert (tmp_path / "servers" / "card.log").read_text() == "loading org/m\n" * 2
    assert engine.info()["server"][3:5] == ["--model", "org/m"]


def test_a_server_that_does_not_start_shows_its_log(tmp_path: Path) -> None:
    (tmp_path / "broken").touch()
    with pytest.raises(BonError) as caught:
        build("openai", settings(tmp_path))
    line = str(caught.value)
    assert "ended with code 1 before it was ready: loading org/m | ValueError: no such" in line
    assert line.endswith(f"see {tmp_path}/servers/card.log")
    assert "\n" not in line


def test_a_server_that_crashes_again_and_again_stops_the_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(served, "RESTARTS", 0)
    engine = build("openai", settings(tmp_path))

    async def talk() -> None:
        try:
            await engine.generate(ask("die"))
        finally:
            await engine.close()

    with pytest.raises(BonError, match="ended 1 times, the last with code 9"):
        asyncio.run(talk())


def test_a_killed_worker_leaves_no_server(tmp_path: Path) -> None:
    code = (
        "import json, sys; from bon.engines import build; "
        "build('openai', json.loads(sys.argv[1])); print('up', flush=True); sys.stdin.read()"
    )
    worker = subprocess.Popen(
        [sys.executable, "-c", code, json.dumps(settings(tmp_path))],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=os.environ | {"PYTHONPATH": "."},
        cwd=Path(__file__).parents[2],
    )  # fmt: skip
    assert worker.stdout is not None
    assert worker.stdout.readline() == b"up\n"
    worker.kill()
    worker.communicate()
    assert gone(starts(tmp_path)[0]["pid"])


CARD = {
    "name": "served", "kind": "pairwise", "engine": "openai", "model": "org/m", "size": 8e9,
    "kv_bytes": 57_344, "prompt": "pairwise",
    "verdict": {"pattern": "Overall Judgment: Answer ([12]) is better"},
    "engine_args": {"serve": "vllm", "engine_args": {"max_model_len": 8192}},
}  # fmt: skip


def test_a_served_model_is_planned_and_shares_a_gpu() -> None:
    whole = load_rewarder(CARD | {"placement": {"gpus": 1}}, Path())
    half = load_rewarder(CARD | {"placement": {"gpus": 0.5}}, Path())
    assert unpinned([whole]) == [whole]
    assert whole.spec == half.spec
    fits, shares = fit_of(whole), fit_of(half)
    assert fits is not None
    assert shares is not None
    assert fits.gpus["24 GB"] == "fits" != shares.gpus["24 GB"]
    assert shares.gpus["48 GB"] == "fits"
    shared, alone = (
        settings_of(loaded, remote_code=False).model_dump(exclude_unset=True)["engine_args"]
        for loaded in (half, whole)
    )
    assert shared == {"gpu_memory_utilization": 0.45, "max_model_len": 8192}
    assert "gpu_memory_utilization" not in alone
    sglang = CARD | {"engine_args": {"serve": "sglang"}, "placement": {"gpus": 0.5}}
    settings: Any = settings_of(load_rewarder(sglang, Path()), remote_code=False)
    assert settings.engine_args.mem_fraction_static == 0.45
