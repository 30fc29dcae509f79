"""Graders of numbers: `number`, with a tolerance and a unit, and `relaxed`, ChartQA's 5%."""

from fractions import Fraction

from bon.graders import Gold
from bon.graders.quantities import Quantity, quantity, unit_of

RELAXED = 0.05


def number(answer: str, gold: Gold) -> float | None:
    """Compare numbers; a missing unit is no error, a wrong one is, and 25% is .25.

    Unread: no number, or more than one; text that doubts it; exponents of four digits.
    """
    own = quantity(answer)
    if own is None:
        return None
    units = {unit_of(unit) for unit in gold.unit.split(",")} - {""}
    return float(any(_equal(own, text, units, gold.tolerance) for text in gold.answers))


def relaxed(answer: str, gold: Gold) -> float | None:
    """Accept numbers within 5% of the right one, else equal texts (Masry et al., 2022)."""
    if not answer.strip():
        return None
    return float(any(_relaxed(answer.strip(), text.strip()) for text in gold.answers))


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
