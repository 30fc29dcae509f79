"""`bon curate draw`: a recipe for runs that can be used, and one line for those that cannot."""

import json
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from bon.commands.main import app
from bon.core.errors import BonError
from bon.curating.judged_runs import begin
from bon.curating.recipe import (
    Annotating,
    Curation,
    read_curation,
)
from bon.curating.workbench import open_workbench
from bon.experiment.yamlfile import load_yaml
from bon.formats.score_tables import WITHOUT_TEXT
from tests.running.conftest import change


def test_the_recipe_shows_every_key_and_is_read_back(judged, tmp_path):
    out = tmp_path / "benches" / "mine"
    done = CliRunner().invoke(app, ["curate", "draw", str(judged), "--out", str(out)])
    assert done.exit_code == 0, done.output
    assert "items: " in done.output
    recipe = open_workbench(out).recipe
    assert (out / recipe.runs[0]).resolve() == judged.resolve()
    shown = load_yaml((out / "recipe.yaml").read_text())
    assert set(shown) == set(Curation.model_fields)
    assert set(shown["annotating"]) == set(Annotating.model_fields)


def test_a_recipe_is_never_overwritten(judged, tmp_path):
    begin([judged], tmp_path)
    (tmp_path / "recipe.yaml").write_text("mine")
    with pytest.raises(BonError, match="already exists"):
        begin([judged], tmp_path)
    assert (tmp_path / "recipe.yaml").read_text() == "mine"


def refusal(tmp_path: Path, run: Path, *more: Path) -> str:
    with pytest.raises(BonError) as refused:
        begin([run, *more], tmp_path / "bench")
    assert not (tmp_path / "bench").exists()
    return str(refused.value)


def test_runs_that_cannot_be_used(judged, tmp_path):
    assert "no run in" in refusal(tmp_path, tmp_path / "nowhere")
    copy = tmp_path / "run"
    shutil.copytree(judged, copy)
    change(copy, "DELETE FROM candidates WHERE policy = 'talker'")
    assert "not complete: talker has 0 of 144 candidates" in refusal(tmp_path, copy)


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        (f"UPDATE candidates SET finish = '{WITHOUT_TEXT}'", "answers with a text 288 to 0"),
        ("UPDATE candidates SET outcome = 'unparsed'", "answers that were extracted 288 to 0"),
    ],
)
def test_a_run_without_pairs_leaves_no_recipe(judged, tmp_path, sql, said):
    run = shutil.copytree(judged, tmp_path / "run")
    change(run, sql)
    out = tmp_path / "bench"
    done = CliRunner().invoke(app, ["curate", "draw", str(run), "--out", str(out)])
    assert isinstance(done.exception, BonError)
    assert "no question has both a right and a wrong answer" in str(done.exception)
    assert said in str(done.exception)
    assert not (out / "recipe.yaml").exists()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("runs: [r]\npairs: [{benchmark: preference, path: p}]", "`runs` or `pairs`"),
        ("runs: [r]\npopular_wrong: 1", "popular_wrong"),
        ("runs: []", "runs"),
        ("runs: [r]\nitems: 3", "items"),
        (json.dumps({"runs": ["r"], "held_out": 1}), "held_out"),
    ],
)
def test_a_recipe_that_is_wrong(tmp_path, text, said):
    (tmp_path / "recipe.yaml").write_text(text)
    with pytest.raises(BonError, match=said):
        read_curation(tmp_path / "recipe.yaml")
