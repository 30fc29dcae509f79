"""Generated histories over every path that buys: what is billed, counted and bought twice.

BON_HISTORIES sets their number (docs/measurements/money.md has 2,000).
"""

import asyncio
import json
import os
import random
import tempfile
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from starlette.testclient import TestClient

from bon.core.errors import BonError
from bon.core.ledger import LEDGER, Ledger, spent_by_spec
from bon.dispatch.worker import Host
from bon.running.rewarder_check import check_rewarder
from bon.running.runner import make_sources
from bon.running.start import start
from bon.running.tally import Tally
from bon.service.app import create_app
from bon.service.server.state import open_service
from bon.service.settings import Settings
from bon.storage.store import Store
from bon.work.setup import Setup, prepare
from tests.conftest import write_questions
from tests.engines.fake_endpoint import Billing, serve

N, ITEMS = 2, 3
TROUBLE = ["fewer", "missing", "negative", "text", "nan", "429", "500", "drop", "402", "quota"]
TROUBLE += ["beside", "float", "absurd", "error", "stream"]
RUN = ["run", "crash", "study", "read", "graded"]
ASSISTED = {"graded": "grading", "read": "reading"}
ROUTES = ["score", "chat", "reward", "crowd", "restart"]
PRICE = {"input_per_million": 0.0, "output_per_million": 100_000.0}


def card(url: str, name: str, **more: Any) -> dict[str, Any]:
    """A model at $1 a completion."""
    args = {"base_url": url, "api_key_env": None, "retry_wait": 0.0, "retries": 1}
    args |= more.pop("args", {})
    sampling = {"temperature": 1.0, "max_tokens": 10}
    common = {"name": name, "engine": "openai", "model": "m", "cost": PRICE, "sampling": sampling}
    return {**common, "engine_args": args, **more}


def judge(url: str, **more: Any) -> dict[str, Any]:
    prompt = {"text": "{{ prompt }}|{{ response }}"}
    score = {"pattern": r"Score: (\d)", "range": [0, 9]}
    return card(url, "judge", kind="pointwise", prompt=prompt, score=score, **more)


def work(setup: Setup, store: Store, ledger_path: Path, cap: float, crash: int | None) -> None:
    """Do a run's work without Ray; a crash loses the replies from there on."""
    ledger = Ledger(ledger_path, cap)
    host, tally = Host(setup.specs(), ledger=ledger), Tally(setup, store, ledger_path)

    async def whole(sources: list[Any]) -> None:
        number = 0
        for source in sources:
            while tasks := source.take(2):
                reply = await host.run(source.model, tasks)
                number += 1
                if crash is not None and number > crash:
                    return
                source.answer(len(tasks), 0.0)
                tally.file(source, reply)
                await ledger.forget(reply.bought)
                if reply.failure:
                    return
            source.finished = True
        await host.close()

    asyncio.run(whole(make_sources(setup, store)))
    store.commit()
    ledger.close()


class Buyers:
    """A run, a server and a check in one folder, each with an endpoint and a bill of its own."""

    def __init__(self, stack: ExitStack, folder: Path, kind: Any, delay: float, cap: int) -> None:
        self.stack, self.folder, self.cap = stack, folder, cap
        self.bills = {name: Billing(kind, text="Score: 7") for name in ("run", "online", "check")}
        self.urls = {
            name: stack.enter_context(serve(bill, delay if name == "online" else 0.0)).url
            for name, bill in self.bills.items()
        }
        self.asked = 0
        write_questions(folder / "questions.jsonl", ITEMS)
        rows = [{"question": f"How many are {i}?", "answer": f"{i} and more"} for i in range(ITEMS)]
        (folder / "free.jsonl").write_text("\n".join(map(json.dumps, rows)))
        self.clients = ExitStack()
        self.client: TestClient | None = None

    def run(self, kind: str, crash: int | None) -> None:
        """Continue the run, or a study in it, each under the run's cap.

        A study may have a model that reads or grades the answers.
        """
        url, run = self.urls["run"], self.folder / "run"
        prompt = {"text": f"{kind}: {{{{ question }}}} {{{{ options }}}}"}
        raw = {
            "name": kind,
            "questions": {"benchmark": "multiple_choice", "path": "questions.jsonl"},
            "policies": [card(url, "policy", prompt=prompt, n=N)],
            "rewarders": [judge(url)],
            "judging": {"skip": "nothing"},
            "cluster": {"spending_cap": self.cap, "max_error_share": 1.0},
        }
        if key := ASSISTED.get(kind):
            raw[key] = {**judge(url), "name": kind, "model": "another"}
            if key == "reading":
                raw["policies"][0]["extractor"] = "llm"
            else:
                raw["questions"] = {
                    "benchmark": "open_ended",
                    "path": "free.jsonl",
                    "grader": "llm",
                }
        setup = prepare(raw, self.folder)
        with Store(run if kind == "run" else run / kind) as store:
            start(setup, store, quiet=True, retry_errors=True)
            work(setup, store, run / LEDGER, self.cap, crash)
        counted, billed = spent_by_spec(run / LEDGER), self.bills["run"].bill
        assert sum(counted.values()) == pytest.approx(billed)
        assert billed <= self.cap
        assert max(self.bills["run"].sold.values(), default=0) <= N

    def check(self) -> None:
        """Ask a rewarder as `bon doctor --rewarder` does; every check has its own limit."""
        path, bill = self.folder / "judge.yaml", self.bills["check"]
        path.write_text(yaml.safe_dump(judge(self.urls["check"])))
        before = bill.bill
        with suppress(BonError, ValueError):  # too little came back to compare
            check_rewarder(str(path), max_cost=self.cap)
        assert bill.bill - before <= self.cap

    @contextmanager
    def serving(self) -> Any:
        """Yield a client of the server, which goes on until it is restarted."""
        if self.client is None:
            url = self.urls["online"]
            args = {"spending_cap": self.cap + 2}
            online = {
                "policies": [card(url, "policy", prompt="bare", n=N, args=args)],
                "rewarders": [judge(url, args=args)],
                "backend": "process",
            }
            limits = {"requests_per_minute": 0, "dollars_per_owner": self.cap, "dollars": 100}
            limits |= {"request_seconds": 0.3}
            made = Settings(
                data=self.folder / "data", miniature=False, auth=False, limits=limits, online=online
            )
            service = self.clients.enter_context(open_service(made))
            service.supervisor.start = service.supervisor.stop = lambda: None  # type: ignore[method-assign]
            client = TestClient(create_app(service), base_url="http://localhost")
            self.client = self.clients.enter_context(client)
        yield self.client

    def route(self, step: str) -> None:
        """Send a request, or twelve at once; each may be cut short by its time limit."""
        if step == "restart":
            self.clients.close()
            self.client = None
            return
        with self.serving() as client, ThreadPoolExecutor(12) as threads:
            numbers = range(self.asked, self.asked + (12 if step == "crowd" else 1))
            self.asked = numbers.stop
            answers = threads.map(lambda i: self.post(client, step, i), numbers)
            assert {answer.status_code for answer in answers} <= {200, 402, 502, 503, 504}
        online = self.bills["online"]
        for _ in range(200):  # what was cut short goes on until it is settled
            counted = sum(spent_by_spec(self.folder / "data" / LEDGER).values())
            if counted == pytest.approx(online.bill):
                break
            time.sleep(0.02)
        assert counted == pytest.approx(online.bill)
        assert online.bill <= self.cap

    def post(self, client: TestClient, step: str, number: int) -> Any:
        said = [{"role": "user", "content": f"What is {number}?"}]
        texts = [f"{number} one", f"{number} two"]
        if step == "chat":
            body: Any = {"model": "bon/policy/judge", "messages": said, "best_of": N}
            return client.post("/v1/chat/completions", json=body)
        if step == "reward":
            rows = [{"prompt": f"What is {number}?", "response": text} for text in texts]
            return client.post("/get_reward?rewarder=judge", json={"samples": rows})
        body = {"rewarder": "judge", "messages": said, "candidates": texts}
        return client.post("/v1/score", json=body)


@given(
    seed=st.integers(0, 2**32),
    trouble=st.floats(0, 0.9),
    cap=st.integers(1, 12),
    slow=st.booleans(),
    steps=st.lists(st.sampled_from([*RUN, *ROUTES, "check"]), min_size=1, max_size=6),
    crash=st.integers(0, 3),
)
@settings(
    max_examples=int(os.environ.get("BON_HISTORIES", "30")),
    deadline=None,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
    suppress_health_check=list(HealthCheck),
)
def test_what_is_billed_is_reserved_and_counted_on_every_path(
    seed: int, trouble: float, cap: int, slow: bool, steps: list[str], crash: int
) -> None:
    drawn = random.Random(seed)

    def kind(*_: Any) -> str:
        return drawn.choice(TROUBLE) if drawn.random() < trouble else "ok"

    with (
        tempfile.TemporaryDirectory() as folder,
        ExitStack() as stack,
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore")
        buyers = Buyers(stack, Path(folder), kind, 0.1 if slow else 0.0, cap)
        stack.callback(lambda: buyers.clients.close())
        for step in steps:
            if step == "check":
                buyers.check()
            elif step in RUN:
                buyers.run("run" if step == "crash" else step, crash if step == "crash" else None)
            else:
                buyers.route(step)
