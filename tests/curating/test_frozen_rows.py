"""What a frozen benchmark holds, read back as bon and `datasets` read it."""

from pathlib import Path

import pandas as pd
import pytest
from PIL import Image

from bon.benchmarks import load_pairs
from bon.core.images import ImageStore
from bon.core.records import PreferencePair
from bon.curating.items import CuratedItem, item_key, read_items, write_items, write_pairs
from bon.experiment.config import DatasetSpec


def item(number: int, better: int, *, probability: float = 0.5) -> CuratedItem:
    """An item about question `number // 2`."""
    keys = tuple(f"text-{number}-{place}" for place in range(2))
    question = f"question-{number // 2}"
    return CuratedItem(
        key=item_key(question, keys),
        id=f"q{number // 2}-{number}",
        question=question,
        prompt=f"What is in picture {number}?\n(A) cat\n(B) dog",
        images=("red.png", "blue.png")[: 1 + number % 2],
        responses=tuple(
            f"{'right' if at == better else 'wrong'} {key}" for at, key in enumerate(keys)
        ),
        policies=("a", "a"),
        answers=tuple(("AB", "BA")[better]),
        better=better,
        strategy="other",
        probability=probability,
        split="public",
        subject="Art",
    )


@pytest.fixture
def bench(tmp_path: Path) -> tuple[list[CuratedItem], Path]:
    """Ten pairs, and the folder of their images."""
    images = tmp_path / "images"
    images.mkdir()
    for name in ("red", "blue"):
        Image.new("RGB", (8, 8), name).save(images / f"{name}.png")
    return [item(n, int(n % 3 == 0), probability=(n + 1) / 12) for n in range(10)], images


def test_items_are_read_as_they_were_written(bench, tmp_path: Path):
    items, _ = bench
    write_items(items, tmp_path / "items.parquet")
    assert read_items(tmp_path / "items.parquet") == items


def test_bon_reads_it_back_with_weights_clusters_and_sets(bench, tmp_path: Path):
    items, images = bench
    path = tmp_path / "pairs.parquet"
    tags = {items[0].key: "counting"}
    write_pairs(items, images, path, tags)
    spec = DatasetSpec(benchmark="preference", path=str(path), split=None)
    read = list(load_pairs(spec, ImageStore(tmp_path / "store")))
    assert len(read) == 10
    assert all(isinstance(pair, PreferencePair) for pair in read)
    by_id = {pair.id: pair for pair in read if isinstance(pair, PreferencePair)}
    for one in items:
        pair = by_id[one.id]
        assert pair.responses[pair.preferred] == one.responses[one.better]
        assert pair.meta["weight"] == pytest.approx(1 / one.probability)
        assert pair.meta["cluster"] == one.question
        assert "set" not in pair.meta
        assert len(pair.images) == len(one.images)
        assert pair.group == "other"
    assert by_id[items[0].id].tag == "counting"
    assert len({pair.key for pair in by_id.values()}) == 10


def test_no_place_is_the_better_one(bench, tmp_path: Path):
    _items, images = bench
    write_pairs([item(n, 0) for n in range(200)], images, tmp_path / "pairs.parquet")
    rankings = pd.read_parquet(tmp_path / "pairs.parquet")["human_ranking"]
    assert 70 < sum(ranks[0] for ranks in rankings) < 130


def test_it_has_vl_rewardbenchs_form(bench, tmp_path: Path):
    items, images = bench
    single = [one for one in items if len(one.images) == 1]
    write_pairs(single, images, tmp_path / "pairs.parquet")
    for benchmark in ("vl_rewardbench", "preference"):
        spec = DatasetSpec(benchmark=benchmark, path=str(tmp_path / "pairs.parquet"), split=None)
        read = {pair.id: pair for pair in load_pairs(spec, ImageStore(tmp_path / benchmark))}
        assert read.keys() == {one.id for one in single}
        for one in single:
            pair = read[one.id]
            assert isinstance(pair, PreferencePair)
            assert pair.responses[pair.preferred] == one.responses[one.better]
            assert len(pair.images) == 1


def test_datasets_reads_it_with_images(bench, tmp_path: Path):
    items, images = bench
    datasets = pytest.importorskip("datasets")
    write_pairs(items, images, tmp_path / "pairs.parquet")
    found = datasets.load_dataset(
        "parquet", data_files=str(tmp_path / "pairs.parquet"), cache_dir=str(tmp_path / "cache")
    )["train"]
    assert len(found) == 10
    assert found[0]["images"][0].size == (8, 8)
