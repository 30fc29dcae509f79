"""Questions about scenes, from perception to reasoning, with answers and solutions."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from bon.miniature.scene import (
    CELLS,
    COLOURS,
    SHAPES,
    VARIANTS,
    Scene,
)
from tools.miniature.rng import Rng, digest

SPLITS = ("train", "dev", "benchmark", "downstream")
LETTERS = "ABCDEFGHIJ"
# Subject → group, the three groups of VL-RewardBench.
GROUPS = {
    "Colour_Count": "general",
    "Shape_Count": "general",
    "Location": "general",
    "Presence": "hallucination",
    "Prices": "reasoning",
    "Difference": "reasoning",
    "Comparison": "reasoning",  # the one with two images
}
SUBJECTS = tuple(GROUPS)
PAIR_SUBJECTS = tuple(s for s in SUBJECTS if s != "Comparison")  # benchmark items have one image

Facts = tuple[str | int, ...]


def kind_name(kind: int) -> str:
    """What a kind is called in questions: "empty", "red star"."""
    return "empty" if kind == 0 else f"{COLOURS[(kind - 1) // 4]} {SHAPES[(kind - 1) % 4]}"


def count_objects(scene: Scene, *, colour: int | None = None, shape: int | None = None) -> int:
    """Objects of a colour, of a shape, or of both."""
    return sum(
        k > 0
        and (colour is None or (k - 1) // 4 == colour)
        and (shape is None or (k - 1) % 4 == shape)
        for k in scene.kinds
    )


def split_of(kinds: tuple[int, ...]) -> str:
    """The only split in which a board may appear; of ten boards seven are for training."""
    bucket = digest("board", kinds) % 10
    return "train" if bucket < 7 else SPLITS[bucket - 6]


def random_scene(rng: Rng, split: str) -> Scene:
    """4–10 objects of 4–7 kinds, drawn again until the board falls into the split."""
    while True:
        palette = rng.sample(range(1, 17), rng.between(4, 7))
        objects = [rng.pick(palette) for _ in range(rng.between(4, 10))]
        kinds = tuple(rng.shuffled(objects + [0] * (CELLS - len(objects))))
        if split_of(kinds) == split:
            return Scene(kinds, tuple(rng.below(VARIANTS) for _ in range(CELLS)))


@dataclass(frozen=True, slots=True)
class WorldQuestion:
    """One question; `facts` are the claims of its solution, as arguments of `solution`."""

    subject: str
    scenes: tuple[Scene, ...]
    text: str
    options: tuple[str, ...]
    answer: str
    facts: Facts

    @property
    def right(self) -> str:
        """The text of the right option."""
        return self.options[LETTERS.index(self.answer)]

    @property
    def solution(self) -> str:
        """The right solution, ending with the option and its letter."""
        return solution(self.subject, self.facts, self.right, self.answer)

    @property
    def response(self) -> str:
        """The right response."""
        return response(self.solution, self.answer)

    @property
    def difficulty(self) -> str:
        """Difficulty by the number of objects on the fuller board."""
        objects = max(sum(k > 0 for k in s.kinds) for s in self.scenes)
        return "Easy" if objects <= 5 else "Medium" if objects <= 8 else "Hard"


def solution(subject: str, facts: Facts, value: str, letter: str) -> str:
    """Return the reasoning from facts to an option, right or wrong."""
    end = f"{value} ({letter})"
    if subject in ("Colour_Count", "Shape_Count"):
        return f"{facts[0]}: {end}."
    if subject == "Location":
        return f"{facts[0]} shows {end}."
    if subject == "Presence":
        return f"{end} is at {facts[0]}."
    if subject == "Prices":
        first, second, n, m, price, other = facts
        cost = f"{int(n) * int(price)} + {int(m) * int(other)}"
        return f"{first}s: {n}. {second}s: {m}. Cost {cost} = {end}."
    first, second, n, m = facts
    return f"{first}: {n}. {second}: {m}. Then {n} - {m} = {end}."


def response(solution_text: str, letter: str) -> str:
    """Return a response: solution and the line that is parsed."""
    return f"{solution_text} Answer: {letter}"


def prompt(question: str, options: tuple[str, ...] | list[str]) -> str:
    """Return a policy's prompt, also the `query` of a preference pair."""
    return question + "".join(f"\n{LETTERS[i]}. {option}" for i, option in enumerate(options))


def critic_prompt(query: str, candidate: str) -> str:
    """Return the prompt of a pointwise critic."""
    return f"{query}\nAnswer: {candidate}\nIs the answer correct?"


def judge_prompt(query: str, first: str, second: str) -> str:
    """Return the prompt of a pairwise judge."""
    return f"{query}\nAnswer 1: {first}\nAnswer 2: {second}\nWhich answer is better?"


def list_prompt(query: str, candidates: Sequence[str]) -> str:
    """Return the prompt of a listwise judge. Each number follows its candidate: there a model this
    small finds it."""
    lines = "".join(f"\n{text} {number}" for number, text in enumerate(candidates, 1))
    return f"{query}{lines}\nWhich answer is better?"


def query(question: WorldQuestion) -> str:
    """Return a question's prompt."""
    return prompt(question.text, question.options)


def make(seed: int, split: str, subject: str | None = None) -> WorldQuestion:
    """Return the question of a seed, with scenes of the split."""
    return draw(Rng("question", split, seed), split, subject)


def draw(rng: Rng, split: str, subject: str | None = None) -> WorldQuestion:
    """Draw a question from a random stream."""
    subject = subject or rng.pick(SUBJECTS)
    scenes = tuple(random_scene(rng, split) for _ in range(1 + (subject == "Comparison")))
    text, options, right, facts = _QUESTIONS[subject](rng, scenes)
    if rng.chance(0.08):  # a few questions have fewer than ten options, as in MMMU-Pro
        wrong = rng.sample([o for o in options if o != right], rng.between(3, 8))
        options = [o for o in options if o == right or o in wrong]
    return WorldQuestion(
        subject, scenes, text, tuple(options), LETTERS[options.index(right)], facts
    )


Parts = tuple[str, list[str], str, Facts]
"""Text, options, right option and facts of a question."""


def _colour_count(rng: Rng, scenes: tuple[Scene, ...]) -> Parts:
    colour = rng.below(4)
    count = count_objects(scenes[0], colour=colour)
    noun = f"{COLOURS[colour]} shapes"
    return f"<image 1> How many {noun} are there?", near(rng, count), str(count), (noun,)


def _shape_count(rng: Rng, scenes: tuple[Scene, ...]) -> Parts:
    shape = rng.below(4)
    count = count_objects(scenes[0], shape=shape)
    noun = f"{SHAPES[shape]}s"
    return f"<image 1> How many {noun} are there?", near(rng, count), str(count), (noun,)


def _location(rng: Rng, scenes: tuple[Scene, ...]) -> Parts:
    cell = rng.below(CELLS)
    right = scenes[0].kinds[cell]
    # Half of the wrong options are elsewhere on the board, or a glance would exclude them.
    present = rng.shuffled(sorted(set(scenes[0].kinds) - {right}))
    absent = rng.shuffled([k for k in range(17) if k != right and k not in present])
    options = rng.shuffled([kind_name(k) for k in [right, *(present[:5] + absent)[:9]]])
    return f"What is in cell {cell + 1} of <image 1>?", options, kind_name(right), (cell + 1,)


def _presence(rng: Rng, scenes: tuple[Scene, ...]) -> Parts:
    kinds = scenes[0].kinds
    present = sorted(set(kinds) - {0})
    right = rng.pick(present)
    absent = [k for k in range(1, 17) if k not in present]
    options = rng.shuffled([kind_name(k) for k in [right, *rng.sample(absent, 9)]])
    cell = rng.pick([i for i, k in enumerate(kinds) if k == right])
    text = "Which of these objects is in <image 1>?"
    return text, options, kind_name(right), (cell + 1,)


def _prices(rng: Rng, scenes: tuple[Scene, ...]) -> Parts:
    a, b = rng.sample(range(4), 2)
    price, other = rng.between(2, 5), rng.between(2, 5)
    n, m = count_objects(scenes[0], shape=a), count_objects(scenes[0], shape=b)
    total = n * price + m * other
    text = (
        f"<image 1> Each {SHAPES[a]} costs {price} coins and each {SHAPES[b]} costs "
        f"{other} coins. What is the total cost?"
    )
    return text, around(rng, total), str(total), (SHAPES[a], SHAPES[b], n, m, price, other)


def _difference(rng: Rng, scenes: tuple[Scene, ...]) -> Parts:
    a, b = rng.sample(range(4), 2)
    n, m = count_objects(scenes[0], colour=a), count_objects(scenes[0], colour=b)
    if n < m:
        a, b, n, m = b, a, m, n
    text = f"<image 1> How many more {COLOURS[a]} shapes than {COLOURS[b]} shapes are there?"
    return text, near(rng, n - m), str(n - m), (COLOURS[a], COLOURS[b], n, m)


def _comparison(rng: Rng, scenes: tuple[Scene, ...]) -> Parts:
    colour = rng.below(4)
    name = COLOURS[colour]
    n, m = (count_objects(scene, colour=colour) for scene in scenes)
    order = (1, 2)
    if n < m:  # never negative: ask for the distance the other way round
        n, m, order = m, n, (2, 1)
    text = f"How many more {name} shapes are in <image {order[0]}> than in <image {order[1]}>?"
    first, second = (f"{('first', 'second')[i - 1]} {name}" for i in order)
    return text, near(rng, n - m), str(n - m), (first, second, n, m)


_QUESTIONS: dict[str, Callable[[Rng, tuple[Scene, ...]], Parts]] = {
    "Colour_Count": _colour_count,
    "Shape_Count": _shape_count,
    "Location": _location,
    "Presence": _presence,
    "Prices": _prices,
    "Difference": _difference,
    "Comparison": _comparison,
}


def near(rng: Rng, number: int) -> list[str]:
    """Return ten consecutive numbers that include the right one."""
    low = max(0, number - rng.below(10))
    return [str(n) for n in rng.shuffled(range(low, low + 10))]


def around(rng: Rng, number: int) -> list[str]:
    """Return ten different numbers within twelve of the right one."""
    numbers = {number}
    while len(numbers) < 10:
        numbers.add(max(0, number + rng.pick((-1, 1)) * rng.between(1, 12)))
    return [str(n) for n in rng.shuffled(sorted(numbers))]


def wrong_response(rng: Rng, question: WorldQuestion) -> str:
    """Return a plausible wrong response: a misread, a miscount, or a wrong letter."""
    right = LETTERS.index(question.answer)
    wrong = [i for i in range(len(question.options)) if i != right]
    subject, facts = question.subject, question.facts
    if rng.chance(0.12):  # right value, wrong letter
        letter = LETTERS[rng.pick(wrong)]
        return response(solution(subject, facts, question.right, letter), letter)
    if subject in ("Location", "Presence"):
        index = rng.pick(wrong)
        if subject == "Presence":
            facts = (rng.between(1, CELLS),)
    elif subject == "Prices":
        index, facts = _wrong_price(rng, question, wrong)
    else:
        numbers = [int(o) for o in question.options]
        # Small slips are likelier than large ones.
        by_size = sorted(wrong, key=lambda i: abs(numbers[i] - numbers[right]) + rng.random())
        index = by_size[0] if rng.chance(0.6) else rng.pick(by_size[:4])
        if len(facts) == 4:
            facts = _slip(rng, facts, numbers[index] - numbers[right])
    value, letter = question.options[index], LETTERS[index]
    return response(solution(subject, facts, value, letter), letter)


def _slip(rng: Rng, facts: Facts, off: int) -> Facts:
    """Change one of two counts so that their difference is off by `off`."""
    first, second, n, m = facts[0], facts[1], int(facts[2]), int(facts[3])
    if n + off >= 0 and (m - off < 0 or rng.chance(0.5)):
        return first, second, n + off, m
    return first, second, n, m - off


def _wrong_price(rng: Rng, question: WorldQuestion, wrong: list[int]) -> tuple[int, Facts]:
    first, second, n, m, price, other = question.facts
    if rng.chance(0.5):  # counted well, added badly
        return rng.pick(wrong), question.facts
    n2, m2 = int(n), int(m)
    if rng.chance(0.5):
        n2 = max(0, n2 + rng.pick((-1, 1, 1, 2)))
    else:
        m2 = max(0, m2 + rng.pick((-1, 1, 1, 2)))
    total = n2 * int(price) + m2 * int(other)
    index = min(wrong, key=lambda i: abs(int(question.options[i]) - total) + rng.random() / 2)
    return index, (first, second, n2, m2, price, other)
