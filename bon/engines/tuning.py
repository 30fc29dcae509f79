"""What a fine-tuning takes and gives; imports no torch."""

from dataclasses import dataclass
from typing import Literal

from bon.engines.base import Message

Method = Literal["sft", "dpo"]


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
    """`batch` examples per step; the rate peaks after `warmup` steps and falls to a tenth."""

    method: Method
    steps: int
    batch: int
    rate: float
    beta: float = 0.1
    warmup: int = 5
    seed: int = 0
    micro_batch: int = 32


@dataclass(frozen=True, slots=True)
class FineTuned:
    """Mean loss of the first and of the last five steps, and seconds."""

    first_loss: float
    last_loss: float
    seconds: float
