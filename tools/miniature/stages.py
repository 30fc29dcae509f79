"""The stages of the recipe. Each reads the folders of the stages it needs and fills its own."""

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from transformers import PreTrainedTokenizerFast

from tools.miniature import evaluate, fit, lessons, tokenizer
from tools.miniature.batches import Encoder
from tools.miniature.model import Shape, build, initialise, load
from tools.miniature.recipe import (
    BASES,
    FULL,
    LIKELIHOODS,
    POLICIES,
    REWARDERS,
    SAMPLES,
    SMOKE,
    TEMPERATURES,
    Base,
    Recipe,
    smoke,
)
from tools.miniature.rng import Rng
from tools.miniature.world import (
    GROUPS,
    PAIR_SUBJECTS,
    SUBJECTS,
    WorldQuestion,
    make,
    wrong_response,
)

DONE = "done.json"


@dataclass(frozen=True, slots=True)
class Stage:
    """A step of the recipe: the stages it needs, and a function that returns its report."""

    name: str
    needs: tuple[str, ...]
    run: Callable[["Workshop"], dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Workshop:
    """Where the stages lie on disk, and whether this is a smoke run."""

    folder: Path
    is_smoke: bool = False

    def at(self, *parts: str) -> Path:
        """A path below the folder."""
        return self.folder.joinpath(*parts)

    def steps(self, count: int) -> int:
        """The length of a phase: as planned, or a smoke run's."""
        return smoke(count) if self.is_smoke else count

    def encoder(self) -> Encoder:
        """The trained tokenizer."""
        return Encoder(PreTrainedTokenizerFast.from_pretrained(self.at("tokenizer")))

    def is_done(self, stage: str) -> bool:
        """Whether the stage's folder is complete."""
        return self.at(stage, DONE).exists()

    def report(self, stage: str) -> dict[str, Any]:
        """What the stage measured."""
        return dict(json.loads(self.at(stage, DONE).read_text()))

    def run(self, stage: Stage) -> None:
        """Run a stage; done.json, written last, says that its folder is complete."""
        began = time.time()
        folder = self.at(stage.name)
        folder.mkdir(parents=True, exist_ok=True)
        report = stage.run(self)
        report["seconds"] = round(time.time() - began)
        (folder / DONE).write_text(json.dumps(report, indent=1))
        print(f"{stage.name}: {report['seconds']} s {json.dumps(report)}", flush=True)


def _tokenizer(shop: Workshop) -> dict[str, Any]:
    return {"tokens": len(tokenizer.build(shop.at("tokenizer")))}


def _base(base: Base) -> Callable[[Workshop], dict[str, Any]]:
    def run(shop: Workshop) -> dict[str, Any]:
        encoder = shop.encoder()
        rng = Rng("train", base.name, base.seed)
        shape = Shape(base.hidden, base.layers, base.heads, base.kv_heads, base.mlp, base.vision)
        model = build(shape, encoder.tokenizer)
        initialise(model, base.seed)
        seen = fit.align(model, encoder, rng, shop.steps(base.align))

        def taught(teacher: fit.Teacher, count: int, label: str, **more: Any) -> None:
            label = f"{base.name} {label}"
            fit.teach(model, encoder, rng, teacher, shop.steps(count), label=label, **more)

        def mixed(main: fit.Teacher, other: fit.Teacher, share: float) -> fit.Teacher:
            return lambda r: other(r) if r.chance(share) else main(r)

        phases = [
            (lessons.lookup, base.lookup, "lookup"),
            (mixed(lessons.lists, lessons.lookup, 0.15), base.lists, "lists"),
        ]
        # All tasks mixed from the start plateau; in this order each builds on the one before.
        for teacher, count, label in reversed(phases) if base.lists_first else phases:
            taught(teacher, count, label)
        subjects = tuple(subject for subject in SUBJECTS if subject not in base.unseen)
        taught(
            mixed(lessons.answer(subjects), lessons.lists, 0.1),
            base.answers,
            "answers",
            stress=2.0,
            stops=(shop.steps(base.policy_stop),) if base.policy_stop else (),
            at_stop=lambda _: model.save_pretrained(shop.at(base.name, "policy")),
        )
        model.save_pretrained(shop.at(base.name, "model"))
        return {"cells_right": round(seen, 3)}

    return run


def _questions(split: str, count: int, subjects: tuple[str, ...] = SUBJECTS) -> list[WorldQuestion]:
    return [make(seed, split, subjects[seed % len(subjects)]) for seed in range(count)]


def _samples(policy: str) -> Callable[[Workshop], dict[str, Any]]:
    """A policy's candidates on training, dev and benchmark questions, as text by seed."""

    def run(shop: Workshop) -> dict[str, Any]:
        sizes = SMOKE if shop.is_smoke else FULL
        encoder = shop.encoder()
        model = load(shop.at(POLICIES[policy], "policy"))
        numbers: dict[str, Any] = {}
        for split, count in (
            ("train", sizes.train),
            ("dev", sizes.dev),
            ("benchmark", sizes.benchmark),
        ):
            subjects = PAIR_SUBJECTS if split == "benchmark" else SUBJECTS
            questions = _questions(split, count, subjects)
            # Policies draw differently on one question, or their candidates would correlate.
            seed = int(policy == "policy-b")
            many = 4 if split == "benchmark" else SAMPLES
            made = evaluate.sample(model, encoder, questions, many, TEMPERATURES[policy], seed)
            if shop.is_smoke:  # untrained policies say nothing that parses
                rng = Rng("smoke", split)
                made = [[q.response, wrong_response(rng, q)] for q in questions]
            if split == "dev":
                numbers = _dev_numbers(questions, made)
                greedy = evaluate.sample(model, encoder, questions, 1, 0.0)
                numbers["greedy"] = evaluate.policy_numbers(questions, greedy)["pass@1"]
            lines = [
                json.dumps({"seed": i, "subject": q.subject, "candidates": texts})
                for i, (q, texts) in enumerate(zip(questions, made, strict=True))
            ]
            shop.at(f"samples-{policy}", f"{split}.jsonl").write_text("\n".join(lines) + "\n")
        return numbers

    return run


def _dev_numbers(questions: list[WorldQuestion], made: list[list[str]]) -> dict[str, Any]:
    numbers: dict[str, Any] = dict(evaluate.policy_numbers(questions, made))
    numbers["pass@1 by subject"] = {}
    for subject in SUBJECTS:
        mine = [i for i, q in enumerate(questions) if q.subject == subject]
        if mine:
            of = evaluate.policy_numbers([questions[i] for i in mine], [made[i] for i in mine])
            numbers["pass@1 by subject"][subject] = of["pass@1"]
    return numbers


def sampled(shop: Workshop, split: str) -> list[tuple[str, int, WorldQuestion, list[str]]]:
    """(policy, seed, question, candidates) of all policies."""
    out = []
    for policy in POLICIES:
        for line in shop.at(f"samples-{policy}", f"{split}.jsonl").read_text().splitlines():
            row = json.loads(line)
            question = make(row["seed"], split, row["subject"])
            out.append((policy, row["seed"], question, row["candidates"]))
    return out


def _for_training(shop: Workshop) -> list[lessons.Sampled]:
    out = []
    for _, _, question, candidates in sampled(shop, "train"):
        right, wrong = evaluate.right_and_wrong(question, candidates)
        if right and wrong:
            out.append(lessons.Sampled(question, right, wrong))
    return out


def dev_pairs(shop: Workshop) -> list[evaluate.Pair]:
    """Right and wrong candidates of both policies on development questions."""
    rows = sampled(shop, "dev")
    return evaluate.pairs_of([r[2] for r in rows], [r[3] for r in rows], Rng("dev pairs"))


def _rewarder(recipe: Recipe) -> Callable[[Workshop], dict[str, Any]]:
    def run(shop: Workshop) -> dict[str, Any]:
        encoder = shop.encoder()
        rng = Rng("train", recipe.name, recipe.seed)
        model = load(shop.at(recipe.start, "model"))
        sizes = SMOKE if shop.is_smoke else FULL
        report: dict[str, Any] = {}
        if recipe.realign:
            count = shop.steps(recipe.realign)
            aligned = fit.align(model, encoder, rng, count, recipe.image_filter)
            report["cells_right"] = round(aligned, 3)
        samples, count = _for_training(shop), shop.steps(recipe.steps)
        shared: dict[str, Any] = {
            "label": recipe.name,
            "rate": sizes.rewarder_rate,
            "image_filter": recipe.image_filter,
        }
        if recipe.verdict_first or recipe.kind == "scalar":
            draw, is_scalar = lessons.verdicts(recipe.kind, samples), recipe.kind == "scalar"
            head = fit.teach_verdicts(
                model, encoder, rng, draw, count, with_head=is_scalar, **shared
            )
            if head is not None:
                save_file({"score": head}, shop.at(recipe.name, "head.safetensors"))
        else:
            by_kind = {
                "pointwise": lessons.critic,
                "pairwise": lessons.judge,
                "listwise": lessons.chooser,
            }
            teacher = by_kind[recipe.kind](samples)
            fit.teach(model, encoder, rng, teacher, count, stress=6.0, **shared)
        model.save_pretrained(shop.at(recipe.name, "model"))
        report["dev"] = measure(shop, recipe)
        return report

    return run


def measure(shop: Workshop, recipe: Recipe) -> dict[str, float]:
    """Dev numbers of a rewarder on pairs of both policies' candidates."""
    encoder, pairs = shop.encoder(), dev_pairs(shop)
    model = load(shop.at(recipe.name, "model"))
    if recipe.kind == "scalar":
        head = load_file(shop.at(recipe.name, "head.safetensors"))["score"]
        by_head: dict[str, float] = evaluate.scalar(
            model, encoder, head, pairs, recipe.image_filter
        )
        return by_head
    if recipe.verdict_first:
        return evaluate.verdict_first(recipe.kind, model, encoder, pairs, recipe.image_filter)
    if recipe.kind in ("pairwise", "listwise"):
        lists = recipe.kind == "listwise"
        return evaluate.pairwise(model, encoder, pairs, recipe.image_filter, lists)
    return evaluate.pointwise(model, encoder, pairs, recipe.image_filter)


def _likelihood(base: str) -> Callable[[Workshop], dict[str, Any]]:
    def run(shop: Workshop) -> dict[str, Any]:
        encoder, pairs = shop.encoder(), dev_pairs(shop)
        model = load(shop.at(base, "model"))
        questions = _questions("dev", SMOKE.dev if shop.is_smoke else FULL.dev)
        greedy = evaluate.sample(model, encoder, questions, 1, 0.0)
        numbers = evaluate.likelihood(model, encoder, pairs)
        numbers["greedy"] = evaluate.policy_numbers(questions, greedy)["pass@1"]
        return {"dev": numbers}

    return run


def _pairs(shop: Workshop) -> dict[str, Any]:
    """The benchmark's responses, balanced over the three groups and the two policies."""
    sizes = SMOKE if shop.is_smoke else FULL
    rng = Rng("benchmark pairs")
    rows: dict[str, list[dict[str, Any]]] = {group: [] for group in GROUPS.values()}
    taken: set[int] = set()  # one pair per question
    for policy, seed, question, candidates in rng.shuffled(sampled(shop, "benchmark")):
        right, wrong = evaluate.right_and_wrong(question, candidates)
        group = rows[GROUPS[question.subject]]
        if right and wrong and seed not in taken and len(group) < sizes.pairs_per_group:
            taken.add(seed)
            group.append(
                {
                    "seed": seed,
                    "subject": question.subject,
                    "policy": policy,
                    "right": rng.pick(right),
                    "wrong": rng.pick(wrong),
                }
            )
    lines = [json.dumps(row) for group in rows.values() for row in group]
    shop.at("pairs", "pairs.jsonl").write_text("\n".join(lines) + "\n")
    return {group: len(found) for group, found in rows.items()}


def stages() -> dict[str, Stage]:
    """All stages, each after what it needs."""
    samples = tuple(f"samples-{policy}" for policy in POLICIES)
    listed = [Stage("tokenizer", (), _tokenizer)]
    # The larger base first: whichever takes longest should start first.
    listed += [Stage(base.name, ("tokenizer",), _base(base)) for base in reversed(BASES)]
    listed += [
        Stage(f"samples-{policy}", (base,), _samples(policy)) for policy, base in POLICIES.items()
    ]
    listed += [
        Stage(recipe.name, (recipe.start, *samples), _rewarder(recipe))
        for recipe in sorted(REWARDERS, key=lambda s: s.start.startswith("critic"))
    ]
    listed += [
        Stage("pairs", samples, _pairs),
        *(Stage(f"likelihood-{b[-1]}", (b, *samples), _likelihood(b)) for b in LIKELIHOODS),
    ]
    return {stage.name: stage for stage in listed}


def set_threads(count: int) -> None:
    """How many threads torch uses in this process."""
    torch.set_num_threads(count)
