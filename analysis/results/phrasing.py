"""Numbers in sentences: r as .91, accuracies as 55.1 %, p as .004 or < .001."""

from collections.abc import Callable

from bon.analysis.results import Coefficient, Estimate, Families


def coefficient(r: float | None) -> str:
    """Return .91, −.20 or 1.00."""
    if r is None:
        return "unknown"
    text = f"{abs(r):.2f}"
    if text == "1.00" and abs(r) < 1:
        text = f"{min(abs(r), 0.999):.3f}"
    text = text.removeprefix("0")
    return f"−{text}" if r < 0 and float(f"{r:.2f}") != 0 else text


def probability(p: float | None) -> str:
    """Return p = .004 or p < .001."""
    if p is None:
        return "p unknown"
    if p < 0.001:
        return "p < .001"
    return f"p = {f'{p:.3f}' if p < 0.01 else f'{p:.2f}'}".replace(" 0.", " .")


def tested(r: float | None, p: float | None) -> str:
    """Return .31 (p = .20), or .31 without a p."""
    return coefficient(r) if p is None else f"{coefficient(r)} ({probability(p)})"


def percent(value: float | None, digits: int = 1) -> str:
    """Return 55.1 %."""
    return "unknown" if value is None else f"{100 * value:.{digits}f} %"


def points(value: float | None, digits: int = 1) -> str:
    """Return a difference of accuracies: +3.2 points."""
    if value is None:
        return "unknown"
    return f"{100 * value:+.{digits}f} points".replace("-", "−")


def gained(estimate: Estimate) -> str:
    """Return a difference with its interval: +3.2 points (+1.0 to +5.4)."""
    return points(estimate.value) + interval(
        estimate, lambda value: points(value).removesuffix(" points")
    )


def lost(estimate: Estimate) -> str:
    """Return a loss with its interval, unsigned unless it is a gain: 3.2 points (1.0 to 5.4)."""

    def unsigned(value: float) -> str:
        return f"{100 * value:.1f}".replace("-", "−")

    return f"{unsigned(estimate.value or 0)} points{interval(estimate, unsigned)}"


def interval(estimate: Estimate, write: Callable[[float], str] = coefficient) -> str:
    """Return " (.61 to .99)", or nothing without an interval."""
    if estimate.low is None or estimate.high is None:
        return ""
    return f" ({write(estimate.low)} to {write(estimate.high)})"


def bounded(estimate: Estimate) -> str:
    """Return a coefficient with its interval: .91 (.61 to .99)."""
    return coefficient(estimate.value) + interval(estimate)


def duration(seconds: float) -> str:
    """Return 3.1 h, 15 min, 12 s or 0.076 s."""
    unit, size = next((u for u in (("h", 3600), ("min", 60)) if seconds >= u[1]), ("s", 1))
    value = seconds / size
    return f"{value:.0f} {unit}" if value >= 10 else f"{value:.2g} {unit}"


def plural(count: int, noun: str) -> str:
    """Return 1 vote, 2 votes, 2 base models."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def names(items: list[str], most: int = 4) -> str:
    """Return a, b and c, or a, b, c and 5 more."""
    if len(items) > most:
        return f"{', '.join(items[: most - 1])} and {len(items) - most + 1} more"
    return " and ".join([", ".join(items[:-1]), items[-1]] if len(items) > 1 else items)


def evidence(pearson: Coefficient, rewarders: int, families: Families | None) -> str:
    """Return r = .91 (.61 to .99) over 12 rewarders from 6 base models, p = .004."""
    of = ""
    if families is not None:
        of = f" from {plural(families.num_families, 'base model')}"
        if not families.enough:
            of += ", too few for an interval"
    p = "" if pearson.p_value is None else f", {probability(pearson.p_value)}"
    return f"r = {bounded(pearson.estimate)} over {rewarders} rewarders{of}{p}"
