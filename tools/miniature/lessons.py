"""What the models are taught: pairs of a prompt and the reply to learn, made on the fly."""

from collections.abc import Callable
from dataclasses import dataclass

from bon.miniature.scene import CELLS, COLOURS, SHAPES, Scene, count_objects, kind_name
from tools.miniature.rng import Rng
from tools.miniature.world import (
    LETTERS,
    WorldQuestion,
    around,
    critic_prompt,
    draw,
    judge_prompt,
    near,
    prompt,
    query,
    random_scene,
    wrong_response,
)

YES, NO = "Yes", "No"
FIRST, SECOND = ("Overall Judgment: Answer 1 is better.", "Overall Judgment: Answer 2 is better.")
VERDICTS = (YES, NO, FIRST, SECOND)


@dataclass(frozen=True, slots=True)
class Lesson:
    """stress: the piece of the target (its last occurrence) whose first token weighs more."""

    scenes: tuple[Scene, ...]
    prompt: str
    target: str
    stress: str = ""


@dataclass(frozen=True, slots=True)
class Sampled:
    """A question with candidates that policies really wrote: right ones and wrong ones."""

    question: WorldQuestion
    right: tuple[str, ...]
    wrong: tuple[str, ...]


def lookup(rng: Rng) -> Lesson:
    """Value → letter: read every option back, shuffled, with its letter."""
    kind = rng.random()
    if kind < 0.4:
        options = near(rng, rng.below(11))
    elif kind < 0.65:
        options = around(rng, rng.below(50))
    else:
        options = [kind_name(k) for k in rng.sample(range(17), 10)]
    target = " ".join(f"{options[i]} ({LETTERS[i]})" for i in rng.shuffled(range(10)))
    return Lesson((random_scene(rng, "train"),), prompt("<image 1> Match.", options), target)


def lists(rng: Rng) -> Lesson:
    """Dense perception: six objects at cells, or which objects are there, or six counts, or six
    counts over two images."""
    scenes: tuple[Scene, ...] = (random_scene(rng, "train"),)
    kind = rng.random()
    if kind < 0.25:
        cells = rng.sample(range(CELLS), 6)
        told = [f"{cell + 1} shows {kind_name(scenes[0].kinds[cell])}." for cell in cells]
        return Lesson(scenes, "<image 1> What is where?", " ".join(told))
    if kind < 0.5:
        return _which(rng, scenes)
    if kind < 0.8:
        told = [_count(rng, scenes[0]) for _ in range(6)]
        return Lesson(scenes, "<image 1> Count.", " ".join(told))
    scenes = (scenes[0], random_scene(rng, "train"))
    told = []
    for _ in range(6):
        which, colour = rng.below(2), rng.below(4)
        count = count_objects(scenes[which], colour=colour)
        told.append(f"{('first', 'second')[which]} {COLOURS[colour]}: {count}.")
    return Lesson(scenes, "Count in <image 1> and in <image 2>.", " ".join(told))


def _which(rng: Rng, scenes: tuple[Scene, ...]) -> Lesson:
    """Presence is the hardest to learn from questions alone: name every option that is there."""
    present = sorted(set(scenes[0].kinds) - {0})
    absent = [k for k in range(1, 17) if k not in present]
    some = rng.sample(present, rng.between(1, 5))
    options = rng.shuffled(some + rng.sample(absent, 10 - len(some)))
    told = [f"{kind_name(k)} ({LETTERS[i]})" for i, k in enumerate(options) if k in some]
    names = [kind_name(k) for k in options]
    return Lesson(scenes, prompt("<image 1> Which are there?", names), " ".join(told))


def _count(rng: Rng, scene: Scene) -> str:
    if rng.chance(0.3):
        kind = rng.pick(scene.kinds) or 1
        return f"{kind_name(kind)}: {scene.kinds.count(kind)}."
    index = rng.below(4)
    what = rng.pick((f"{COLOURS[index]} shapes", COLOURS[index], f"{SHAPES[index]}s"))
    by_shape = what.endswith("s") and not what.endswith("shapes")
    count = count_objects(scene, shape=index) if by_shape else count_objects(scene, colour=index)
    return f"{what}: {count}."


def answer(rng: Rng) -> Lesson:
    """A question and its right response; the letter weighs double."""
    question = draw(rng, "train")
    letter = f" ({question.answer})"
    return Lesson(question.scenes, query(question), question.response, letter)


def _candidates(rng: Rng, sampled: list[Sampled]) -> tuple[WorldQuestion, str, str]:
    """(question, right candidate, wrong candidate): a third of them from real policies."""
    if sampled and rng.chance(0.35):
        one = rng.pick(sampled)
        return one.question, rng.pick(one.right), rng.pick(one.wrong)
    question = draw(rng, "train")
    return question, question.response, wrong_response(rng, question)


def critic(sampled: list[Sampled]) -> Callable[[Rng], Lesson]:
    """Pointwise: its own solution first, then Yes or No. A direct verdict stays at chance."""

    def lesson(rng: Rng) -> Lesson:
        question, right, wrong = _candidates(rng, sampled)
        is_right = rng.chance(0.5)
        asked = critic_prompt(query(question), right if is_right else wrong)
        verdict = YES if is_right else NO
        return Lesson(question.scenes, asked, f"{question.solution}\n{verdict}", verdict)

    return lesson


def judge(sampled: list[Sampled]) -> Callable[[Rng], Lesson]:
    """Pairwise: its own solution first, then the overall judgment."""

    def lesson(rng: Rng) -> Lesson:
        question, right, wrong = _candidates(rng, sampled)
        is_first = rng.chance(0.5)
        shown = (right, wrong) if is_first else (wrong, right)
        target = f"{question.solution}\n{FIRST if is_first else SECOND}"
        stress = " 1 is better." if is_first else " 2 is better."
        return Lesson(question.scenes, judge_prompt(query(question), *shown), target, stress)

    return lesson


def rated(sampled: list[Sampled]) -> Callable[[Rng], tuple[WorldQuestion, str, str]]:
    """For scalar heads: (question, right candidate, wrong candidate)."""
    return lambda rng: _candidates(rng, sampled)
