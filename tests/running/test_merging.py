"""Shards of an experiment, merged, are the run that was never split."""

import random
from pathlib import Path

import pytest

from bon.core.errors import BonError
from bon.planning.completeness import completeness
from bon.running.imports.merge import merge_runs, read_shard
from bon.running.reporting import open_run
from bon.storage.store import Store

TABLES = {
    "questions": "key, active, leaked, data",
    "pairs": "key, benchmark, active, leaked, data",
    "bad_rows": "*",
    "candidates": "key, question, spec, text, answer, outcome",
    "judgements": "key, item, first, second, vote, outcome, score, text",
}


def tables(directory: Path) -> dict[str, list[tuple]]:
    with Store(directory, readonly=True) as store:
        return {
            name: sorted(store.query(f"SELECT {columns} FROM {name}"), key=str)
            for name, columns in TABLES.items()
        } | {"leaks": sorted(store.meta("leaks"))}


@pytest.mark.parametrize("parts", [3, 12])
def test_merged_shards_are_the_unsplit_run(go, make_experiment, tmp_path, parts):
    experiment = make_experiment(questions=12, pairs=9)
    experiment["pairs"] = [{**experiment["pairs"][0], "name": name} for name in ("one", "two")]
    (tmp_path / "questions.jsonl").open("a").write('{"id": "torn"}\n')
    whole = go(experiment, out="whole")
    shards = [
        go(experiment, out=f"shard{place}", shard=(place, parts)) for place in range(1, parts + 1)
    ]
    random.Random(parts).shuffle(shards)
    merge_runs(shards, tmp_path / "merged", quiet=True)
    assert tables(tmp_path / "merged") == tables(whole)
    with Store(tmp_path / "merged", readonly=True) as store:
        setup = open_run(store)
        assert completeness(setup, store).complete
        assert store.meta("finished")
    go(experiment, out="merged")  # goes on as the whole
    assert tables(tmp_path / "merged") == tables(whole)


def test_a_missing_shard_is_refused_unless_partial(go, make_experiment, tmp_path):
    experiment = make_experiment()
    shards = [go(experiment, out=f"s{place}", shard=(place, 3)) for place in (1, 3)]
    with pytest.raises(BonError, match="of 3 shards, 2 are missing"):
        merge_runs(shards, tmp_path / "merged", quiet=True)
    merge_runs(shards, tmp_path / "some", partial=True, quiet=True)
    with Store(tmp_path / "some", readonly=True) as store:
        assert [question.id for question in store.questions()] == [
            f"q{i}" for i in range(12) if i % 3 != 1
        ]


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"seed": 1}, "seed is 1, not 0"),
        ({"judging": {"design": "knockout"}}, "judging is"),
        ({"rewarders": []}, "rewarder judge is not there"),
    ],
)
def test_runs_of_other_experiments_are_refused(go, make_experiment, tmp_path, changed, said):
    experiment = make_experiment(questions=3, pairs=2)
    runs = [go(experiment, out="one"), go({**experiment, **changed}, out="two")]
    with pytest.raises(BonError, match=said):
        merge_runs(runs, tmp_path / "merged", quiet=True)


def test_runs_of_other_data_are_refused(go, make_experiment, tmp_path):
    experiment = make_experiment(questions=3, pairs=2)
    one = go(experiment, out="one")
    make_experiment(questions=4, pairs=2)
    with pytest.raises(BonError, match="data of multiple_choice is"):
        merge_runs([one, go(experiment, out="two")], tmp_path / "merged", quiet=True)


def test_what_one_run_failed_at_another_has(go, make_experiment, tmp_path):
    experiment = make_experiment(questions=3, pairs=2)
    runs = [go(experiment, out="one"), go(experiment, out="two")]
    with Store(runs[0]) as store:
        store.db.execute("UPDATE judgements SET outcome = 'error', text = ''")
    merge_runs(runs, tmp_path / "merged", quiet=True)
    assert tables(tmp_path / "merged") == tables(runs[1])
    with pytest.raises(BonError, match="holds a run already"):
        merge_runs(runs, tmp_path / "merged", quiet=True)


def test_a_shard_is_gone_on_with_as_that_shard(go, make_experiment):
    experiment = make_experiment(questions=3, pairs=2)
    go(experiment, out="one", shard=(1, 2))
    go(experiment, out="one", shard=(1, 2))
    with pytest.raises(BonError, match="holds shard 1/2 of its experiment"):
        go(experiment, out="one")


def test_a_shard_without_questions_is_refused(go, make_experiment):
    with pytest.raises(BonError, match="shard 4/4 has no question"):
        go(make_experiment(questions=3, pairs=9), shard=(4, 4))


@pytest.mark.parametrize("text", ["0/3", "4/3", "3", "a/b", "1/"])
def test_what_is_no_shard_is_refused(text):
    with pytest.raises(BonError, match="is not a shard"):
        read_shard(text)
