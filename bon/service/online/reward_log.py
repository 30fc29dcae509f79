"""Every reward with its judgements, in the tables of `bon.storage.reward_tables`."""

import asyncio
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bon.core.keys import content_key, text_key
from bon.core.records import Judgement
from bon.policies.extractors import extract_answer
from bon.service.online.selector import Conversation, Usage
from bon.storage.database import SharedDatabase
from bon.storage.reward_tables import JUDGEMENT, SCHEMA
from bon.storage.store import judgement_values, parse_judgement

Floats = list[float | None]
_Rows = dict[str, list[tuple[Any, ...]]]


@dataclass(frozen=True, slots=True)
class RatedGroup:
    """A group of responses with their scores, rewards and the quality of the judging.

    scores: the rewarder's (see Ranking.scores); rewards: the same on the requested scale. None if
    no judgement could be parsed, or there was nothing to compare with. parsed: share of judgements
    that were parsed. consistency: share of pairs with the same verdict in both orders, if any.
    """

    scores: Floats
    rewards: Floats
    judgements: int
    parsed: float
    consistency: float | None
    usage: Usage
    images: int


class RewardLog(SharedDatabase):
    """The database of rewards, shared by the threads of one server."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, "NORMAL")
        with self.write() as db:
            db.executescript(SCHEMA)

    async def add(
        self,
        shared: tuple[str, ...],
        question: Conversation,
        texts: Sequence[str],
        judgements: Sequence[Judgement],
        group: RatedGroup,
    ) -> None:
        """Commit a group; `shared`: owner, run, rewarder, spec, rule and scale."""
        now, keys = time.time(), [text_key(text) for text in texts]
        team = content_key("team", shared[0], question.key, *keys, repr(now))
        usage = group.usage
        quality = (
            group.parsed, group.consistency, usage.cached_judgements,
            usage.tokens()["total_tokens"], usage.cost,
        )  # fmt: skip
        images = json.dumps([image.sha256 for image in question.images])
        rows: _Rows = {
            "questions": [(question.key, question.text, images)],
            "responses": list(zip(keys, texts, strict=True)),
            "judgements": [*map(judgement_values, judgements)],
            "rewards": [
                (None, now, *shared, question.key, key, team, len(texts), score, reward, *quality,
                 _correct(question, text))
                for key, text, score, reward in zip(
                    keys, texts, group.scores, group.rewards, strict=True
                )
            ],
        }  # fmt: skip
        await asyncio.to_thread(self._write, rows)

    def _write(self, tables: _Rows) -> None:
        with self.write() as connection, connection as db:
            db.execute("BEGIN")
            for table, rows in tables.items():
                if rows:
                    marks = ", ".join("?" * len(rows[0]))
                    db.executemany(f"INSERT OR IGNORE INTO {table} VALUES ({marks})", rows)

    def judged(self, spec: str, item: str) -> list[Judgement]:
        """Return the judgements of an item."""
        columns = ", ".join(f'"{name}"' for name in JUDGEMENT)
        query = f"SELECT {columns} FROM judgements WHERE item = ? AND spec = ? AND outcome != ?"
        return [*map(parse_judgement, self.rows(query, item, spec, "error"))]


def _correct(question: Conversation, text: str) -> bool | None:
    if question.answer is None or not question.options:
        return None
    return extract_answer(text, question.options).letter == question.answer
