"""What a changed card, or changed code, computes again in a run that exists: really run, on Ray."""

import json
import os
from pathlib import Path

import pytest

from bon.planning.plan import make_plan
from bon.running.reporting import report_run
from bon.running.runner import run
from bon.storage.store import Store
from bon.work.setup import prepare
from tests.engines.fake_endpoint import serve

pytestmark = [pytest.mark.ray, pytest.mark.usefixtures("one_ray")]

CODE = """
from bon.rewarders.base import Rewarder, Verdict


class Length(Rewarder):
    arity = "one"

    async def judge(self, item, shown, seeds):
        (key,) = shown
        return [Verdict("scored", score={sign}float(len(item.responses[key])))] * len(seeds)
"""


@pytest.fixture
def experiment(make_experiment):
    found = make_experiment(questions=4, pairs=3)
    return {**found, "rewarders": found["rewarders"][2:], "analysis": {"bootstrap": 100}}


def rows(directory: Path):
    with Store(directory, readonly=True) as store:
        return {
            table: store.query(f"SELECT key, spec FROM {table} ORDER BY key")
            for table in ("candidates", "judgements")
        }


def results(directory: Path):
    found = json.loads((directory / "results.json").read_text())
    return {part: found[part] for part in ("rewarders", "benchmarks", "best_of_n", "correlations")}


def of(name, found):
    return [row for part in found.values() for row in part if row.get("rewarder") == name]


def test_money_and_access_buy_nothing_again(experiment, tmp_path):
    out = tmp_path / "run"
    with serve() as server:
        policy = {
            "name": "paid", "model": "m", "engine": "openai", "prompt": "bare", "n": 4,
            "cost": {"input_per_million": 1, "output_per_million": 2},
            "engine_args": {"base_url": server.url, "api_key_env": None, "spending_cap": 5.0},
        }  # fmt: skip
        experiment["policies"] = [policy]
        run(prepare(experiment, tmp_path), out, quiet=True)
        bought, before, found = len(server.bodies), rows(out), results(out)
        assert bought > 0
        report_run(out, quiet=True)  # only read: it shows what it did, and writes nothing down
        assert results(out) == found
        raised = {"spending_cap": 50.0, "retries": 9, "api_key_env": "HOME"}
        policy["engine_args"] |= raised | {"max_concurrency": 2, "timeout": 99}
        changed = prepare(experiment, tmp_path)
        assert make_plan(changed, out).as_dict()["totals"]["calls"] == 0
        run(changed, out, quiet=True)
        assert len(server.bodies) == bought
        assert rows(out) == before
        assert results(out) == found
        # More candidates join those of before; those of before are not asked for again.
        policy["n"] = 6
        run(prepare(experiment, tmp_path), out, quiet=True)
        after = rows(out)["candidates"]
        assert set(after) > set(before["candidates"])
        assert len(after) == 4 * 6
        assert {spec for _, spec in after} == {spec for _, spec in before["candidates"]}


def test_edited_code_judges_again(experiment, tmp_path, capsys):
    out, module = tmp_path / "run", f"length_{os.getpid()}"
    file = tmp_path / f"{module}.py"
    file.write_text(CODE.format(sign="+"))
    mine = {"name": "mine", "kind": "python", "python": f"{module}:Length", "engine": "none"}
    experiment["rewarders"].append(mine)
    run(prepare(experiment, tmp_path), out)
    run(prepare(experiment, tmp_path), out)
    before, first = rows(out), results(out)
    assert "code changed" not in capsys.readouterr().err

    file.write_text(CODE.format(sign="-"))
    report_run(out, quiet=True)  # only read: what was judged, by the code that judged it
    assert results(out) == first
    run(prepare(experiment, tmp_path), out)
    after = rows(out)
    specs = {spec for _, spec in after["judgements"]} - {spec for _, spec in before["judgements"]}
    assert len(specs) == 1
    again = [key for key, spec in after["judgements"] if spec in specs]
    assert f"mine: its card or code changed: {len(again)} judgements are made again\n" in (
        capsys.readouterr().err
    )
    assert len(after["judgements"]) == len(before["judgements"]) + len(again)
    assert of("mine", results(out)) != of("mine", first) != []
    assert of("head", results(out)) == of("head", first) != []

    file.write_text(CODE.format(sign="+"))  # what it judged before comes back into use
    assert make_plan(prepare(experiment, tmp_path), out).as_dict()["totals"]["calls"] == 0
