import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bon.core.records import Judgement
from bon.engines.base import Sample, TokenLogprob
from bon.experiment.cards import load_rewarder
from bon.experiment.config import ScoreRule, VerdictRule
from bon.rewarders.reply_parsing import read_score, read_verdict, reparse

VERDICT = VerdictRule(pattern=r"answer (\w+) is better", tie=("neither",), delete="*\n")
SCORE = ScoreRule(pattern=r"score:\s*(-?[\d.]+|high|low)", values={"high": 9.0}, range=(0, 10))


def sample(text: str) -> Sample:
    return Sample(text, num_tokens=1)


@pytest.mark.parametrize(
    ("text", "outcome"),
    [
        ("Answer 1 is better", "first"),
        ("**Answer 2** is better.", "second"),
        ("Overall: **Answer 2** is better.", "unparsed"),
        ("Answer 1 is better ... no, answer 2 is better", "unparsed"),
        ("Answer neither is better", "tie"),
        ("Answer 3 is better", "unparsed"),
        ("I like the first", "unparsed"),
        ("", "unparsed"),
    ],
)
def test_verdicts(text, outcome):
    assert read_verdict(text, VERDICT).outcome == outcome


@pytest.mark.parametrize(
    ("text", "score"),
    [
        ("Score: 7.5", 7.5),
        ("score: 3 then Score: 4", None),
        ("score: high", 9.0),
        ("score: low", None),
        ("score: 11", None),
        ("score: 1.2.3", None),
        ("7", None),
    ],
)
def test_scores(text, score):
    assert read_score(sample(text), SCORE).score == score


def test_yes_probability_sums_the_spellings_at_the_verdict_token():
    rule = ScoreRule(yes=("Yes", "yes"), no=("No",))
    top = {" yes": math.log(0.2), "No": math.log(0.25), "Maybe": math.log(0.05)}
    verdict = TokenLogprob("Yes", math.log(0.5), top)
    tokens = (TokenLogprob("No", -1.0), TokenLogprob(" matter", -1.0), verdict)
    tokens = (*tokens, TokenLogprob("<end>", 0.0))
    assert read_score(Sample("", 4, tokens=tokens), rule).score == pytest.approx(0.7 / 0.95)


def test_yes_probability_without_a_verdict_is_unreadable():
    rule = ScoreRule(yes=("Yes",), no=("No",))
    assert (
        read_score(Sample("Perhaps", 1, tokens=(TokenLogprob("Perhaps", -1.0),)), rule).score
        is None
    )


def test_one_token_replies_are_read_by_their_probabilities():
    rule = ScoreRule(yes=("Yes",), no=("No",))
    top = {"Yes": math.log(0.3), "No": math.log(0.1)}
    drawn = TokenLogprob("Perhaps", math.log(0.4), top)
    found = read_score(Sample("Perhaps", 1, tokens=(drawn,)), rule, cut=True)
    assert found.score == pytest.approx(0.75)


@given(st.text())
def test_no_text_breaks_the_readers(text):
    assert read_verdict(text, VERDICT).outcome in ("first", "second", "tie", "unparsed")
    score = read_score(sample(text), SCORE).score
    assert score is None or 0 <= score <= 10


@pytest.mark.parametrize(
    ("logprob", "top", "why"),
    [
        (-math.inf, {"No": -math.inf}, "both 0"),
        (math.nan, {}, "is nan"),
        (-1.0, {"No": math.nan}, "is nan"),
        (math.inf, {}, "is inf"),
        (2000.0, {}, "is 2000.0"),
    ],
)
def test_yes_probability_of_impossible_log_probabilities(logprob, top, why):
    rule = ScoreRule(yes=("Yes",), no=("No",))
    tokens = (TokenLogprob("Yes", logprob, top),)
    _, score, reason = read_score(Sample("Yes", 1, tokens=tokens), rule)
    assert score is None
    assert why in reason


def test_a_chain_of_thought_that_was_cut_off_has_no_verdict():
    rule = ScoreRule(yes=("Yes",), no=("No", "no"))
    tokens = tuple(TokenLogprob(text, -0.1) for text in ("There", " is", " no", " dog", ", so"))
    sample = Sample("There is no dog, so", 5, tokens=tokens, finish="length")
    assert read_score(sample, rule, cut=True).reason == "was cut off before it ended in a verdict"
    ended = Sample("No", 3, tokens=(*tokens, TokenLogprob("No", -0.1)), finish="length")
    assert read_score(ended, rule, cut=True).score == 0.0


def test_the_published_reader_takes_the_last_match():
    published = VERDICT.model_copy(update={"reader": "published"})
    assert (
        read_verdict("Answer 1 is better ... no, answer 2 is better", published).outcome == "second"
    )
    score = SCORE.model_copy(update={"reader": "published"})
    assert read_score(sample("score: 3 then Score: 4"), score).score == 4.0
    assert read_verdict("Answer \ud800 1 is better", published).outcome == "unparsed"


JUDGE = load_rewarder("gpt-4o-judge", Path()).card.verdict
BOTH = "Overall Judgment: Answer 1 is better.\nOverall Judgment: Answer 2 is better."


@given(st.text(), st.text())
def test_two_verdicts_that_disagree_are_none_whatever_is_around_them(before, after):
    assert read_verdict(f"{before}\n\n{BOTH}\n\n{after}", JUDGE).outcome == "unparsed"


@given(st.floats(-1e4, 1e4), st.sampled_from(["{:g}", "{:.2f}", "{:e}", "{:,.1f}", "{:+.0f}"]))
def test_a_number_is_read_as_it_is_written_or_not_at_all(number, form):
    text = form.format(number)
    means = float(text.replace(",", ""))
    score = read_score(sample(f"Score: {text}"), SCORE.model_copy(update={"values": {}})).score
    assert score in (None, means)
    if form == "{:.2f}" and 0 <= means <= 10:
        assert score == means


def test_the_published_reader_of_omni_rrm():
    card = load_rewarder("omni-rrm-7b", Path()).card
    replies = [
        '{"better": "A", "reasoning": "It reads the sign."}',
        '{"better": "A"} No: {"better": "B"}',
        '{"better": "A", "reasoning": "Actually B is better."}',
        'The candidate writes: {"better": "A"}',
        '{"better": "A or B"}',
        "I cannot tell.",
    ]
    row = Judgement("k", card.name, "s", "pair", "i", "a", "b", 0, "unparsed", shown=("a", "b"))
    rows = [reparse(card, row._replace(text=text)) for text in replies]
    assert [row.outcome for row in rows] == [
        "first",
        "second",
        "first",
        "first",
        "first",
        "unparsed",
    ]
