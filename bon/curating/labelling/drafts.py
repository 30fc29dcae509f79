"""Drafts: a judge's label and one-sentence reason for every item.

An ordinary run in DIR/drafted sends the model of any rewarder card that generates text the prompt
`draft`, with both responses of an item; drafts.jsonl has what the replies state.
"""

import json
import re
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
from bon.experiment.cards import load_rewarder, need_limit
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

    label: a choice as in `Annotation`; UNREAD if the reply was not parsed.
    """

    item: str
    label: str
    rationale: str = ""


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
    """Return the experiment in which this card's model drafts the items."""
    card = load_rewarder(by, Path.cwd()).card
    if card.kind not in GENERATIVE or card.engine == "none":
        raise BonError(
            f"{card.name} ({card.kind}) generates no text",
            f"--draft-by a card of kind {', '.join(GENERATIVE)} (bon list rewarders)",
        )
    need_limit(card, max_cost)
    judge = {
        "card": str(Path(by).resolve()) if Path(by).is_file() else by,
        "kind": "listwise",
        "prompt": PROMPT,
        "score": {"pattern": _PATTERN},
        "votes": 1,
        "sampling": {"max_tokens": max(MIN_REPLY_TOKENS, card.sampling.max_tokens)},
    }
    return {
        "name": f"drafts of {bench.name}",
        "pairs": [{"benchmark": "preference", "path": bench.pairs_path.name}],
        "policies": [],
        "rewarders": [judge],
        "cluster": {"spending_cap": max_cost},
        "allow_remote_code": remote_code,
    }


def write_drafts(bench: Workbench) -> Counter[str]:
    """Write the drafts of the run to drafts.jsonl; count those `read`, `unparsed` and `failed`."""
    drafts, counts = read_drafts(bench.drafts_path), Counter[str]()
    items = {item.id: item for item in bench.items}
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
                draft = Draft(item.key, *parse_reply(row.text, order, cut=cut))
                drafts[item.key] = draft
                counts["read" if draft.label else "unparsed"] += 1
    counts["failed"] = len(items) - counts.total()
    save_drafts(bench.drafts_path, drafts.values())
    return counts


def parse_reply(text: str, order: tuple[int, ...], *, cut: bool = False) -> tuple[str, str]:
    """Return label (UNREAD if none) and rationale of a reply to responses in this order."""

    def meaning(word: str) -> str | None:
        word = word.casefold()
        if word in (TIE, CANNOT):
            return word
        index = int(word) - 1
        return str(order[index]) if index in range(len(order)) else None

    label, _ = required_form.read(text, _PATTERN, cut=cut, meaning=meaning, sentences=False)
    reasons = re.findall(
        r"^[ *#-]*reason[ *]*:[ *]*(.*?)[ *]*$", text, re.MULTILINE | re.IGNORECASE
    )
    return label or UNREAD, (reasons or [""])[-1]
