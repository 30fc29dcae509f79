"""Drafts: a judge's label, one-sentence reason and error tag for every item.

Any rewarder card that generates text can draft. An ordinary run in DIR/drafted sends its model our
own prompt with all responses of an item at once; drafts.jsonl has what the replies state.
"""

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from bon.core.errors import BonError
from bon.core.files import write_atomic
from bon.core.keys import text_key
from bon.curating.labelling.annotations import CANNOT, TIE
from bon.curating.workbench import Workbench
from bon.experiment import required_form
from bon.experiment.cards import load_rewarder
from bon.experiment.config import Price
from bon.rewarders.reply_parsing import reached
from bon.running.reporting import open_run
from bon.storage.store import Store

UNREAD = ""
PROMPT = "draft"
GENERATIVE = ("pairwise", "pointwise", "listwise", "stepwise")
MIN_REPLY_TOKENS = 512
_PATTERN = r"Better: *(\d+|tie|cannot)\b"


@dataclass(frozen=True, slots=True)
class Draft:
    """A judge's opinion on one item, stored as one line of drafts.jsonl.

    label: a choice as in `Annotation`; UNREAD if the reply was not parsed. by: the rewarder card.
    """

    item: str
    label: str
    rationale: str = ""
    tag: str = ""
    by: str = ""


def save_drafts(path: Path, drafts: Iterable[Draft]) -> None:
    """Write drafts, one a line."""
    write_atomic(path, "".join(json.dumps(asdict(draft)) + "\n" for draft in drafts))


def read_drafts(path: Path) -> dict[str, Draft]:
    """Return the draft of each item."""
    lines = path.read_bytes().splitlines() if path.is_file() else ()
    return {(draft := Draft(**json.loads(line))).item: draft for line in lines}


def draft_experiment(
    bench: Workbench, by: str, *, max_cost: float | None = None, remote_code: bool = False
) -> dict[str, Any]:
    """Return the experiment in which this card's model drafts the items.

    Raises:
        BonError: the card generates no text, or it has a price and no limit is set.
    """
    card = load_rewarder(by, Path.cwd()).card
    if card.kind not in GENERATIVE or card.engine == "none":
        raise BonError(
            f"{card.name} ({card.kind}) generates no text",
            f"--by a card of kind {', '.join(GENERATIVE)} (bon list rewarders)",
        )
    if isinstance(card.cost, Price) and max_cost is None:
        raise BonError(f"{card.name} has a price", "set a limit for all drafts: --max-cost DOLLARS")
    changes: dict[str, Any] = {
        "card": str(Path(by).resolve()) if Path(by).is_file() else by,
        "kind": "listwise",
        "prompt": PROMPT,
        "score": {"pattern": _PATTERN},
        "votes": 1,
        "sampling": {"max_tokens": max(MIN_REPLY_TOKENS, card.sampling.max_tokens)},
    }
    names = ", ".join(bench.recipe.annotating.tags).replace("{", "{{ '{' }}")
    text = load_rewarder(changes, Path.cwd()).prompt.text.replace("[TAGS]", names)
    return {
        "name": f"drafts of {bench.name}",
        "pairs": [{"benchmark": "preference", "path": bench.pairs_path.name}],
        "policies": [],
        "rewarders": [changes | {"prompt": {"text": text}}],
        "cluster": {"spending_cap": max_cost},
        "allow_remote_code": remote_code,
    }


def write_drafts(bench: Workbench) -> Counter[str]:
    """Write the drafts of the run to drafts.jsonl; count those `read`, `unparsed` and `failed`."""
    drafts, counts = read_drafts(bench.drafts_path), Counter[str]()
    items, tags = {item.id: item for item in bench.items}, bench.recipe.annotating.tags
    with Store(bench.drafted, readonly=True) as store:
        (judge,) = open_run(store).rewarders
        for _, pair in store.pairs():
            item = items[pair.id]
            keys = [text_key(text) for text in item.responses]
            for row in store.judgements(judge.spec, pair.key):
                if row.outcome == "error":
                    continue
                order = tuple(map(keys.index, row.shown))
                cut = reached(row.num_tokens, judge.card.sampling)
                label, rationale, tag = parse_reply(row.text, order, tags, cut=cut)
                drafts[item.key] = Draft(item.key, label, rationale, tag, judge.card.name)
                counts["read" if label else "unparsed"] += 1
    counts["failed"] = len(items) - counts.total()
    save_drafts(bench.drafts_path, drafts.values())
    return counts


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

    label, _ = required_form.read(text, _PATTERN, cut=cut, meaning=meaning, sentences=False)
    known = {tag.casefold(): tag for tag in tags}
    tag = _last_line(text, "Tag").rstrip(".").casefold()
    return label or UNREAD, _last_line(text, "Reason"), known.get(tag, "")


def _last_line(text: str, name: str) -> str:
    for line in reversed(text.splitlines()):
        head, colon, rest = line.partition(":")
        if colon and head.strip(" *#-").casefold() == name.casefold():
            return rest.strip(" *")
    return ""
