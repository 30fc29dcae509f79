"""Drafts: what a judge writes of every item, read or visibly not, paid for once."""

import json

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from bon.commands.main import app
from bon.core.errors import BonError
from bon.curating.labelling.drafts import (
    Draft,
    append_draft,
    draft_items,
    parse_reply,
    plan_drafts,
    read_drafts,
)
from tests.curating.labelled_items import make_bench

REPLY = "It is red.\nReason: it sees three where two are.\nTag: Counting\nBetter: {choice}"
TAGS = ("counting", "right answer, wrong reasoning")


def card(tmp_path, **changes):
    """A judge on the echo engine."""
    given = {
        "name": "judge",
        "kind": "pairwise",
        "engine": "echo",
        "engine_args": {"reply": REPLY, **changes.pop("engine_args", {})},
        "prompt": {"text": "{{ prompt }}{{ first }}{{ second }}"},
        "verdict": {"pattern": "is ([12])"},
        **changes,
    }
    (tmp_path / "judge.yaml").write_text(yaml.safe_dump(given))
    return str(tmp_path / "judge.yaml")


@pytest.fixture
def bench(tmp_path):
    return make_bench(tmp_path / "shapes", pairs=16)


def drafted(bench, by, **options):
    return draft_items(bench, plan_drafts(bench, by, **options), **options)


def test_every_item_gets_a_draft_and_none_is_asked_twice(bench, tmp_path):
    by = card(tmp_path)
    found = drafted(bench, by)
    assert (found.read, found.unparsed, found.failed) == (16, 0, 0)
    drafts = read_drafts(bench.drafts_path)
    assert {one.key for one in bench.items} == drafts.keys()
    for item in bench.items:
        one = drafts[item.key]
        stated = int(one.text.rpartition(": ")[2]) - 1
        assert one.label == str(one.shown[stated])
        assert sorted(one.shown) == list(range(len(item.responses)))
        assert (one.rationale, one.tag) == ("it sees three where two are.", "counting")
    assert len({one.shown for one in drafts.values()}) == 2, "sides are drawn"
    assert drafted(bench, by).read == 0
    assert len(bench.drafts_path.read_text().splitlines()) == 16
    assert drafted(bench, card(tmp_path, name="other")).read == 16


def test_what_cannot_be_read_stays_visible_and_errors_are_asked_again(bench, tmp_path):
    found = drafted(bench, card(tmp_path, engine_args={"unparsed_rate": 0.5, "failure_rate": 0.3}))
    assert found.unparsed > 2
    assert found.failed >= 2
    drafts = read_drafts(bench.drafts_path).values()
    unread = [one for one in drafts if one.outcome == "unparsed"]
    assert all(one.text and one.label == "" for one in unread)
    assert all(one.error for one in drafts if one.outcome == "error")
    again = drafted(bench, card(tmp_path))
    assert again.read == found.failed


def test_a_line_that_was_cut_off_by_a_kill_is_asked_again(bench, tmp_path):
    by = card(tmp_path)
    drafted(bench, by)
    whole = bench.drafts_path.read_bytes()
    bench.drafts_path.write_bytes(whole[:-40])
    assert drafted(bench, by).read == 1
    assert len(read_drafts(bench.drafts_path)) == 16


def test_money_is_asked_for_before_and_kept_to(bench, tmp_path):
    price = {"input_per_million": 10, "output_per_million": 30}
    by = card(tmp_path, cost=price)
    with pytest.raises(BonError, match=r"16 items to draft by judge.*about.*at most") as refused:
        plan_drafts(bench, by)
    enough = float(refused.value.fix.rpartition(" ")[2])
    plan = plan_drafts(bench, by, max_cost=enough)
    assert 0 < plan.estimate < plan.most <= enough
    append_draft(
        bench.drafts_path,
        Draft("gone", "0", "", "", (0, 1), "read", "judge", "p", cost=enough - plan.most / 2),
    )
    found = drafted(bench, by, max_cost=enough)
    assert 0 < found.read < 16
    assert found.read + found.left_out == 16
    with pytest.raises(BonError, match=r"has no price"):
        plan_drafts(bench, card(tmp_path), max_cost=1)


def test_cards_that_write_nothing_are_refused(bench):
    with pytest.raises(BonError, match=r"scalar-head .scalar. generates no text"):
        plan_drafts(bench, "scalar-head")
    with pytest.raises(BonError, match=r"ensemble-judges .ensemble. generates no text"):
        plan_drafts(bench, "ensemble-judges")


def test_the_command_says_what_it_will_cost_and_what_came_of_it(bench, tmp_path):
    asked = ["curate", "draft", str(bench.directory), "--by"]
    done = CliRunner().invoke(app, [*asked, card(tmp_path)])
    assert "16 items to draft by judge, 0 already drafted; its card has no price" in done.output
    assert "16 drafts, 0 replies could not be parsed" in done.output
    failing = CliRunner().invoke(
        app, [*asked, card(tmp_path, name="x", engine_args={"failure_rate": 1.0})]
    )
    assert "16 items have no draft" in str(failing.exception)
    lines = bench.drafts_path.read_text().splitlines()
    assert len([json.loads(line) for line in lines]) == 32


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        ("Reason: a.\nTag: counting\nBetter: 2", ("0", "a.", "counting")),
        ("**Reason:** a b.\n**Tag:** Right answer, wrong reasoning\n**Better:** 1",
         ("1", "a b.", "right answer, wrong reasoning")),
        ("Reason: a\nTag: none\nBetter: tie", ("tie", "a", "")),
        ("Better: cannot", ("cannot", "", "")),
        ("Better: 3", ("", "", "")),
        ("Better: 1\nBetter: 2", ("", "", "")),
        ("I like the first.", ("", "", "")),
        ("", ("", "", "")),
    ],
)  # fmt: skip
def test_replies_are_read_or_not(reply, expected):
    assert parse_reply(reply, (1, 0), TAGS) == expected


@given(st.text(max_size=80), st.booleans())
def test_any_reply_is_read_without_a_fault(reply, cut):
    label, _, tag = parse_reply(reply, (2, 0, 1), TAGS, cut=cut)
    assert label in {"", "0", "1", "2", "tie", "cannot"}
    assert tag in {"", *TAGS}


@pytest.mark.model
def test_a_real_model_drafts_and_what_it_cannot_say_is_unread(tmp_path):
    bench = make_bench(tmp_path / "shapes", pairs=1)
    found = drafted(bench, "mini-pair-a")
    assert found.read + found.unparsed == 1
    (one,) = read_drafts(bench.drafts_path).values()
    assert one.tokens > 0
    assert one.text
