"""Out to another tool and back: every answer as it was meant, and nothing of a wrong file."""

import csv
import sqlite3
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from bon.commands.main import app
from bon.core.errors import BonError
from bon.curating.items import write_items
from bon.curating.labelling.annotations import add, current, history
from bon.curating.labelling.drafts import Draft, save_drafts
from bon.curating.labelling.spreadsheet import export_sheet, import_sheet
from bon.curating.workbench import open_workbench
from tests.curating.labelled_items import curated, make_bench

TAGS = ("counting", "right answer, wrong reasoning", "other")
text = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=30)
people = st.sampled_from(("1", "7", "zoë"))


@st.composite
def answered(draw):
    """Items with any text, and answers: (item, person) -> (choice, tags, why, seconds)."""
    items = []
    for number in range(draw(st.integers(1, 4))):
        item = curated(number)
        texts = [f"{draw(text)} {place}" for place in range(len(item.responses))]
        items.append(replace(item, prompt=draw(text), responses=tuple(texts)))
    said = draw(
        st.dictionaries(
            st.tuples(st.integers(0, len(items) - 1), people),
            st.tuples(
                st.sampled_from(("0", "1", "tie", "cannot")),
                st.lists(st.sampled_from(TAGS), unique=True, max_size=2),
                text.map(str.strip),
                st.integers(0, 900),
            ),
        )
    )
    fit = {(items[at].key, person): answer for (at, person), answer in said.items()}
    return items, fit


def word_of(item, texts, choice):
    """What somebody presses who means this response, from what they are shown."""
    words = {"tie": "tie", "cannot": "cannot"}
    if choice in words:
        return words[choice]
    (found,) = [place for place, shown in texts.items() if shown == item.responses[int(choice)]]
    return found


def shown_texts(fields):
    places = ("left", "right")
    return {place: fields[place] for place in places if fields.get(place)}


def rows_of(file):
    with file.open(encoding="utf-8-sig", newline="") as opened:
        return list(csv.DictReader(opened))


def save(rows, file, delimiter=","):
    with file.open("w", encoding="utf-8", newline="") as opened:
        writer = csv.DictWriter(opened, rows[0], delimiter=delimiter)
        writer.writeheader()
        writer.writerows(rows)
    return file


def spreadsheet(file, items, said):
    """The file as each person fills it in."""
    for person in {who for _, who in said}:
        rows = rows_of(file)
        for row in rows:
            item = items[row["item"]]
            if (item.key, person) in said:
                choice, tags, why, seconds = said[item.key, person]
                bare = {k: v[1:] if v.startswith("'") else v for k, v in row.items()}
                row["better"] = word_of(item, shown_texts(bare), choice)
                row["why"] = f"'{why}"
                row |= {"tag": "; ".join(tags), "annotator": person, "seconds": str(seconds)}
        yield save(rows, file.with_name(f"{person}.csv"), ";")  # as saved in Germany


@settings(max_examples=15, deadline=None)
@given(answered())
def test_every_answer_comes_back_as_it_was_meant(made):
    items, said = made
    with tempfile.TemporaryDirectory() as folder:
        bench = make_bench(Path(folder) / "bench", pairs=1, images=0, tags=list(TAGS))
        write_items(items, bench.items_path)
        bench = open_workbench(bench.directory)
        empty = Path(folder) / "sheet" / "empty.csv"
        export_sheet(bench, empty)
        filled = list(spreadsheet(empty, {one.key: one for one in items}, said))
        for file in filled:
            import_sheet(bench, file)
        rows = current(bench.annotations_path)
        for row in rows:
            choice, tags, why, seconds = said.pop((row.item, row.annotator))
            assert (row.choice, list(row.tags), row.source) == (choice, tags, "jsonl")
            assert row.rationale.split() == why.split()
            assert row.seconds == seconds
        assert said == {}
        before = len(history(bench.annotations_path))
        assert all(import_sheet(bench, file).added == 0 for file in filled)
        assert len(history(bench.annotations_path)) == before


# ------------------------------------------------------------------ what the files are


@pytest.fixture
def bench(tmp_path):
    found = make_bench(tmp_path / "shapes", pairs=4)
    drafts = [Draft(item.key, "1", "It miscounts.", "counting") for item in found.items]
    save_drafts(found.drafts_path, drafts)
    return found


def test_drafts_stay_here_unless_they_are_asked_for(bench, tmp_path):
    export_sheet(bench, tmp_path / "x.csv")
    assert "miscounts" not in (tmp_path / "x.csv").read_text()
    export_sheet(bench, tmp_path / "y.csv", drafts=True)
    assert "miscounts" in (tmp_path / "y.csv").read_text()


def test_no_cell_is_a_formula(bench, tmp_path):
    items = [replace(one, prompt="=1+1", responses=("@a", "-b")) for one in bench.items[:3]]
    write_items(items, bench.items_path)
    export_sheet(open_workbench(bench.directory), tmp_path / "x.csv")
    with (tmp_path / "x.csv").open(encoding="utf-8-sig", newline="") as file:
        for row in csv.reader(file):
            assert not any(cell.startswith(("=", "+", "-", "@")) for cell in row)


# ------------------------------------------------------------------ wrong files


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("nonsense", "no column better, item"),
        ("a,b\n1,2\n", "no column better, item"),
        ("item,better\nx,left\n", "row 1: no item 'x' in shapes"),
    ],
)
def test_files_of_another_kind_are_refused(bench, tmp_path, text, message):
    (tmp_path / "x.csv").write_text(text)
    with pytest.raises(BonError, match=message):
        import_sheet(bench, tmp_path / "x.csv")


def test_a_sheet_saved_as_windows_1252_is_refused(bench, tmp_path):
    (tmp_path / "x.csv").write_bytes("item,better\nzoë,left\n".encode("cp1252"))
    with pytest.raises(BonError, match="UTF-8"):
        import_sheet(bench, tmp_path / "x.csv")


def filled(bench, tmp_path, *rows):
    """A sheet with these changes to its first rows."""
    if not (tmp_path / "x.csv").exists():
        export_sheet(bench, tmp_path / "x.csv")
    first = rows_of(tmp_path / "x.csv")[0]
    return save([{**first, **row} for row in rows], tmp_path / "filled.csv")


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([{"better": "left", "left": "Edited."}], "its left is not what was exported"),
        ([{"better": "left", "question": "Why?"}], "its question is not what was exported"),
        ([{"better": "links", "annotator": "ann"}], "better is 'links'"),
        ([{"better": "third", "annotator": "ann"}], "better is 'third'"),
        ([{"better": "left"}], "names no annotator"),
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
        import_sheet(bench, path)
    assert history(bench.annotations_path) == []


def test_an_answer_that_changed_counts_and_the_page_s_stay(bench, tmp_path):
    one = bench.items[0]
    path = filled(bench, tmp_path, {"better": "left", "annotator": "ann"})
    import_sheet(bench, path)
    (row,) = current(bench.annotations_path)
    add(bench.annotations_path, replace(row, annotator="bob", source="page"))
    path = filled(bench, tmp_path, {"better": "right", "annotator": "ann"})
    assert import_sheet(bench, path).added == 1
    assert {said.annotator for said in current(bench.annotations_path)} == {"ann", "bob"}
    assert one.key == row.item


def test_the_command_writes_reads_and_says_how_far_people_are(bench, tmp_path):
    run = CliRunner().invoke
    out = str(tmp_path / "x.csv")
    written = run(app, ["curate", "annotate", str(bench.directory), out])
    assert written.exit_code == 0
    assert "x.csv" in written.output
    again = run(app, ["curate", "annotate", str(bench.directory), out])
    assert isinstance(again.exception, BonError)
    assert "already exists" in str(again.exception)
    save([{**row, "better": "tie"} for row in rows_of(Path(out))], Path(out))
    asked = ["curate", "annotate", str(bench.directory), "--from", out, "--annotator", "ann"]
    assert "4 answers of 1 annotator" in run(app, asked).output
    assert "0 new" in run(app, asked).output
    standing = run(app, ["curate", "annotate", str(bench.directory)]).output
    assert "0 of 4 items" in standing
    assert "ann" in standing
    assert "bon serve" in standing
    with sqlite3.connect(bench.annotations_path) as db:
        assert db.execute("SELECT COUNT(*) FROM annotations").fetchone() == (4,)
