"""Drafts: a judge's label, one-sentence rationale and error tag for every item.

Any rewarder card that generates text can draft. Its model gets our own prompt with all responses
of an item at once, in the order that the judge's protocol draws.
"""

import asyncio
import json
import math
import os
from collections import Counter
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

from PIL import Image

from bon.core.errors import BonError
from bon.curating.items import CuratedItem
from bon.curating.labelling.annotations import CANNOT, TIE
from bon.curating.workbench import Workbench
from bon.dispatch.direct import Direct, DirectQuestion
from bon.experiment.cards import Loaded, load_rewarder
from bon.experiment.config import Price, RewarderCard
from bon.planning.image_tokens import tokens_of
from bon.rewarders import verdict_parser
from bon.rewarders.reply_parsing import reached

UNREAD = ""
PROMPT = "draft"
GENERATIVE = ("pairwise", "pointwise", "listwise", "stepwise")
MIN_REPLY_TOKENS = 512
CONCURRENCY = 32
_PATTERN = r"Better: *(\d+|tie|cannot)\b"
_BYTES_PER_TOKEN = 4
_TYPICAL_REPLY = 200


@dataclass(frozen=True, slots=True)
class Draft:
    """A judge's opinion on one item, stored as one line of drafts.jsonl.

    label: a choice as in `Annotation`; UNREAD if the reply was not parsed or failed.
    shown: the order in which the responses were shown.
    by, prompt: the rewarder card and the hash of the prompt. cost: US dollars.
    """

    item: str
    label: str
    rationale: str
    tag: str
    shown: tuple[int, ...]
    outcome: Literal["read", "unparsed", "error"]
    by: str
    prompt: str
    text: str = ""
    error: str = ""
    tokens: int = 0
    cost: float = 0.0


def append_draft(path: Path, draft: Draft) -> None:
    """Append one line, on a line of its own after a truncated one."""
    line = json.dumps(asdict(draft), ensure_ascii=False).encode("utf-8", "surrogatepass")
    with path.open("ab+") as file:
        if file.tell():
            file.seek(-1, os.SEEK_END)
            line = line if file.read(1) == b"\n" else b"\n" + line
        file.write(line + b"\n")


def read_drafts(path: Path) -> dict[str, Draft]:
    """Return the last draft of each item; truncated lines are ignored."""
    drafts: dict[str, Draft] = {}
    for line in path.read_bytes().splitlines() if path.is_file() else ():
        try:
            values = json.loads(line)
        except ValueError:
            continue
        drafts[values["item"]] = Draft(**values | {"shown": tuple(values["shown"])})
    return drafts


@dataclass(frozen=True, slots=True)
class DraftPlan:
    """Items to draft and their cost in US dollars (`estimate` is None without a price).

    worst_case: maximum cost of each item: one token per byte, the longest reply.
    """

    judge: Loaded[RewarderCard]
    items: list[CuratedItem]
    drafted: int
    paid: float
    estimate: float | None
    worst_case: dict[str, float]

    @property
    def most(self) -> float:
        """The maximum total cost."""
        return sum(self.worst_case.values())

    def text(self) -> str:
        """Describe the work and its cost."""
        name = self.judge.card.name
        line = f"{len(self.items)} items to draft by {name}, {self.drafted} already drafted"
        if self.estimate is None:
            return f"{line}; its card has no price"
        return (
            f"{line}; about ${self.estimate:.2f}, at most ${self.most:.2f}; ${self.paid:.2f} paid"
        )


@dataclass(frozen=True, slots=True)
class DraftSummary:
    """Number of parsed, unparsed and failed drafts, of items left out by the cap, and the cost."""

    read: int
    unparsed: int
    failed: int
    left_out: int
    cost: float

    def text(self) -> str:
        """Summarise the drafts."""
        line = f"{self.read} drafts, {self.unparsed} replies could not be parsed"
        if self.failed:
            line += f", {self.failed} failed"
        if self.left_out:
            line += f", {self.left_out} left out by --max-cost"
        return f"{line}; ${self.cost:.2f}" if self.cost else line


def plan_drafts(bench: Workbench, by: str, *, max_cost: float | None = None) -> DraftPlan:
    """Find the items without a draft of this judge and estimate their cost.

    Raises:
        BonError: the card generates no text, or it has a price and no limit is set.
    """
    judge = _load_judge(by, bench.recipe.annotating.tags)
    drafts = read_drafts(bench.drafts_path)
    drafted = {
        key
        for key, draft in drafts.items()
        if (draft.by, draft.prompt) == (judge.card.name, judge.prompt.sha256)
        and draft.outcome != "error"
    }
    items = [item for item in bench.items if item.key not in drafted]
    paid = sum(draft.cost for draft in drafts.values())
    price = judge.card.cost
    if not isinstance(price, Price):
        if max_cost is not None:
            raise BonError(
                f"--max-cost: the card of {judge.card.name} has no price",
                "add cost: {input_per_million: …, output_per_million: …}",
            )
        return DraftPlan(judge, items, len(drafted), paid, None, {})
    estimate, worst_case = 0.0, {}
    limit = judge.card.sampling.max_tokens
    for item in items:
        size, images = _request_size(bench, judge, item)
        worst_case[item.key] = _dollars(price, size + images, limit)
        estimate += _dollars(price, size / _BYTES_PER_TOKEN + images, min(_TYPICAL_REPLY, limit))
    plan = DraftPlan(judge, items, len(drafted), paid, estimate, worst_case)
    if plan.most and max_cost is None:
        enough = math.ceil((plan.most + paid) * 100) / 100
        raise BonError(plan.text(), f"set a limit for all drafts: --max-cost {enough:.2f}")
    return plan


def draft_items(
    bench: Workbench,
    plan: DraftPlan,
    *,
    max_cost: float | None = None,
    remote_code: bool = False,
) -> DraftSummary:
    """Draft the items; every draft is on disk as soon as it arrives.

    Raises:
        BonError: the model cannot be run; earlier drafts are kept.
    """
    direct = Direct()
    budget = math.inf if max_cost is None else max_cost - plan.paid
    drafts: list[Draft] = []
    queue = iter(plan.items)
    left_out = 0

    async def worker() -> None:
        nonlocal budget, left_out
        for item in queue:
            reserved = plan.worst_case.get(item.key, 0.0)
            if reserved > budget:
                left_out += 1
                continue
            budget -= reserved
            draft = await _draft(direct, bench, plan.judge, item, remote_code)
            budget += reserved - draft.cost
            append_draft(bench.drafts_path, draft)
            drafts.append(draft)

    async def work() -> None:
        async with asyncio.TaskGroup() as group:
            for _ in range(CONCURRENCY):
                group.create_task(worker())

    try:
        direct.start(work()).result()
    except BaseExceptionGroup as group:
        raise group.exceptions[0] from None
    finally:
        direct.start(direct.close()).result()
    count = Counter(draft.outcome for draft in drafts)
    cost = sum(draft.cost for draft in drafts)
    return DraftSummary(count["read"], count["unparsed"], count["error"], left_out, cost)


def parse_reply(
    text: str, order: tuple[int, ...], tags: tuple[str, ...], *, cut: bool = False
) -> tuple[str, str, str]:
    """Return label (UNREAD if none), rationale and tag of a reply to responses in this order."""

    def meaning(word: str) -> str | None:
        word = word.casefold()
        if word in (TIE, CANNOT):
            return word
        index = int(word) - 1
        return str(order[index]) if index in range(len(order)) else None

    label, _ = verdict_parser.parse(text, _PATTERN, "", cut=cut, meaning=meaning)
    known = {tag.casefold(): tag for tag in tags}
    tag = _last_line(text, "Tag").rstrip(".").casefold()
    return label or UNREAD, _last_line(text, "Reason"), known.get(tag, "")


def _last_line(text: str, name: str) -> str:
    for line in reversed(text.splitlines()):
        head, colon, rest = line.partition(":")
        if colon and head.strip(" *#-").casefold() == name.casefold():
            return rest.strip(" *")
    return ""


async def _draft(
    direct: Direct,
    bench: Workbench,
    judge: Loaded[RewarderCard],
    item: CuratedItem,
    remote_code: bool,
) -> Draft:
    request = DirectQuestion.of(item.prompt, (), [bench.directory / image for image in item.images])
    comparison = request.item(item.responses)
    (row,) = await direct.judgements(judge, comparison, "all_pairs", remote_code=remote_code)
    order = tuple(item.responses.index(comparison.responses[key]) for key in row.shown)
    cut = reached(row.num_tokens, judge.card.sampling)
    label, rationale, tag = parse_reply(row.text, order, bench.recipe.annotating.tags, cut=cut)
    failed = row.outcome == "error"
    return Draft(
        item.key,
        label,
        rationale,
        tag,
        order,
        "error" if failed else "read" if label else "unparsed",
        judge.card.name,
        judge.prompt.sha256,
        text=row.text,
        error=row.error if failed else "",
        tokens=row.num_tokens,
        cost=row.cost,
    )


def _load_judge(by: str, tags: tuple[str, ...]) -> Loaded[RewarderCard]:
    """Load the card's model with our prompt."""
    card = load_rewarder(by, Path.cwd()).card
    if card.kind not in GENERATIVE or card.engine == "none":
        raise BonError(
            f"{card.name} ({card.kind}) generates no text",
            f"--by a card of kind {', '.join(GENERATIVE)} (bon list rewarders)",
        )
    changes: dict[str, Any] = {
        "card": by,
        "kind": "listwise",
        "prompt": PROMPT,
        "score": {"pattern": _PATTERN},
        "votes": 1,
        "sampling": {"max_tokens": max(MIN_REPLY_TOKENS, card.sampling.max_tokens)},
    }
    loaded = load_rewarder(changes, Path.cwd())
    names = ", ".join(tags).replace("{", "{{ '{' }}")
    text = loaded.prompt.text.replace("[TAGS]", names)
    return replace(loaded, prompt=replace(loaded.prompt, wording=text))


def _request_size(
    bench: Workbench, judge: Loaded[RewarderCard], item: CuratedItem
) -> tuple[int, float]:
    """Return the bytes of a request's text and the tokens of its images."""
    sizes = []
    for name in item.images:
        with Image.open(bench.directory / name) as image:
            sizes.append(image.size)
    images = tokens_of(judge.card, sizes) * len(sizes) if sizes else 0.0
    texts = (judge.prompt.text, item.prompt, *item.responses)
    return sum(len(text.encode("utf-8", "replace")) for text in texts), images


def _dollars(price: Price, sent: float, received: float) -> float:
    return (sent * price.input_per_million + received * price.output_per_million) / 1e6
