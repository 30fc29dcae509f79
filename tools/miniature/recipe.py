"""What is trained, from which seeds, for how long: the whole recipe in one place."""

from dataclasses import dataclass

SCHEMA = 1
TEMPERATURES = {"policy-a": 1.0, "policy-b": 1.2}  # wherever they are sampled
SAMPLES = 8


@dataclass(frozen=True, slots=True)
class Base:
    """A model trained from scratch to answer. stop: the step of the last phase at which a copy
    becomes this base's policy; the judges start from the end of it."""

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
    policy_stop: int


@dataclass(frozen=True, slots=True)
class Recipe:
    """start: the stage whose model it grows from. short: {published name: step} of copies taken
    on the way. realign: steps that teach the vision tower the filtered images."""

    name: str
    role: str  # pointwise | pairwise | scalar
    base: str
    start: str
    steps: int
    seed: int
    image_filter: str = ""
    realign: int = 0
    short: tuple[tuple[str, int], ...] = ()


BASES = (
    Base("base-a", 1, 128, 4, 4, 2, 384, 150, 150, 500, 900, 450),
    Base("base-b", 2, 160, 4, 5, 5, 288, 150, 150, 500, 1000, 800),
)
POLICIES = {"policy-a": "base-a", "policy-b": "base-b"}
LIKELIHOOD_BASE = "base-a"
REWARDERS = (
    Recipe("critic-a", "pointwise", "base-a", "base-a", 300, 11, short=(("critic-a-short", 60),)),
    Recipe("critic-a-long", "pointwise", "base-a", "critic-a", 500, 16),
    Recipe("critic-a-gray", "pointwise", "base-a", "base-a", 200, 12, "gray", 100),
    Recipe("pair-a", "pairwise", "base-a", "critic-a", 400, 13),
    Recipe("pair-a-blur", "pairwise", "base-a", "critic-a", 250, 14, "blur:4", 100),
    Recipe("scalar-a", "scalar", "base-a", "base-a", 400, 15),
    Recipe("critic-b", "pointwise", "base-b", "base-b", 300, 21),
    Recipe("critic-b-blur", "pointwise", "base-b", "base-b", 200, 22, "blur:3", 100),
    Recipe("critic-b-blind", "pointwise", "base-b", "base-b", 120, 23, "drop"),
    Recipe("pair-b", "pairwise", "base-b", "critic-b", 400, 24, short=(("pair-b-short", 150),)),
    Recipe("scalar-b", "scalar", "base-b", "base-b", 400, 25),
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
