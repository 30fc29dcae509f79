"""How numbers are written in sentences: r as .91, accuracies as 55.1 %, p as .004 or < .001."""

from bon.analysis.results import Coefficient, Estimate, Families


def coefficient(r: float | None) -> str:
    """.91, −.20, 1.00."""
    if r is None:
        return "unknown"
    text = f"{abs(r):.2f}"
    if text == "1.00" and abs(r) < 1:
        text = f"{min(abs(r), 0.999):.3f}"
    text = text if text.startswith("1") else text[1:]
    return f"−{text}" if r < 0 and float(f"{r:.2f}") != 0 else text


def probability(p: float | None) -> str:
    """p = .004, p < .001."""
    if p is None:
        return "p unknown"
    if p < 0.001:
        return "p < .001"
    digits = 3 if p < 0.01 else 2
    text = f"{p:.{digits}f}"
    return f"p = {text if text.startswith('1') else text[1:]}"


def tested(r: float | None, p: float | None) -> str:
    """.31 (p = .20), or .31 where there is no p to say."""
    return coefficient(r) if p is None else f"{coefficient(r)} ({probability(p)})"


def percent(value: float | None, digits: int = 1) -> str:
    """55.1 %."""
    return "unknown" if value is None else f"{100 * value:.{digits}f} %"


def points(value: float | None, digits: int = 1) -> str:
    """A difference of accuracies: +3.2 points."""
    if value is None:
        return "unknown"
    return f"{100 * value:+.{digits}f} points".replace("-", "−")


def gained(estimate: Estimate) -> str:
    """A difference with its interval: +3.2 points (+1.0 to +5.4)."""
    return points(estimate.value) + interval(
        estimate, lambda value: points(value).removesuffix(" points")
    )


def lost(estimate: Estimate) -> str:
    """A loss with its interval, without a sign unless it is a gain: 3.2 points (1.0 to 5.4)."""
    return f"{_plain(estimate.value or 0)} points{interval(estimate, _plain)}"


def _plain(value: float) -> str:
    return f"{100 * value:.1f}".replace("-", "−")


def interval(estimate: Estimate, write: object = coefficient) -> str:
    """(.61 to .99), or nothing where there is no interval."""
    if estimate.low is None or estimate.high is None:
        return ""
    assert callable(write)
    return f" ({write(estimate.low)} to {write(estimate.high)})"


def bounded(estimate: Estimate) -> str:
    """A coefficient with its interval: .91 (.61 to .99)."""
    return coefficient(estimate.value) + interval(estimate)


def names(items: list[str], most: int = 4) -> str:
    """a, b and c; a, b, c and 5 more."""
    if len(items) > most:
        return f"{', '.join(items[: most - 1])} and {len(items) - most + 1} more"
    return " and ".join([", ".join(items[:-1]), items[-1]] if len(items) > 1 else items)


def evidence(pearson: Coefficient, rewarders: int, families: Families | None) -> str:
    """r = .91 (.61 to .99) over 12 rewarders from 6 bases, p = .004; bounds and p if they hold."""
    of = ""
    if families is not None:
        count = families.num_families
        of = f" from {count} {'base' if count == 1 else 'bases'}"
        if not families.enough:
            of += ", too few for an interval"
    p = "" if pearson.p_value is None else f", {probability(pearson.p_value)}"
    return f"r = {bounded(pearson.estimate)} over {rewarders} rewarders{of}{p}"
