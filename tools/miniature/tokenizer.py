"""The miniature's tokenizer: byte-level BPE with Qwen's special tokens and chat template."""

from pathlib import Path
from typing import Any

from tools.miniature.lessons import VERDICTS, lists, lookup
from tools.miniature.rng import Rng
from tools.miniature.world import LETTERS, critic_prompt, draw, judge_prompt, query

SPECIAL = (
    "<|endoftext|>",
    "<|im_start|>",
    "<|im_end|>",
    "<|vision_start|>",
    "<|vision_end|>",
    "<|vision_pad|>",
    "<|image_pad|>",
    "<|video_pad|>",
)
# Each " word", " 12", "\nA.", " (F)" and " <image 1>" stays whole, so that one fact is one token.
PATTERN = r"\n[A-J]\.| \([A-J]\)| ?<image [0-9]>| ?[A-Za-z]+| ?[0-9]+| ?[^\sA-Za-z0-9]+|\n|\s"
CHAT_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n"
    "{% if message['content'] is string %}{{ message['content'] }}{% else %}"
    "{% for part in message['content'] %}"
    "{% if part['type'] in ('image', 'image_url') %}"
    "<|vision_start|><|image_pad|><|vision_end|>"
    "{% else %}{{ part['text'] }}{% endif %}{% endfor %}{% endif %}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def build(folder: Path) -> Any:
    """Train the tokenizer on the world's own text, save it to the folder and return it."""
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(PATTERN), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=1024,
        min_frequency=20,
        special_tokens=list(SPECIAL),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(_corpus(), trainer)
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, eos_token="<|im_end|>", pad_token="<|endoftext|>"
    )
    fast.chat_template = CHAT_TEMPLATE
    fast.save_pretrained(folder)
    return fast


def _corpus() -> list[str]:
    rng = Rng("tokenizer")
    out: list[str] = []
    for _ in range(3000):
        question = draw(rng, "train")
        asked, told = query(question), question.response
        out += [judge_prompt(asked, told, told), critic_prompt(asked, told), told]
    for _ in range(300):
        for lesson in (lookup(rng), lists(rng)):
            out += [lesson.prompt, lesson.target]
    out += [*VERDICTS, "user", "assistant", "system", "\n"] * 300
    out += [f" {number}" for number in range(120)] * 60
    out += [f" {letter}" for letter in LETTERS] * 100
    out += [f"{space}<image {i}>" for i in range(1, 8) for space in ("", " ")] * 60
    return out
