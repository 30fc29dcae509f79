"""Training loops: the vision tower's alignment, supervised lessons, scalar heads."""

import math
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.nn.functional as F

from bon.miniature.scene import CELLS, COLOURS, SHAPES, VARIANTS, Scene
from tools.miniature.batches import IGNORED, Encoder, batch, right_padded, see
from tools.miniature.lessons import Lesson
from tools.miniature.model import Fast, patches
from tools.miniature.rng import Rng
from tools.miniature.world import LETTERS, WorldQuestion, query, random_scene

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


def teach_scalar(
    model: Any,
    encoder: Encoder,
    rng: Rng,
    draw_rated: Callable[[Rng], tuple[WorldQuestion, str, str]],
    count: int,
    *,
    label: str,
    rate: float = 1e-3,
    image_filter: str = "",
) -> torch.Tensor:
    """Bradley-Terry on pairs, with two denser signals; returns the head [1, hidden].

    Alone the Bradley-Terry loss stays at chance. So (1) at every token of a candidate that
    claims something, a throw-away head on the last layer but one says whether the claim is right,
    which leaves the last layer to gather the errors; (2) the right candidate's next-token loss
    keeps what the base knows.
    """
    model.model.visual.requires_grad_(False)
    model.set_attn_implementation({"text_config": "miniature_plain"})
    fast = Fast(model)
    hidden_size = model.config.text_config.hidden_size
    torch.manual_seed(rng.below(2**31))
    head = torch.nn.Parameter(torch.randn(1, hidden_size) * 0.02)
    claims_head = torch.nn.Linear(hidden_size, 1)
    claiming = {encoder.text(text)[0] for text in _claims()}
    trained = [p for p in model.parameters() if p.requires_grad]
    trained += [head, *claims_head.parameters()]
    for _, learn in steps(optimiser(trained), count, rate, 30, label, 0.05):
        model.train()
        drawn = [draw_rated(rng) for _ in range(BATCH)]
        turns = [
            _rated_turn(encoder, q, text, image_filter) for q, r, w in drawn for text in (r, w)
        ]
        ids = right_padded([ids for ids, _ in turns], encoder.pad)
        told = right_padded([right for _, right in turns], IGNORED)
        scenes = [q.scenes for q, _, _ in drawn for _ in range(2)]
        with torch.autocast("cpu", torch.bfloat16):
            layers = fast.hidden(ids, see(scenes, image_filter), layers=True)
            is_claim = torch.isin(ids, torch.tensor(sorted(claiming))) & (told != IGNORED)
            claims = claims_head(F.rms_norm(layers[-2][is_claim], (hidden_size,)))
            spoken = told[::2, 1:] != IGNORED
            logits = model.lm_head(layers[-1][::2, :-1][spoken]).float()
        ends = torch.tensor([len(row) - 1 for row, _ in turns])
        scores = layers[-1][torch.arange(len(turns)), ends].float() @ head[0]
        dense = F.binary_cross_entropy_with_logits(
            claims.float()[:, 0], (told == ids)[is_claim].float()
        )
        spoken_loss = F.cross_entropy(logits, ids[::2, 1:][spoken])
        learn(-F.logsigmoid(scores[::2] - scores[1::2]).mean() + dense + 0.5 * spoken_loss)
    model.eval()
    return head.detach()


def _claims() -> list[str]:
    """Tokens that say something that can be wrong."""
    numbers = [f"{space}{n}" for n in range(80) for space in ("", " ")]
    letters = [f" {letter}" for letter in LETTERS] + [f" ({letter})" for letter in LETTERS]
    names = [f"{space}{n}" for n in (*COLOURS, *SHAPES, "empty") for space in ("", " ")]
    return numbers + letters + names


def _rated_turn(
    encoder: Encoder, question: WorldQuestion, candidate: str, image_filter: str
) -> tuple[list[int], list[int]]:
    """Token ids of prompt and candidate, and what each of the candidate's should have been."""
    asked = encoder.asked(query(question), len(question.scenes), image_filter)
    told, right = encoder.text(candidate), encoder.text(question.response)
    should = [right[i] if i < len(right) else -1 for i in range(len(told))]
    row = [*asked, *told, encoder.end]
    return row, [IGNORED] * len(asked) + should + [encoder.end]
