"""Letters of options, text that can be stored and sent, chat completions, features of texts."""

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import log2
from typing import Any, NamedTuple


def unicode_only(text: str) -> str:
    """Replace lone surrogates, which no encoding can hold, by U+FFFD."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        # Through UTF-16, so that two halves of a pair become their character.
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")
"""What terminals obey, and what turns the direction of a line."""
_FORMULA = frozenset("=+-@\t\r\n＝＋－＠")


def printable(text: str) -> str:
    """Escape what a terminal would obey, as in JSON; lines and tabs stay."""
    return CONTROL.sub(lambda m: m[0] if m[0] in "\n\t" else f"\\u{ord(m[0]):04x}", text)


def table_cell(value: Any) -> Any:
    """Quote a text that a spreadsheet would run as a formula; other values stay."""
    return f"'{value}" if isinstance(value, str) and value[:1] in _FORMULA else value


LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
"""Letters of answer options, in order."""


def option_letters(options: Sequence[str]) -> str:
    """Return the letters of these options, in order."""
    if not 1 <= len(options) <= len(LETTERS):
        raise ValueError(f"a question needs 1 to {len(LETTERS)} options, not {len(options)}")
    return LETTERS[: len(options)]


REFUSED, FILTERED = "[refusal] ", "[content_filter] "
"""Beginnings of replies that the endpoint withheld: no answer is read from them."""

_FINISH = {
    "length": "length",
    "max_tokens": "length",
    **dict.fromkeys(
        ("content_filter", "safety", "prohibited_content", "blocklist", "recitation", "refusal"),
        "content_filter",
    ),
    "error": "error",
}
"""What finish reasons mean; all others are "stop"."""


def is_withheld(text: str) -> bool:
    """Whether a reply is a refusal, or was cut, by the endpoint that gave it."""
    return text.startswith((REFUSED, FILTERED))


class ChatReply(NamedTuple):
    """The text of a chat completion, marked if it is withheld, its reasoning and finish reason."""

    text: str
    reasoning: str
    finish: str


def read_choice(choice: Mapping[str, Any]) -> ChatReply:
    """Read a choice of OpenAI's chat completions, whose content is text or a list of parts.

    Raises:
        ValueError: it holds anything else.
    """
    message = choice.get("message")
    if not isinstance(message, Mapping):
        raise ValueError("a choice without a message")
    content, refusal = message.get("content"), message.get("refusal")
    reasoning = message.get("reasoning_content") or message.get("reasoning")
    if isinstance(content, list):
        texts: dict[str, str] = {}
        for part in content:
            kind = part.get("type") if isinstance(part, dict) else None
            kind = "thinking" if kind == "reasoning" else kind
            name = kind if kind in ("thinking", "refusal") else "text"
            value = part.get(name) if isinstance(part, dict) else part
            if name == "thinking" and not isinstance(value, str):
                value = "".join(str(one.get("text", "")) for one in value or [])
            if not isinstance(value, str):
                raise ValueError(f"content with a part of type {kind!r}, which is not text")
            texts[name] = texts.get(name, "") + value
        content, refusal = texts.get("text"), refusal or texts.get("refusal")
        reasoning = reasoning or texts.get("thinking")
    if content is not None and not isinstance(content, str):
        raise ValueError(f"content of type {type(content).__name__}, not text")
    text, finish = content or "", _FINISH.get(str(choice.get("finish_reason")).lower(), "stop")
    if isinstance(refusal, str) and refusal:
        text, finish = REFUSED + (text or refusal), "refusal"
    elif finish == "content_filter":
        text = FILTERED + text
    elif choice.get("error") or finish == "error":
        raise ValueError(f"the error {choice.get('error') or 'of a reply cut short'}")
    return ChatReply(text, reasoning if isinstance(reasoning, str) else "", finish)


# ------------------------------------------------------------------ features
# What a rewarder may like in a text whatever it says: length, markdown, self-praise, a letter.

_MARKDOWN = re.compile(r"^#{1,6} |\*\*[^*\n]+\*\*|^[-*] ", re.MULTILINE)
_PRAISE = re.compile(
    r"\bno doubt\b|\b(certainly|definitely) correct\b|\bexcellent answer\b|\bverified twice\b"
    r"|\bchecked (every|it twice)\b",
    re.IGNORECASE,
)


def _ends_in(letter: str, text: str) -> float:
    return float(bool(re.search(rf"\b{letter}\b[^A-Za-z]*$", text)))


FEATURES: dict[str, Callable[[str], float]] = {
    "length": lambda text: log2(1 + len(text)),
    "markdown": lambda text: float(bool(_MARKDOWN.search(text))),
    "praise": lambda text: float(bool(_PRAISE.search(text))),
    **{f"letter {letter}": partial(_ends_in, letter) for letter in LETTERS[:4]},
}
"""Name -> a number of a text: doublings of its length, or 1 where it has the feature."""

PLACE, PHRASE = "first place", "phrase"
BIASES = (*FEATURES, PLACE, PHRASE)
"""Biases that can be injected (bon.rewarders.biases)."""
