"""Items that `bon calibrate --next` draws into a table, which people fill in."""

import json
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

from bon.running.labelled_votes import votes_of

BON = Path(sys.executable).with_name("bon")


def calibrate(*arguments: object) -> tuple[int, str, str]:
    done = subprocess.run([BON, "calibrate", *map(str, arguments)], capture_output=True, text=True)
    return done.returncode, done.stdout, done.stderr


def test_labels_filled_in_are_measured_with_their_weights(judged: Path, tmp_path: Path) -> None:
    critic = (judged, "--rewarder", "critic")
    code, _, err = calibrate(*critic, "--next", 16, "--out", tmp_path)
    assert (code, "fill in `label`" in err) == (0, True)
    table = tmp_path / "next.csv"
    drawn = pd.read_csv(table)
    assert len(drawn) == 16
    assert drawn["label"].isna().all()
    assert drawn["text"].str.contains("Answer: ").all()
    assert drawn["question"].str.contains("A. ").all()
    assert all(map(Path.is_file, map(Path, "\n".join(drawn["images"].dropna()).split("\n"))))
    assert not {"critic", "score", "verdict", "correct", "stratum"} & set(drawn)
    assert drawn["item"].is_monotonic_increasing  # no order of the judge's
    gold = votes_of(judged, {}).query("rewarder == 'critic' and kind == 'answers'")
    gold = gold.set_index("item").loc[drawn["item"]].reset_index()
    drawn.assign(label=gold["label"].map({1.0: "right", 0.0: "wrong"})).to_csv(table, index=False)
    code, out, _ = calibrate(*critic, "--labels", table, "--json")
    found = next(row for row in json.loads(out)["rewarders"] if row["kind"] == "answers")
    assert (code, found["overall"]["num_items"]) == (0, 16)
    weight = 1 / drawn["probability"]
    hits = (gold["score"] >= 0.5) == gold["label"]
    mean = (hits * weight).sum() / weight.sum()
    assert found["overall"]["accuracy"]["value"] == pytest.approx(mean)
    code, _, err = calibrate(*critic, "--next", 16, "--out", tmp_path)
    assert (code, "may hold labels already -> draw into another folder" in err) == (2, True)


def test_pairs_and_tables_are_drawn_with_their_texts(judged: Path, tmp_path: Path) -> None:
    judge = (judged, "--rewarder", "judge")
    assert calibrate(*judge, "--next", 6, "--out", tmp_path / "pairs")[0] == 0
    drawn = pd.read_csv(tmp_path / "pairs" / "next.csv")
    assert drawn[["question", "text", "other"]].notna().all(axis=None)
    rows = [{"item": f"q{k}", "text": f"There are {k}.", "score": k % 5} for k in range(30)]
    path = tmp_path / "judge.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert calibrate(path, "--next", 10, "--out", tmp_path / "table")[0] == 0
    drawn = pd.read_csv(tmp_path / "table" / "next.csv")
    assert (drawn["text"] == "There are " + drawn["item"].str[1:] + ".").all()
    drawn.assign(label="right", annotator="Judge").to_csv(path.with_suffix(".csv"), index=False)
    code, _, err = calibrate(path, "--labels", path.with_suffix(".csv"))
    assert (code, "labelled the items that it judges" in err) == (2, True)
