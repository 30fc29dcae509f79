"""Single answers labelled blind on /annotate, which `bon calibrate` then reads."""

import json
from contextlib import AbstractContextManager
from pathlib import Path

import pandas as pd
import pytest
from playwright.sync_api import expect
from starlette.testclient import TestClient

from bon.commands.main import main
from bon.core.errors import BonError
from bon.curating.labelling.annotations import current
from bon.curating.labelling.single_answers import labels_of_answers
from bon.curating.workbench import open_workbench
from bon.running.labelled_votes import votes_of
from bon.service.settings import Settings
from tests.conftest import accessibility_violations
from tests.curating.labelled_items import picture
from tests.service.server import idle, serving


@pytest.fixture
def calibrate(capsys, monkeypatch):
    """Run the command; its exit code and output."""

    def run(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr("sys.argv", ["bon", "calibrate", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        out, err = capsys.readouterr()
        return int(ended.value.code or 0), out, err

    return run


@pytest.fixture
def table(tmp_path) -> Path:
    """Thirty verdicts without a label, with the question, an image and the answer."""
    (tmp_path / "shapes.png").write_bytes(picture(3))
    rows = [
        {"item": f"q{k}", "question": f"How many squares, {k}?", "text": f"There are {k % 7}.",
         "image": "shapes.png", "score": k % 5 + 1, "rewarder": "hidden-judge"}
        for k in range(30)
    ]  # fmt: skip
    path = tmp_path / "judge.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def client_of(tmp_path: Path, folder: Path) -> AbstractContextManager[TestClient]:
    own = {"auth": False, "annotate": (folder,), "limits": {"requests_per_minute": 0}}
    return idle(Settings(data=tmp_path / "data", miniature=False, **own))


def test_grades_of_a_table_without_labels_are_drawn_labelled_and_read(tmp_path, table, calibrate):
    folder = tmp_path / "to-label"
    code, _, err = calibrate(table, "--next", 20, "--out", folder, "--grades", "1,2,3,4,5")
    assert (code, "20 answers to label" in err) == (0, True)
    assert len(pd.read_csv(folder / "next.csv")) == 20
    seen = ""
    with client_of(tmp_path, folder) as client:
        seen += client.get("/annotate/to-label", headers={"accept": "text/html"}).text
        for k in range(20):
            state = client.post("/annotate/to-label/next", json={"annotator": "ann"}).json()
            seen += json.dumps(state)
            item = state["item"]
            assert len(item["responses"]) == len(item["images"]) == 1
            image = client.get(f"/annotate/to-label/images/{item['images'][0]}")
            assert image.content == picture(3)
            body = {"annotator": "ann", "item": item["key"], "event": f"event-{k:03}"}
            for wrong in ("tie", "6"):
                answer = client.post("/annotate/to-label/answers", json={**body, "choice": wrong})
                assert answer.status_code == 422
            grade = "4" if int(item["responses"][0][-2]) % 2 else "2"
            answer = client.post("/annotate/to-label/answers", json={**body, "choice": grade})
            assert answer.status_code == 200
        assert (
            client.post("/annotate/to-label/next", json={"annotator": "ann"}).json()["item"] is None
        )
    for secret in ("hidden-judge", "score", "stratum", "probability"):
        assert secret not in seen, secret
    code, _, err = calibrate(table, "--labels", folder)
    assert (code, "--pass GRADE" in err) == (2, True)
    code, out, _ = calibrate(table, "--labels", folder, "--pass", 4, "--threshold", 3, "--json")
    (row,) = json.loads(out)["rewarders"]
    assert (code, row["overall"]["num_items"]) == (0, 20)
    labels = labels_of_answers(folder, 4).set_index("item")["label"]
    assert {k: y for k, y in labels.items()} == {k: float(int(k[1:]) % 7 % 2) for k in labels.index}
    weight = 1 / pd.read_csv(folder / "next.csv", index_col="item")["probability"]
    right = pd.Series({k: float((int(k[1:]) % 5 + 1 >= 3) == y) for k, y in labels.items()})
    assert row["overall"]["accuracy"]["value"] == pytest.approx(
        (right * weight).sum() / weight.sum()
    )
    code, _, err = calibrate(table, "--next", 20, "--out", folder)
    assert (code, "is being labelled" in err) == (2, True)


def test_a_folder_that_nobody_labelled_is_one_line(tmp_path, table, calibrate):
    calibrate(table, "--next", 10, "--out", tmp_path / "fresh")
    with pytest.raises(BonError, match="nobody has labelled"):
        labels_of_answers(tmp_path / "fresh")
    code, _, err = calibrate(table, "--labels", tmp_path / "fresh")
    assert (code, err.count("\n") <= 2, "/annotate/fresh" in err) == (2, True, True)


def test_labels_of_the_judge_itself_are_refused(tmp_path, table, calibrate):
    folder = tmp_path / "to-label"
    calibrate(table, "--next", 10, "--out", folder)
    with client_of(tmp_path, folder) as client:
        name = {"annotator": "Hidden-Judge"}
        key = client.post("/annotate/to-label/next", json=name).json()["item"]["key"]
        body = {**name, "item": key, "choice": "1", "event": "event-one"}
        assert client.post("/annotate/to-label/answers", json=body).status_code == 200
    code, _, err = calibrate(table, "--labels", folder)
    assert (code, "labelled the items that it judges" in err) == (2, True)


@pytest.mark.slow
@pytest.mark.browser
def test_what_is_labelled_by_keyboard_is_what_calibrate_measures(tmp_path, tab, judged, calibrate):
    folder = tmp_path / "data" / "benchmarks" / "answers"
    code, _, err = calibrate(judged, "--rewarder", "critic", "--next", 16, "--out", folder)
    assert (code, "16 answers to label" in err) == (0, True)
    bench = open_workbench(folder)
    gold = votes_of(judged, {}).query("rewarder == 'critic' and kind == 'answers'")
    gold = gold.set_index("item")
    shown = {(answer.prompt, answer.responses[0]): answer for answer in bench.shown}
    pressed: dict[str, str] = {}

    def before() -> str | None:
        tab.wait_for_selector("#annotate[data-phase=choose], #annotate[data-phase=done]")
        if tab.locator("#done").is_visible():
            return None
        text = tab.locator(".response .text").inner_text()
        return shown[tab.locator("#prompt").inner_text(), text].item

    def press(key: str) -> None:
        tab.keyboard.press(key)
        expect(tab.locator("#go")).to_be_visible()
        tab.keyboard.press("Enter")

    with serving(tmp_path) as server:
        tab.goto(f"{server.address}/annotate/answers")
        tab.get_by_label("Your name").fill("ann")
        tab.keyboard.press("Enter")
        first = before()
        tab.set_viewport_size({"width": 390, "height": 800})
        assert tab.evaluate("document.documentElement.scrollWidth") == 390
        assert accessibility_violations(tab) == []
        expect(tab.locator("#choices")).to_contain_text("right")
        pictures = {answer.item: len(answer.images) for answer in bench.shown}
        expect(tab.locator("#images img")).to_have_count(pictures[first])
        assert not {"critic", "correct", "score"} & set(tab.content().lower().split())
        press("2")
        assert before() != first
        tab.keyboard.press("u")  # a slip, taken back
        assert before() == first
        while (item := before()) is not None:
            assert item not in pressed
            if len(pressed) == 3:
                pressed[item] = "x"
            else:  # somebody who agrees with the answer key but for every fifth
                label = gold["label"][item] if len(pressed) % 5 else 1 - gold["label"][item]
                pressed[item] = "1" if label else "2"
            press(pressed[item])
    assert len(pressed) == 16
    kept = {answer.key: answer.item for answer in bench.shown}
    words = {"1": "right", "2": "wrong", "x": "cannot"}
    rows = {kept[row.item]: row.choice for row in current(bench.annotations_path)}
    assert rows == {item: words[key] for item, key in pressed.items()}
    code, out, _ = calibrate(judged, "--rewarder", "critic", "--labels", folder, "--json")
    assert code == 0
    found = next(r for r in json.loads(out)["rewarders"] if r["kind"] == "answers")
    labelled = {item: float(key == "1") for item, key in pressed.items() if key != "x"}
    assert found["overall"]["num_items"] == len(labelled) == 15
    weight = {a.item: 1 / a.probability for a in bench.shown}
    hits = {i: float((gold["score"][i] >= 0.5) == y) for i, y in labelled.items()}
    mean = sum(weight[i] * hit for i, hit in hits.items()) / sum(weight[i] for i in hits)
    assert found["overall"]["accuracy"]["value"] == pytest.approx(mean)
