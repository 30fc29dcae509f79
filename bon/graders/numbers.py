"""Graders of numbers: `number`, with a tolerance and a unit, and `relaxed`, ChartQA's 5%."""

import re
import unicodedata
from fractions import Fraction
from typing import NamedTuple

from bon.graders import Gold

MAX_LENGTH = 120
RELAXED = 0.05

_DASHES = re.compile("[‐‑‒–—―−]")
_RAISED = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁺", "0123456789-+")
_POWER = re.compile("[⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁺]+")
_VULGAR = re.compile(r"(\d)\s*([¼-¾⅐-⅞])")
_LATEX = (
    (re.compile(r"\\[dt]?frac\s*(\d)\s*(\d)"), r" \1/\2"),
    (re.compile(r"\\[dt]?frac\s*\{([^{}]*)\}\s*\{([^{}]*)\}"), r" \1/\2"),
    (re.compile(r"\\(?:text|mathrm|mathbf|operatorname)\s*\{([^{}]*)\}"), r" \1 "),
    (re.compile(r"\\(?:times|cdot)(?![a-z])"), "*"),
    (re.compile(r"\{,\}|\\[,;:! ]|\\(?:left|right)(?![a-z])"), ""),
    (re.compile(r"\\(?=[%$])|\^\s*\{?\\circ\}?"), lambda m: "°" if "circ" in m[0] else ""),
)
_LEAD = re.compile(
    r"(?:[a-z]\w{0,9}\s*=\s*|(?:approximately|approx\.?|about|roughly|[≈~=])\s*)*", re.IGNORECASE
)
_PLAIN = r"(?:\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d{1,3}(?:[ '_]\d{3})+(?:\.\d+)?|\d+(?:\.\d*)?|\.\d+)"
_NUMBER = re.compile(
    rf"(?P<sign>[+-]?)\s*[$€£¥]?\s*(?P<sign2>-?)"
    rf"(?:(?P<whole>\d+)\s+(?=\d+/))?(?P<number>{_PLAIN})"
    r"(?:\s*/\s*(?P<below>\d+(?:\.\d+)?)(?![\d.]))?"
    r"(?:[eE](?P<e>[+-]?\d{1,3})(?!\d)|\s*[*×x·]\s*10\s*(?:\^|\*\*)\s*\{?(?P<ten>[+-]?\d{1,3})\}?(?!\d))?"
    r"\s*(?:(?P<scale>thousand|million|billion|trillion)\b)?"
    r"|(?P<word>zero|one|two|three|four|five|six|seven|eight|nine|ten)\b",
    re.IGNORECASE,
)
_SCALES = {"": 0, "thousand": 3, "million": 6, "billion": 9, "trillion": 12}
NUMERALS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
_UNIT = re.compile(r"[^\d,;:?!=<>\\|&\n]{0,40}(?:\^-?\d)?[^\d,;:?!=<>\\|&\n]{0,20}")
_NO_UNIT = re.compile(
    r"[\^*/+(_\[√π-]|\\?pi\b|\\sqrt|[einxyz]\b|(?:[kKMB]|bn)\b"
    r"|.*\b(?:or|and|to|not|if|but|than|maybe|between|up|until|plus|minus|half|halves|dozen"
    r"|hundreds?|(?:third|quarter|fifth|tenth|hundredth|thousandth)s?)\b"
    r"|.*[-+*/]$"
)


class Quantity(NamedTuple):
    """A number and its unit; of percent, the number before the sign."""

    number: Fraction
    unit: str


def number(answer: str, gold: Gold) -> float | None:
    """Compare numbers; a missing unit is no error, a wrong one is, and 25% is .25.

    Unread: no number, or more than one; text that doubts it; exponents of four digits.
    """
    own = quantity(answer)
    if own is None:
        return None
    units = {_unit(unit) for unit in gold.unit.split(",")} - {""}
    return float(any(_equal(own, text, units, gold.tolerance) for text in gold.answers))


def relaxed(answer: str, gold: Gold) -> float | None:
    """Accept numbers within 5% of the right one, else equal texts (Masry et al., 2022)."""
    if not answer.strip():
        return None
    return float(any(_relaxed(answer.strip(), text.strip()) for text in gold.answers))


def quantity(text: str) -> Quantity | None:
    """Parse a number with an optional unit and nothing else."""
    if len(text) > MAX_LENGTH:
        return None
    text = _POWER.sub(lambda m: f"^{m[0].translate(_RAISED)}", _VULGAR.sub(r"\1 \2", text))
    text = _DASHES.sub("-", unicodedata.normalize("NFKC", text)).replace("⁄", "/")
    for pattern, plain in _LATEX:
        text = pattern.sub(plain, text)
    text = text.strip(" \t\n$.\"'")
    start = _LEAD.match(text)
    match = _NUMBER.match(text, start.end() if start else 0)
    if match is None or (match["sign"] and match["sign2"]):
        return None
    rest = text[match.end() :].strip(" .{}$")
    if not _UNIT.fullmatch(rest) or _NO_UNIT.match(rest) or len(rest.split()) > 4:
        return None
    if match["word"]:
        return Quantity(Fraction(NUMERALS.index(match["word"].lower())), _unit(rest))
    amount = Fraction(re.sub("[ ,'_]", "", match["number"]))
    if match["below"]:
        below = Fraction(match["below"])
        if not below:
            return None
        amount /= below
    amount += int(match["whole"] or 0)
    amount *= Fraction(10) ** int(match["e"] or match["ten"] or 0)
    amount *= 10 ** _SCALES[(match["scale"] or "").lower()]
    return Quantity(-amount if "-" in (match["sign"], match["sign2"]) else amount, _unit(rest))


def tolerance_of(text: str) -> tuple[float, bool]:
    """Parse a tolerance and whether it is relative; ValueError if it is neither."""
    relative = text.endswith("%")
    amount = float(text.removesuffix("%")) / (100 if relative else 1) if text else 0.0
    if not 0 <= amount < float("inf"):
        raise ValueError(f"tolerance {text!r} is not 0 or more")
    return amount, relative


def _equal(own: Quantity, text: str, units: set[str], tolerance: str) -> bool:
    right = quantity(text)
    if right is None:
        return False
    units = units or ({right.unit} - {""})
    amount = own.number
    if own.unit == "%" and "%" not in units:
        if units:
            return False
        amount /= 100
    elif own.unit and units and own.unit not in units:
        return False
    if right.unit == "%" and "%" not in units:
        right = Quantity(right.number / 100, "")
    margin, relative = tolerance_of(tolerance)
    bound = Fraction(repr(margin)) * (abs(right.number) if relative else 1)
    return abs(amount - right.number) <= bound


def _unit(text: str) -> str:
    bare = re.sub(r"[\s.{}$^]", "", text).casefold()
    if bare in ("%", "percent"):
        return "%"
    return bare.removesuffix("s") if len(bare) > 2 else bare


def _relaxed(answer: str, right: str) -> bool:
    own, target = _float(answer), _float(right)
    if own is not None and target:
        return abs(own - target) / abs(target) <= RELAXED
    return answer.lower() == right.lower()


def _float(text: str) -> float | None:
    try:
        if text.endswith("%"):
            return float(text.rstrip("%")) / 100
        return float(text)
    except ValueError:
        return None
