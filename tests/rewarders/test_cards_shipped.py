"""The shipped rewarder cards: valid, honest, readable replies, prompts that render. No model."""

import math
import re
from pathlib import Path

import pytest

from bon.engines.base import Sample, TokenLogprob
from bon.experiment.cards import load_policy, load_rewarder, shipped
from bon.experiment.config import Price
from bon.rewarders.registry import rewarder_class
from bon.rewarders.reply_parsing import read_score, read_verdict
from bon.work.catalogue import sample_values
from tests.rewarders.wordings import OURS, in_our_words

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "rewarders" / "cards"
CARDS = sorted(path.stem for path in FOLDER.glob("*.yaml"))

# Reply in the documented format of a prompt -> what it says.
VERDICTS = {
    "pairwise": {
        "Both are clear.\n**Overall Judgment: Answer 2 is better.**": "second",
        "Therefore, Answer 1 is slightly better.\nOverall Judgment: Answer 1 is better.": "first",
        "Overall Judgment: Answer 3 is better.": "unparsed",
        "I cannot tell.": "unparsed",
    },
    "pairwise-think": {
        "<think>Response 1 errs.</think><answer>2</answer>": "second",
        "<think>2 or 1?</think>\n<answer> 1 </answer>": "first",
        "<think>Response 1</think>": "unparsed",
    },
    "pairwise-boxed": {
        r"<think>Response 1 errs, \boxed{1}?</think> \boxed{2}": "second",
        r"<think>x</think> \boxed{Response 1}": "first",
        "<think>x</think> Response 1": "unparsed",
    },
    "pairwise-json": {
        '{"score_A": 8, "better": "A", "reasoning": "B errs"}': "first",
        '```json\n{"reasoning": "A errs", "better": "B"}\n```': "second",
        '{"better": "equal"}': "tie",
        "A is better": "unparsed",
    },
    "pairwise-scored": {
        "<think>Answer 1: 9+8=17</think>\n<answer>Answer 2 is better</answer>": "second",
        "<think>x</think><answer>\nAnswer 1 is better.\n</answer>": "first",
        "Answer 1 is better": "unparsed",
    },
    "pairwise-critic": {
        "Both fail.\nVerdict: tie": "tie",
        "**Verdict: First**": "first",
        "Verdict: second": "second",
        "The first response is better.": "unparsed",
    },
}
SCORES = {
    "pointwise": {"Fine.\nFinal Score: 85": 85.0, "**Final Score:** 7": 7.0, "None.": None},
    "pointwise-critic": {"Fine.\nScore: 40": 40.0, "Score: 140": None},
    "pointwise-think": {
        "<think>Not 2.</think>\n<answer>7</answer>": 7.0,
        "<answer>12</answer>": None,
        "<think>A 7.</think>": None,
    },
    "listwise": {"1 and 3 agree.\nJudgement: 3": 3.0, "Judgment: 2": 2.0, "No idea": None},
}
TABLE_2 = [
    "llava-onevision-7b", "internvl2-8b", "phi-3.5-vision", "qwen2-vl-7b", "qwen2-vl-72b",
    "llama-3.2-11b", "llama-3.2-90b", "molmo-7b", "molmo-72b", "pixtral-12b", "nvlm-d-72b",
    "gpt-4o-mini", "gpt-4o",
]  # fmt: skip


@pytest.fixture(params=CARDS)
def loaded(request):
    found = load_rewarder(request.param, Path())
    assert found.card.name == request.param
    return found


def test_the_promised_rewarders_are_there():
    assert {f"{name}-judge" for name in TABLE_2} <= set(CARDS)
    cards = [load_rewarder(name, Path()).card for name in CARDS]
    kinds = {card.kind for card in cards}
    assert kinds == {
        "pairwise", "pointwise", "scalar", "likelihood", "listwise", "stepwise", "ensemble",
        "rerank",
    }  # fmt: skip
    assert {
        "r1-reward", "unified-reward-7b-pair", "skywork-vl-reward-7b",
        "visualprm-8b",
    } <= set(CARDS)  # fmt: skip
    assert {card.family for card in cards} >= {
        "llava-onevision", "internvl2.5", "scalar-head", "qwen2.5-vl", "gpt-4o",
        "gemini", "claude",
    }  # fmt: skip


def test_a_card_says_what_it_must(loaded):
    card = loaded.card
    assert card.title
    assert card.licence != "not stated"
    assert card.tested
    assert card.cost
    if card.kind == "ensemble":
        assert set(card.members) <= set(CARDS)
        return
    assert rewarder_class(card).arity in ("one", "two", "many")
    assert card.model or card.name == "scalar-head"
    if card.engine == "openai":
        assert isinstance(card.engine_args["api_key_env"], str | None)
    else:
        parallel = card.engine_args.get("engine_args", {}).get("tensor_parallel_size", 1)
        assert card.placement.gpus % parallel == 0
    assert card.sampling.temperature == 0 or card.votes > 1 or card.kind != "scalar"


@pytest.mark.parametrize("room", ["policies", "rewarders"])
def test_a_price_says_when_it_was_looked_up(room):
    load = load_policy if room == "policies" else load_rewarder
    for name in shipped(room):
        card = load(name, Path()).card
        if isinstance(card.cost, Price):
            assert re.search(r"[Pp]rice (of|holds through) [\w ]*20\d\d", card.notes), name


def test_its_prompt_renders_with_what_it_judges(loaded):
    if loaded.prompt.id in OURS:
        assert f"bon prompts pull {loaded.prompt.id[9:]}" in loaded.card.notes
        assert f"prompt: {OURS[loaded.prompt.id]}`" in loaded.card.notes
        loaded = in_our_words(loaded.card.name)
    if loaded.card.kind == "rerank":  # a model's own layout, with no wording to choose
        assert all(
            f"bon prompts pull {name}`" in loaded.card.notes for name in loaded.prompt.unpulled
        )
        return
    if not loaded.prompt.text:
        assert loaded.card.kind in ("scalar", "likelihood", "ensemble", "python")
        return
    values = sample_values(loaded.card)
    text = loaded.prompt.render(**values)
    assert values["prompt"] in text
    shown = {"pairwise": ["first", "second"], "stepwise": ["step"]}
    if loaded.card.kind == "listwise":
        assert all(response in text for response in values["responses"])
    else:
        assert all(values[name] in text for name in shown.get(loaded.card.kind, ["response"]))


def test_its_rule_reads_a_reply_in_the_documented_format(loaded):
    card, prompt = loaded.card, OURS.get(loaded.prompt.id, loaded.prompt.id)
    if card.verdict:
        for text, outcome in VERDICTS[prompt].items():
            if card.family == "unified-reward" and text == "Answer 1 is better":
                continue
            assert read_verdict(text, card.verdict).outcome == outcome, text
    elif card.score and card.score.yes:
        yes, no = card.score.yes[0], card.score.no[0]
        top = {yes: math.log(0.6), f" {no}": math.log(0.2)}
        verdict = TokenLogprob(yes, math.log(0.6), top)
        tokens = (TokenLogprob("Verdict", -0.1), TokenLogprob(":", -0.1), verdict)
        assert read_score(Sample("", 3, tokens=tokens), card.score).score == pytest.approx(0.75)
    elif card.score:
        for text, score in SCORES[prompt].items():
            assert read_score(Sample(text, 1), card.score).score == score, text


def test_every_shipped_prompt_is_used():
    used = {load_rewarder(name, Path()).prompt.id for name in shipped("rewarders")}
    used |= {OURS[name] for name in used if name in OURS}
    ours = {path.stem for path in (ROOT / "rewarders" / "prompts").glob("*.jinja")}
    others = {"grade", "read", "consistency"}  # of assistants, any listwise card
    assert ours == (used | others) & ours


def test_prompts_show_the_question_before_the_responses():
    """Judgements of one question share their beginning, which engines keep."""
    for path in (ROOT / "rewarders" / "prompts").glob("*.jinja"):
        text = path.read_text()
        places = [text.find(f"{{{{ {name} }}}}") for name in ("first", "response", "step")]
        assert text.index("{{ prompt }}") < min(place for place in places if place >= 0), path.stem
