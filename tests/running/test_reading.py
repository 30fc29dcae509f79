"""A rule that reads replies changes, and what was bought is read again instead of bought again."""

import pytest

from bon.storage.store import Store

HEDGED = "I do not think that Overall Judgment: Answer {choice} is better."


def with_rule(experiment, name, **changes):
    rewarders = []
    for card in experiment["rewarders"]:
        rule = "verdict" if "verdict" in card else "score"
        changed = {**card, rule: {**card[rule], **changes}} if card["name"] == name else card
        rewarders.append(changed)
    return {**experiment, "rewarders": rewarders}


def rows(directory, name):
    with Store(directory, readonly=True) as store:
        return store.query(
            "SELECT key, outcome, score, first, error, text, seconds FROM judgements "
            "WHERE rewarder = ? ORDER BY key",
            (name,),
        )


@pytest.fixture
def experiment(make_experiment):
    made = make_experiment()
    judge, critic, _ = made["rewarders"]
    judge["engine_args"] = {**judge["engine_args"], "reply": HEDGED}
    marks = {"pattern": r"Score: (\d+)", "values": {}, "range": [0, 10]}
    critic = {**critic, "score": marks, "engine_args": {"reply": "I say {choice}.\nScore: 1"}}
    lister = {
        "name": "lister", "kind": "listwise", "engine": "echo", "placement": {"group": "all"},
        "prompt": {"text": "{{ prompt }} {{ responses }}"}, "score": {"pattern": r"Best: (\d+)"},
        "engine_args": {"reply": "Now then.\nBest: {choice}"},
    }  # fmt: skip
    return {**made, "rewarders": [judge, critic, lister]}


@pytest.mark.parametrize("name", ["judge", "critic", "lister"])
def test_another_reader_reads_stored_replies_again(experiment, go, name):
    strict = rows(go(experiment), name)
    published = rows(go(with_rule(experiment, name, reader="published")), name)
    assert [row[0] for row in strict] == [row[0] for row in published]
    assert [row[5:] for row in strict] == [row[5:] for row in published]  # nothing asked again
    if name == "judge":
        assert {row[1] for row in strict} == {"unparsed"}
        assert {row[4] for row in strict} == {"states its verdict within other words"}
        assert {row[1] for row in published} == {"first", "second"}
        assert {row[4] for row in published} == {""}
    if name == "critic":
        assert {(row[1], row[2]) for row in strict} == {("scored", 1.0)}
    again = rows(go(experiment), name)
    assert again == strict


def test_a_run_of_the_first_version_is_read_by_the_strict_reader(experiment, go):
    """It wrote down no reader of judgements, and took the last match."""
    directory = go(with_rule(experiment, "judge", reader="published"))
    with Store(directory) as store:
        policies = {
            spec: mode for spec, mode in store.meta("readers").items() if mode == "official"
        }
        store.set_meta(readers=policies)
    assert {row[1] for row in rows(go(experiment), "judge")} == {"unparsed"}


def test_another_pattern_reads_stored_replies_again(experiment, go):
    before = rows(go(experiment), "judge")
    # What was found to doubt its verdict is now asked for what it doubts.
    doubted = with_rule(
        experiment, "judge", pattern=r"(think that Answer) \d", tie=["think that answer"]
    )
    after = rows(go(with_rule(doubted, "judge", reader="published")), "judge")
    assert [row[0] for row in before] == [row[0] for row in after]
    assert [row[5:] for row in before] == [row[5:] for row in after]
    assert {row[1] for row in before} == {"unparsed"}
    marks = rows(go(experiment), "critic")
    other = rows(go(with_rule(experiment, "critic", range=[0, 0.5])), "critic")
    assert {row[1] for row in marks} == {"scored"}
    assert [(row[0], row[1], row[5:]) for row in other] == [
        (row[0], "unparsed", row[5:]) for row in marks
    ]


def test_two_readings_of_one_judge_have_their_own_replies(experiment, go):
    judge = experiment["rewarders"][0]
    rule = {**judge["verdict"], "reader": "published"}
    twice = {**experiment, "rewarders": [judge, {**judge, "name": "published", "verdict": rule}]}
    before = rows(go(experiment), "judge")
    directory = go(twice)
    assert rows(directory, "judge") == before
    published = rows(directory, "published")
    assert len(published) == len(before)
    assert {row[1] for row in published} == {"first", "second"}
