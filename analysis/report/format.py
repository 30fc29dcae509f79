"""Numbers as text: percent with intervals, points, coefficients. Nothing prints NaN."""

from __future__ import annotations

from math import isfinite

from bon.analysis.results import Coefficient, Estimate
from bon.analysis.results.phrasing import coefficient as coefficient_text

NONE = "–"
MINUS = "−"
_SPACE = "\u202f"  # narrow, no break: stands between a number and its percent sign


def _ok(value: float | None) -> bool:
    return value is not None and isfinite(value)


def signed(value: float, digits: int, sign: bool, scale: float = 1) -> str:
    """A number with a real minus, and a plus where asked for; zero has neither."""
    value *= scale
    text = f"{abs(value):.{digits}f}"
    if float(text) == 0:
        return text
    return (MINUS if value < 0 else "+" if sign else "") + text


def percent(value: float | None, digits: int = 1) -> str:
    """0.472 → 47.2 %."""
    return (
        f"{signed(100 * value, digits, False)}{_SPACE}%"
        if _ok(value) and value is not None
        else NONE
    )


def interval(
    estimate: Estimate | None, scale: float = 100, digits: int = 1, sign: bool = False
) -> str:
    """[43.1, 51.0], or nothing where there is none."""
    if estimate is None or not _ok(estimate.low) or not _ok(estimate.high):
        return ""
    assert estimate.low is not None
    assert estimate.high is not None
    low, high = (signed(scale * v, digits, sign) for v in (estimate.low, estimate.high))
    return f"[{low}, {high}]"


def share(estimate: Estimate | None, digits: int = 1) -> str:
    """47.2 % [43.1, 51.0]."""
    return _with(
        percent(estimate.value if estimate else None, digits), interval(estimate, 100, digits)
    )


def points(estimate: Estimate | None, digits: int = 1) -> str:
    """A difference of two shares in points: +3.1 [+1.0, +5.2]."""
    if estimate is None or not _ok(estimate.value) or estimate.value is None:
        return NONE
    text = signed(100 * estimate.value, digits, True)
    return _with(text, interval(estimate, 100, digits, True))


def loss(estimate: Estimate | None, digits: int = 1) -> str:
    """What is lost, in points without a sign: 3.1 [1.0, 5.2]."""
    if estimate is None or not _ok(estimate.value) or estimate.value is None:
        return NONE
    return _with(signed(100 * estimate.value, digits, False), interval(estimate, 100, digits))


def number(value: float | None, digits: int = 2) -> str:
    """A coefficient, without the zero before its point: .95."""
    if not _ok(value) or value is None:
        return NONE
    if digits == 2:
        return coefficient_text(value)
    text = f"{abs(value):.{digits}f}"
    if float(text) == 0:
        return "0"
    text = text[1:] if text.startswith("0.") else text
    return (MINUS if value < 0 else "") + text


def coefficient(estimate: Estimate | None, digits: int = 2) -> str:
    """.95 [.61, .99]."""
    if estimate is None or not _ok(estimate.value):
        return NONE
    if not _ok(estimate.low) or not _ok(estimate.high):
        return number(estimate.value, digits)
    value, low, high = (number(v, digits) for v in (estimate.value, estimate.low, estimate.high))
    return f"{value} [{low}, {high}]"


def p_value(value: float | None) -> str:
    """p to two digits that count: = .03, = .004, < .001."""
    if not _ok(value) or value is None:
        return NONE
    return "< .001" if value < 0.001 else "= " + number(value, 3 if value < 0.01 else 2)


def correlation(one: Coefficient) -> str:
    """A coefficient with its interval and p."""
    text = coefficient(one.estimate)
    return text if one.p_value is None or text == NONE else f"{text}, p {p_value(one.p_value)}"


def count(value: float | int | None) -> str:
    """12,480."""
    return NONE if not _ok(value) or value is None else f"{value:,.0f}"


def size(value: float | None) -> str:
    """Parameters: 7.0 B, 1.1 M."""
    if not _ok(value) or value is None:
        return NONE
    for unit, scale in (("B", 1e9), ("M", 1e6), ("k", 1e3)):
        if value >= scale:
            return f"{value / scale:.3g}{_SPACE}{unit}"
    return f"{value:.0f}"


def seconds(value: float | None) -> str:
    """1.2 h, 3.4 min, 12 s."""
    if not _ok(value) or value is None:
        return NONE
    for unit, scale in (("h", 3600), ("min", 60)):
        if value >= scale:
            return f"{value / scale:.1f}{_SPACE}{unit}"
    return f"{value:.0f}{_SPACE}s" if value >= 10 or value == 0 else f"{value:.1f}{_SPACE}s"


def money(value: float | None) -> str:
    """$0.42."""
    if not _ok(value) or value is None:
        return NONE
    return "$0" if value == 0 else f"${value:,.2f}" if value >= 0.01 else f"${value:.2g}"


def short(value: float | None) -> str:
    """Three digits that count: 0.00312, 1.2e−07."""
    return NONE if not _ok(value) or value is None else f"{value:.3g}".replace("-", MINUS)


def _with(text: str, bounds: str) -> str:
    return f"{text} {bounds}" if bounds and text != NONE else text
