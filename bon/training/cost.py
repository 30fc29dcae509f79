"""Hours and memory of a training study on one GPU, before it starts.

LoRA on all linear layers with gradient checkpointing, as in arms.yaml of `bon uplift --export`.
"""

from dataclasses import dataclass

from bon.engines.checkpoints import read_config
from bon.engines.free_gpu_memory import USABLE
from bon.engines.tuning import Method, Tuning
from bon.experiment.cards import Loaded
from bon.experiment.config import PolicyCard
from bon.planning.model_sizes import GIB, GPUS, RESERVE_UNBOUND
from bon.planning.plan import PROMPT_FLOPS, REPLY_FLOPS, SPREAD

RANK = 16
ADAM_BYTES = 16
"""Bytes per trained parameter: value and gradient in 16 bits, two moments and a copy in 32."""
LAYER_STATES = 34
"""Values per token and hidden unit that one layer keeps while it is computed again (Korthikanti et
al. 2022, without attention scores)."""

ASSUMPTIONS = (
    f"training: LoRA of rank {RANK} on all linear layers, 16-bit weights, gradient checkpointing, "
    "one example (a pair for DPO) at a time (`accumulate` of arms.yaml: the batch)",
    "assumed speed: P parameters take 6P operations per trained token, 2P per token that is read, "
    f"at {PROMPT_FLOPS:.0e} a second, and write one in 2P / {REPLY_FLOPS:.0e} GPU seconds (80 GB "
    f"data-centre GPU), within a factor of {SPREAD:g}; measured on none here",
    "shapes without a config.json: L = h / 128 layers of hidden size h with P = 12 L h², an inner "
    "size of 3.5 h and 152,000 tokens",
    "rewards of GRPO: the rewarder reads question and response once",
)


@dataclass(frozen=True)
class TrainingCost:
    """Arms of one method: hours of one GPU in all, with bounds, and GiB; `fits` by GPU."""

    method: Method
    arms: int
    tokens: int
    hours: float
    hours_low: float
    hours_high: float
    memory: float
    fits: tuple[str, ...]


@dataclass(frozen=True)
class Shape:
    """The language model: layers, hidden and inner size, vocabulary."""

    layers: int
    hidden: int
    inner: int
    vocabulary: int

    @classmethod
    def of(cls, policy: Loaded[PolicyCard], size: float) -> "Shape":
        """Read config.json of a local checkpoint; from the number of parameters elsewhere."""
        config = read_config(policy.model_path, policy.card.revision)
        config = config.get("text_config", config)
        hidden = int(config.get("hidden_size") or round((size * 128 / 12) ** (1 / 3)))
        return cls(
            int(config.get("num_hidden_layers") or max(1, round(hidden / 128))),
            hidden,
            int(config.get("intermediate_size") or 3.5 * hidden),
            int(config.get("vocab_size") or 152_000),
        )

    @property
    def lora(self) -> int:
        """Trained parameters."""
        return self.layers * RANK * (8 * self.hidden + 3 * (self.hidden + self.inner))


def training_cost(
    policy: Loaded[PolicyCard], tuning: Tuning, arms: int, prompt: float, reply: float, judge: float
) -> TrainingCost:
    """Estimate `arms` trainings with mean tokens of prompt and reply; `judge`: parameters."""
    size = float(policy.card.size or 0)
    shape = Shape.of(policy, size)
    pairs = 2 if tuning.method == "dpo" else 1
    responses = tuning.steps * tuning.batch * pairs
    tokens = responses * (prompt + reply)
    operations = tokens * size * (8 if tuning.method == "dpo" else 6) / PROMPT_FLOPS
    if tuning.method == "grpo":
        operations += (
            responses * 2 * size * (prompt / tuning.group / PROMPT_FLOPS + reply / REPLY_FLOPS)
        )
        operations += tokens * 2 * judge / PROMPT_FLOPS
    hours = arms * operations / 3600
    at_once = pairs * (prompt + reply)
    activations = at_once * shape.hidden * 2 * (shape.layers + LAYER_STATES / 2)
    logits = pairs * reply * shape.vocabulary * 8
    memory = (2 * size + ADAM_BYTES * shape.lora + activations + logits) / GIB + RESERVE_UNBOUND
    return TrainingCost(
        tuning.method, arms, round(arms * tokens), hours, hours / SPREAD, hours * SPREAD, memory,
        tuple(f"{gpu} GB" for gpu in GPUS if memory <= gpu * USABLE),
    )  # fmt: skip
