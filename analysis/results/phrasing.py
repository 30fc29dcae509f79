"""Numbers as text, in sentences, tables and figures: 55.1% [51.0, 59.2], +3.2 points, p = .004.

None and NaN are a dash.
"""

from __future__ import annotations

from collections.abc import Callable
from math import isfinite
from typing import TypeGuard

from bon.analysis.results import ENOUGH_BASES, Coefficient, Estimate

NONE = "–"
MINUS = "−"


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
    """0.472 → 47.2%."""
    return f"{signed(value, digits, False, 100)}%" if _ok(value) else NONE


def points(value: float | None, digits: int = 1) -> str:
    """A difference of accuracies: +3.2 points."""
    return f"{signed(value, digits, True, 100)} points" if _ok(value) else NONE


def coefficient(value: float | None) -> str:
    """.91, −.20 or 1.00."""
    if not _ok(value):
        return NONE
    text = f"{abs(value):.2f}"
    if text == "1.00" and abs(value) < 1:
        text = f"{min(abs(value), 0.999):.3f}"
    return (MINUS if value < 0 and float(text) else "") + text.removeprefix("0")


def interval(estimate: Estimate, write: Callable[[float], str] = coefficient) -> str:
    """Bounds in brackets: " [.61, .99]", or nothing without an interval."""
    if _ok(estimate.low) and _ok(estimate.high):
        return f" [{write(estimate.low)}, {write(estimate.high)}]"
    return ""


def bounded(estimate: Estimate | None) -> str:
    """A coefficient with its interval: .91 [.61, .99]."""
    if estimate is None or not _ok(estimate.value):
        return NONE
    return coefficient(estimate.value) + interval(estimate)


def scaled(
    estimate: Estimate | None,
    digits: int = 1,
    sign: bool = False,
    unit: str = "",
    bounds: int | None = None,
) -> str:
    """A number times 100 and its unit, with its interval (of `bounds` digits)."""
    if estimate is None or not _ok(estimate.value):
        return NONE
    precision = digits if bounds is None else bounds
    return f"{signed(estimate.value, digits, sign, 100)}{unit}" + interval(
        estimate, lambda value: signed(value, precision, sign, 100)
    )


def share(estimate: Estimate | None, digits: int = 1) -> str:
    """47.2% [43.1, 51.0]."""
    return scaled(estimate, digits, unit="%")


def difference(estimate: Estimate | None, digits: int = 1) -> str:
    """A difference of two shares in points, for tables: +3.1 [+1.0, +5.2]."""
    return scaled(estimate, digits, sign=True)


def gained(estimate: Estimate | None) -> str:
    """+3.2 points [+1.0, +5.4]."""
    return scaled(estimate, sign=True, unit=" points")


def gains_over(estimate: Estimate, base: str) -> str:
    """gains +3.2 points [+1.0, +5.4] over it, or differs by −3.2 points [−5.4, −1.0] from it."""
    falls = _ok(estimate.value) and estimate.value < 0
    verb, than = ("differs by", "from") if falls else ("gains", "over")
    return f"{verb} {gained(estimate)} {than} {base}"


def p_value(p: float | None) -> str:
    """p in a column of that name: = .004, or < .001."""
    if not _ok(p):
        return NONE
    if p < 0.001:
        return "< .001"
    return f"= {f'{p:.3f}' if p < 0.01 else f'{p:.2f}'}".replace(" 0.", " .")


def count(value: float | int | None) -> str:
    """12,480."""
    return f"{value:,.0f}".replace("-", MINUS) if _ok(value) else NONE


def size(value: float | None) -> str:
    """Parameters: 7 B, 1.1 M."""
    if not _ok(value):
        return NONE
    for unit, scale in (("B", 1e9), ("M", 1e6), ("k", 1e3)):
        if value >= scale:
            return f"{value / scale:.3g} {unit}"
    return f"{value:.0f}"


def duration(seconds: float | None) -> str:
    """3.1 h, 15 min, 12 s or 0.076 s."""
    if not _ok(seconds):
        return NONE
    unit, size = next((u for u in (("h", 3600), ("min", 60)) if seconds >= u[1]), ("s", 1))
    value = seconds / size
    return f"{value:.0f} {unit}" if value >= 10 else f"{value:.2g} {unit}"


def money(value: float | None) -> str:
    """$0.42."""
    if not _ok(value):
        return NONE
    return "$0" if value == 0 else f"${value:,.2f}" if value >= 0.01 else f"${value:.2g}"


def short(value: float | None) -> str:
    """Three significant digits: 0.00312, 1.2e−07."""
    return f"{value:.3g}".replace("-", MINUS) if _ok(value) else NONE


def plural(count: int, noun: str) -> str:
    """Return 1 vote, 2 votes, 2 base models."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def names(items: list[str], most: int = 4) -> str:
    """Return a, b and c, or a, b, c and 5 more."""
    if len(items) > most:
        return f"{', '.join(items[: most - 1])} and {len(items) - most + 1} more"
    return " and ".join([", ".join(items[:-1]), items[-1]] if len(items) > 1 else items)


def chance(p: float) -> str:
    """A probability in whole percent, rounded down: 95%, > 99%, < 1%."""
    if p >= 0.99:
        return "> 99%" if p > 0.99 else "99%"
    return "< 1%" if p < 0.01 else f"{int(100 * p + 1e-9)}%"


def evidence(pearson: Coefficient, rewarders: int, bases: int | None) -> str:
    """Return r = .91 [.61, .99] over 12 rewarders from 6 base models."""
    of = "" if bases is None else f" from {plural(bases, 'base model')}"
    if bases is not None and bases < ENOUGH_BASES:
        of += ", too few for an interval"
    return f"r = {bounded(pearson.estimate)} over {rewarders} rewarders{of}"
