"""Numbers as text: percent with intervals, points, coefficients. Nothing prints NaN."""

from __future__ import annotations

from math import isfinite
from typing import TypeGuard

from bon.analysis.results import Coefficient, Estimate, phrasing

NONE = "–"
MINUS = "−"
_SPACE = "\u202f"  # narrow, no break: stands between a number and its percent sign


def _ok(value: float | None) -> TypeGuard[float]:
    return value is not None and isfinite(value)


def signed(value: float, digits: int, sign: bool, scale: float = 1) -> str:
    """Format a number with a real minus, and a plus if `sign`; zero has neither."""
    value *= scale
    text = f"{abs(value):.{digits}f}"
    if float(text) == 0:
        return text
    return (MINUS if value < 0 else "+" if sign else "") + text


def percent(value: float | None, digits: int = 1) -> str:
    """0.472 → 47.2 %."""
    return f"{signed(100 * value, digits, False)}{_SPACE}%" if _ok(value) else NONE


def interval(
    estimate: Estimate | None, scale: float = 100, digits: int = 1, sign: bool = False
) -> str:
    """[43.1, 51.0], or nothing."""
    if estimate is not None and _ok(estimate.low) and _ok(estimate.high):
        low, high = (signed(scale * v, digits, sign) for v in (estimate.low, estimate.high))
        return f"[{low}, {high}]"
    return ""


def share(estimate: Estimate | None, digits: int = 1) -> str:
    """47.2 % [43.1, 51.0]."""
    return scaled(estimate, digits, unit=f"{_SPACE}%")


def points(estimate: Estimate | None, digits: int = 1) -> str:
    """A difference of two shares in points: +3.1 [+1.0, +5.2]."""
    return scaled(estimate, digits, sign=True)


def loss(estimate: Estimate | None, digits: int = 1) -> str:
    """A loss in points, without a plus: 3.1 [1.0, 5.2]."""
    return scaled(estimate, digits)


def scaled(estimate: Estimate | None, digits: int, sign: bool = False, unit: str = "") -> str:
    """A number times 100, with its interval."""
    if estimate is None or not _ok(estimate.value):
        return NONE
    text = signed(estimate.value, digits, sign, 100) + unit
    return f"{text} {interval(estimate, 100, digits, sign)}".rstrip()


def number(value: float | None) -> str:
    """A coefficient without the zero before its point: .95."""
    return phrasing.coefficient(value) if _ok(value) else NONE


def coefficient(estimate: Estimate | None) -> str:
    """.95 [.61, .99]."""
    if estimate is None or not _ok(estimate.value):
        return NONE
    if not (_ok(estimate.low) and _ok(estimate.high)):
        return number(estimate.value)
    return f"{number(estimate.value)} [{number(estimate.low)}, {number(estimate.high)}]"


def p_value(value: float | None) -> str:
    """p to two significant digits: = .03, = .004, < .001."""
    return phrasing.probability(value).removeprefix("p ") if _ok(value) else NONE


def correlation(result: Coefficient) -> str:
    """A coefficient with its interval and p."""
    text = coefficient(result.estimate)
    known = result.p_value is not None and text != NONE
    return f"{text}, p {p_value(result.p_value)}" if known else text


def count(value: float | int | None) -> str:
    """12,480."""
    return f"{value:,.0f}".replace("-", MINUS) if _ok(value) else NONE


def size(value: float | None) -> str:
    """Parameters: 7.0 B, 1.1 M."""
    if not _ok(value):
        return NONE
    for unit, scale in (("B", 1e9), ("M", 1e6), ("k", 1e3)):
        if value >= scale:
            return f"{value / scale:.3g}{_SPACE}{unit}"
    return f"{value:.0f}"


def seconds(value: float | None) -> str:
    """1.2 h, 15 min, 12 s, 0.076 s."""
    return phrasing.duration(value).replace(" ", _SPACE) if _ok(value) else NONE


def money(value: float | None) -> str:
    """$0.42."""
    if not _ok(value):
        return NONE
    return "$0" if value == 0 else f"${value:,.2f}" if value >= 0.01 else f"${value:.2g}"


def short(value: float | None) -> str:
    """Three significant digits: 0.00312, 1.2e−07."""
    return f"{value:.3g}".replace("-", MINUS) if _ok(value) else NONE
