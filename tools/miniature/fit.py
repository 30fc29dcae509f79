"""Training loops: the vision tower's alignment, supervised lessons, scalar heads."""

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F

from bon.miniature.scene import CELLS, COLOURS, SHAPES, VARIANTS, Scene
from tools.miniature.batches import IGNORED, Encoder, batch, right_padded, see, user_turn
from tools.miniature.lessons import Judged, Lesson
from tools.miniature.model import Fast, patches
from tools.miniature.rng import Rng
from tools.miniature.world import LETTERS, random_scene

BATCH = 64
Teacher = Callable[[Rng], Lesson]


def optimiser(parameters: list[torch.nn.Parameter], decay: float = 0.05) -> torch.optim.AdamW:
    """AdamW; biases and norms are not decayed."""
    groups = [
        {"params": [p for p in parameters if p.ndim >= 2], "weight_decay": decay},
        {"params": [p for p in parameters if p.ndim < 2], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, betas=(0.9, 0.98), foreach=True)


def steps(
    optimise: torch.optim.AdamW, count: int, rate: float, warmup: int, label: str, floor: float
) -> Iterator[tuple[int, Callable[[torch.Tensor], None]]]:
    """Count steps with warm-up and a cosine; yields the step and what to do with its loss."""
    parameters = [p for group in optimise.param_groups for p in group["params"]]
    began, mean = time.time(), math.nan

    def learn(loss: torch.Tensor) -> None:
        nonlocal mean
        optimise.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        optimise.step()
        mean = loss.item() if math.isnan(mean) else 0.95 * mean + 0.05 * loss.item()

    for step in range(1, count + 1):
        cosine = 0.5 * (1 + math.cos(math.pi * step / count))
        now = rate * min(1.0, step / warmup) * (floor + (1 - floor) * cosine)
        for group in optimise.param_groups:
            group["lr"] = now
        yield step, learn
        if step % 25 == 0 or step == count:
            print(f"{label} {step}/{count} loss {mean:.4f} {time.time() - began:.0f} s", flush=True)


def align(model: Any, encoder: Encoder, rng: Rng, count: int, image_filter: str = "") -> float:
    """Teach the vision tower to give emb(colour) + emb(shape) + emb(cell number); returns the
    share of cells whose nearest kind is right.

    Done first and then frozen: learned together with the language model the tower collapses to
    a constant and the language model learns to ignore it.
    """
    embeddings = model.model.language_model.embed_tokens.weight.detach()

    def word(text: str) -> torch.Tensor:
        return embeddings[encoder.text(f" {text}")[0]]

    names = [word("empty")] + [word(c) + word(s) for c in COLOURS for s in SHAPES]
    kinds = torch.stack(names)
    cells = torch.stack([word(str(i + 1)) for i in range(CELLS)])
    spread = (kinds[torch.arange(CELLS) % 17] + cells).var()
    fast = Fast(model)
    visual = model.model.visual.requires_grad_(True)
    right = 0.0
    for step, learn in steps(
        optimiser(list(visual.parameters()), 0.01), count, 3e-3, 30, "align", 0.05
    ):
        scenes = [_any_scene(rng) for _ in range(BATCH)]
        wanted = torch.tensor([scene.kinds for scene in scenes])
        with torch.autocast("cpu", torch.bfloat16):
            seen = fast.see(patches(scenes, image_filter))
        learn(((seen.float() - kinds[wanted] - cells) ** 2).mean() / spread)
        if step == count:
            nearest = torch.cdist((seen.detach().float() - cells).flatten(0, 1), kinds).argmin(1)
            right = (nearest == wanted.flatten()).float().mean().item()
    visual.requires_grad_(False)
    return right


def _any_scene(rng: Rng) -> Scene:
    """A training board with a third of the cells drawn anew, so that every kind is common."""
    scene = random_scene(rng, "train")
    kinds = tuple(rng.below(17) if rng.chance(0.3) else k for k in scene.kinds)
    return Scene(kinds, tuple(rng.below(VARIANTS) for _ in kinds))


def teach(
    model: Any,
    encoder: Encoder,
    rng: Rng,
    teacher: Teacher,
    count: int,
    *,
    label: str,
    rate: float = 2e-3,
    stress: float = 1.0,
    image_filter: str = "",
    stops: tuple[int, ...] = (),
    at_stop: Callable[[int], None] | None = None,
) -> None:
    """Next-token training on a teacher's lessons, the vision tower frozen."""
    model.model.visual.requires_grad_(False)
    model.set_attn_implementation({"text_config": "miniature_plain"})
    fast = Fast(model)
    trained = [p for p in model.parameters() if p.requires_grad]
    for step, learn in steps(optimiser(trained), count, rate, 30, label, 0.05):
        model.train()
        data = batch(encoder, [teacher(rng) for _ in range(BATCH)], image_filter, stress)
        with torch.autocast("cpu", torch.bfloat16):
            hidden = fast.hidden(data.ids, data.patches)
            told = data.labels[:, 1:] != IGNORED
            logits = model.lm_head(hidden[:, :-1][told]).float()
        weight = data.weights[:, 1:][told]
        loss = F.cross_entropy(logits, data.labels[:, 1:][told], reduction="none")
        learn((loss * weight).sum() / weight.sum())
        if at_stop and step in stops:
            at_stop(step)
    model.eval()


def teach_verdicts(
    model: Any,
    encoder: Encoder,
    rng: Rng,
    draw: Callable[[Rng], list[Judged]],
    count: int,
    *,
    label: str,
    rate: float = 1e-3,
    image_filter: str = "",
    with_head: bool = False,
) -> torch.Tensor | None:
    """Verdicts without a solution before them, or Bradley-Terry with a head [1, hidden], which
    is returned; its inputs come in pairs of a right and a wrong candidate.

    Alone both losses stay at chance. So (1) at every token of a candidate that claims
    something, a throw-away head on the last layer but one says whether the claim is right,
    which leaves the last layer to gather the errors; (2) a right candidate's next-token loss
    keeps what the base knows.
    """
    model.model.visual.requires_grad_(False)
    model.set_attn_implementation({"text_config": "miniature_plain"})
    fast = Fast(model)
    hidden_size = model.config.text_config.hidden_size
    torch.manual_seed(rng.below(2**31))
    head = torch.nn.Parameter(torch.randn(1, hidden_size) * 0.02)
    claims_head = torch.nn.Linear(hidden_size, 1)
    claiming = torch.tensor(sorted({encoder.text(text)[0] for text in _claims()}))
    trained = [p for p in model.parameters() if p.requires_grad]
    trained += [*claims_head.parameters(), *([head] if with_head else [])]
    for _, learn in steps(optimiser(trained), count, rate, 30, label, 0.05):
        model.train()
        drawn: list[Judged] = []
        while len(drawn) < BATCH * (1 + with_head):
            drawn += draw(rng)
        rows = [_judged_row(encoder, judged, image_filter) for judged in drawn]
        ids = right_padded([row.ids for row in rows], encoder.pad)
        should = right_padded([row.should for row in rows], IGNORED)
        right = right_padded([row.is_right for row in rows], 0)[:, 1:] > 0
        ends = torch.tensor([len(row.ids) - 1 for row in rows])
        each = torch.arange(len(rows))
        with torch.autocast("cpu", torch.bfloat16):
            scenes = [judged.scenes for judged in drawn]
            layers = fast.hidden(ids, see(scenes, image_filter), layers=True)
            is_claim = torch.isin(ids, claiming) & (should != IGNORED)
            claims = claims_head(F.rms_norm(layers[-2][is_claim], (hidden_size,)))
            spoken = model.lm_head(layers[-1][:, :-1][right]).float()
            verdicts = model.lm_head(layers[-1][each, ends - 2]).float()
        claims_loss = F.binary_cross_entropy_with_logits(
            claims.float()[:, 0], (should == ids)[is_claim].float()
        )
        spoken_loss = F.cross_entropy(spoken, ids[:, 1:][right])
        if with_head:
            scores = layers[-1][each, ends].float() @ head[0]
            loss = -F.logsigmoid(scores[::2] - scores[1::2]).mean()
        else:
            loss = F.cross_entropy(verdicts, ids[each, ends - 1])
        learn(loss + claims_loss + 0.5 * spoken_loss)
    model.eval()
    return head.detach() if with_head else None


def _claims() -> list[str]:
    """Tokens that say something that can be wrong."""
    numbers = [f"{space}{n}" for n in range(80) for space in ("", " ")]
    letters = [f" {letter}" for letter in LETTERS] + [f" ({letter})" for letter in LETTERS]
    names = [f"{space}{n}" for n in (*COLOURS, *SHAPES, "empty") for space in ("", " ")]
    return numbers + letters + names


@dataclass(frozen=True, slots=True)
class _Row:
    """should: of a candidate's tokens, what the right response has in their place; is_right: 1 at
    the tokens of right candidates and, of a verdict, at its end of turn."""

    ids: list[int]
    should: list[int]
    is_right: list[int]


def _judged_row(encoder: Encoder, judged: Judged, image_filter: str) -> _Row:
    images = 0 if image_filter == "drop" else len(judged.scenes)
    before, after = user_turn("\0", images).split("\0")
    pieces = [(before, ""), *judged.asked, (after, ""), judged.reply]
    row = _Row([], [], [])
    for text, whole in pieces:
        told = encoder.text(text)
        right = encoder.text(whole) if whole else []
        row.ids.extend(told)
        padded = right + [-1] * len(told)
        row.should.extend(padded[: len(told)] if whole else [IGNORED] * len(told))
        row.is_right.extend([int(bool(whole) and text == whole)] * len(told))
    row.ids.append(encoder.end)
    row.should.append(IGNORED)
    row.is_right.append(1)
    return row
