"""Sampling and judging on questions that no model was trained on, for the dev numbers."""

import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from bon.miniature.scene import Scene
from tools.miniature.batches import Encoder, generation_inputs, right_padded, see
from tools.miniature.lessons import FIRST, NO, SECOND, STEP, YES, Judged, judged
from tools.miniature.model import Fast
from tools.miniature.rng import Rng
from tools.miniature.world import WorldQuestion, critic_prompt, judge_prompt, list_prompt, query

AT_ONCE = 256


def letter(candidate: str) -> str | None:
    """The answer of a candidate, or None."""
    found = re.findall(r"Answer: ([A-J])\b", candidate)
    return found[-1] if found else None


@torch.no_grad()  # type: ignore[untyped-decorator]
def replies(
    model: Any,
    encoder: Encoder,
    prompts: Sequence[str],
    scenes: Sequence[tuple[Scene, ...]],
    *,
    image_filter: str = "",
    temperature: float = 0.0,
    max_tokens: int = 48,
    seed: int = 0,
) -> list[str]:
    """One reply a prompt through transformers' generate, greedy at temperature 0."""
    torch.manual_seed(seed)
    model.eval()
    model.set_attn_implementation({"text_config": "sdpa", "vision_config": "sdpa"})
    sampling: dict[str, Any] = {"do_sample": False}
    if temperature:
        sampling = {"do_sample": True, "temperature": temperature, "top_k": 0, "top_p": 1.0}
    out = [""] * len(prompts)
    by_length = sorted(range(len(prompts)), key=lambda i: (len(scenes[i]), len(prompts[i])))
    for at in range(0, len(by_length), AT_ONCE):
        chosen = by_length[at : at + AT_ONCE]
        inputs = generation_inputs(
            encoder, [prompts[i] for i in chosen], [scenes[i] for i in chosen], image_filter
        )
        made = model.generate(**inputs, max_new_tokens=max_tokens, **sampling)
        for i, row in zip(chosen, made[:, inputs["input_ids"].shape[1] :].tolist(), strict=True):
            out[i] = encoder.decode(row)
    return out


def sample(
    model: Any,
    encoder: Encoder,
    questions: Sequence[WorldQuestion],
    count: int,
    temperature: float,
    seed: int = 0,
) -> list[list[str]]:
    """`count` candidates per question."""
    asked = [q for q in questions for _ in range(count)]
    made = replies(
        model,
        encoder,
        [query(q) for q in asked],
        [q.scenes for q in asked],
        temperature=temperature,
        seed=seed,
    )
    return [made[i : i + count] for i in range(0, len(made), count)]


def policy_numbers(
    questions: Sequence[WorldQuestion], candidates: Sequence[Sequence[str]]
) -> dict[str, float]:
    """pass@1, majority vote (ties shared), oracle and the unparsed share of a pool."""
    single, majority, oracle, unparsed = [], [], [], []
    for question, texts in zip(questions, candidates, strict=True):
        letters = [letter(text) for text in texts]
        right = [found == question.answer for found in letters]
        votes = Counter(found for found in letters if found)
        top = [found for found, n in votes.items() if n == max(votes.values())]
        single.append(sum(right) / len(right))
        majority.append((question.answer in top) / max(1, len(top)))
        oracle.append(float(any(right)))
        unparsed.append(letters.count(None) / len(letters))
    named = {"pass@1": single, "majority": majority, "oracle": oracle, "unparsed": unparsed}
    return {name: round(sum(values) / len(values), 3) for name, values in named.items()}


@dataclass(frozen=True, slots=True)
class Pair:
    """A question with a right and a wrong candidate of a policy."""

    question: WorldQuestion
    right: str
    wrong: str


def pairs_of(
    questions: Sequence[WorldQuestion], candidates: Sequence[Sequence[str]], rng: Rng
) -> list[Pair]:
    """One pair from every question that has both kinds of candidate."""
    out = []
    for question, texts in zip(questions, candidates, strict=True):
        right, wrong = right_and_wrong(question, texts)
        if right and wrong:
            out.append(Pair(question, rng.pick(right), rng.pick(wrong)))
    return out


def right_and_wrong(
    question: WorldQuestion, texts: Sequence[str]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Different candidates whose letter is right, and those whose letter is wrong."""
    parsed = [text for text in dict.fromkeys(texts) if letter(text)]
    right = tuple(text for text in parsed if letter(text) == question.answer)
    return right, tuple(text for text in parsed if text not in right)


def pointwise(
    model: Any, encoder: Encoder, pairs: Sequence[Pair], image_filter: str = ""
) -> dict[str, float]:
    """Accuracy of the greedy verdict's P(Yes), right candidate against wrong; ties count half."""
    items = [(p.question, text) for p in pairs for text in (p.right, p.wrong)]
    prompts = [critic_prompt(query(q), text) for q, text in items]
    scenes = [q.scenes for q, _ in items]
    told = replies(model, encoder, prompts, scenes, image_filter=image_filter)
    verdicts = [text.rpartition("\n")[2] for text in told]
    scores = _yes_scores(model, encoder, prompts, scenes, told, image_filter)
    scores = [s if v in (YES, NO) else float("nan") for s, v in zip(scores, verdicts, strict=True)]
    won = [_won(a, b) for a, b in zip(scores[::2], scores[1::2], strict=True)]
    right = [v == (YES, NO)[i % 2] for i, v in enumerate(verdicts)]
    unparsed = sum(v not in (YES, NO) for v in verdicts)
    return {
        "pair_accuracy": round(sum(won) / len(won), 3),
        "verdict_accuracy": round(sum(right) / len(right), 3),
        "unparsed": round(unparsed / len(verdicts), 3),
    }


def _won(a: float, b: float) -> float:
    return 0.5 if a == b else float(a > b)


@torch.no_grad()  # type: ignore[untyped-decorator]
def _yes_scores(
    model: Any,
    encoder: Encoder,
    prompts: Sequence[str],
    scenes: Sequence[tuple[Scene, ...]],
    told: Sequence[str],
    image_filter: str,
) -> list[float]:
    """logit(Yes) − logit(No) after the model's own solution."""
    fast = Fast(model)
    yes, no = encoder.text(YES)[0], encoder.text(NO)[0]
    out: list[float] = []
    for at in range(0, len(prompts), AT_ONCE):
        here = slice(at, at + AT_ONCE)
        rows = []
        for prompt, row, text in zip(prompts[here], scenes[here], told[here], strict=True):
            own = text.rpartition("\n")[0] + "\n"
            rows.append(encoder.asked(prompt, len(row), image_filter) + encoder.text(own))
        hidden = fast.hidden(right_padded(rows, encoder.pad), see(scenes[here], image_filter))
        last = hidden[torch.arange(len(rows)), torch.tensor([len(r) - 1 for r in rows])]
        logits = model.lm_head(last)
        out += (logits[:, yes] - logits[:, no]).tolist()
    return out


def pairwise(
    model: Any, encoder: Encoder, pairs: Sequence[Pair], image_filter: str = "", lists: bool = False
) -> dict[str, float]:
    """Share of right verdicts over both orders, and how often both orders name one winner.

    lists: whether the model chooses from a list, here of two.
    """
    prompts = []
    for p in pairs:
        asked = query(p.question)
        for first, second in ((p.right, p.wrong), (p.wrong, p.right)):
            whole = (
                list_prompt(asked, [first, second]) if lists else judge_prompt(asked, first, second)
            )
            prompts.append(whole)
    scenes = [p.question.scenes for p in pairs for _ in range(2)]
    told = replies(model, encoder, prompts, scenes, image_filter=image_filter)
    verdicts = [text.rpartition(" " if lists else "\n")[2] for text in told]
    known = ("1", "2") if lists else (FIRST, SECOND)
    right = [v == known[i % 2] for i, v in enumerate(verdicts)]
    parsed = [v in known for v in verdicts]
    consistent = [
        a != b and a in known and b in known
        for a, b in zip(verdicts[::2], verdicts[1::2], strict=True)
    ]
    return {
        "pair_accuracy": round(sum(right) / len(right), 3),
        "consistency": round(sum(consistent) / len(consistent), 3),
        "unparsed": round(1 - sum(parsed) / len(parsed), 3),
    }


def verdict_first(
    kind: str, model: Any, encoder: Encoder, pairs: Sequence[Pair], image_filter: str = ""
) -> dict[str, float]:
    """Accuracy of a rewarder whose reply is its verdict, by that one token's logits."""

    def margins(rows: list[Judged], positive: str, negative: str) -> list[float]:
        first, second = encoder.text(positive)[0], encoder.text(negative)[0]
        logits = _reply_logits(model, encoder, rows, image_filter)
        return list((logits[:, first] - logits[:, second]).tolist())

    if kind == "pairwise":
        both = [
            (p.question, order) for p in pairs for order in ((p.right, p.wrong), (p.wrong, p.right))
        ]
        preferred = margins([judged(q, texts, "1") for q, texts in both], "1", "2")
        right = [(margin > 0) == (i % 2 == 0) for i, margin in enumerate(preferred)]
        consistent = [a == b for a, b in zip(right[::2], right[1::2], strict=True)]
        return {
            "pair_accuracy": round(sum(right) / len(right), 3),
            "consistency": round(sum(consistent) / len(consistent), 3),
        }
    items = [(p.question, text) for p in pairs for text in (p.right, p.wrong)]
    if kind == "pointwise":
        scores = margins([judged(q, [text], YES) for q, text in items], YES, NO)
    else:
        steps = [text.split(STEP) for _, text in items]
        shown = [
            judged(q, [STEP.join(of[: end + 1])], YES)
            for (q, _), of in zip(items, steps, strict=True)
            for end in range(len(of))
        ]
        each = iter(torch.tensor(margins(shown, YES, NO)).sigmoid().tolist())
        scores = [math.prod(next(each) for _ in of) for of in steps]
    won = [_won(a, b) for a, b in zip(scores[::2], scores[1::2], strict=True)]
    numbers = {"pair_accuracy": round(sum(won) / len(won), 3)}
    if kind == "pointwise":
        is_right = [(score > 0) == (i % 2 == 0) for i, score in enumerate(scores)]
        numbers["verdict_accuracy"] = round(sum(is_right) / len(is_right), 3)
    return numbers


@torch.no_grad()  # type: ignore[untyped-decorator]
def _reply_logits(
    model: Any, encoder: Encoder, rows: Sequence[Judged], image_filter: str
) -> torch.Tensor:
    """The logits of the reply's first token: [rows, vocabulary]."""
    fast, out = Fast(model.eval()), []
    for at in range(0, len(rows), AT_ONCE):
        here = rows[at : at + AT_ONCE]
        ids = [
            encoder.asked("".join(text for text, _ in row.asked), len(row.scenes), image_filter)
            for row in here
        ]
        seen = see([row.scenes for row in here], image_filter)
        hidden = fast.hidden(right_padded(ids, encoder.pad), seen)
        last = hidden[torch.arange(len(ids)), torch.tensor([len(row) - 1 for row in ids])]
        out.append(model.lm_head(last).float())
    return torch.cat(out)


@torch.no_grad()  # type: ignore[untyped-decorator]
def scalar(
    model: Any,
    encoder: Encoder,
    head: torch.Tensor,
    pairs: Sequence[Pair],
    image_filter: str = "",
) -> dict[str, float]:
    """head: [1, hidden], read at the end of the candidate's turn."""
    fast = Fast(model.eval())
    items = [(p.question, text) for p in pairs for text in (p.right, p.wrong)]
    scores: list[float] = []
    for at in range(0, len(items), AT_ONCE):
        rows, scenes = zip(
            *(_turn(encoder, q, t, image_filter) for q, t in items[at : at + AT_ONCE]), strict=True
        )
        hidden = fast.hidden(right_padded(rows, encoder.pad), see(scenes, image_filter))
        last = hidden[torch.arange(len(rows)), torch.tensor([len(r) - 1 for r in rows])]
        scores += (last @ head[0].float()).tolist()
    won = [_won(a, b) for a, b in zip(scores[::2], scores[1::2], strict=True)]
    return {"pair_accuracy": round(sum(won) / len(won), 3)}


def _turn(
    encoder: Encoder, question: WorldQuestion, candidate: str, image_filter: str
) -> tuple[list[int], tuple[Scene, ...]]:
    asked = encoder.asked(query(question), len(question.scenes), image_filter)
    return [*asked, *encoder.text(candidate), encoder.end], question.scenes


@torch.no_grad()  # type: ignore[untyped-decorator]
def likelihood(model: Any, encoder: Encoder, pairs: Sequence[Pair]) -> dict[str, float]:
    """Accuracy of the candidate's mean token log-probability, its end of turn included."""
    fast = Fast(model.eval())
    items = [(p.question, text) for p in pairs for text in (p.right, p.wrong)]
    scores: list[float] = []
    for at in range(0, len(items), AT_ONCE):
        turns = [_turn(encoder, q, t, "") for q, t in items[at : at + AT_ONCE]]
        rows = [row for row, _ in turns]
        ids = right_padded(rows, encoder.pad)
        hidden = fast.hidden(ids, see([scenes for _, scenes in turns], ""))
        for i, (row, (question, _text)) in enumerate(zip(rows, items[at:], strict=False)):
            start = len(encoder.asked(query(question), len(question.scenes), ""))
            logits = model.lm_head(hidden[i, start - 1 : len(row) - 1]).log_softmax(-1)
            scores.append(logits.gather(1, ids[i, start : len(row), None]).mean().item())
    won = [_won(a, b) for a, b in zip(scores[::2], scores[1::2], strict=True)]
    return {"pair_accuracy": round(sum(won) / len(won), 3)}
