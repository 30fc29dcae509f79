"""proposal.json: how items came to be proposed, in numbers that the benchmark is published with."""

from pathlib import Path
from typing import Literal

from pydantic import ValidationError

from bon.analysis.results.record import Record
from bon.core.errors import BonError
from bon.curating.wanted import STRATEGIES, Strategy

Unit = Literal["questions", "candidates"]


class FilterCount(Record):
    """How many things came into a filter and how many went on."""

    filter: str
    unit: Unit
    before: int
    after: int


class ProposedFrom(Record):
    """A run that items were drawn from, as it was then; `sha256` is of what it holds.

    `path` is that of the recipe, so that nothing of this machine is published.
    """

    name: str
    path: str
    sha256: str
    bon: str
    policies: tuple[str, ...]
    rewarders: tuple[str, ...]
    questions: int
    candidates: int
    judgements: int


class EnsembleFilter(Record):
    """Pairs that all of `models` get wrong stay; not in the control, nor in ties.

    `unknown`: pairs that not all of them judged, or whose verdict could not be read; they went.
    """

    models: tuple[str, ...]
    before: int
    after: int
    unknown: int


class Population(Record):
    """What weights lead back to: all pairs of a right and a wrong text, every pair alike.

    `reachable`: those with a chance above zero of being drawn; without a control not all are.
    """

    questions: int
    pairs: int
    reachable: int


class StrategyCount(Record):
    """What a strategy was to draw, what it could have drawn, and what it drew."""

    strategy: Strategy
    wanted: int
    questions: int
    available: int
    drawn: int


class Proposal(Record):
    """How the items of a benchmark were drawn."""

    bon: str
    seed: int
    recipe_sha256: str
    runs: tuple[ProposedFrom, ...]
    filters: tuple[FilterCount, ...]
    ensemble: EnsembleFilter | None
    population: Population
    strategies: tuple[StrategyCount, ...]
    wanted: int
    items: int
    public: int
    missing_images: int = 0

    @property
    def drawn_again(self) -> int:
        """How often an item was drawn that another strategy drew too."""
        return sum(one.drawn for one in self.strategies) - self.items


def read_proposal(path: Path) -> Proposal:
    """What `bon curate propose` wrote."""
    try:
        return Proposal.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        fix = f"bon curate propose {path.parent}"
        raise BonError(f"{path.parent} has no proposed items yet", fix) from None
    except ValidationError:
        fix = f"bon curate propose {path.parent}"
        raise BonError(f"{path} is not of this version", fix) from None


def proposal_text(proposal: Proposal) -> str:
    """For a person: what was left out, what was drawn, and what is short of what was wanted."""
    lines = [f"{'filter':<26}{'':<12}{'before':>8}{'after':>8}"]
    for one in proposal.filters:
        lines.append(f"{one.filter:<26}{one.unit:<12}{one.before:>8,}{one.after:>8,}")
    if (kept := proposal.ensemble) is not None:
        lines.append(f"{'ensemble':<26}{'pairs':<12}{kept.before:>8,}{kept.after:>8,}")
    lines += ["", f"{'strategy':<15}{'wanted':>7}{'drawn':>7}  {'of':<22}what"]
    for part in proposal.strategies:
        there = f"{part.available:,} in {part.questions:,} questions"
        row = f"{part.strategy:<15}{part.wanted:>7}{part.drawn:>7}  {there:<22}"
        lines.append(f"{row}{STRATEGIES[part.strategy]}")
    return "\n".join([*lines, "", *_remarks(proposal)])


def _remarks(proposal: Proposal) -> list[str]:
    held_out = proposal.items - proposal.public
    said = [
        f"{proposal.items} items of {proposal.wanted} wanted: {proposal.public} public, "
        f"{held_out} held out."
    ]
    for part in proposal.strategies:
        if part.drawn < part.wanted:
            said.append(
                f"{part.strategy}: {part.drawn} of {part.wanted} found; more candidates or "
                "questions, a higher per_question or a smaller quota would do."
            )
    if proposal.drawn_again:
        said.append(
            f"{proposal.drawn_again} times an item was drawn that another strategy drew too; it is "
            "one item."
        )
    people = proposal.population
    if people.reachable < people.pairs:
        said.append(
            f"Weights lead back to {people.reachable:,} of {people.pairs:,} pairs only: no "
            "strategy draws the others. A quota for the control reaches all."
        )
    if (kept := proposal.ensemble) is not None and kept.unknown:
        said.append(
            f"{kept.unknown:,} pairs went because not all of {', '.join(kept.models)} judged them."
        )
    if proposal.missing_images:
        said.append(f"{proposal.missing_images} images could not be found and are not shown.")
    return said
