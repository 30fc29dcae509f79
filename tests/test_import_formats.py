"""Every format, whole and ill-treated: truncated, shuffled, with every row twice, and empty."""

import random
import warnings
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from bon.core.errors import BonError
from bon.formats import FORMATS, recognise
from bon.importing.import_files import import_files
from bon.storage.store import Store
from tests.formats_made import COUNT, MADE, Rows, lines, questions, text

Found = dict[str, Any]


def name_of(case: str) -> str:
    return case.partition(" ")[0]


def made(folder: Path, case: str, rows: Rows | None = None) -> Path:
    """The file of a case, and those beside it."""
    one = MADE[case]
    lines(folder / "questions.jsonl", questions())
    for other in one.beside:
        MADE[other].write(folder / MADE[other].file, MADE[other].rows())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a ZIP says that a name occurs twice
        one.write(folder / one.file, one.rows() if rows is None else rows)
    return folder / one.file


def imported(folder: Path, case: str, file: Path, out: str = "run") -> Found:
    """What an import of the file comes to: candidates and judgements by their labels."""
    one = MADE[case]
    files = [file, *(folder / MADE[other].file for other in one.beside)]
    about = str(folder / "questions.jsonl") if one.questions else ""
    import_files(files, "p", folder / out, questions=about, quiet=True)
    with Store(folder / out, readonly=True) as store:
        labels = {q.key: q.id for q in store.questions()}
        pairs = {pair.key: pair for _, pair in store.pairs()}
        found: Found = {
            "candidates": {
                (labels[question], index): (text, outcome)
                for question, index, text, outcome in store.query(
                    'SELECT question, "index", text, outcome FROM candidates'
                )
            },
            "pairs": sorted((pair.id, pair.prompt, pair.group) for pair in pairs.values()),
            "said": sorted(
                (row.item, row.first, str(row.second), row.outcome, str(row.score))
                for row in store.stored_judgements()
            ),
            "bad": store.count("bad_rows"),
        }
    return found


def test_every_format_is_made_here_and_known_by_its_content(tmp_path):
    assert {name_of(case) for case in MADE} == set(FORMATS)
    for at, case in enumerate(MADE):
        folder = tmp_path / str(at)
        folder.mkdir()
        assert recognise(made(folder, case)).name == name_of(case), case


@pytest.mark.parametrize("case", MADE)
def test_a_whole_file(tmp_path, case):
    found = imported(tmp_path, case, made(tmp_path, case))
    assert found["bad"] == 0
    assert {label for label, _ in found["candidates"]} == {f"q{i}" for i in range(COUNT)}
    if not MADE[case].beside:
        first = 1 if case.startswith("inspect") else 0
        said = {text(i, first) for i in range(COUNT)}
        assert {t for (_, at), (t, _) in found["candidates"].items() if at == 0} == said or (
            case in ("candidates", "reward_bench_2")  # without texts
        )
    elif case not in ("pairs",):
        assert found["said"]


@pytest.mark.parametrize("case", MADE)
def test_the_order_of_rows_says_nothing(tmp_path, case):
    whole = imported(tmp_path, case, made(tmp_path, case))
    rows = MADE[case].rows()
    random.Random(1).shuffle(rows)
    assert imported(tmp_path, case, made(tmp_path, case, rows), "other") == whole


@pytest.mark.parametrize("case", MADE)
def test_every_row_twice_is_one_row_unless_rows_are_samples(tmp_path, case):
    whole = imported(tmp_path, case, made(tmp_path, case))
    found = imported(tmp_path, case, made(tmp_path, case, MADE[case].rows() * 2), "other")
    if MADE[case].again:  # each row is a sample, or a vote, of its own: twice as many
        kind = "said" if MADE[case].beside else "candidates"
        assert len(found[kind]) == 2 * len(whole[kind])
    else:
        assert found == whole


@pytest.mark.parametrize("share", [0.4, 0.97])
@pytest.mark.parametrize("case", MADE)
def test_what_is_cut_off_is_refused_or_left_out(tmp_path, case, share):
    whole = imported(tmp_path, case, made(tmp_path, case))
    file = made(tmp_path, case)
    data = file.read_bytes()
    file.write_bytes(data[: int(share * len(data))])
    try:
        found = imported(tmp_path, case, file, "other")
    except BonError as error:
        refused = str(error)
    else:
        refused = ""
        assert_part(found, whole)
    assert "\n" not in refused


def assert_part(found: Found, whole: Found) -> None:
    """What is there is as it was."""
    assert found["candidates"].items() <= whole["candidates"].items()
    assert set(found["said"]) <= set(whole["said"])


@pytest.mark.parametrize("case", MADE)
def test_an_empty_file_is_one_line(tmp_path, case):
    file = made(tmp_path, case)
    for data in (b"", b"\n"):
        file.write_bytes(data)
        with pytest.raises(BonError) as refused:
            imported(tmp_path, case, file)
        assert "\n" not in str(refused.value)
        assert str(file) in str(refused.value)


def test_what_the_tools_scored_differently_is_counted(tmp_path):
    rows = [{**row, "hit": int(i % 3 == 1)} for i, row in enumerate(MADE["vlmevalkit"].rows())]
    imported(tmp_path, "vlmevalkit json", made(tmp_path, "vlmevalkit json", rows), "other")
    with Store(tmp_path / "other", readonly=True) as store:
        assert not store.meta("notes")  # its scores are those of our extractor
    rows = [{**row, "hit": 1} for row in rows]
    imported(tmp_path, "vlmevalkit json", made(tmp_path, "vlmevalkit json", rows), "third")
    with Store(tmp_path / "third", readonly=True) as store:
        (note,) = store.meta("notes")
    assert note.startswith("5 of 8 answers were scored differently by the tool that sampled them")


def test_cells_that_a_spreadsheet_cut_are_said(tmp_path):
    rows = MADE["vlmevalkit"].rows()
    rows[3]["prediction"] = "x" * 32_767
    rows[4]["prediction"] = "Failed to obtain answer via API."
    found = imported(tmp_path, "vlmevalkit", made(tmp_path, "vlmevalkit", rows))
    assert found["candidates"]["q4", 0] == ("", "error")
    with Store(tmp_path / "run", readonly=True) as store:
        (note,) = store.meta("notes")
    assert "exactly 32,767 characters: 1, the first of question q3" in note


def test_a_pickle_is_not_opened(tmp_path):
    (tmp_path / "M_MMMU.pkl").write_bytes(b"cos\nsystem\n(S'touch pwned'\ntR.")
    with pytest.raises(BonError, match="PRED_FORMAT=tsv"):
        import_files([tmp_path / "M_MMMU.pkl"], "p", tmp_path / "run", quiet=True)


def test_several_runs_are_several_candidates_and_questions_add_images(tmp_path):
    files = []
    for sample in (0, 1):
        rows = MADE["vlmevalkit"].rows()
        rows = [{**row, "prediction": text(i, sample)} for i, row in enumerate(rows)]
        (tmp_path / f"T{sample}").mkdir()
        files.append(tmp_path / f"T{sample}" / "M_MMMU.xlsx")
        MADE["vlmevalkit"].write(files[-1], rows)
    Image.new("RGB", (4, 4), "red").save(tmp_path / "red.png")
    lines(tmp_path / "questions.jsonl", [{**row, "image": "red.png"} for row in questions()])
    about = str(tmp_path / "questions.jsonl")
    import_files(files, "p", tmp_path / "run", questions=about, quiet=True)
    with Store(tmp_path / "run", readonly=True) as store:
        assert store.count("candidates") == 2 * COUNT
        assert all(len(question.images) == 1 for question in store.questions())
    other = [{**row, "options": ["one", "seven", "none"]} for row in questions()]
    lines(tmp_path / "questions.jsonl", other)
    with pytest.raises(BonError, match=r"\(q0\): the options are .* in .*'one', 'seven'"):
        import_files(files, "p", tmp_path / "third", questions=about, quiet=True)
