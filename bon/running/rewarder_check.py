"""`bon doctor --rewarder CARD`: check that the loaded model is the published one.

The rewarder judges a few pairs whose better response is undisputed (a model of text alone is told
what the picture shows), and whatever its card records under `check`. A missing head, an ignored
prompt and a pattern that parses nothing all show here.
"""

import asyncio
import math
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from PIL import Image, ImageDraw

from bon.analysis.estimators.resampling import clopper_pearson
from bon.choosing.opinion import KIND_OF, Candidates, item_opinion
from bon.core.errors import BonError
from bon.core.keys import text_key
from bon.dispatch.direct import Direct, DirectQuestion, Picture
from bon.experiment.cards import Loaded, load_rewarder, need_limit
from bon.experiment.config import RewarderCard
from bon.rewarders.registry import rewarder_class
from bon.work.preflight import reads_text_alone

MAX_UNPARSED = 0.25
"""A larger share of unparsed replies means that model and pattern do not fit."""

LEVEL = 0.95

PAIRS = (  # picture, question, right response, wrong response of the same form
    ("red square", "What colour is the square?", "It is red.", "It is blue."),
    ("blue square", "What colour is the square?", "It is blue.", "It is green."),
    ("green circle", "Which shape is drawn?", "A circle.", "A triangle."),
    ("red triangle", "Which shape is drawn?", "A triangle.", "A circle."),
    ("3 dots", "How many dots are there?", "There are three.", "There are five."),
    ("5 dots", "How many dots are there?", "There are five.", "There are two."),
    ("left dot", "Is the dot on the left or the right?", "On the left.", "On the right."),
    (
        "blue circle",
        "Describe the picture in one sentence.",
        "A blue circle on a white background.",
        "Two people ride horses along a beach at sunset.",
    ),
)


@dataclass
class RewarderCheck:
    """Results on the known pairs; `faults` say why the rewarder should not be used as it is.

    `scores` are (right, wrong) by pair, `recorded` (score, recorded score) by response of the
    card's `check`; None where a reply was not parsed.
    """

    rewarder: str
    right: int = 0
    ties: int = 0
    unread: int = 0
    scores: list[tuple[float | None, float | None]] = field(default_factory=list)
    recorded: list[tuple[float | None, float]] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)


def check_rewarder(
    name: str, *, allow_remote_code: bool = False, max_cost: float | None = None
) -> RewarderCheck:
    """Load the model of a card and check it; BonError if the card is wrong or it cannot run.

    max_cost: what the check may cost in US dollars; a card with a price needs it.
    """
    loaded = load_rewarder(name, Path.cwd())
    need_limit(loaded.card, max_cost)
    if loaded.card.is_paid and max_cost is not None:
        capped = loaded.settings.model_copy(update={"spending_cap": max_cost})
        loaded = replace(loaded, settings=capped)
    if loaded.card.kind == "ensemble":
        raise BonError(f"{name} is an ensemble", "try its members, each by its name")
    if str(loaded.base) not in sys.path:  # a class of the user lies beside its card
        sys.path.append(str(loaded.base))
    direct = Direct()
    try:
        return direct.start(_check(direct, loaded, allow_remote_code)).result()
    finally:
        direct.start(direct.close()).result()


async def _check(direct: Direct, loaded: Loaded[RewarderCard], remote_code: bool) -> RewarderCheck:
    check = RewarderCheck(loaded.card.name)
    in_words = await asyncio.to_thread(reads_text_alone, loaded, download=True)
    for picture, prompt, *responses in PAIRS:
        if in_words:
            question = DirectQuestion.of(f"A picture shows: {picture}. {prompt}", (), [])
        else:
            question = DirectQuestion.of(prompt, (), [draw(picture)])
        right, wrong = await _scores(direct, loaded, question, responses, remote_code)
        check.scores.append((right, wrong))
        if right is None or wrong is None:
            check.unread += 1
        else:
            check.right += right > wrong
            check.ties += right == wrong
    for known in loaded.card.check:
        images: list[Picture] = [loaded.base / image for image in known.images]
        question = DirectQuestion.of(known.prompt, (), images)
        scores = await _scores(direct, loaded, question, known.responses, remote_code)
        check.recorded += zip(scores, known.scores, strict=True)
    check.faults = list(_faults(check, loaded.card))
    return check


async def _scores(
    direct: Direct,
    loaded: Loaded[RewarderCard],
    question: DirectQuestion,
    responses: Sequence[str],
    remote_code: bool,
) -> list[float | None]:
    """Return the score or win rate of each response; None where nothing was parsed."""
    item = question.item(responses)
    rows = await direct.judge(loaded, item, "all_pairs", remote_code=remote_code)
    keys = [text_key(text) for text in responses]
    candidates = Candidates.of(question.record.key, keys, [None] * len(keys))
    kind = KIND_OF[rewarder_class(loaded.card).arity]
    standing = item_opinion(kind, rows, candidates, None).candidate_scores()[0]
    return [None if math.isnan(value) else float(value) for value in standing]


def _faults(check: RewarderCheck, card: RewarderCard) -> Iterator[str]:
    scores = [score for pair in check.scores for score in pair if score is not None]
    if check.unread > MAX_UNPARSED * len(PAIRS):
        yield (
            f"{check.unread} of {len(PAIRS)} pairs could not be parsed: the replies do not have "
            "the form of the card's rule (prompt, verdict or score)"
        )
    elif max(scores) - min(scores) <= 1e-6 * max(1.0, abs(max(scores))):
        has_head = card.kind in ("scalar", "rerank", "python")
        cause = "the head was not loaded" if has_head else "its replies say one thing"
        yield f"every response got {scores[0]:.6g}: {cause}"
    elif clopper_pearson(check.right, len(PAIRS) - check.unread - check.ties, LEVEL)[1] < 0.5:
        yield (
            f"{check.right} of {len(PAIRS)} right, less than by guessing: it is probably reversed, "
            "so that its higher score means a worse response"
        )
    elif check.right <= len(PAIRS) // 2:
        yield (
            f"{check.right} of {len(PAIRS)} right, no better than guessing, as with a head "
            "that was not loaded"
        )
    tolerance = max((known.tolerance for known in card.check), default=0.0)
    off = [
        (score, recorded)
        for score, recorded in check.recorded
        if score is None or not math.isclose(score, recorded, rel_tol=tolerance, abs_tol=tolerance)
    ]
    if off:
        score, recorded = off[0]
        shown = "unread" if score is None else f"{score:.6g}"
        yield (
            f"{len(off)} of {len(check.recorded)} recorded scores differ by more than "
            f"{tolerance:g}: {shown} where {recorded:.6g} was recorded"
        )


def format_rewarder_check(check: RewarderCheck) -> str:
    """Format a check as lines of text."""
    lines = [
        f"{picture:<14} right {_number(right)}  wrong {_number(wrong)}  {_mark(right, wrong)}"
        for (picture, *_), (right, wrong) in zip(PAIRS, check.scores, strict=True)
    ]
    lines.append(
        f"{check.rewarder}: {check.right} of {len(PAIRS)} known pairs right, {check.ties} ties, "
        f"{check.unread} unread"
    )
    if check.recorded:
        lines.append(f"{len(check.recorded)} recorded scores compared")
    return "\n".join([*lines, *(f"fault: {fault}" for fault in check.faults)])


def draw(picture: str) -> Image.Image:
    """Draw a picture from its description, 224 pixels wide."""
    image = Image.new("RGB", (224, 224), "white")
    pen = ImageDraw.Draw(image)
    colour, shape = picture.split()
    if shape == "dots":
        for index in range(int(colour)):
            x, y = 40 + 70 * (index % 3), 60 + 90 * (index // 3)
            pen.ellipse((x - 16, y - 16, x + 16, y + 16), fill="black")
    elif shape == "dot":
        pen.ellipse((24, 90, 68, 134), fill="black")
    elif shape == "square":
        pen.rectangle((52, 52, 172, 172), fill=colour)
    elif shape == "circle":
        pen.ellipse((52, 52, 172, 172), fill=colour)
    else:
        pen.polygon(((112, 40), (40, 180), (184, 180)), fill=colour)
    return image


def _number(score: float | None) -> str:
    return f"{'unread':>10}" if score is None else f"{score:>10.4f}"


def _mark(right: float | None, wrong: float | None) -> str:
    if right is None or wrong is None:
        return "?"
    return "ok" if right > wrong else "tie" if right == wrong else "WRONG"
