"""What a fine-tuning takes and gives; imports no torch."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from bon.engines.base import Engine, Message

Method = Literal["sft", "dpo", "grpo"]
"""GRPO is trained elsewhere alone (`bon uplift --export`)."""


@dataclass(frozen=True, slots=True)
class Example:
    """A prompt, the chosen response and, for DPO, the rejected one."""

    messages: tuple[Message, ...]
    chosen: str
    rejected: str | None = None

    @property
    def responses(self) -> tuple[str, ...]:
        """The responses, the chosen one first."""
        return (self.chosen,) if self.rejected is None else (self.chosen, self.rejected)


@dataclass(frozen=True, slots=True)
class Tuning:
    """`batch` examples per step; the rate peaks after `warmup` steps and falls to a tenth.

    Training ends early where the policy is `kl` nats per response from the untrained one. GRPO
    samples `group` responses of each question.
    """

    method: Method
    steps: int
    batch: int
    rate: float
    beta: float = 0.1
    warmup: int = 5
    seed: int = 0
    micro_batch: int = 32
    group: int = 8
    kl: float | None = None


Respond = Callable[[Engine, Sequence[int], int], list[str | None]]
"""Samples a response to each prompt at a step; None for one that was cut short."""


@dataclass(frozen=True, slots=True)
class FineTuned:
    """Mean loss of the first and of the last five steps, seconds, and steps."""

    first_loss: float
    last_loss: float
    seconds: float
    steps: int = 0
