"""One whole experiment: its policy is a vLLM engine on a Ray actor, its rewarders are served."""

import json
import os
import signal
import threading
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import psutil
import pytest

found = find_spec("vllm")
if found is None or found.origin is None:  # a folder of that name is not the package
    pytest.skip("vllm is not installed: see tests/vllm/run.sh", allow_module_level=True)

from tiny_checkpoint import image  # noqa: E402

from bon.running.runner import run  # noqa: E402
from bon.storage.store import Store  # noqa: E402
from bon.work.setup import prepare  # noqa: E402

pytestmark = [
    pytest.mark.model,
    pytest.mark.ray,
    pytest.mark.slow,
    pytest.mark.timeout(1800),
]


def test_from_questions_to_report(
    tmp_path: Path,
    checkpoint: Path,
    servers: dict[str, Any],
    flags: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _write(tmp_path)
    # Its Ray has vLLM listen on loopback, or the run would be refused.
    monkeypatch.delenv("VLLM_HOST_IP")
    served = {
        name: {
            "model": "tiny",
            "engine": "openai",
            "engine_args": {"base_url": server.url, "api_key_env": None, "endpoint": "vllm"},
        }
        for name, server in servers.items()
    }
    experiment = {
        **_experiment(checkpoint, flags, temperature=1.0, max_tokens=12),
        "pairs": [
            {"benchmark": "preference", "path": "pairs.jsonl", "columns": {"image": "image"}}
        ],
        "rewarders": [
            {
                **served["generate"],
                "name": "judge",
                "kind": "pairwise",
                "prompt": {"text": "{{ prompt }} 1. {{ first }} 2. {{ second }}"},
                "verdict": {"pattern": r"Overall Judgment: Answer (\d) is better"},
                "sampling": {"temperature": 0.0, "max_tokens": 8},
            },
            {**served["reward"], "name": "head", "kind": "scalar"},
        ],
        # A random model answers nothing, so all its candidates agree: judge them all the same.
        "judging": {"skip": "nothing"},
    }
    report = run(prepare(experiment, tmp_path), tmp_path / "run", quiet=True)
    assert report.exists()
    with Store(tmp_path / "run", readonly=True) as store:
        candidates = store.query("SELECT question, text, outcome, logprob FROM candidates")
        judgements = store.query("SELECT rewarder, outcome, score, error FROM judgements")
        assert not store.meta("failed")
    assert len(candidates) == 4 * 4
    assert len({text for _, text, *_ in candidates}) > 12  # all four samples of a question came
    assert all(logprob < 0 for *_, logprob in candidates)
    heads = [row for row in judgements if row[0] == "head"]
    judges = [row for row in judgements if row[0] == "judge"]
    assert heads
    assert judges
    assert {outcome for _, outcome, *_ in heads} == {"scored"}
    assert all(isinstance(score, float) for _, _, score, _ in heads)
    # What a random model writes is no verdict; nothing else is wrong with it.
    assert {outcome for _, outcome, *_ in judges} <= {"first", "second", "unparsed"}
    assert all(error for _, outcome, _, error in judges if outcome == "unparsed")


def _write(folder: Path) -> None:
    """Four questions and three pairs, each with an image."""
    with (folder / "questions.jsonl").open("w") as file:
        for i in range(4):
            (folder / f"q{i}.png").write_bytes(image(i).data)
            row = {"id": f"q{i}", "question": f"What is in picture {i}?", "answer": "AB"[i % 2],
                   "options": ["circle", "square"], "image": f"q{i}.png"}  # fmt: skip
            file.write(json.dumps(row) + "\n")
    with (folder / "pairs.jsonl").open("w") as file:
        for i in range(3):
            (folder / f"p{i}.png").write_bytes(image(10 + i).data)
            row = {"id": f"p{i}", "prompt": "Describe it.", "chosen": "A red circle.",
                   "rejected": f"{i} squares.", "image": f"p{i}.png"}  # fmt: skip
            file.write(json.dumps(row) + "\n")


def _experiment(checkpoint: Path, flags: dict[str, Any], **sampling: float) -> dict[str, Any]:
    """An experiment whose policy is on vLLM."""
    columns = {"image": "image"}
    policy = {
        "name": "policy", "model": str(checkpoint), "engine": "vllm", "prompt": "bare", "n": 4,
        "engine_args": {"engine_args": flags}, "sampling": sampling,
    }  # fmt: skip
    return {
        "name": "tiny",
        "questions": {
            "benchmark": "multiple_choice",
            "path": "questions.jsonl",
            "columns": columns,
        },
        "policies": [policy],
        "analysis": {"bootstrap": 100},
    }


def engine_cores() -> set[int]:
    """The processes that vLLM calls EngineCore."""
    titles = ((p.pid, " ".join(p.info["cmdline"] or ())) for p in psutil.process_iter(["cmdline"]))
    return {pid for pid, title in titles if "EngineCore" in title}


@pytest.mark.long
def test_a_killed_engine_core_changes_no_result(
    tmp_path: Path, checkpoint: Path, flags: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """`kill -9` of vLLM's EngineCore: it stored errors, counted as wrong, with exit code 0."""
    _write(tmp_path)
    monkeypatch.delenv("VLLM_HOST_IP")
    # Long enough to be killed amid a question, and the same text in any batch.
    experiment = _experiment(checkpoint, flags, temperature=0.0, max_tokens=256)
    experiment["cluster"] = {"batch": 1, "in_flight": 1}
    killed: list[int] = []
    before = engine_cores()  # those of other tests' servers

    def kill(deadline: float) -> None:
        """Kill the first EngineCore once a candidate is stored."""
        while not killed and time.monotonic() < deadline:
            cores = engine_cores() - before
            if cores and (tmp_path / "killed" / "run.sqlite").exists():
                with Store(tmp_path / "killed", readonly=True) as store:
                    if store.has("candidates"):
                        killed.append(min(cores))
                        os.kill(killed[0], signal.SIGKILL)
            time.sleep(0.05)

    found = {}
    for out in ("whole", "killed"):
        hunter = threading.Thread(target=kill, args=(time.monotonic() + 900,), daemon=True)
        if out == "killed":
            hunter.start()
        run(prepare(experiment, tmp_path), tmp_path / out, quiet=True)
        with Store(tmp_path / out, readonly=True) as store:
            found[out] = store.query("SELECT key, text, outcome FROM candidates ORDER BY key")
            assert not store.meta("failed")
    assert killed
    assert len(found["killed"]) == 4 * 4
    assert not [row for row in found["killed"] if row[2] == "error"]
    assert found["killed"] == found["whole"]
