"""Out to another tool and back: every answer as it was meant, and nothing of a wrong file."""

import csv
import json
import sqlite3
import tempfile
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from bon.commands.main import app
from bon.core.errors import BonError
from bon.curating.annotations import add, current, history
from bon.curating.drafts import Draft, append_draft
from bon.curating.exchange import send_out, take_back
from bon.curating.items import write_items
from bon.curating.workbench import open_workbench
from tests.curating.labelled import curated, make_bench

TAGS = ("counting", "right answer, wrong reasoning", "other")
text = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=30)
people = st.sampled_from(("1", "7", "zoë"))


@st.composite
def answered(draw):
    """Items with any text, and answers: (item, person) -> (choice, tags, why, seconds)."""
    items = []
    for number in range(draw(st.integers(1, 4))):
        item = curated(number, draw(st.sampled_from((2, 4))))
        texts = [f"{draw(text)} {place}" for place in range(len(item.responses))]
        items.append(replace(item, prompt=draw(text), responses=tuple(texts)))
    said = draw(
        st.dictionaries(
            st.tuples(st.integers(0, len(items) - 1), people),
            st.tuples(
                st.sampled_from(("0", "1", "2", "3", "tie", "cannot")),
                st.lists(st.sampled_from(TAGS), unique=True, max_size=2),
                text.map(str.strip),
                st.integers(0, 900),
            ),
        )
    )
    fit = {
        (items[at].key, person): answer
        for (at, person), answer in said.items()
        if not answer[0].isdigit() or int(answer[0]) < len(items[at].responses)
    }
    return items, fit


def word_of(item, texts, choice):
    """What somebody presses who means this response, from what they are shown."""
    words = {"tie": "tie", "cannot": "cannot judge"}
    if choice in words:
        return words[choice]
    (found,) = [place for place, shown in texts.items() if shown == item.responses[int(choice)]]
    return found


def shown_texts(fields):
    places = ("left", "right", "third", "fourth")
    return {place: fields[place] for place in places if fields.get(place)}


def label_studio(folder, items, said):
    """Label Studio's export of each project."""
    for tasks in folder.glob("*/tasks.json"):
        rows = json.loads(tasks.read_text())
        for number, task in enumerate(rows):
            item, task["annotations"] = items[task["data"]["item"]], []
            for (key, person), (choice, tags, why, seconds) in said.items():
                if key != item.key:
                    continue
                word = word_of(item, shown_texts(task["data"]), choice)
                if word in ("tie", "cannot judge"):
                    best = {"from_name": "other", "type": "choices", "value": {"choices": [word]}}
                elif len(item.responses) == 2:
                    best = {"from_name": "pw", "type": "pairwise", "value": {"selected": word}}
                else:
                    best = {"from_name": "best", "type": "choices", "value": {"choices": [word]}}
                result = [best]
                if tags:
                    value = {"choices": tags}
                    result.append({"from_name": "tag", "type": "choices", "value": value})
                if why:
                    value = {"text": [why]}
                    result.append({"from_name": "why", "type": "textarea", "value": value})
                by = {"id": 3, "email": person} if person == "zoë" else int(person)
                task["annotations"].append(
                    {
                        "id": number,
                        "completed_by": by,
                        "result": result,
                        "was_cancelled": False,
                        "lead_time": float(seconds),
                        "created_at": "2026-11-21T10:00:00Z",
                    }
                )
        tasks.with_name("export.json").write_text(json.dumps(rows))
        yield tasks.with_name("export.json")


def argilla(folder, items, said):
    """What `dataset.records.to_json` writes of each dataset."""
    for records in folder.glob("*/records.json"):
        rows = json.loads(records.read_text())
        for row in rows:
            item, responses = items[row["id"]], defaultdict(list)
            for (key, person), (choice, tags, why, _) in said.items():
                if key == item.key:
                    word = word_of(item, shown_texts(row["fields"]), choice)
                    for question, value in (("better", word), ("tags", tags), ("why", why)):
                        if value:
                            responses[question].append({"value": value, "user_id": person})
            row["responses"] = responses
        records.with_name("out.json").write_text(json.dumps(rows))
        yield records.with_name("out.json")


def spreadsheet(file, items, said):
    """The file as each person fills it in."""
    for person in {who for _, who in said}:
        if file.suffix == ".csv":
            with file.open(encoding="utf-8-sig", newline="") as opened:
                rows = list(csv.DictReader(opened))
        else:
            rows = [json.loads(line) for line in file.read_text().split("\n") if line]
        for row in rows:
            item = items[row["item"]]
            if (item.key, person) in said:
                choice, tags, why, seconds = said[item.key, person]
                bare = {k: v[1:] if v.startswith("'") else v for k, v in row.items()}
                fields = bare if file.suffix == ".csv" else row
                row["better"] = word_of(item, shown_texts(fields), choice)
                row["why"] = f"'{why}" if file.suffix == ".csv" else why
                row |= {"tag": "; ".join(tags), "annotator": person, "seconds": str(seconds)}
        filled = file.with_name(f"{person}{file.suffix}")
        if file.suffix == ".csv":
            with filled.open("w", encoding="utf-8", newline="") as opened:
                writer = csv.DictWriter(opened, rows[0], delimiter=";")  # as saved in Germany
                writer.writeheader()
                writer.writerows(rows)
        else:
            filled.write_text("".join(json.dumps(row) + "\n" for row in rows))
        yield filled


TOOLS = {
    "label-studio": ("project", "label-studio", label_studio),
    "argilla": ("dataset", "argilla", argilla),
    "jsonl": ("sheet/empty.jsonl", "jsonl", spreadsheet),
    "csv": ("sheet/empty.csv", "jsonl", spreadsheet),
}


@pytest.mark.parametrize("tool", TOOLS)
@settings(max_examples=15, deadline=None)
@given(answered())
def test_every_answer_comes_back_as_it_was_meant(tool, made):
    items, said = made
    out, source, people_fill = TOOLS[tool]
    with tempfile.TemporaryDirectory() as folder:
        bench = make_bench(Path(folder) / "bench", pairs=1, images=0, tags=list(TAGS))
        write_items(items, bench.items_path)
        bench = open_workbench(bench.directory)
        send_out(bench, source, Path(folder) / out)
        filled = list(people_fill(Path(folder) / out, {one.key: one for one in items}, said))
        for file in filled:
            take_back(bench, file)
        rows = current(bench.annotations_path)
        prefix = "" if source == "jsonl" else f"{source}:"
        for row in rows:
            choice, tags, why, seconds = said.pop((row.item, row.annotator.removeprefix(prefix)))
            assert row.annotator.startswith(prefix)
            assert (row.choice, list(row.tags), row.source) == (choice, tags, source)
            assert row.rationale.split() == why.split()
            assert row.seconds == (None if tool == "argilla" else seconds)
        assert said == {}
        before = len(history(bench.annotations_path))
        assert all(take_back(bench, file).added == 0 for file in filled)
        assert len(history(bench.annotations_path)) == before


# ------------------------------------------------------------------ what the files are


@pytest.fixture
def bench(tmp_path):
    found = make_bench(tmp_path / "shapes", pairs=3, fours=1)
    for item in found.items:
        draft = Draft(item.key, "1", "It miscounts.", "counting", (0, 1), "read", "judge", "p")
        append_draft(found.drafts_path, draft)
    return found


def test_a_label_studio_project_is_whole(bench, tmp_path):
    send_out(bench, "label-studio", tmp_path / "out", drafts=True)
    config = ElementTree.parse(tmp_path / "out" / "pairs" / "config.xml").getroot()
    tasks = json.loads((tmp_path / "out" / "pairs" / "tasks.json").read_text())
    assert len(tasks) == 3
    names = {one.get("name") for one in config.iter() if one.get("name")}
    for control in config.iter():
        assert set((control.get("toName") or "").split(",")) - {""} <= names
        value = control.get("value") or ""
        if value.startswith("$"):
            assert all(value[1:] in task["data"] for task in tasks)
    tags = [one.get("value") for one in config.find("Choices[@name='tag']")]
    assert "right answer, wrong reasoning" in tags
    for task in tasks:
        (item,) = [one for one in bench.items if one.key == task["data"]["item"]]
        path = task["data"]["image"].partition("?d=")[2]
        assert (tmp_path / "out" / path).read_bytes() == (bench.directory / path).read_bytes()
        (prediction,) = task["predictions"]
        chosen = prediction["result"][0]["value"]["selected"]
        assert task["data"][chosen] == item.responses[1]
        assert task["data"]["swapped"] == (task["data"]["left"] == item.responses[1])
    fours = json.loads((tmp_path / "out" / "best-of-4" / "tasks.json").read_text())
    assert len(fours) == 1
    assert fours[0]["data"]["fourth"]
    for secret in ("policy-one", "near-miss", "probability"):
        assert secret not in json.dumps(tasks)


def test_drafts_stay_here_unless_they_are_asked_for(bench, tmp_path):
    for tool, out in (("label-studio", "ls"), ("argilla", "ar"), ("jsonl", "x.csv")):
        send_out(bench, tool, tmp_path / out)
        files = [tmp_path / out] if out == "x.csv" else (tmp_path / out).glob("*/*.json")
        assert all("miscounts" not in file.read_text() for file in files)
    send_out(bench, "jsonl", tmp_path / "y.csv", drafts=True)
    assert "miscounts" in (tmp_path / "y.csv").read_text()


def test_no_cell_is_a_formula(bench, tmp_path):
    items = [replace(one, prompt="=1+1", responses=("@a", "-b")) for one in bench.items[:3]]
    write_items(items, bench.items_path)
    send_out(open_workbench(bench.directory), "jsonl", tmp_path / "x.csv")
    with (tmp_path / "x.csv").open(encoding="utf-8-sig", newline="") as file:
        for row in csv.reader(file):
            assert not any(cell.startswith(("=", "+", "-", "@")) for cell in row)


# ------------------------------------------------------------------ wrong files


def exported(bench, tmp_path, **changes):
    """An export of Label Studio in which one person answered every pair, but for the changes."""
    send_out(bench, "label-studio", tmp_path / "project")
    items = {one.key: one for one in bench.items}
    said = {(key, "1"): ("0", [], "", 3) for key in items}
    files = {path.parent.name: path for path in label_studio(tmp_path / "project", items, said)}
    rows = json.loads(files["pairs"].read_text())
    rows[-1]["data"] |= changes
    files["pairs"].write_text(json.dumps(rows))
    return files["pairs"], rows


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"item": "0" * 24}, "of another benchmark"),
        ({"item": None}, "of another benchmark"),
        ({"left": "It was edited."}, "its left is not what was exported"),
        ({"question": "Why?"}, "its question is not what was exported"),
    ],
)
def test_a_wrong_task_keeps_the_whole_file_out(bench, tmp_path, changes, message):
    path, _ = exported(bench, tmp_path, **changes)
    with pytest.raises(BonError, match=f"task 3.*{message}.*nothing was imported"):
        take_back(bench, path)
    assert history(bench.annotations_path) == []


def test_sides_that_were_swapped_in_the_file_are_seen(bench, tmp_path):
    path, rows = exported(bench, tmp_path)
    data = rows[0]["data"]
    data["left"], data["right"] = data["right"], data["left"]
    path.write_text(json.dumps(rows))
    with pytest.raises(BonError, match="its left is not what was exported"):
        take_back(bench, path)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("x.json", "nonsense", "is no JSON"),
        ("x.json", '{"a": 1}', "no list"),
        ("x.json", '[{"item": "1", "pw": "left"}]', "JSON-MIN"),
        ("x.json", "[3]", "no annotations"),
        ("x.csv", "a,b\n1,2\n", "no column better, item"),
        ("x.jsonl", "[1]\n", "line 1 is no object"),
        ("x.jsonl", '{"item": "x", "better": "left"}\n', "row 1: no item 'x' in shapes"),
    ],
)
def test_files_of_another_kind_are_refused(bench, tmp_path, name, text, message):
    (tmp_path / name).write_text(text)
    with pytest.raises(BonError, match=message):
        take_back(bench, tmp_path / name)


def test_a_sheet_saved_as_windows_1252_is_refused(bench, tmp_path):
    (tmp_path / "x.csv").write_bytes("item,better\nzoë,left\n".encode("cp1252"))
    with pytest.raises(BonError, match="UTF-8"):
        take_back(bench, tmp_path / "x.csv")


def filled(bench, tmp_path, *rows):
    """A JSONL with these changes to its first rows."""
    send_out(bench, "jsonl", tmp_path / "x.jsonl")
    made = [json.loads(line) for line in (tmp_path / "x.jsonl").read_text().splitlines()]
    changed = [{**made[0], **row} for row in rows]
    (tmp_path / "x.jsonl").write_text("".join(json.dumps(row) + "\n" for row in changed))
    return tmp_path / "x.jsonl"


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([{"better": "links", "annotator": "ann"}], "better is 'links'"),
        ([{"better": "third", "annotator": "ann"}], "better is 'third'"),
        ([{"better": "left"}], "nobody is named"),
        ([{"better": "left", "annotator": "a", "tag": "color"}], "no tag 'color' in the recipe"),
        (
            [{"better": "left", "annotator": "a"}, {"better": "right", "annotator": "a"}],
            "row 2: a answers this item twice",
        ),
    ],
)
def test_rows_that_cannot_be_meant_are_refused(bench, tmp_path, rows, message):
    path = filled(bench, tmp_path, *rows)
    with pytest.raises(BonError, match=message):
        take_back(bench, path)
    assert history(bench.annotations_path) == []


def test_skipped_empty_and_contradictory_answers_are_left_out_and_counted(bench, tmp_path):
    path, rows = exported(bench, tmp_path)
    rows[0]["annotations"][0]["was_cancelled"] = True
    rows[1]["annotations"][0]["result"] = []
    other = {"from_name": "other", "type": "choices", "value": {"choices": ["tie"]}}
    rows[2]["annotations"][0]["result"].append(other)
    path.write_text(json.dumps(rows))
    taken = take_back(bench, path)
    assert (taken.added, sum(taken.left_out.values())) == (0, 3)
    assert len(taken.left_out) == 3


def test_argilla_responses_that_were_not_submitted_are_left_out(bench, tmp_path):
    send_out(bench, "argilla", tmp_path / "out")
    path = tmp_path / "out" / "pairs" / "records.json"
    rows = json.loads(path.read_text())
    for row, status in zip(rows, ("submitted", "draft", "discarded"), strict=True):
        row["responses"] = {"better": [{"value": "left", "user_id": "u", "status": status}]}
    path.write_text(json.dumps(rows))
    taken = take_back(bench, path)
    assert (taken.added, taken.left_out) == (
        1, {"draft responses": 1, "discarded responses": 1}
    )  # fmt: skip


def test_an_answer_that_changed_counts_and_the_page_s_stay(bench, tmp_path):
    one = bench.items[0]
    path = filled(bench, tmp_path, {"better": "left", "annotator": "ann"})
    take_back(bench, path)
    (row,) = current(bench.annotations_path)
    add(bench.annotations_path, replace(row, annotator="bob", source="page"))
    path.write_text(path.read_text().replace('"left", "tag"', '"right", "tag"'))
    assert take_back(bench, path).added == 1
    assert {said.annotator for said in current(bench.annotations_path)} == {"ann", "bob"}
    assert one.key == row.item


def test_the_command_writes_reads_and_says_how_far_people_are(bench, tmp_path):
    run = CliRunner().invoke
    out = str(tmp_path / "x.csv")
    written = run(app, ["curate", "annotate", str(bench.directory), "--to", "jsonl", out])
    assert written.exit_code == 0
    assert "x.csv" in written.output
    again = run(app, ["curate", "annotate", str(bench.directory), "--to", "jsonl", out])
    assert isinstance(again.exception, BonError)
    assert "there already" in str(again.exception)
    with Path(out).open(encoding="utf-8-sig", newline="") as file:
        rows = list(csv.DictReader(file))
    for row in rows:
        row["better"] = "tie"
    with Path(out).open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    asked = ["curate", "annotate", str(bench.directory), "--from", out, "--annotator", "ann"]
    assert "4 answers of 1 person" in run(app, asked).output
    assert "0 new" in run(app, asked).output
    standing = run(app, ["curate", "annotate", str(bench.directory)]).output
    assert "0 of 4 items" in standing
    assert "ann" in standing
    assert "bon serve" in standing
    with sqlite3.connect(bench.annotations_path) as db:
        assert db.execute("SELECT COUNT(*) FROM annotations").fetchone() == (4,)
