"""Studies to choose from as lines of text."""

from bon.analysis.correlation.allocation import Outlook
from bon.analysis.results.phrasing import coefficient
from bon.running.catalogue import Row, show_listing
from bon.running.sizing import Sizing


def show_sizing(plan: Sizing) -> str:
    """The studies that `bon plan --budget` or `--target-width` weighs."""
    found = plan.found
    lines = [
        "",
        f"{found.policy} and {found.benchmark}, {plan.goal}; from {found.rewarders} rewarders, "
        f"{found.questions:,} judged questions and {found.pairs:,} pairs "
        f"(r without their noise: {coefficient(found.true_r)}):",
        "",
    ]
    if not plan.studies:
        return "\n".join([*lines, "no study of up to 40 rewarders does that"])
    lines += [show_listing([_study(study) for study in plan.studies]), ""]
    if plan.fewer_candidates:
        lines += ["with fewer candidates (another question: Best-of-n for that n):", ""]
        lines += [show_listing([_study(study) for study in plan.fewer_candidates]), ""]
    lines.append(
        "Rewarders of different bases from the population of these; width: of r's 95 % interval; "
        "loss known to: half the interval of the difference of two rewarders' accuracies."
    )
    return "\n".join(lines)


def _study(study: Outlook) -> Row:
    size = study.size
    return {
        "rewarders": f"{size.rewarders}",
        "questions": f"{size.questions:,}",
        "pairs": f"{size.pairs:,}",
        "candidates": f"{size.candidates}",
        "judge calls": f"{study.calls:,}",
        "r": coefficient(study.r),
        "width": coefficient(study.width),
        "loss known to": f"± {100 * study.regret:.1f} points",
    }
