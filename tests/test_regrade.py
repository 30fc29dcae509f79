"""`bon regrade`: the same answers under every reader, through the command line."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from bon.commands.main import app
from bon.policies.extractors import EXTRACTORS

REAL = Path(__file__).parents[2] / "shared" / "data" / "mmmu_pro_gpt4o"
NINE = [f"option {k}" for k in "pqrstuvwx"]


def write(path: Path, replies: list[object], answer: str = "I") -> Path:
    rows = [
        {"id": f"q{i}", "question": f"{i}?", "options": NINE, "answer": answer, "response": reply}
        for i, reply in enumerate(replies)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def regrade(*arguments: object) -> str:
    result = CliRunner().invoke(app, ["regrade", *map(str, arguments)])
    assert result.exit_code == 0, result.output
    return result.stdout


def test_every_reader_and_a_pattern_on_one_file(tmp_path):
    replies = ["I'm sorry, I can't help.", "Answer: I", r"so \boxed{I}", "final: i", None]
    file = write(tmp_path / "answers.jsonl", replies)
    found = json.loads(regrade(file, "--pattern", r"final: ([a-i])", "--json"))
    assert (found["num_answers"], found["num_errors"], found["num_declined"]) == (5, 1, 1)
    scores = {one["reader"]: one for one in found["readers"]}
    assert {name: one["accuracy"]["value"] for name, one in scores.items()} == {
        "official": pytest.approx(0.4),  # the refusal and the plain one
        "strict": pytest.approx(0.6),  # the plain, the boxed and the labelled one
        "lmms-eval": pytest.approx(0.4),
        "vlmevalkit": pytest.approx(0.6),  # these two and the pronoun
        "pattern": pytest.approx(0.2),
    }
    assert scores["pattern"]["num_unread"] == 4
    assert scores["pattern"]["guessing"] == pytest.approx(0.2 + 4 / 9 / 5)
    assert [one["id"] for one in found["differ"]] == ["q0", "q1", "q2", "q3"]
    refusal = found["differ"][0]["letters"]
    assert (refusal["official"], refusal["strict"]) == ("I", None)


def test_the_table_names_where_readers_differ(tmp_path):
    file = write(tmp_path / "a.jsonl", ["I'm sorry, I can't help."] * 25)
    shown = regrade(file, "--extractor", "official", "--extractor", "strict")
    assert "25 answers to 25 questions; 25 decline to answer" in shown
    assert "25 answers (100.0%) are read differently:" in shown
    assert "and 5 more (--json lists them all)" in shown
    assert "lmms-eval" not in shown
    alike = regrade(write(tmp_path / "b.jsonl", ["Answer: B"]), "--extractor", "strict")
    assert alike.splitlines()[-1] == "0 answers (0.0%) are read differently"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--extractor", "lax"], "no answer extractor 'lax'"),
        (["--pattern", "no group"], "has 0 groups, not exactly one"),
        (["--pattern", "(?=x)(y)"], "RE2"),
        (["--columns", "response"], "has no '='"),
    ],
)
def test_what_cannot_be_read_is_one_line(tmp_path, arguments, said):
    result = CliRunner().invoke(
        app, ["regrade", str(write(tmp_path / "a.jsonl", ["A"])), *arguments]
    )
    assert said in str(result.exception)


def test_scores_are_no_answers(tmp_path):
    file = tmp_path / "scores.csv"
    file.write_text("rewarder,question,candidate,score\nr,q,0,1.5\n")
    result = CliRunner().invoke(app, ["regrade", str(file)])
    assert "holds scores, not answers" in str(result.exception)


@given(st.text(max_size=60), st.lists(st.text(max_size=8), min_size=1, max_size=11))
def test_every_reader_gives_a_letter_of_an_option_or_none(text, options):
    letters = "ABCDEFGHIJK"[: len(options)]
    for read in EXTRACTORS.values():
        assert read(text, letters, options) in {*letters, None}


def test_the_real_answers_under_every_reader():
    file = REAL / "standard10_direct.jsonl"
    if not file.exists():
        pytest.skip(f"no real answers at {file}")
    found = json.loads(regrade(file, "--json"))
    right = {one["reader"]: round(one["accuracy"]["value"], 3) for one in found["readers"]}
    assert right == {"official": 0.401, "strict": 0.384, "lmms-eval": 0.401, "vlmevalkit": 0.383}
    assert found["num_declined"] == 4


def test_a_run_is_regraded_like_the_file_it_came_from(tmp_path):
    file = write(tmp_path / "answers.jsonl", ["Answer: I", r"so \boxed{A}", "no idea"])
    run = str(tmp_path / "run")
    imported = CliRunner().invoke(app, ["import", str(file), "--policy", "p", "--out", run])
    assert imported.exit_code == 0, imported.output
    assert json.loads(regrade(run, "--json")) == json.loads(regrade(file, "--json"))
