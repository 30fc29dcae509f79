"""The prompt that a card names: shipped wording, a user's file, inline or published text."""

from pathlib import Path
from typing import Literal

from bon.core.errors import BonError
from bon.experiment.config import FilePrompt, InlinePrompt, PromptRef, UpstreamPrompt
from bon.experiment.prompts import Prompt, nearest
from bon.experiment.upstream import published

ROOT = Path(__file__).parents[1]


def load_prompt(ref: PromptRef, *, room: Literal["policies", "rewarders"], base: Path) -> Prompt:
    """The prompt that a card names. `base` is the folder of the card."""
    if isinstance(ref, InlinePrompt):
        return Prompt("inline", ref.text)
    if isinstance(ref, FilePrompt):
        path = base / ref.file
        try:
            return Prompt(f"file:{path.name}", path.resolve().read_text(encoding="utf-8"))
        except UnicodeDecodeError:
            raise BonError(f"prompt file {path} is not UTF-8 text", "save it as UTF-8") from None
        except OSError:
            raise BonError(f"no prompt file {path}", "check `prompt: {file: …}`") from None
    if isinstance(ref, UpstreamPrompt):
        return published(ref.upstream)
    shipped = {path.stem: path for path in (ROOT / room / "prompts").glob("*.jinja")}
    if ref not in shipped:
        fix = f"{nearest(ref, sorted(shipped))} (one of your own: `prompt: {{file: PATH}}`)"
        raise BonError(f"no shipped prompt {ref!r} in {room}", fix)
    return Prompt(ref, shipped[ref].read_text(encoding="utf-8"))
