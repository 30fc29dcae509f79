"""`bon curate freeze`: a version that never changes, whole, checked, and read back."""

import subprocess
from collections import Counter

import pandas as pd
import pytest
import yaml
from typer.testing import CliRunner

from bon.benchmarks import load_pairs
from bon.commands.main import app
from bon.core.errors import BonError
from bon.core.images import ImageStore
from bon.core.records import PreferencePair
from bon.curating import freeze
from bon.curating.freeze import Freezing
from bon.curating.items import write_items
from bon.curating.labelling.annotations import Annotation, add
from bon.curating.propose import propose
from bon.curating.workbench import open_workbench
from bon.experiment.config import DatasetSpec
from bon.exports.licences import licence_of
from tests.curating.labelled_items import formed_items
from tests.curating.test_propose import bench_with

ANN, BOB = "ann@example.org", "bob@example.org"


@pytest.fixture
def bench(judged, tmp_path):
    """A proposed benchmark with held-out questions."""
    made = bench_with(
        judged,
        tmp_path / "mine",
        held_out="0.3",
    )
    propose(made, quiet=True)
    return open_workbench(made.directory)


def frozen(bench, version="1", **settings):
    settings = {"private": True, "anyway": "it is a test", **settings}
    return Freezing(bench, version, **settings).write()


def say(bench, item, annotator, choice, **more):
    shown = tuple(range(len(item.responses)))
    add(bench.annotations_path, Annotation(item.key, annotator, choice, shown, **more))


def test_it_is_read_back_as_a_benchmark_and_its_sums_hold(bench, tmp_path):
    done = frozen(bench)
    items = {item.id: item for item in bench.items}
    public = [one for one in items.values() if one.split == "public"]
    assert (done.public, done.num_held_out) == (len(public), len(items) - len(public))
    assert done.num_held_out > 0
    spec = DatasetSpec(benchmark="preference", path=str(done.folder / "pairs.parquet"), split=None)
    read = list(load_pairs(spec, ImageStore(tmp_path / "store")))
    assert read
    for pair in read:
        assert isinstance(pair, PreferencePair)
        item = items[pair.id]
        assert item.split == "public"
        assert pair.responses[pair.preferred] == item.responses[item.better]
        assert pair.meta["cluster"] == item.question
    questions = set(pd.read_parquet(done.folder / "pairs.parquet")["cluster"])
    assert done.held_out is not None
    kept = set(pd.read_parquet(done.held_out / "pairs.parquet")["cluster"])
    assert kept
    assert not questions & kept
    for folder in (done.folder, done.held_out):
        subprocess.run(["sha256sum", "--check", "--quiet", "SHA256SUMS"], cwd=folder, check=True)
    texts = [held.responses for held in items.values() if held.split == "held-out"]
    for name in ("audit.json", "README.md"):
        page = (done.folder / name).read_text()
        assert not [said for said in texts if any(len(t) > 60 and t in page for t in said)]
    assert str(bench.directory) in bench.audit_path.read_text()
    for path in done.folder.rglob("*"):
        assert not path.is_file() or str(bench.directory).encode() not in path.read_bytes()


def test_what_people_contradict_or_disagree_on_is_left_out(bench):
    good, wrong, split, tied, *_ = [item for item in bench.items if item.split == "public"]
    for who in (ANN, BOB):
        say(bench, good, who, str(good.better), tags=("counting",))
        say(bench, wrong, who, str(1 - wrong.better))
        say(bench, tied, who, "tie")
    say(bench, split, ANN, str(split.better))
    say(bench, split, BOB, str(1 - split.better))
    done = frozen(bench)
    assert sum(done.left_out.values()) == 3
    rows = pd.read_parquet(done.folder / "pairs.parquet").set_index("key")
    assert rows.loc[good.key, "tag"] == "counting"
    assert not {wrong.key, split.key, tied.key} & set(rows.index)
    labels = pd.read_parquet(done.folder / "annotations.parquet")
    assert set(labels["item"]) == {good.key}
    assert labels["annotator"].nunique() == 2
    again = frozen(bench, "2")
    other = pd.read_parquet(again.folder / "annotations.parquet")
    assert set(other["annotator"]) == set(labels["annotator"])
    everything = b"".join(p.read_bytes() for p in done.folder.rglob("*") if p.is_file())
    assert b"example.org" not in everything


def test_a_freeze_that_was_stopped_is_done_again(bench, monkeypatch):
    with monkeypatch.context() as stopped:
        stopped.setattr("bon.curating.freeze._write_checksums", _stop)
        with pytest.raises(KeyboardInterrupt):
            frozen(bench)
    back = bench.directory / "v1-held-out"
    back.mkdir()
    (back / "half").write_text("")
    done = frozen(bench)
    assert done.folder.is_dir()
    assert not (back / "half").exists()
    assert [one.name for one in bench.directory.glob(".v*")] == []


def _stop(folder):
    raise KeyboardInterrupt


def test_the_card_says_what_the_audit_found(bench):
    done = frozen(bench)
    text = (done.folder / "README.md").read_text()
    head = yaml.safe_load(text.split("---")[1])
    assert head["license"] == "other"
    for config in head["configs"]:
        assert (done.folder / config["data_files"][0]["path"]).is_file()
    assert "No annotator has checked its labels." in text
    assert "it is a test" in text
    counts = Counter(item.strategy for item in bench.items if item.split == "public")
    for strategy, count in counts.items():
        assert f"| {strategy} | {count} |" in text


def test_what_stops_it_is_one_line(bench, monkeypatch):
    frozen(bench)
    for version, said in (("1", "frozen already"), ("a b", "is not a version")):
        with pytest.raises(BonError, match=said):
            frozen(bench, version)
    write_items(formed_items(longer_is_right=0.9), bench.items_path)
    bench = open_workbench(bench.directory)
    said = CliRunner().invoke(app, ["curate", "freeze", str(bench.directory), "--version", "2"])
    assert isinstance(said.exception, BonError)
    assert "the audit objects: “longer” is right" in str(said.exception)
    assert "--anyway REASON" in str(said.exception)
    assert not (bench.directory / "v2").exists()
    frozen(bench, "2", anyway="the length is what we study")
    assert "the length is what we study" in (bench.directory / "v2" / "README.md").read_text()


def test_a_version_that_nobody_labelled_says_so(bench):
    asked = ["curate", "freeze", str(bench.directory), "--private", "--anyway", "x", "--version"]
    done = CliRunner().invoke(app, [*asked, "1"])
    assert "no annotator has checked the labels" in done.output
    say(bench, bench.items[0], ANN, str(bench.items[0].better))
    assert "no annotator" not in CliRunner().invoke(app, [*asked, "2"]).output


def test_a_public_version_has_the_licence_that_was_named(bench, monkeypatch):
    with pytest.raises(BonError, match=r"may not be passed on .* --private"):
        frozen(bench, private=False, requested_licence="mit")
    monkeypatch.setattr(freeze, "licence_of", lambda _: licence_of("CC BY-NC 4.0"))
    with pytest.raises(BonError, match=r"its sources have: .*CC BY-NC 4.0.* --licence NAME"):
        frozen(bench, private=False)
    done = frozen(bench, private=False, requested_licence="cc-by-nc-4.0")
    text = (done.folder / "README.md").read_text()
    assert yaml.safe_load(text.split("---")[1])["license"] == "cc-by-nc-4.0"
    assert "| CC BY-NC 4.0 | no commercial use |" in text
