"""Answers that rules leave unread, read by a model: asked once, paid, resumed, and measured."""

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from bon.core.errors import BonError
from bon.core.records import Question
from bon.graders import grades_of
from bon.planning.plan import make_plan
from bon.running.reporting import open_run, read_results, report_run
from bon.running.runner import make_sources
from bon.running.start import start
from bon.storage.store import Store
from bon.work.completeness import completeness
from bon.work.reading import reading
from bon.work.setup import prepare
from tests.engines.fake_endpoint import DROPPED, Reply, ordinary, serve

ITEMS = 12
RULES = "The perimeter is {} inches."
NEEDS_A_MODEL = (
    "Adding the sides: 3, 4 and {}, all of them; so {} of these, if I saw that rightly, or so"
)


class Reads:
    """An endpoint that copies the number behind "so" for $1, and answers no more than so many."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.held_after: int | None = None
        self.lock = threading.Lock()

    def __call__(self, number: int, body: dict[str, Any]) -> Reply:
        prompt = body["messages"][-1]["content"]
        prompt = prompt if isinstance(prompt, str) else prompt[-1]["text"]
        with self.lock:
            held = self.held_after is not None and len(self.asked) >= self.held_after
            if not held:
                self.asked.append(prompt)
        while held and self.held_after is not None:
            time.sleep(0.1)
        if held:
            return DROPPED, {}, b""
        found = re.search(r"so (\d+) of these", prompt)
        answer = ordinary(body)
        said = "none given" if found is None else found[1]
        answer["choices"][0]["message"]["content"] = f"It says so.\nAnswer: {said}"
        return 200, {}, answer


@pytest.fixture
def study(tmp_path: Path) -> dict[str, Any]:
    """Per question a response that rules read, two equal ones that they do not, and no answer."""
    rows = [
        {
            "id": f"q{i}", "question": f"What is the perimeter of figure {chr(97 + i)}?",
            "answer": 100 + i, "grader": "number",
            "response": [
                RULES.format(100 + i), *[NEEDS_A_MODEL.format(7, 100 + i + i % 2)] * 2,
                f"I am sorry, figure {chr(97 + i)} has no length that I can see.",
            ],
        }
        for i in range(ITEMS)
    ]  # fmt: skip
    (tmp_path / "free.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return {
        "name": "read",
        "policies": [{"from": "free.jsonl", "name": "theirs", "extractor": "llm"}],
        "rewarders": [{"name": "head", "kind": "scalar", "engine": "echo"}],
        "reading": {
            "name": "reader", "engine": "openai", "model": "small", "kind": "pointwise",
            "cost": {"input_per_million": 0.0, "output_per_million": 100_000.0},
            "sampling": {"temperature": 0.0, "max_tokens": 20},
        },
        "analysis": {"bootstrap": 100},
        "cluster": {"max_error_share": 1.0},
    }  # fmt: skip


def behind(study: dict[str, Any], url: str) -> dict[str, Any]:
    args = {"base_url": url, "api_key_env": None, "retry_wait": 0.0, "retries": 0}
    study["reading"]["engine_args"] = args
    return study


def answers(directory: Path) -> dict[tuple[str, int], str | None]:
    with Store(directory, readonly=True) as store:
        (policy,) = open_run(store).policies
        return {
            (question.id, row.index): grade.answer
            for question in store.questions()
            for rows in [store.candidates(policy.spec, question.key)]
            for row, grade in zip(rows, grades_of(question, rows), strict=True)
        }


def test_judges_wait_for_the_model_that_reads(study, tmp_path):
    """Which answers are equal, and which questions need no judge, is known only then."""
    with Store(tmp_path / "run") as store:
        setup = prepare(behind(study, "http://127.0.0.1:1/v1"), tmp_path)
        start(setup, store, quiet=True)
        sources = {source.stage: source for source in make_sources(setup, store)}
        assert len(sources["read"].take(ITEMS)) == ITEMS
        assert not sources["judge"].take(ITEMS)
        sources["read"].answer(ITEMS, 0.0)
        sources["read"].finished = True  # what no try has answered will not come
        assert len(sources["judge"].take(ITEMS)) == ITEMS


def test_a_model_is_asked_for_what_no_rule_reads_once(study, go, tmp_path):
    reads = Reads()
    with serve(reads) as server:
        experiment = behind(study, server.url)
        assert make_plan(prepare(experiment, tmp_path)).grading[0].to_do <= 4 * ITEMS
        directory = go(experiment)
        assert len(reads.asked) == 2 * ITEMS  # two of four texts are equal, one is read by a rule
        assert not any("perimeter is" in prompt for prompt in reads.asked)
        assert not any("Right answer" in prompt for prompt in reads.asked)
        go(experiment)  # nothing is asked again
        assert len(reads.asked) == 2 * ITEMS
        assert make_plan(prepare(experiment, tmp_path), directory).totals()["calls"] == 0
    found = answers(directory)
    for i in range(ITEMS):
        assert found[f"q{i}", 1] == found[f"q{i}", 2] == str(100 + i + i % 2)
        assert found[f"q{i}", 3] is None
    with Store(directory, readonly=True) as store:
        setup = open_run(store)
        assert setup.reader is not None
        assert completeness(setup, store).complete
        assert store.costs()[setup.reader.spec] == pytest.approx(2 * ITEMS)
        judged = store.count("judgements", "spec = ?", (setup.rewarders[0].spec,))
    assert judged == 3 * ITEMS  # questions all of whose answers matter, read first
    report_run(directory, quiet=True)
    results = read_results(directory)
    (policy,) = results.policies
    assert policy.pass_at_1.value == pytest.approx((1 + 2 * 0.5) / 4)
    assert policy.unparsed.value == pytest.approx(1 / 4)
    assert any("reader" in line for line in results.warnings)
    assert any(cost.model == "reader" for cost in results.costs)


@pytest.mark.ray
@pytest.mark.usefixtures("commands_on_one_ray")
def test_a_killed_run_buys_nothing_twice_and_keeps_to_its_cap(study, tmp_path):
    """The command in a process of its own: stopped by its cap, killed, and brought to its end."""
    reads = Reads()
    with serve(reads) as server:
        run = Command(tmp_path, behind(study, server.url))
        run.study["cluster"]["spending_cap"] = 5.0
        assert run.start().wait(timeout=300)
        assert 1 <= len(reads.asked) <= 5
        before = len(reads.asked)
        run.study["cluster"]["spending_cap"] = 1000.0
        reads.held_after = before + 8
        process = run.start()
        while len(reads.asked) < reads.held_after:
            assert process.poll() is None
            time.sleep(0.1)
        time.sleep(2)  # what was answered has arrived
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        reads.held_after = None
        assert run.start().wait(timeout=300) == 0
        assert len(reads.asked) == len(set(reads.asked)) == 2 * ITEMS
    assert sum(answer is None for answer in answers(tmp_path / "run").values()) == ITEMS


class Command:
    """`bon run` of an experiment in a file."""

    def __init__(self, folder: Path, study: dict[str, Any]) -> None:
        self.folder, self.study = folder, study

    def start(self) -> "subprocess.Popen[bytes]":
        (self.folder / "study.yaml").write_text(yaml.safe_dump(self.study))
        words = [sys.executable, "-m", "bon", "run", "study.yaml", "--out", "run", "--quiet"]
        return subprocess.Popen(words, cwd=self.folder, start_new_session=True)


def test_what_a_rule_reads_is_never_the_model_s(study, go, tmp_path):
    """Rules that read more take the answer back; without the model what it read is unread."""
    with serve(Reads()) as server:
        directory = go(behind(study, server.url))
    assert sum(answer is None for answer in answers(directory).values()) == ITEMS
    study["policies"][0]["extractor"] = "strict"
    del study["reading"]
    go(study)
    assert sum(answer is None for answer in answers(directory).values()) == 3 * ITEMS


def test_what_cannot_read_is_refused(study, tmp_path):
    behind(study, "http://localhost:1/v1")

    def error(**changes: Any) -> str:
        with pytest.raises(BonError) as caught:
            prepare({**study, **changes}, tmp_path)
        return str(caught.value)

    assert "needs a model that reads" in error(reading=None)
    policy = {**study["policies"][0], "extractor": "strict"}
    assert "no policy has its answers read" in error(policies=[policy])
    named = {**study["rewarders"][0], "name": "reader"}
    assert "'reader' is used 2 times" in error(rewarders=[named])


@pytest.mark.parametrize(
    ("grader", "response", "reply", "read"),
    [
        ("number", "Some 18 inches, or so I think.", "Answer: 18 inches", "18 inches"),
        ("number", "It has 1,250 in all, not 12.", "Answer: 1250", "1250"),
        ("number", "Add 3 to 15.", "Answer: 18", None),
        ("number", "We get 118, I guess?", "Answer: 18", None),
        ("number", "We get -18, if not more", "Answer: 18", None),
        ("number", "I cannot tell", "Answer: none given", None),
        ("exact", "I bet on the Eiffel  Tower", "So:\nAnswer: Eiffel Tower", "Eiffel Tower"),
        ("exact", "I bet on that tower", "Answer: Eiffel Tower", None),
        ("exact", "I bet on that tower", "It is that tower, or another", None),
    ],
)  # fmt: skip
def test_a_reading_is_a_copy(grader: str, response: str, reply: str, read: str | None):
    question = Question("k", "q", "d", "How much?", (), "1", meta={"grader": grader})
    assert reading(question, response, reply) == read


def test_a_letter_need_not_be_in_the_response():
    question = Question("k", "q", "d", "Which?", ("a cat", "a dog"), "A")
    assert reading(question, "Clearly the feline one", "It says a cat.\nAnswer: A") == "A"
    assert reading(question, "Clearly the feline one", "Answer: none given") is None
    assert reading(question, "Clearly the feline one", "Answer: C") is None
