"""What a fine-tuning takes and gives; imports no torch."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from bon.engines.base import Engine, Message

Method = Literal["sft", "dpo", "grpo"]


@dataclass(frozen=True, slots=True)
class Example:
    """A prompt, the chosen response (none under GRPO) and, for DPO, the rejected one."""

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

    GRPO samples `batch` responses per step, `group` of each question. Training ends early where the
    policy is `kl` nats per response from the untrained one.
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


class Live(Protocol):
    """Samples a policy while it is trained, and rewards what it says."""

    def respond(
        self, engine: Engine, indices: Sequence[int], step: int, count: int
    ) -> list[list[str | None]]:
        """Return `count` responses of each prompt; None for one that was cut short."""

    def rewards(
        self, indices: Sequence[int], texts: Sequence[Sequence[str | None]], step: int
    ) -> list[list[float | None]]:
        """Return the reward of each response; None where there is none."""


@dataclass(frozen=True, slots=True)
class FineTuned:
    """Mean loss of the first and of the last five steps (GRPO: rewards), seconds, and steps."""

    first_loss: float
    last_loss: float
    seconds: float
    steps: int = 0
