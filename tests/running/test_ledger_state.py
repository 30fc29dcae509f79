"""A ledger and a dataset that are not as the run left them, and what counts as billed."""

import asyncio
import json
import os
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from bon.commands.main import app
from bon.core import ledger as ledgers
from bon.core.errors import BonError
from bon.core.ledger import LEDGER, Ledger, Reservation, spent_by_spec
from bon.dispatch.worker import Host
from bon.running.runner import make_sources
from bon.running.start import start
from bon.storage.store import Store
from bon.work.setup import prepare
from tests.conftest import echo_experiment, write_questions
from tests.engines.fake_endpoint import Billing, serve
from tests.running.test_caps import paid_experiment, run_it


def bon(*arguments: object) -> subprocess.CompletedProcess[str]:
    """Run the real command in a process of its own."""
    command = [sys.executable, "-m", "bon", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, env=os.environ)


def foreign(path: Path) -> None:
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE spent (a, b, c)")
    db.close()


DAMAGED = {
    "garbage": lambda path: path.write_bytes(os.urandom(8192)),
    "cut": lambda path: path.write_bytes(path.read_bytes()[: path.stat().st_size // 2 + 100]),
    "a folder": lambda path: (path.unlink(), path.mkdir()),
    "a foreign schema": lambda path: (path.unlink(), foreign(path)),
}


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    """A run directory with one row, a ledger of some pages, and nothing else."""
    with Store(tmp_path / "run"):
        pass
    ledger = Ledger(tmp_path / "run" / LEDGER)
    ledger.carry({(f"m{i}", f"spec {i}"): 1.0 for i in range(2000)})
    ledger.close()
    return tmp_path / "run"


@pytest.mark.parametrize("kind", DAMAGED)
def test_a_damaged_ledger_is_one_line_with_a_fix_everywhere(kept: Path, kind: str) -> None:
    DAMAGED[kind](kept / LEDGER)
    for use in (Ledger, spent_by_spec):
        with pytest.raises(BonError) as caught:
            use(kept / LEDGER)
        assert "\n" not in str(caught.value)
        assert " -> " in str(caught.value)
        assert str(kept / LEDGER) in str(caught.value)
    examined = CliRunner().invoke(app, ["doctor", str(kept)])
    assert examined.exit_code == 3
    assert "damage: none" not in examined.stdout
    repaired = json.loads(
        CliRunner().invoke(app, ["doctor", str(kept), "--repair", "--json"]).stdout
    )
    assert (Path(repaired["backup"]) / LEDGER).exists()
    assert CliRunner().invoke(app, ["doctor", str(kept)]).exit_code == 0


def test_a_ledger_that_another_process_holds_is_one_line(
    kept: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ledgers, "BUSY_SECONDS", 0.1)
    holder = sqlite3.connect(kept / LEDGER)
    holder.execute("BEGIN EXCLUSIVE")
    with pytest.raises(BonError, match="locked -> end the process that holds it"):
        Ledger(kept / LEDGER)
    holder.close()
    (kept / LEDGER).write_bytes(b"")
    for ending in ("-wal", "-shm"):
        (kept / f"{LEDGER}{ending}").unlink(missing_ok=True)
    Ledger(kept / LEDGER).close()  # of zero bytes: nothing is lost


@pytest.mark.ray
@pytest.mark.usefixtures("one_ray", "commands_on_one_ray")
def test_a_run_on_a_damaged_ledger_is_refused_before_anything_is_bought(tmp_path: Path) -> None:
    billing = Billing()
    write_questions(tmp_path / "questions.jsonl", 2)
    with serve(billing) as server:
        raw = paid_experiment(server.url, 3, None)
        run_it(tmp_path, raw)
        bill = billing.bill
        for part in (tmp_path / "run").glob(f"{LEDGER}*"):
            part.unlink()
        (tmp_path / "run" / LEDGER).write_bytes(os.urandom(8192))
        result = bon("run", tmp_path / "experiment.yaml", "--out", tmp_path / "run")
    assert result.returncode == 2
    assert "Traceback" not in result.stderr
    assert "is not a database" in result.stderr
    assert billing.bill == bill


def test_a_full_disk_refuses_what_it_cannot_reserve(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / LEDGER, cap=1e6)

    async def fill() -> str:
        for number in range(100_000):
            request = Reservation("m", f"spec {number} {'x' * 200}", 1.0)
            refusal = await ledger.reserve(request)
            if refusal:
                return refusal
            await ledger.settle(request.id, 1.0, {request.id: "y" * 300})
        raise AssertionError

    ledger._db.execute("PRAGMA max_page_count = 40")
    assert "is full -> free space and run the same command" in asyncio.run(fill())
    known = sum(spent_by_spec(tmp_path / LEDGER).values())
    ledger.close()
    later = Ledger(tmp_path / LEDGER)  # what could not be settled stays spent
    assert known <= later.committed() <= known + 1
    later.close()


def test_every_image_of_a_ledger_after_a_power_loss_counts_what_was_asked(tmp_path: Path) -> None:
    """A request goes out after its reservation is on the disk: images from then on have it."""
    path = tmp_path / LEDGER
    ledger = Ledger(path, cap=50)
    sizes: list[tuple[int, int]] = []  # the log's bytes and the requests sent by then

    async def buy() -> None:
        for number in range(40):
            request = Reservation("m", "spec", 1.0)
            assert await ledger.reserve(request) == ""
            sizes.append((path.with_name(f"{LEDGER}-wal").stat().st_size, number + 1))
            if number % 3 != 1:
                await ledger.settle(request.id, 1.0, {f"k{number}": "reply"})

    asyncio.run(buy())
    log = path.with_name(f"{LEDGER}-wal").read_bytes()
    image = tmp_path / "image" / LEDGER
    image.parent.mkdir()
    frame = 24 + 4096  # a page with its header; SQLite leaves out one that is not whole
    for length in sorted({*range(0, len(log), frame), *(size for size, _ in sizes), len(log)}):
        shutil.copy2(path, image)
        image.with_name(f"{LEDGER}-wal").write_bytes(log[:length])
        image.with_name(f"{LEDGER}-shm").unlink(missing_ok=True)
        after = Ledger(image)
        sent = max((count for size, count in sizes if size <= length), default=0)
        assert after.committed() >= sent
        assert after.committed() <= 40
        after.close()
        for ending in ("", "-wal"):
            image.with_name(f"{LEDGER}{ending}").unlink(missing_ok=True)
    ledger.close()


@pytest.mark.parametrize("hours", [-48, 48])
def test_a_clock_that_jumps_frees_no_money(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hours: int
) -> None:
    ledger = Ledger(tmp_path / LEDGER, cap=5)

    async def buy() -> list[str | None]:
        first = Reservation("m", "spec", 3.0)
        assert await ledger.reserve(first) == ""
        now = ledgers.time.time()
        monkeypatch.setattr(ledgers.time, "time", lambda: now + 3600 * hours)
        answers = [await ledger.reserve(Reservation("m", "spec", 3.0))]
        await ledger.settle(first.id, 1.0)
        return [*answers, await ledger.reserve(Reservation("m", "spec", 3.0))]

    waiting, granted = asyncio.run(buy())
    assert waiting is None or "$3 spent" in waiting
    assert granted == ""
    ledger.close()


def test_a_dataset_that_lost_rows_is_refused(tmp_path: Path) -> None:
    raw = echo_experiment() | {"pairs": [], "rewarders": []}
    write_questions(tmp_path / "questions.jsonl", 30)
    with Store(tmp_path / "run") as store:
        start(prepare(raw, tmp_path), store, quiet=True)
        data = (tmp_path / "questions.jsonl").read_bytes()
        (tmp_path / "questions.jsonl").write_bytes(data[: len(data) // 5])
        with pytest.raises(BonError, match=r"of the 30 questions of .* are left .* --replace"):
            start(prepare(raw, tmp_path), store, quiet=True)
        assert store.count("questions", "active > 0") == 30
        start(prepare(raw | {"questions": raw["questions"] | {"limit": 4}}, tmp_path), store)
        assert store.count("questions", "active > 0") == 4
        start(prepare(raw, tmp_path), store, quiet=True, replace=True)


# -- what is counted -----------------------------------------------------------------------


def test_a_cap_on_what_has_no_price_is_refused(tmp_path: Path) -> None:
    raw = paid_experiment("http://127.0.0.1:9/v1", 5, None)
    write_questions(tmp_path / "questions.jsonl", 2)
    del raw["policies"][0]["cost"]
    (tmp_path / "experiment.yaml").write_text(yaml.safe_dump(raw))
    for command in ("plan", "run"):
        result = CliRunner().invoke(app, [command, str(tmp_path / "experiment.yaml")])
        assert "cannot count what card 'paid' costs, which has no price -> add cost:" in str(
            result.exception
        )
    raw = paid_experiment("http://127.0.0.1:9/v1", None, 5)
    raw["policies"][0]["cost"] = "about ten dollars"
    with pytest.raises(BonError, match="spending_cap without a price -> add cost:"):
        prepare(raw, tmp_path)


@pytest.mark.parametrize("priced_first", [True, False])
def test_cards_that_share_a_model_keep_their_own_prices(tmp_path: Path, priced_first: bool) -> None:
    billing = Billing(lambda *_: "ok")
    write_questions(tmp_path / "questions.jsonl", 2)
    with serve(billing) as server:
        raw = paid_experiment(server.url, 100, None)
        (card,) = raw["policies"]
        card["placement"] = {"group": "one"}
        free = card | {"name": "free", "cost": dict.fromkeys(card["cost"], 0), "prompt": "cot"}
        raw["policies"] = [card, free] if priced_first else [free, card]
        setup = prepare(raw, tmp_path)
        with Store(tmp_path / "run") as store:
            start(setup, store, quiet=True)
            host = Host(setup.specs(), ledger=Ledger(tmp_path / LEDGER, 100))

            async def work() -> dict[str, float]:
                costs = {}
                for source in make_sources(setup, store):
                    if source.stage == "generate":
                        reply = await host.run(source.model, source.take(2))
                        costs[source.model] = sum(row.cost for row in reply.candidates)
                await host.close()
                return costs

            assert asyncio.run(work()) == {"paid": 6.0, "free": 0.0}
    assert sum(spent_by_spec(tmp_path / LEDGER).values()) == 6.0


def test_cards_equal_but_for_their_name_buy_once(tmp_path: Path) -> None:
    write_questions(tmp_path / "questions.jsonl", 2)
    raw: Any = paid_experiment("http://127.0.0.1:9/v1", None, None)
    raw["policies"].append(raw["policies"][0] | {"name": "twin"})
    raw["policies"].append(raw["policies"][0] | {"name": "longer", "n": 5})
    setup = prepare(raw, tmp_path)
    with Store(tmp_path / "run") as store:
        start(setup, store, quiet=True)
        sources = make_sources(setup, store)
        generating = [source.model for source in sources if source.stage == "generate"]
    assert generating == ["paid", "longer"]
