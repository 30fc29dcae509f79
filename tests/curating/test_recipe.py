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
    STRATEGIES,
    Annotating,
    Curation,
    Filters,
    read_curation,
    recipe_text,
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
    assert set(shown["filters"]) == set(Filters.model_fields)
    assert set(shown["annotating"]) == set(Annotating.model_fields)
    assert set(shown["quotas"]) == set(STRATEGIES)


def test_what_is_written_are_the_defaults_and_what_was_asked_for(tmp_path):
    wanted = Curation(runs=("../a run: of ours", "b"), items=17, seed=3, held_out=0.5)
    (tmp_path / "recipe.yaml").write_text(recipe_text(wanted))
    assert read_curation(tmp_path / "recipe.yaml") == wanted


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
    assert "occurs twice" in refusal(tmp_path, judged, judged / ".." / judged.name)
    copy = tmp_path / "run"
    shutil.copytree(judged, copy)
    change(copy, "UPDATE candidates SET finish = ?", WITHOUT_TEXT)
    assert "two different answers" in refusal(tmp_path, copy)
    change(copy, "DELETE FROM candidates WHERE policy = 'talker'")
    assert "not complete: talker has 0 of 144 candidates" in refusal(tmp_path, copy)
    change(copy, "UPDATE questions SET data = json_set(data, '$.answer', json('null'))")
    assert "holds no gold answer" in refusal(tmp_path, copy)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("runs: [r]\npairs: [{benchmark: preference, path: p}]", "`runs` or `pairs`"),
        ("runs: [r]\nquotas: {gold: 0.5}", "quotas add up to 0.5, not 1"),
        ("runs: [r]\nquotas: {silver: 1}", "silver"),
        ("runs: []", "runs"),
        ("runs: [r]\nitems: 3", "items"),
        (json.dumps({"runs": ["r"], "held_out": 1}), "held_out"),
    ],
)
def test_a_recipe_that_is_wrong(tmp_path, text, said):
    (tmp_path / "recipe.yaml").write_text(text)
    with pytest.raises(BonError, match=said):
        read_curation(tmp_path / "recipe.yaml")
