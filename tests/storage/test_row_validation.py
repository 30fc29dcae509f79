"""The door into the store: whatever a model or a user's class gives, the run stays sound."""

import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from running.conftest import change

from bon.core.errors import BonError
from bon.core.records import Candidate, Judgement
from bon.running.reporting import open_run, report_run
from bon.storage.row_validation import validate_candidate, validate_judgement
from bon.storage.store import Store
from bon.work.run_tables import run_tables
from tests.engines.fake_endpoint import ordinary, serve

CANDIDATE = Candidate("c1", "k1", "pol", "spec", 0, "Answer: A", "t1", "A", "parsed", 7)
JUDGEMENT = Judgement("j1", "rew", "rspec", "pair", "p1", "t1", "t2", 0, "first")
SCORED = JUDGEMENT._replace(second=None, outcome="scored", score=0.5)

TEXTS = st.text(st.characters(exclude_categories=())) | st.none() | st.binary(max_size=3)
NUMBERS = st.one_of(
    st.floats(),
    st.integers(),
    st.none(),
    st.text(max_size=4),
    st.booleans(),
    st.complex_numbers(),
    st.floats(width=32).map(np.float32),
    st.integers(-5, 5).map(np.int64),
    st.floats().map(lambda x: np.array([x])),
    st.just(np.array([1.0, 2.0])),
    st.binary(max_size=8),
)
OUTCOMES = st.sampled_from(
    ["first", "second", "tie", "scored", "chosen", "unparsed", "error", "parsed"]
) | st.sampled_from(["win", "", None, 3, float("nan")])
AMOUNTS = {name: NUMBERS for name in ("num_tokens", "num_prompt_tokens", "seconds", "cost")}
JUDGEMENTS = st.builds(
    JUDGEMENT._replace,
    outcome=OUTCOMES,
    score=NUMBERS,
    text=TEXTS,
    error=TEXTS,
    second=st.sampled_from([None, "t2"]),
    shown=st.sampled_from([(), ("t1", "t2"), ("t1", "t2", "t3")]),
    **AMOUNTS,
)
CANDIDATES = st.builds(
    CANDIDATE._replace,
    outcome=OUTCOMES,
    answer=TEXTS,
    text=TEXTS,
    logprob=NUMBERS,
    finish=TEXTS,
    error=TEXTS,
    **AMOUNTS,
)


def amounts_are_sound(row):
    for name in AMOUNTS:
        assert math.isfinite(getattr(row, name))
        assert getattr(row, name) >= 0


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    with Store(tmp_path_factory.mktemp("run")) as store:
        yield store


@settings(max_examples=300)
@given(rows=st.lists(JUDGEMENTS, max_size=3))
def test_every_judgement_is_kept_and_comes_back_sound(store, rows):
    store.db.execute("DELETE FROM judgements")
    rows = [row._replace(key=f"j{place}") for place, row in enumerate(rows)]
    stored = store.add_judgements(rows)
    back = store.judgements("rspec", "p1")
    assert sorted(back, key=lambda row: row.key) == stored
    for row, given_row in zip(stored, rows, strict=True):
        assert validate_judgement(row) == row
        amounts_are_sound(row)
        assert row.score is None or math.isfinite(row.score)
        if row.outcome == "scored":
            assert row.score is not None
        if row.outcome != given_row.outcome:
            assert row.outcome in ("unparsed", "error")
            assert row.error


@settings(max_examples=300)
@given(row=CANDIDATES)
def test_every_candidate_is_kept_and_comes_back_sound(store, row):
    store.db.execute("DELETE FROM candidates")
    (stored,) = store.add_candidates([row])
    assert store.candidates("spec", "k1") == [stored]
    assert validate_candidate(stored) == stored
    amounts_are_sound(stored)
    assert (stored.outcome == "parsed") == (stored.answer is not None)
    assert stored.logprob is None or math.isfinite(stored.logprob)


@pytest.mark.parametrize(
    ("score", "outcome", "stored", "reason"),
    [
        (np.float32(0.25), "scored", 0.25, ""),
        (np.int64(3), "scored", 3.0, ""),
        (True, "scored", 1.0, ""),
        (float("nan"), "unparsed", None, "score nan is not finite"),
        (np.float32("inf"), "unparsed", None, "is not finite"),
        (-math.inf, "unparsed", None, "score -inf is not finite"),
        ("7/10", "error", None, "score '7/10' is not a number"),
        (None, "error", None, "score None is not a number"),
    ],
)
def test_scores(score, outcome, stored, reason):
    row = validate_judgement(SCORED._replace(score=score))
    assert (row.outcome, row.score) == (outcome, stored)
    assert reason in row.error


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        (JUDGEMENT._replace(outcome="win"), "outcome 'win' is not one of"),
        (SCORED._replace(outcome="first"), "does not fit 1 shown"),
        (JUDGEMENT._replace(outcome="scored", score=1.0), "does not fit 2 shown"),
        (SCORED._replace(outcome="chosen", shown=("t1", "t2"), score=2.0), "chose 2.0 of 2"),
        (SCORED._replace(outcome="chosen", shown=("t1", "t2"), score=0.5), "chose 0.5 of 2"),
    ],
)
def test_what_no_rewarder_may_answer_is_an_error(row, reason):
    stored = validate_judgement(row)
    assert stored.outcome == "error"
    assert reason in stored.error


def test_a_halved_character_is_replaced_and_a_pair_of_halves_joined():
    row = validate_candidate(CANDIDATE._replace(text="a\ud83d\ude00b\ud800c"))
    assert row.text == "a\U0001f600b\ufffdc"
    assert row.text_key != CANDIDATE.text_key
    assert row.outcome == "parsed"
    assert "not Unicode" in row.error


ODD = """
import numpy as np
from bon.rewarders.base import Rewarder, Verdict

class Odd(Rewarder):
    arity = "one"

    async def judge(self, item, shown, seeds):
        number = int(shown[0], 16) % 8
        if number == 6:
            return [Verdict("win", score=1.0, text="\\ud800")] * len(seeds)
        if number == 7:
            return "not a list"
        score = [np.float32(0.5), "0.5", float("nan"), np.inf, None, 2][number]
        return [Verdict("scored", score=score, text="\\udfff says")] * len(seeds)

class OddChoice(Rewarder):
    arity = "many"

    async def judge(self, item, shown, seeds):
        score = [0, 1.0, float("nan"), 99, "first", None][int(item.key, 16) % 6]
        return [Verdict("chosen", score=score)] * len(seeds)
"""


def test_a_class_that_answers_anything_bricks_nothing(make_experiment, go, tmp_path):
    experiment = make_experiment(questions=20, judging={"skip": "nothing"})
    (tmp_path / "odd_rewarder.py").write_text(ODD)
    own = {"kind": "python", "engine": "echo"}
    experiment["rewarders"] += [
        {**own, "name": "odd", "python": "odd_rewarder:Odd"},
        {**own, "name": "choice", "python": "odd_rewarder:OddChoice"},
    ]
    experiment["cluster"] = {"max_error_share": 1.0}
    directory = go(experiment)
    with Store(directory, readonly=True) as store:
        assert store.meta("failed") == {}
        found = store.query("SELECT outcome, score, error FROM judgements WHERE rewarder = 'odd'")
        choices = store.query("SELECT outcome FROM judgements WHERE rewarder = 'choice'")
    assert {outcome for outcome, _, _ in found} == {"scored", "unparsed", "error"}
    assert {(o,) for o in ("chosen", "error")} == set(choices)
    assert {score for outcome, score, _ in found if outcome == "scored"} == {0.5, 2.0}
    assert all(error for outcome, _, error in found if outcome != "scored")
    rows = len(found)
    go(experiment)
    with Store(directory, readonly=True) as store:
        assert store.count("judgements", "rewarder = 'odd'") == rows


def test_what_another_program_stored_unchecked_can_be_reported(make_experiment, go):
    directory = go(make_experiment())
    with Store(directory, readonly=True) as store:
        keys = [k for (k,) in store.query("SELECT key FROM judgements WHERE rewarder = 'head'")]
    for key, score in zip(keys, (float("inf"), b"\x00\x00\x80?", "seven"), strict=False):
        change(directory, "UPDATE judgements SET score = ? WHERE key = ?", score, key)
    change(directory, "UPDATE judgements SET outcome = 'win' WHERE key = ?", keys[3])
    with Store(directory, readonly=True) as store:
        tables = run_tables(open_run(store), store)
    odd = tables.judgements[tables.judgements.outcome.isin(["unparsed", "error"])]
    assert len(odd) == 4
    assert odd.score.isna().all()
    report_run(directory, quiet=True)


def test_data_that_is_not_unicode_is_cleaned_and_counted(make_experiment, go, tmp_path):
    experiment = make_experiment()
    for name, place in (("questions.jsonl", "question"), ("pairs.jsonl", "chosen")):
        lines = (tmp_path / name).read_text().splitlines()
        row = json.loads(lines[0])
        row[place] += " \ud800"
        (tmp_path / name).write_text("\n".join([json.dumps(row), *lines[1:]]))
    (policy,) = experiment["policies"]
    policy["engine_args"]["reply"] = "Answer: {choice} \udc00"
    with pytest.raises(BonError, match=r"reply: .* is not Unicode"):
        go(experiment)

    def behave(_, body):
        answer = ordinary(body)
        for choice in answer["choices"]:
            choice["message"]["content"] += " \udc00"
        return 200, {}, answer

    with serve(behave) as endpoint:
        del policy["placement"]
        policy |= {"engine": "openai", "model": "m"}
        policy["engine_args"] = {"base_url": endpoint.url, "api_key_env": None}
        directory = go(experiment)
    path = report_run(directory, quiet=True)
    warnings = json.loads((path.parent / "results.json").read_text())["warnings"]
    said = "held characters that are not Unicode; they were replaced"
    assert [w for w in warnings if said in w] == [
        f"1 questions {said}",
        f"1 pairs {said}",
        f"48 candidates of policy {said}",
    ]
