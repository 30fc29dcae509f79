"""A judge writes a label, one sentence and an error tag for every item, before people do.

Any card that writes text can draft: its model is asked with our own wording for it, all responses
of an item at once, in the order that the judge's protocol draws for the item.
"""

import asyncio
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from PIL import Image

from bon.core.errors import BonError
from bon.core.patterns import Span
from bon.core.records import Judgement
from bon.curating.annotations import CANNOT, TIE
from bon.curating.drafts import UNREAD, Draft, append_draft, read_drafts
from bon.curating.items import CuratedItem
from bon.curating.workbench import Workbench
from bon.experiment.cards import Loaded, load_rewarder
from bon.experiment.config import Price, RewarderCard
from bon.rewarders import strict
from bon.rewarders.asking import reached
from bon.running.direct import Asked, Direct
from bon.running.image_tokens import tokens_of

PROMPT = "draft"
WRITERS = ("pairwise", "pointwise", "listwise", "stepwise")
"""Kinds of rewarders that write text."""
REPLY_TOKENS = 512
"""Least room for a reply: reasons need more than a bare verdict."""
AT_ONCE = 32
_PATTERN = r"Better: *(\d+|tie|cannot)\b"
_BYTES_PER_TOKEN = 4
_USUAL_REPLY = 200


@dataclass(frozen=True, slots=True)
class Drafting:
    """What is to be drafted by whom, and what it may cost in US dollars (`about` None: no price).

    `each` is the most that an item's draft can cost: a token per byte, the reply at its limit.
    """

    judge: Loaded[RewarderCard]
    items: list[CuratedItem]
    there: int
    paid: float
    about: float | None
    each: dict[str, float]

    def text(self) -> str:
        """What it comes to, before anything is asked."""
        line = f"{len(self.items)} items to draft by {self.judge.card.name}, {self.there} are there"
        if self.about is None:
            return f"{line}; its card has no price"
        return f"{line}; about ${self.about:.2f}, at most ${self.most:.2f}; ${self.paid:.2f} paid"

    @property
    def most(self) -> float:
        """What all of it can cost."""
        return sum(self.each.values())


@dataclass(frozen=True, slots=True)
class Drafted:
    """What came of it: drafts that were read, unread or failed, and what the cap left out."""

    read: int
    unread: int
    failed: int
    left_out: int
    cost: float


def plan_drafts(bench: Workbench, by: str, *, max_cost: float | None = None) -> Drafting:
    """Which items lack a draft of this judge, and what the rest may cost.

    Raises:
        BonError: the card writes no text, or it costs money and no limit is given.
    """
    judge = _judge(by, bench.recipe.annotating.tags)
    known = read_drafts(bench.drafts_path)
    own = {
        key
        for key, draft in known.items()
        if (draft.by, draft.prompt) == (judge.card.name, judge.prompt.sha256)
        and draft.outcome != "error"
    }
    items = [item for item in bench.items if item.key not in own]
    price = judge.card.cost if isinstance(judge.card.cost, Price) else None
    paid = sum(draft.cost for draft in known.values())
    if price is None and max_cost is not None:
        raise BonError(
            f"--max-cost: the card of {judge.card.name} has no price",
            "add cost: {input_per_million: …, output_per_million: …}",
        )
    about, each = 0.0, {}
    for item in items if price is not None else ():
        assert price is not None
        text, images = _tokens(bench, judge, item)
        limit = judge.card.sampling.max_tokens
        each[item.key] = _dollars(price, text + images, limit)
        about += _dollars(price, text / _BYTES_PER_TOKEN + images, min(_USUAL_REPLY, limit))
    found = Drafting(judge, items, len(own), paid, None if price is None else about, each)
    if found.most and max_cost is None:
        enough = math.ceil((found.most + paid) * 100) / 100
        raise BonError(found.text(), f"say what it may cost in all: --max-cost {enough:.2f}")
    return found


def draft_items(
    bench: Workbench,
    plan: Drafting,
    *,
    max_cost: float | None = None,
    remote_code: bool = False,
) -> Drafted:
    """Ask; every draft is on disk as soon as it is there.

    Raises:
        BonError: the model cannot be run; what was drafted is kept.
    """
    direct = Direct()
    room = math.inf if max_cost is None else max_cost - plan.paid
    made: list[Draft] = []
    queue: Iterator[CuratedItem] = iter(plan.items)
    left_out = 0

    async def worker() -> None:
        nonlocal room, left_out
        for item in queue:
            held = plan.each.get(item.key, 0.0)
            if held > room:
                left_out += 1
                continue
            room -= held
            draft = await _draft(direct, bench, plan.judge, item, remote_code)
            room += held - draft.cost
            append_draft(bench.drafts_path, draft)
            made.append(draft)

    async def everything() -> None:
        async with asyncio.TaskGroup() as group:
            for _ in range(AT_ONCE):
                group.create_task(worker())

    try:
        direct.start(everything()).result()
    except BaseExceptionGroup as group:
        raise group.exceptions[0] from None
    finally:
        direct.start(direct.close()).result()
    outcomes = [draft.outcome for draft in made]
    return Drafted(
        outcomes.count("read"),
        outcomes.count("unparsed"),
        outcomes.count("error"),
        left_out,
        sum(draft.cost for draft in made),
    )


def drafted_text(found: Drafted) -> str:
    """What came of it, for people."""
    line = f"{found.read} drafts, {found.unread} replies that could not be read"
    if found.failed:
        line += f", {found.failed} that failed"
    if found.left_out:
        line += f", {found.left_out} left out: --max-cost has no room for them"
    return f"{line}; ${found.cost:.2f}" if found.cost else line


def read_reply(
    text: str, order: tuple[int, ...], tags: tuple[str, ...], *, cut: bool = False
) -> tuple[str, str, str]:
    """Label, rationale and tag of a reply to responses in this order; UNREAD where it says none."""

    def meaning(_: str, span: Span) -> str | None:
        word = span.value.casefold()
        if word in (TIE, CANNOT):
            return word
        place = int(word) - 1
        return str(order[place]) if place in range(len(order)) else None

    label, _, _ = strict.read(text, _PATTERN, "", cut=cut, number=False, meaning=meaning)
    known = {tag.casefold(): tag for tag in tags}
    tag = _line(text, "Tag").rstrip(".").casefold()
    return label or UNREAD, _line(text, "Reason"), known.get(tag, "")


async def _draft(
    direct: Direct,
    bench: Workbench,
    judge: Loaded[RewarderCard],
    item: CuratedItem,
    remote_code: bool,
) -> Draft:
    asked = Asked.of(item.prompt, (), [bench.directory / image for image in item.images])
    shown = asked.item(item.responses)
    (row,) = await direct.judgements(judge, shown, "all_pairs", remote_code=remote_code)
    places = {key: item.responses.index(text) for key, text in shown.responses.items()}
    order = tuple(places[key] for key in row.shown)
    cut = reached(row.num_tokens, judge.card.sampling)
    label, rationale, tag = read_reply(row.text, order, bench.recipe.annotating.tags, cut=cut)
    return Draft(
        item.key,
        label,
        rationale,
        tag,
        order,
        _outcome(row, label),
        judge.card.name,
        judge.prompt.sha256,
        text=row.text,
        error=row.error if row.outcome == "error" else "",
        tokens=row.num_tokens,
        cost=row.cost,
    )


def _outcome(row: Judgement, label: str) -> Any:
    if row.outcome == "error":
        return "error"
    return "read" if label else "unparsed"


def _judge(by: str, tags: tuple[str, ...]) -> Loaded[RewarderCard]:
    """The card's model, to be asked with our wording."""
    card = load_rewarder(by, Path.cwd()).card
    if card.kind not in WRITERS or card.engine == "none":
        raise BonError(
            f"{card.name} ({card.kind}) writes no text that could be a draft",
            f"--by a card of kind {', '.join(WRITERS)} (bon list rewarders)",
        )
    changes: dict[str, Any] = {
        "card": by,
        "kind": "listwise",
        "prompt": PROMPT,
        "score": {"pattern": _PATTERN},
        "votes": 1,
        "sampling": {"max_tokens": max(REPLY_TOKENS, card.sampling.max_tokens)},
    }
    loaded = load_rewarder(changes, Path.cwd())
    listed = ", ".join(tags).replace("{", "{{ '{' }}")
    text = loaded.prompt.text.replace("[TAGS]", listed)
    return replace(loaded, prompt=replace(loaded.prompt, wording=text))


def _tokens(bench: Workbench, judge: Loaded[RewarderCard], item: CuratedItem) -> tuple[int, float]:
    """Bytes of the text of a request, and tokens of its images."""
    sizes = []
    for image in item.images:
        with Image.open(bench.directory / image) as opened:
            sizes.append(opened.size)
    images = tokens_of(judge.card, sizes) * len(sizes) if sizes else 0.0
    texts = (judge.prompt.text, item.prompt, *item.responses)
    return sum(len(text.encode("utf-8", "replace")) for text in texts), images


def _line(text: str, name: str) -> str:
    """What the last line of this name says."""
    for line in reversed(text.splitlines()):
        head, colon, rest = line.partition(":")
        if colon and head.strip(" *#-").casefold() == name.casefold():
            return rest.strip(" *")
    return ""


def _dollars(price: Price, sent: float, received: float) -> float:
    return (sent * price.input_per_million + received * price.output_per_million) / 1e6
