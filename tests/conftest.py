"""Small experiments that need no model, in the form a user writes them; one Ray and one browser."""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

if find_spec("hypothesis"):  # vLLM's environment has none
    from hypothesis import HealthCheck, settings

    slow = [HealthCheck.too_slow]
    settings.register_profile("any machine", deadline=None, suppress_health_check=slow)
    settings.load_profile("any machine")

Make = Callable[..., dict[str, Any]]


@pytest.fixture
def make_experiment(tmp_path: Path) -> Make:
    """Writes questions and pairs into tmp_path and returns an echo experiment over them."""

    def make(questions: int = 12, pairs: int = 9, **overrides: Any) -> dict[str, Any]:
        write_questions(tmp_path / "questions.jsonl", questions)
        write_pairs(tmp_path / "pairs.jsonl", pairs)
        return {**echo_experiment(), **overrides}

    return make


def echo_experiment(**engine: Any) -> dict[str, Any]:
    """One policy and a rewarder of each kind, all on the echo engine, sharing one actor."""
    common = {"engine": "echo", "placement": {"group": "all"}}
    verdict = "Overall Judgment: Answer {choice} is better."
    return {
        "name": "echo",
        "questions": {"benchmark": "multiple_choice", "path": "questions.jsonl"},
        "pairs": [{"benchmark": "preference", "path": "pairs.jsonl"}],
        "policies": [
            {
                **common,
                "name": "policy",
                "prompt": "bare",
                "n": 4,
                "engine_args": {"accuracy": 0.5, **engine},
            }
        ],
        "rewarders": [
            {
                **common,
                "name": "judge",
                "kind": "pairwise",
                "prompt": {"text": "{{ prompt }}|{{ first }}|{{ second }}"},
                "verdict": {"pattern": r"Overall Judgment: Answer (\d) is better"},
                "engine_args": {"accuracy": 0.9, "reply": verdict, **engine},
            },
            {
                **common,
                "name": "critic",
                "kind": "pointwise",
                "prompt": {"text": "{{ prompt }}|{{ response }}"},
                "score": {"yes": ["Yes"], "no": ["No"]},
                "engine_args": {"accuracy": 0.8, "reply": "{choice}", **engine},
            },
            {
                **common,
                "name": "head",
                "kind": "scalar",
                "engine_args": {"accuracy": 0.7, **engine},
            },
        ],
    }


def write_questions(path: Path, count: int) -> None:
    """Questions whose answer is always the option in place i % 5."""
    with path.open("w", encoding="utf-8") as file:
        for i in range(count):
            options = [str(2 * i + shift) for shift in range(5)]
            row = {
                "id": f"q{i}",
                "question": f"What is {i} + {i}?",
                "options": options,
                "answer": "ABCDE"[i % 5],
                "subject": ("Arithmetic", "Art")[i % 2],
                "difficulty": ("Easy", "Medium", "Hard")[i % 3],
            }
            file.write(json.dumps(row) + "\n")


def write_pairs(path: Path, count: int) -> None:
    """Preference pairs in three groups."""
    with path.open("w", encoding="utf-8") as file:
        for i in range(count):
            row = {
                "id": f"p{i}",
                "prompt": f"Describe picture {i}.",
                "chosen": f"It shows {i} apples.",
                "rejected": f"It shows {i + 1} {'very ' * (i % 4)}large apples.",
                "group": ("general", "hallucination", "reasoning")[i % 3],
            }
            file.write(json.dumps(row) + "\n")


# ------------------------------------------------------------------ a Ray


@pytest.fixture(scope="session")
def ray_address() -> Iterator[str]:
    """One local Ray for the session (or a running one), apart from this process."""
    if address := os.environ.get("BON_TEST_RAY"):
        yield address
        return
    command, root = [sys.executable, "-m", "tests.ray_process"], Path(__file__).parents[1]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=root, stdin=pipe, stdout=pipe, text=True) as process:
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        assert address, "Ray did not start"
        yield address
        process.communicate()


@pytest.fixture(scope="module")
def one_ray(ray_address: str) -> Iterator[str]:
    """This process is connected to the session's Ray: the runner uses the one it finds."""
    import ray

    ray.init(address=ray_address, log_to_driver=False)
    yield ray_address
    ray.shutdown()


@pytest.fixture
def commands_on_one_ray(ray_address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the test starts as processes of their own runs on the session's Ray."""
    monkeypatch.setenv("BON_RAY_ADDRESS", ray_address)


WEIGHTS = {"slow": 30, "ray": 10, "browser": 5, "model": 3}


def pytest_configure() -> None:
    """Hear Ctrl-C, as in a terminal: a shell's background ignores it, and all that it starts."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Of several processes none is left with a long file at the end: those go first."""
    if not hasattr(config, "workerinput"):
        return
    weights: dict[str, dict[str, int]] = {}
    for item in items:
        file, _, name = item.nodeid.partition("::")
        marks = {mark.name for mark in item.iter_markers()}
        test = name if "model" in marks else name.partition("[")[0]
        weights.setdefault(file, {})[test] = sum(WEIGHTS.get(mark, 0) for mark in marks)
    cost = {file: sum(tests.values()) for file, tests in weights.items()}
    items.sort(key=lambda item: -cost[item.nodeid.partition("::")[0]])


# ------------------------------------------------------------------ a browser

CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), ""
)


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    """One headless Chromium for a module: beyond it, its event loop is in the way of others."""
    if not CHROMIUM:
        pytest.skip("Chromium is not installed (apt-get install chromium)")
    from playwright.sync_api import expect, sync_playwright

    expect.set_options(timeout=60_000)
    quiet = ("--disable-quic", "--disable-background-networking", "--disable-component-update")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu", *quiet]
        )
        yield browser
        browser.close()


@pytest.fixture
def tab(chromium: Any) -> Iterator[Any]:
    """A tab with cookies of its own; what the page complained about fails the test."""
    complaints: list[str] = []
    page = chromium.new_page()
    page.set_default_timeout(60_000)

    def heard(message: Any) -> None:
        if message.type == "error":
            complaints.append(f"{message.text} {message.location}")

    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("console", heard)
    page.complaints = complaints
    yield page
    page.context.close()
    assert not complaints, complaints


def accessibility_violations(tab: Any) -> list[str]:
    """What axe-core finds on the page with everything unfolded."""
    axe = pytest.importorskip("axe_playwright_python.base", reason="axe-core is not installed")
    tab.evaluate("document.querySelectorAll('details').forEach((d) => { d.open = true; })")
    tab.evaluate(axe.AXE_SCRIPT)
    rules = tab.evaluate("axe.run()")["violations"]
    return [f"{rule['id']}: {node['html'][:200]}" for rule in rules for node in rule["nodes"]]


@contextmanager
def expected_complaints(tab: Any, text: str) -> Iterator[None]:
    """What the console may say meanwhile, such as the status of an answer that is an error."""
    before = len(tab.complaints)
    yield
    tab.complaints[before:] = [c for c in tab.complaints[before:] if text not in c]
