"""The base model of a rewarder, guessed from its name.

A guess ends in a question mark (`qwen2.5-vl?`) wherever it is written, and counts as that base.
"""

import re

GUESSED = "?"

_BASES = {
    r"r1-reward|skywork-vl-reward|llava-critic-r1|unified-?reward": "qwen2.5-vl",
    r"llava-critic|mm-rlhf|llava-(onevision|ov)": "llava-onevision",
    r"visualprm": "internvl2.5",
    r"(internlm-)?(xcomposer|ixc)-?2[.d]?5": "ixc-2.5",
    r"internvl-?(\d(\.\d)?)": "internvl{0}",
    r"qwen-?(\d?(\.\d)?)-?(vl|omni|math)": "qwen{0}-{2}",
    r"qwen-?(\d(\.\d)?)": "qwen{0}",
    r"gpt-?(4o|4\.1|4|5|6|3\.5)": "gpt-{0}",
    r"(claude|gemini|pixtral|mistral|mixtral|molmo|nvlm|gemma|deepseek|olmo|grok)": "{0}",
    r"llama-?(\d(\.\d)?)": "llama-{0}",
    r"phi-?(\d(\.\d)?)": "phi-{0}",
    r"(llava)": "{0}",
}


def guessed_base(name: str) -> str:
    """Return the base model that a name suggests with a question mark, or nothing."""
    plain = re.sub(r"[\s_/]+", "-", name.lower())
    plain = re.sub(r"unified-?reward(?=.*qwen-?\d)", "", plain)  # of another base, which it names
    for pattern, base in _BASES.items():
        if match := re.search(pattern, plain):
            return base.format(*(group or "" for group in match.groups())) + GUESSED
    return ""


def without_mark(base: str) -> str:
    """Return a base model without the mark of a guess."""
    return base.removesuffix(GUESSED)
