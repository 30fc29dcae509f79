"""Replies that decline to answer, whatever an answer extractor makes of them."""

import re

from bon.core.text import REFUSED
from bon.policies.answer_extraction import after_thinking

_NOT = r"(?:cannot|can['’]?t|can\s+not|could\s?n['’]?t|won['’]?t|will\s+not|am\s+not\s+able\s+to)"
_DO = (
    r"(?:see|view|access|open|display|process|analy[sz]e|interpret|identify|recogni[sz]e|read|help|"
    r"assist|provide|give|answer|determine|choose|select|solve|do|show|tell|comply|diagnose|"
    r"discern|make|evaluate|assess|complete|respond|fulfil+|continue|support|verify|view)"
)
_DECLINES = re.compile(
    r"\bi(?:['’]?m|\s+am)\s+(?:\w+\s+)?(?:sorry|unable|not\s+able)\b"
    r"|^\W*(?:sorry|apologies|unfortunately)\b"
    r"|\bi\s+apologi[sz]e\b"
    rf"|\bi\s+(?:\w+\s+)?{_NOT}\s+(?:\w+\s+)?{_DO}\b"
    r"|\bi\s+(?:do\s+not|don['’]?t)\s+(?:know|have|understand)\b"
    r"|\bas\s+an\s+ai\b"
    r"|\b(?:unable|not\s+possible|impossible)\s+to\s+(?:\w+\s+)?"
    rf"{_DO}\b"
    r"|\bno\s+(?:image|picture)\s+(?:was|is|has\s+been)\s+(?:provided|attached|given|shown)\b"
    r"|\bcannot\s+be\s+(?:determined|answered)\b",
    re.IGNORECASE,
)


def declines(text: str) -> bool:
    """Whether a reply says that it will not or cannot answer; it may still state an answer."""
    return text.startswith(REFUSED) or _DECLINES.search(after_thinking(text)) is not None
