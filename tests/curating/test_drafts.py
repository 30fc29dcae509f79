"""Drafts: what a judge writes of every item, read or visibly not, paid for once."""

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from bon.commands.main import app
from bon.core.errors import BonError
from bon.core.keys import text_key
from bon.curating.labelling.drafts import (
    draft_experiment,
    parse_reply,
    read_drafts,
    write_drafts,
)
from bon.storage.store import Store
from tests.curating.labelled_items import make_bench
from tests.running.conftest import go_in

REPLY = "It is red.\nReason: it sees three where two are.\nBetter: {choice}"


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


def drafted(bench, by):
    """Counts of the drafts, asked for in this process."""
    go_in(bench.directory)(
        draft_experiment(bench, by), out="drafted", retry_errors=True, replace=True
    )
    return write_drafts(bench)


def test_every_item_gets_a_draft_and_none_is_asked_twice(bench, tmp_path):
    by = card(tmp_path)
    assert drafted(bench, by) == {"read": 16, "failed": 0}
    drafts = read_drafts(bench.drafts_path)
    assert {one.key for one in bench.items} == drafts.keys()
    shown = set()
    with Store(bench.drafted, readonly=True) as store:
        items = {item.id: item for item in bench.items}
        for _, pair in store.pairs():
            item = items[pair.id]
            (row,) = (r for r in store.stored_judgements() if r.item == pair.key)
            stated = row.shown[int(row.text.rpartition(": ")[2]) - 1]
            label = [text_key(text) for text in item.responses].index(stated)
            assert drafts[item.key].label == str(label)
            shown.add(row.shown[0] == text_key(item.responses[0]))
    assert shown == {True, False}, "sides are drawn"
    draft = drafts[bench.items[0].key]
    assert draft.rationale == "it sees three where two are."
    assert drafted(bench, by)["read"] == 16
    with Store(bench.drafted, readonly=True) as store:
        assert store.count("judgements", "TRUE") == 16
    reply = "Reason: it says so.\nBetter: {choice}"
    other = card(tmp_path, name="other", engine_args={"reply": reply})
    assert drafted(bench, other)["read"] == 16
    assert {one.rationale for one in read_drafts(bench.drafts_path).values()} == {"it says so."}


def test_what_cannot_be_read_stays_visible_and_errors_are_asked_again(bench, tmp_path):
    found = drafted(bench, card(tmp_path, engine_args={"unparsed_rate": 0.5, "failure_rate": 0.3}))
    assert found["unparsed"] > 2
    assert found["failed"] >= 2
    drafts = read_drafts(bench.drafts_path).values()
    assert sum(one.label == "" for one in drafts) == found["unparsed"]
    assert len(drafts) == 16 - found["failed"]
    assert drafted(bench, card(tmp_path))["failed"] == 0


def test_a_card_with_a_price_needs_a_limit(bench, tmp_path):
    by = card(tmp_path, cost={"input_per_million": 10, "output_per_million": 30})
    with pytest.raises(BonError, match=r"judge has a price -> .*--max-cost DOLLARS"):
        draft_experiment(bench, by)
    assert draft_experiment(bench, by, max_cost=2)["cluster"] == {"spending_cap": 2}


def test_cards_that_write_nothing_are_refused(bench):
    with pytest.raises(BonError, match=r"scalar-head .scalar. generates no text"):
        draft_experiment(bench, "scalar-head")
    with pytest.raises(BonError, match=r"ensemble-judges .ensemble. generates no text"):
        draft_experiment(bench, "ensemble-judges")


@pytest.mark.slow
def test_the_command_says_what_came_of_it(bench, tmp_path):
    asked = ["curate", "label", str(bench.directory), "--draft-by"]
    done = CliRunner().invoke(app, [*asked, card(tmp_path)])
    assert "16 drafts, 0 replies could not be parsed" in done.output
    failing = CliRunner().invoke(
        app, [*asked, card(tmp_path, name="x", engine_args={"failure_rate": 1.0})]
    )
    assert "16 items have no draft" in str(failing.exception)
    assert len(read_drafts(bench.drafts_path)) == 16, "those of the other card"


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        ("Reason: a.\nBetter: 2", ("0", "a.")),
        ("**Reason:** a b.\n**Better:** 1", ("1", "a b.")),
        ("Reason: a\nBetter: tie", ("tie", "a")),
        ("Better: cannot", ("cannot", "")),
        ("Better: 3", ("", "")),
        ("Better: 1\nBetter: 2", ("", "")),
        ("I like the first.", ("", "")),
        ("", ("", "")),
    ],
)
def test_replies_are_read_or_not(reply, expected):
    assert parse_reply(reply, (1, 0)) == expected


@given(st.text(max_size=80), st.booleans())
def test_any_reply_is_read_without_a_fault(reply, cut):
    label, _ = parse_reply(reply, (1, 0), cut=cut)
    assert label in {"", "0", "1", "tie", "cannot"}


@pytest.mark.model
def test_a_real_model_drafts_and_what_it_cannot_say_is_unread(tmp_path):
    bench = make_bench(tmp_path / "shapes", pairs=1)
    found = drafted(bench, "mini-pair-a")
    assert found["read"] + found["unparsed"] == 1
