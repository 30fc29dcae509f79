"""`bon list` and `bon show`."""

import re

import pytest
from typer.testing import CliRunner

from bon.benchmarks import BENCHMARKS
from bon.choosing.rules import RULES
from bon.commands.main import app
from bon.core.console import show_listing
from bon.core.errors import BonError
from bon.work.catalogue import find_card, listing, show_card


@pytest.mark.parametrize(
    ("what", "name", "keys"),
    [
        ("policies", "qwen2-vl-7b", {"engine", "licence", "size"}),
        ("rewarders", "r1-reward", {"kind", "engine", "licence", "size"}),
        ("benchmarks", "mmmu_pro", {"licence", "holds"}),
        ("rules", "knockout", {"reads"}),
        ("experiments", "paper", {"rewarders"}),
    ],
)
def test_lists(what, name, keys, monkeypatch):
    rows = listing(what)
    assert name in [row["name"] for row in rows]
    assert keys <= set(rows[0])
    assert len({tuple(row) for row in rows}) == 1
    monkeypatch.setenv("COLUMNS", "250")
    shown = show_listing(rows)
    assert len(shown.splitlines()) == len(rows) + 1
    assert name in shown
    monkeypatch.setenv("COLUMNS", "80")
    narrow = show_listing(rows).splitlines()
    assert max(map(len, narrow)) <= 80
    assert all(any(line.split(" ")[0] == row["name"] for line in narrow) for row in rows)
    assert len(narrow) <= 5 * len(rows) + 2


def test_every_rule_says_what_it_reads():
    assert {row["name"] for row in listing("rules") if row["reads"] != "-"} == set(RULES)


def test_a_list_says_what_was_run():
    rows = {row["name"]: row["run"] for row in listing("rewarders")}
    assert rows["mini-critic-a"] == "yes"
    assert {rows[name] for name in ("r1-reward", "ensemble-scores", "scalar-head")} == {"no"}


def test_an_unknown_list_or_card_gets_the_nearest():
    with pytest.raises(BonError, match="did you mean 'rewarders'"):
        listing("rewarder")
    with pytest.raises(BonError, match="did you mean 'r1-reward'"):
        show_card("r1-rewrd")


@pytest.mark.parametrize("name", [row["name"] for row in listing("rewarders")])
def test_every_rewarder_can_be_shown(name):
    text = show_card(name)
    assert f"name: {name}" in text
    assert "tested:" in text


def test_a_policy_a_judge_and_a_head_are_shown_with_what_they_read():
    assert "A. Two\nB. Three" in show_card("qwen2-vl-7b")
    assert "Overall Judgment: Answer X is better." in show_card("qwen2.5-vl-7b-judge")
    assert "assistant: I count three apples." in show_card("skywork-vl-reward-7b")
    assert "asks nothing" in show_card("ensemble-scores")


def test_a_card_of_the_user_by_its_path(tmp_path):
    (tmp_path / "mine.yaml").write_text(
        "name: mine\nkind: pointwise\nengine: echo\nprompt: yes-no\nscore: {yes: [Yes], no: [No]}\n"
    )
    assert find_card("mine.yaml", tmp_path).card.kind == "pointwise"
    assert "Proposed answer" in show_card("mine.yaml", tmp_path)


@pytest.mark.parametrize("name", BENCHMARKS)
def test_a_benchmark_is_shown_with_every_role_of_its_columns(name):
    shown = CliRunner().invoke(app, ["show", name]).output
    roles = {role for form in BENCHMARKS[name].forms for role in (*form.need, *form.may)}
    assert all(re.search(rf"^    {role}: ", shown, re.M) for role in roles)
    assert BENCHMARKS[name].title in shown


def test_what_stands_in_brackets_is_shown(monkeypatch):
    monkeypatch.setenv("COLUMNS", "250")
    assert "pip install 'bon[interop]'" in " ".join(show_listing(listing("formats")).split())
