"""Verdicts on items are what the run's rewarders said about these candidates, and nothing else."""

import shutil

import numpy as np
import pytest

from bon.core.errors import BonError
from bon.curating.item_judgements import credits, verdicts
from bon.running.reporting import open_run
from bon.storage.store import Store
from tests.curating.items_of_run import bench_of, every_pair, missing
from tests.running.conftest import change

WORTH = {"first": 1.0, "second": 0.0, "tie": 0.5}
NAMES = ["judge", "critic", "weak-critic", "head", "lister"]


def expected(run, items):
    """(item, rewarder, order) -> credit, one judgement at a time."""
    found = {}
    with Store(run, readonly=True) as store:
        for loaded in open_run(store).rewarders:
            for item in items:
                said = store.judgements(loaded.spec, item.question)
                right, wrong = item.better, 1 - item.better
                keys = [item.text_keys[right], item.text_keys[wrong]]
                scores = {row.first: row.score for row in said if row.outcome == "scored"}
                label = (item.key, loaded.card.name)
                if set(keys) <= set(scores):
                    a, b = scores[keys[0]], scores[keys[1]]
                    found[*label, ""] = 1.0 if a > b else 0.0 if a < b else 0.5
                for row in said:
                    if row.second is not None and {row.first, row.second} == set(keys):
                        worth = WORTH[row.outcome]
                        first = row.first == keys[0]
                        order = f"{right}-{wrong}" if first else f"{wrong}-{right}"
                        found[*label, order] = worth if first else 1 - worth
                    elif set(keys) <= set(row.shown) and row.first in keys:
                        places = sorted(
                            (0, 1), key=lambda place: row.shown.index(item.text_keys[place])
                        )
                        found[*label, "{}-{}".format(*places)] = float(row.first == keys[0])
    return found


def test_they_are_those_of_the_run(judged, tmp_path):
    items = every_pair(judged)
    bench = bench_of(judged, items, tmp_path)
    frame = verdicts(bench)
    found = {
        (row.item, row.rewarder, row.order): row.credit for row in frame.itertuples(index=False)
    }
    assert found == expected(judged, items)
    assert set(frame["rewarder"]) == set(NAMES)
    assert set(frame.loc[frame["rewarder"] == "judge", "order"]) == {"0-1", "1-0"}
    assert missing(bench)["judge"] == missing(bench)["head"] == 0
    assert 0 < missing(bench)["lister"] < len(items)  # it chose another one of those shown
    whole = credits(bench)
    assert whole.index.tolist() == [item.key for item in items]
    mean = frame[frame["rewarder"] == "judge"].groupby("item")["credit"].mean()
    assert np.array_equal(whole["judge"], np.sign(mean.loc[whole.index] - 0.5) / 2 + 0.5)


def test_what_was_not_asked_or_not_read_is_seen(judged, tmp_path):
    run = tmp_path / "run"
    shutil.copytree(judged, run)
    items = every_pair(run)
    item = items[0]
    bench = bench_of(run, items, tmp_path / "bench")
    change(run, "DELETE FROM judgements WHERE item = ? AND rewarder = 'head'", item.question)
    change(
        run,
        "UPDATE judgements SET outcome = 'unparsed' WHERE item = ? AND rewarder = 'judge'",
        item.question,
    )
    frame = verdicts(bench)
    mine = frame[frame["item"] == item.key]
    assert "head" not in set(mine["rewarder"])
    assert mine.loc[mine["rewarder"] == "judge", "credit"].isna().tolist() == [True, True]
    assert missing(bench)["head"] == sum(one.question == item.question for one in items)
    assert credits(bench).loc[item.key, ["head", "judge"]].isna().all()


def test_no_items_no_verdicts(judged, tmp_path):
    bench = bench_of(judged, [], tmp_path)
    assert verdicts(bench).empty
    assert credits(bench).empty
    assert missing(bench) == dict.fromkeys(NAMES, 0)


def test_a_rewarder_that_is_asked_in_two_ways_is_refused(judged, tmp_path):
    other = tmp_path / "other"
    shutil.copytree(judged, other)
    change(
        other,
        "UPDATE meta SET value = json_set(value, '$.rewarders[0].prompt.text', 'X {{ prompt }}"
        "{{ first }}{{ second }}') WHERE key = 'experiment'",
    )
    bench = bench_of(judged, every_pair(judged), tmp_path / "bench")
    text = bench.recipe_path.read_text()
    bench.recipe_path.write_text(text.replace("runs:\n", f"runs:\n- {other}\n"))
    with pytest.raises(BonError, match="judge is not prompted the same way in other and in run"):
        verdicts(bench)
