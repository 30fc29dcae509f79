"""What a frozen benchmark holds, read back as bon, `datasets` and other harnesses read it."""

import base64
import csv
import io
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml
from PIL import Image

from bon.benchmarks import load_pairs
from bon.core.images import ImageStore
from bon.core.records import PreferencePair
from bon.curating.frozen_rows import PAIRS, TIES, pair_rows, tie_rows, write_rows
from bon.curating.items import CuratedItem, item_key, read_items, write_items
from bon.curating.stubs import write_lmms_eval, write_vlmevalkit
from bon.experiment.config import DatasetSpec


def item(number: int, correct: tuple[bool, ...], *, probability: float = 0.5) -> CuratedItem:
    """An item about question `number // 2`."""
    keys = tuple(f"text-{number}-{place}" for place in range(len(correct)))
    question = f"question-{number // 2}"
    return CuratedItem(
        key=item_key(question, keys),
        id=f"q{number // 2}-{number}",
        run="run",
        question=question,
        prompt=f"What is in picture {number}?\n(A) cat\n(B) dog",
        images=("red.png", "blue.png")[: 1 + number % 2],
        responses=tuple(
            f"{'right' if one else 'wrong'} {key}" for key, one in zip(keys, correct, strict=True)
        ),
        text_keys=keys,
        policies=("a",) * len(correct),
        answers=tuple("A" if one else "B" for one in correct),
        correct=correct,
        better=correct.index(True) if sum(correct) == 1 else None,
        strategy=("gold", "best-of-4")[len(correct) > 2] if sum(correct) == 1 else "ties",
        probability=probability,
        split="public",
        subject="Art",
    )


@pytest.fixture
def bench(tmp_path: Path) -> tuple[list[CuratedItem], Path]:
    """Ten pairs, two best of four and a tie, and the folder of their images."""
    images = tmp_path / "images"
    images.mkdir()
    for name in ("red", "blue"):
        Image.new("RGB", (8, 8), name).save(images / f"{name}.png")
    pairs = [item(n, (n % 3 > 0, n % 3 == 0), probability=(n + 1) / 12) for n in range(10)]
    fours = [item(n, (False, True, False, False)) for n in (10, 11)]
    return [*pairs, *fours, item(12, (True, True))], images


def test_items_are_read_as_they_were_written(bench, tmp_path: Path):
    items, _ = bench
    write_items(items, tmp_path / "items.parquet")
    assert read_items(tmp_path / "items.parquet") == items


def test_bon_reads_it_back_with_weights_clusters_and_sets(bench, tmp_path: Path):
    items, images = bench
    path = tmp_path / "pairs.parquet"
    tags = {items[0].key: "counting"}
    assert write_rows(pair_rows(items, images, tags), PAIRS, path) == 16
    spec = DatasetSpec(benchmark="preference", path=str(path), split=None)
    read = list(load_pairs(spec, ImageStore(tmp_path / "store")))
    assert all(isinstance(pair, PreferencePair) for pair in read)
    by_id = {pair.id: pair for pair in read if isinstance(pair, PreferencePair)}
    for one in items[:10]:
        pair = by_id[one.id]
        assert one.better is not None
        assert pair.responses[pair.preferred] == one.responses[one.better]
        assert pair.meta["weight"] == pytest.approx(one.weight)
        assert pair.meta["cluster"] == one.question
        assert "set" not in pair.meta
        assert len(pair.images) == len(one.images)
        assert pair.group == "gold"
    for one in items[10:12]:
        three = [by_id[f"{one.id}/{number}"] for number in range(3)]
        assert {pair.meta["set"] for pair in three} == {one.id}
        assert {pair.responses[pair.preferred] for pair in three} == {one.responses[1]}
        assert {pair.responses[1 - pair.preferred] for pair in three} == {
            one.responses[place] for place in (0, 2, 3)
        }
        assert all("weight" not in pair.meta for pair in three)
    assert by_id[items[0].id].tag == "counting"
    assert len({pair.key for pair in by_id.values()}) == 16


def test_no_place_is_the_better_one(bench):
    _items, images = bench
    many = [item(n, (True, False)) for n in range(200)]
    preferred = [row["preferred"] for row in pair_rows(many, images, {})]
    assert 70 < sum(preferred) < 130


def test_datasets_reads_it_with_images(bench, tmp_path: Path):
    items, images = bench
    datasets = pytest.importorskip("datasets")
    write_rows(pair_rows(items, images, {}), PAIRS, tmp_path / "pairs.parquet")
    write_rows(tie_rows(items, images), TIES, tmp_path / "ties.parquet")
    for name, rows in (("pairs", 16), ("ties", 1)):
        found = datasets.load_dataset(
            "parquet", data_files=str(tmp_path / f"{name}.parquet"), cache_dir=str(tmp_path / name)
        )["train"]
        assert len(found) == rows
        assert found[0]["images"][0].size == (8, 8)


def test_vlmevalkit_gets_a_multiple_choice_table_in_both_orders(bench, tmp_path: Path):
    items, images = bench
    rows = list(pair_rows(items, images, {}))
    write_vlmevalkit(rows, tmp_path, "ours")
    csv.field_size_limit(sys.maxsize)
    table = pd.read_csv(tmp_path / "ours.tsv", sep="\t")
    assert list(table["index"]) == list(range(32))
    for number, row in enumerate(rows):
        better = row["responses"][row["preferred"]]
        for line in (table.iloc[2 * number], table.iloc[2 * number + 1]):
            assert line[line["answer"]] == better
    assert set(table["answer"]) == {"A", "B"}
    assert (table["answer"] == "A").sum() == 16
    single = table[table["image"].str[0] != "["].iloc[0]
    assert Image.open(io.BytesIO(base64.b64decode(single["image"]))).size == (8, 8)


def test_the_task_of_lmms_eval_scores_what_a_judge_says(bench, tmp_path: Path):
    items, images = bench
    write_lmms_eval(list(pair_rows(items, images, {})), tmp_path, "ours", "1")
    task = yaml.load((tmp_path / "ours.yaml").read_text(), Loader=_Loader)
    data = tmp_path / task["dataset_kwargs"]["data_files"]["test"]
    asked = pd.read_parquet(data).to_dict("records")
    made: dict[str, object] = {}
    exec((tmp_path / "utils.py").read_text(), made)

    def accuracy(say) -> float:
        done = [made["process_results"](row, [say(row)]) for row in asked]
        return float(made["accuracy"]([row["accuracy"] for row in done]))

    assert accuracy(lambda row: f"**Overall Judgment: Answer {row['answer']} is better.**") == 1
    assert accuracy(lambda row: "Answer 1 is better. No: Answer 2 is better.") == pytest.approx(0.5)
    assert accuracy(lambda row: "Both are fine.") == 0
    assert np.mean([row["answer"] == "1" for row in asked]) == 0.5
    for row in asked:
        better = row["prompt"].split(f"Answer {row['answer']}: ")[1]
        assert better.startswith("right text")


class _Loader(yaml.SafeLoader):
    """Reads `!function NAME` as its name."""


_Loader.add_constructor("!function", lambda loader, node: node.value)
