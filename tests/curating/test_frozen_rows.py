"""What a frozen benchmark holds, read back as bon and `datasets` read it."""

from pathlib import Path

import pandas as pd
import pytest
from PIL import Image

from bon.benchmarks import load_pairs
from bon.core.images import ImageStore
from bon.core.records import PreferencePair
from bon.curating.items import CuratedItem, read_items, write_items, write_pairs
from bon.experiment.config import DatasetSpec
from tests.curating.labelled_items import curated


@pytest.fixture
def bench(tmp_path: Path) -> tuple[list[CuratedItem], Path]:
    """Ten pairs, and the folder of their images."""
    images = tmp_path / "images"
    images.mkdir()
    for name in ("red", "blue"):
        Image.new("RGB", (8, 8), name).save(images / f"{name}.png")
    names = ("red.png", "blue.png")
    return [
        curated(n, probability=(n + 1) / 12, images=names[: 1 + n % 2], question=f"q{n // 2}")
        for n in range(10)
    ], images


@pytest.mark.parametrize("benchmark", ["preference", "vl_rewardbench"])
def test_benchmarks_read_it_back(bench, tmp_path: Path, benchmark: str):
    items, images = bench
    if benchmark == "vl_rewardbench":  # one image an item, as it has
        items = [one for one in items if len(one.images) == 1]
    path = tmp_path / "pairs.parquet"
    write_items(items, tmp_path / "items.parquet")
    assert read_items(tmp_path / "items.parquet") == items
    write_pairs(items, images, path, {items[0].key: "counting"})
    spec = DatasetSpec(benchmark=benchmark, path=str(path), split=None)
    read = [p for p in load_pairs(spec, ImageStore(tmp_path)) if isinstance(p, PreferencePair)]
    by_id = {pair.id: pair for pair in read}
    assert len({pair.key for pair in read}) == len(read) == len(items)
    for one in items:
        pair = by_id[one.id]
        assert pair.responses[pair.preferred] == one.responses[one.better]
        assert len(pair.images) == len(one.images)
        assert pair.group == "popular-wrong"
        if benchmark == "preference":
            assert pair.meta == {"cluster": one.question, "weight": 1 / one.probability}
            assert pair.tag == ("counting" if one is items[0] else "")


def test_no_place_is_the_better_one(bench, tmp_path: Path):
    _items, images = bench
    write_pairs([curated(n, better=0) for n in range(200)], images, tmp_path / "pairs.parquet")
    rankings = pd.read_parquet(tmp_path / "pairs.parquet")["human_ranking"]
    assert 70 < sum(ranks[0] for ranks in rankings) < 130


def test_datasets_reads_it_with_images(bench, tmp_path: Path):
    items, images = bench
    datasets = pytest.importorskip("datasets")
    write_pairs(items, images, tmp_path / "pairs.parquet")
    found = datasets.load_dataset(
        "parquet", data_files=str(tmp_path / "pairs.parquet"), cache_dir=str(tmp_path / "cache")
    )["train"]
    assert len(found) == 10
    assert found[0]["images"][0].size == (8, 8)
