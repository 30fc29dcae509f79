"""What is trained, from which seeds, for how long: the whole recipe in one place."""

from dataclasses import dataclass

SCHEMA = 1
TEMPERATURES = {"policy-a": 1.0, "policy-b": 1.2}  # wherever they are sampled
SAMPLES = 8


@dataclass(frozen=True, slots=True)
class Base:
    """A model trained from scratch to answer.

    vision: the hidden size and depth of its vision tower. policy_stop: the step of the last phase
    at which a copy becomes this base's policy; the rewarders start from the end of it. unseen:
    subjects that its questions leave out. lists_first: whether it learns lists before lookup.
    """

    name: str
    seed: int
    hidden: int
    layers: int
    heads: int
    kv_heads: int
    mlp: int
    align: int
    lookup: int
    lists: int
    answers: int
    policy_stop: int = 0
    vision: tuple[int, int] = (64, 2)
    unseen: tuple[str, ...] = ()
    lists_first: bool = False


@dataclass(frozen=True, slots=True)
class Recipe:
    """kind: of reward model. start: the stage whose model it grows from. verdict_first: whether
    it replies with its verdict alone, not with its own solution before it. realign: steps that
    teach the vision tower the filtered images."""

    name: str
    kind: str  # pointwise | pairwise | listwise | stepwise | scalar
    base: str
    start: str
    steps: int
    seed: int
    verdict_first: bool = False
    image_filter: str = ""
    realign: int = 0


BASES = (
    Base("base-a", 1, 128, 4, 4, 2, 384, 150, 150, 500, 900, 450),
    Base("base-b", 2, 160, 4, 5, 5, 288, 150, 150, 500, 1000, 800),
    Base("base-c", 3, 96, 4, 3, 1, 288, 150, 150, 500, 900),
    Base("base-d", 4, 128, 3, 4, 2, 320, 150, 150, 500, 800, vision=(48, 1)),
    Base("base-e", 5, 96, 5, 3, 3, 256, 150, 150, 500, 800, vision=(64, 1)),
    Base("base-f", 6, 128, 4, 4, 1, 256, 150, 150, 400, 700, vision=(48, 2)),
    Base("base-g", 7, 96, 4, 3, 3, 288, 150, 150, 500, 700, vision=(32, 1), lists_first=True),
    Base("base-h", 8, 64, 6, 2, 1, 256, 150, 200, 400, 500, unseen=("Prices", "Comparison")),
    Base("base-i", 9, 96, 3, 3, 1, 384, 150, 150, 400, 500, vision=(48, 1), unseen=("Presence",)),
    Base("base-j", 10, 160, 3, 5, 5, 288, 150, 150, 400, 600, vision=(48, 1)),
)
POLICIES = {"policy-a": "base-a", "policy-b": "base-b"}
LIKELIHOODS = ("base-a", "base-h")  # their own log-probabilities are rewards
REWARDERS = (
    Recipe("critic-a", "pointwise", "base-a", "base-a", 300, 11),
    Recipe("critic-a-long", "pointwise", "base-a", "critic-a", 500, 16),
    Recipe("pair-a", "pairwise", "base-a", "critic-a", 400, 13),
    Recipe("scalar-a", "scalar", "base-a", "base-a", 400, 15),
    Recipe("critic-b", "pointwise", "base-b", "base-b", 300, 21),
    Recipe("scalar-b", "scalar", "base-b", "base-b", 400, 25),
    Recipe("critic-c", "pointwise", "base-c", "base-c", 400, 31),
    Recipe("critic-c-blind", "pointwise", "base-c", "base-c", 200, 32, True, "drop"),
    Recipe("pair-d", "pairwise", "base-d", "base-d", 900, 41, True),
    Recipe("list-e", "listwise", "base-e", "base-e", 200, 51),
    Recipe("step-f", "stepwise", "base-f", "base-f", 800, 61, True),
    Recipe("scalar-g", "scalar", "base-g", "base-g", 400, 71),
    Recipe("pair-i", "pairwise", "base-i", "base-i", 500, 91, True, "blur:2", 100),
    Recipe("critic-j", "pointwise", "base-j", "base-j", 250, 101, False, "gray", 100),
)


@dataclass(frozen=True, slots=True)
class Sizes:
    """How many questions: candidates to train rewarders on, dev numbers, benchmark pairs."""

    train: int = 800
    dev: int = 200
    benchmark: int = 600
    pairs_per_group: int = 150
    rate: float = 2e-3
    rewarder_rate: float = 1e-3


FULL = Sizes()
SMOKE = Sizes(train=12, dev=8, benchmark=24, pairs_per_group=4)


def smoke(steps: int) -> int:
    """Steps of a phase in a smoke run, which only shows that every stage runs."""
    return min(steps, 2)
