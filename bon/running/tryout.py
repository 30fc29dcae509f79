"""`bon doctor --rewarder CARD`: is the model that was loaded the one that was published?

Before money is spent on thousands of calls, a rewarder judges a handful of pairs whose better
response nobody disputes, and whatever its card has recorded under `check`. A head that was not
loaded, a prompt that the model does not follow and a rule that reads nothing all show here.
"""

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from PIL import Image, ImageDraw

from bon.choosing.opinion import KIND_OF, Candidates, item_opinion
from bon.core.errors import BonError
from bon.experiment.cards import Loaded, load_rewarder
from bon.experiment.config import RewarderCard
from bon.policies.ask import text_key
from bon.rewarders.registry import rewarder_class
from bon.running.direct import Asked, Direct, Picture

UNREAD = 0.25
"""From this share of unread replies on, the model and its rule do not fit."""


@dataclass(frozen=True)
class KnownPair:
    """A question about a drawn picture with a right and a wrong response of one form."""

    picture: str
    prompt: str
    right: str
    wrong: str


PAIRS = (
    KnownPair("red square", "What colour is the square?", "It is red.", "It is blue."),
    KnownPair("blue square", "What colour is the square?", "It is blue.", "It is green."),
    KnownPair("green circle", "Which shape is drawn?", "A circle.", "A triangle."),
    KnownPair("red triangle", "Which shape is drawn?", "A triangle.", "A circle."),
    KnownPair("3 dots", "How many dots are there?", "There are three.", "There are five."),
    KnownPair("5 dots", "How many dots are there?", "There are five.", "There are two."),
    KnownPair("left dot", "Is the dot on the left or the right?", "On the left.", "On the right."),
    KnownPair(
        "blue circle",
        "Describe the picture in one sentence.",
        "A blue circle on a white background.",
        "Two people ride horses along a beach at sunset.",
    ),
)


@dataclass
class Tryout:
    """What a rewarder made of the known pairs; `faults` say why it should not be run as it is."""

    rewarder: str
    right: int = 0
    ties: int = 0
    unread: int = 0
    scores: list[tuple[float | None, float | None]] = field(default_factory=list)
    recorded: list[tuple[float | None, float]] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)


def try_rewarder(name: str, *, allow_remote_code: bool = False) -> Tryout:
    """Load the model of a card and ask it.

    Raises:
        BonError: the card is wrong or its model cannot be run.
    """
    loaded = load_rewarder(name, Path.cwd())
    if loaded.card.kind == "ensemble":
        raise BonError(f"{name} is an ensemble", "try its members, each by its name")
    if str(loaded.base) not in sys.path:  # a class of one's own lies beside its card
        sys.path.append(str(loaded.base))
    direct = Direct()
    try:
        return direct.start(_try(direct, loaded, allow_remote_code)).result()
    finally:
        direct.start(direct.close()).result()


async def _try(direct: Direct, loaded: Loaded[RewarderCard], remote_code: bool) -> Tryout:
    found = Tryout(loaded.card.name)
    for pair in PAIRS:
        asked = Asked.of(pair.prompt, (), [draw(pair.picture)])
        right, wrong = await _scores(direct, loaded, asked, (pair.right, pair.wrong), remote_code)
        found.scores.append((right, wrong))
        if right is None or wrong is None:
            found.unread += 1
        else:
            found.right += right > wrong
            found.ties += right == wrong
    for known in loaded.card.check:
        images: list[Picture] = [loaded.base / image for image in known.images]
        asked = Asked.of(known.prompt, (), images)
        scores = await _scores(direct, loaded, asked, known.responses, remote_code)
        found.recorded += zip(scores, known.scores, strict=True)
    found.faults = list(_faults(found, loaded.card))
    return found


async def _scores(
    direct: Direct,
    loaded: Loaded[RewarderCard],
    asked: Asked,
    responses: Sequence[str],
    remote_code: bool,
) -> list[float | None]:
    """One number per response, or its share of comparisons won; None where nothing was read."""
    rows = await direct.judge(loaded, asked.item(responses), "all_pairs", remote_code=remote_code)
    keys = [text_key(text) for text in responses]
    about = Candidates.of(asked.record.key, keys, [None] * len(keys))
    kind = KIND_OF[rewarder_class(loaded.card).arity]
    standing = item_opinion(kind, rows, about, None).standing()[0]
    return [None if math.isnan(value) else float(value) for value in standing]


def _faults(found: Tryout, card: RewarderCard) -> list[str]:
    said = [score for pair in found.scores for score in pair if score is not None]
    faults = []
    if found.unread > UNREAD * len(PAIRS):
        faults.append(
            f"{found.unread} of {len(PAIRS)} pairs could not be read: the model does not answer "
            "in the form that the card's rule reads (prompt, verdict or score)"
        )
    elif max(said) - min(said) <= 1e-6 * max(1.0, abs(max(said))):
        headed = card.kind in ("scalar", "rerank", "python")
        cause = "the head was not loaded" if headed else "its replies say one thing"
        faults.append(f"every response got {said[0]:.6g}: {cause}")
    elif found.right <= len(PAIRS) // 2:
        faults.append(
            f"{found.right} of {len(PAIRS)} right, no better than guessing: scores that do not "
            "separate right from wrong are what a head that was not loaded gives"
        )
    tolerance = max((known.tolerance for known in card.check), default=0.0)
    off = [
        (score, recorded)
        for score, recorded in found.recorded
        if score is None or not math.isclose(score, recorded, rel_tol=tolerance, abs_tol=tolerance)
    ]
    if off:
        score, recorded = off[0]
        said_now = "unread" if score is None else f"{score:.6g}"
        faults.append(
            f"{len(off)} of {len(found.recorded)} recorded scores differ by more than "
            f"{tolerance:g}: {said_now} where {recorded:.6g} was recorded"
        )
    return faults


def show_tryout(found: Tryout) -> str:
    """The same as lines of text."""
    lines = [
        f"{pair.picture:<14} right {_number(right)}  wrong {_number(wrong)}  {_mark(right, wrong)}"
        for pair, (right, wrong) in zip(PAIRS, found.scores, strict=True)
    ]
    lines.append(
        f"{found.rewarder}: {found.right} of {len(PAIRS)} known pairs right, {found.ties} ties, "
        f"{found.unread} unread"
    )
    if found.recorded:
        lines.append(f"{len(found.recorded)} recorded scores compared")
    return "\n".join([*lines, *(f"fault: {fault}" for fault in found.faults)])


def draw(picture: str) -> Image.Image:
    """The picture that a few words describe, 224 pixels wide."""
    image = Image.new("RGB", (224, 224), "white")
    pen = ImageDraw.Draw(image)
    first, shape = picture.split()
    if shape == "dots":
        for place in range(int(first)):
            x, y = 40 + 70 * (place % 3), 60 + 90 * (place // 3)
            pen.ellipse((x - 16, y - 16, x + 16, y + 16), fill="black")
    elif shape == "dot":
        pen.ellipse((24, 90, 68, 134), fill="black")
    elif shape == "square":
        pen.rectangle((52, 52, 172, 172), fill=first)
    elif shape == "circle":
        pen.ellipse((52, 52, 172, 172), fill=first)
    else:
        pen.polygon(((112, 40), (40, 180), (184, 180)), fill=first)
    return image


def _number(score: float | None) -> str:
    return f"{'unread':>10}" if score is None else f"{score:>10.4f}"


def _mark(right: float | None, wrong: float | None) -> str:
    if right is None or wrong is None:
        return "?"
    return "ok" if right > wrong else "tie" if right == wrong else "WRONG"
