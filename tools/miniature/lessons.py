"""What the models are taught: pairs of a prompt and the reply to learn, made on the fly."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from bon.miniature.scene import CELLS, COLOURS, SHAPES, Scene
from tools.miniature.rng import Rng
from tools.miniature.world import (
    LETTERS,
    WorldQuestion,
    around,
    count_objects,
    critic_prompt,
    draw,
    judge_prompt,
    kind_name,
    list_prompt,
    near,
    prompt,
    query,
    random_scene,
    wrong_response,
)

YES, NO = "Yes", "No"
FIRST, SECOND = ("Overall Judgment: Answer 1 is better.", "Overall Judgment: Answer 2 is better.")
STEP = ". "  # between the steps of a solution
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


def answer(subjects: Sequence[str]) -> Callable[[Rng], Lesson]:
    """A question of these subjects and its right response; the letter weighs double."""

    def lesson(rng: Rng) -> Lesson:
        question = draw(rng, "train", rng.pick(subjects))
        letter = f" ({question.answer})"
        return Lesson(question.scenes, query(question), question.response, letter)

    return lesson


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


def chooser(sampled: list[Sampled]) -> Callable[[Rng], Lesson]:
    """Listwise: its own response first, then the number of the equal one among two to eight."""

    def lesson(rng: Rng) -> Lesson:
        question, right, wrong = _candidates(rng, sampled)
        count = rng.pick((2, 4, 6, 8, 8))
        texts = [wrong, *(wrong_response(rng, question) for _ in range(count - 2))]
        texts.insert(rng.below(count), right)
        number = f" {texts.index(right) + 1}"
        asked = list_prompt(query(question), texts)
        return Lesson(question.scenes, asked, question.response + number, number)

    return lesson


@dataclass(frozen=True, slots=True)
class Judged:
    """What a rewarder reads and replies. asked: the user's turn in pieces; reply: the verdict, or
    the candidate that a scalar head reads. A candidate comes with the right response, others
    with ''."""

    scenes: tuple[Scene, ...]
    asked: tuple[tuple[str, str], ...]
    reply: tuple[str, str]


def judged(question: WorldQuestion, texts: Sequence[str], verdict: str) -> Judged:
    """One candidate, or several with their numbers, and the verdict on them."""
    whole = " " + question.response
    asked = [(query(question), "")]
    for number, text in enumerate(texts, 1):
        asked += [(f"\nAnswer{f' {number}' * (len(texts) > 1)}:", ""), (f" {text}", whole)]
    end = "Which answer is better?" if len(texts) > 1 else "Is the answer correct?"
    return Judged(question.scenes, (*asked, (f"\n{end}", "")), (verdict, ""))


def verdicts(kind: str, sampled: list[Sampled]) -> Callable[[Rng], list[Judged]]:
    """Inputs about one question for a rewarder of a kind that replies with its verdict alone."""
    make = {
        "pointwise": _pointwise,
        "stepwise": _stepwise,
        "pairwise": _pairwise,
        "scalar": _scalar,
    }[kind]
    return lambda rng: make(rng, *_candidates(rng, sampled))


def _pointwise(rng: Rng, question: WorldQuestion, right: str, wrong: str) -> list[Judged]:
    return [judged(question, [right], YES), judged(question, [wrong], NO)]


def _stepwise(rng: Rng, question: WorldQuestion, right: str, wrong: str) -> list[Judged]:
    """A candidate up to one of its steps, oftener the last; is that step right?"""
    should, out = question.response.split(STEP), []
    for text in (right, wrong):
        steps = text.split(STEP)
        last = len(steps) if rng.chance(0.4) else rng.between(1, len(steps))
        verdict = YES if steps[last - 1] in should[last - 1 : last] else NO
        out.append(judged(question, [STEP.join(steps[:last])], verdict))
    return out


def _pairwise(rng: Rng, question: WorldQuestion, right: str, wrong: str) -> list[Judged]:
    return [judged(question, [right, wrong], "1"), judged(question, [wrong, right], "2")]


def _scalar(rng: Rng, question: WorldQuestion, right: str, wrong: str) -> list[Judged]:
    """The right candidate, then the wrong one, as the assistant's turns."""
    whole = question.response
    asked = ((query(question), ""),)
    return [Judged(question.scenes, asked, (text, whole)) for text in (right, wrong)]
