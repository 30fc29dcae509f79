"""Every reward with its judgements, in the tables of `bon.storage.reward_tables`."""

import asyncio
import json
import sqlite3
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bon.core.keys import content_key
from bon.core.records import Judgement
from bon.policies.extractors import extract_answer
from bon.policies.generate import text_key
from bon.service.online.reward_scaling import Floats
from bon.service.online.selector import Conversation, Usage
from bon.storage.reward_tables import JUDGEMENT, REWARD, SCHEMA, training_runs

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


class RewardLog:
    """The database of rewards, shared by the threads of one server."""

    def __init__(self, path: Path) -> None:
        self._lock = threading.Lock()
        self._db = sqlite3.connect(path, timeout=30, check_same_thread=False)
        self._waiting: list[tuple[_Rows, asyncio.Future[None]]] = []
        self._writing: asyncio.Task[None] | None = None
        path.chmod(0o600)
        with self._lock:
            self._db.execute("PRAGMA journal_mode = WAL")
            self._db.execute("PRAGMA synchronous = NORMAL")
            self._db.executescript(SCHEMA)
            self._has_old = (
                self._db.execute("SELECT 1 FROM judgements LIMIT 1").fetchone() is not None
            )
        address = f"{path.absolute().as_uri()}?mode=ro"
        self._reader = sqlite3.connect(address, uri=True, check_same_thread=False)

    async def add(
        self,
        shared: tuple[str, ...],
        question: Conversation,
        texts: Sequence[str],
        judgements: Sequence[Judgement],
        group: RatedGroup,
    ) -> None:
        """Commit a group; groups that arrive during a write are committed together.

        Args:
            shared: owner, run, rewarder, spec, rule and scale.
        """
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
            "judgements": [_flat(row) for row in judgements],
            "rewards": [
                (None, now, *shared, question.key, key, team, len(texts), score, reward, *quality,
                 _correct(question, text))
                for key, text, score, reward in zip(
                    keys, texts, group.scores, group.rewards, strict=True
                )
            ],
        }  # fmt: skip
        written = asyncio.get_running_loop().create_future()
        self._waiting.append((rows, written))
        if self._writing is None:
            self._writing = asyncio.create_task(self._write_all())
        await written

    async def _write_all(self) -> None:
        """Write until nothing waits."""
        while self._waiting:
            batch, self._waiting = self._waiting, []
            failures = await asyncio.to_thread(self._write, [rows for rows, _ in batch])
            for (_, written), failure in zip(batch, failures, strict=True):
                if written.done():  # its client hung up
                    continue
                if failure is None:
                    written.set_result(None)
                else:
                    written.set_exception(failure)
        self._writing = None

    def _write(self, groups: Sequence[_Rows]) -> list[Exception | None]:
        """Write all at once, or each alone if that fails; return the failure of each."""
        try:
            with self._lock, self._db as db:
                for table in groups[0]:
                    rows = [row for group in groups for row in group[table]]
                    if rows:
                        marks = ", ".join("?" * len(rows[0]))
                        db.executemany(f"INSERT OR IGNORE INTO {table} VALUES ({marks})", rows)
        except Exception as error:
            if len(groups) == 1:
                return [error]
            return [failure for group in groups for failure in self._write([group])]
        return [None] * len(groups)

    def judged(self, spec: str, item: str) -> list[Judgement]:
        """Return an earlier server's judgements of an item; the caller caches this server's."""
        if not self._has_old:
            return []
        columns = ", ".join(f'"{name}"' for name in JUDGEMENT)
        rows = self._reader.execute(
            f"SELECT {columns} FROM judgements WHERE item = ? AND spec = ? AND outcome != 'error'",
            (item, spec),
        )
        dicts = (dict(zip(JUDGEMENT, row, strict=True)) for row in rows)
        return [
            Judgement(**{**row, "shown": tuple(filter(None, row["shown"].split(",")))})
            for row in dicts
        ]

    def page(self, run: str, after: int, limit: int) -> list[dict[str, Any]]:
        """Return a training run's rewards in order."""
        columns = ", ".join(f"rewards.{name}" for name in REWARD)
        with self._lock:
            rows = self._db.execute(
                f"SELECT {columns}, length(text) FROM rewards JOIN responses "
                "ON responses.key = response WHERE run = ? AND id > ? ORDER BY id LIMIT ?",
                (run, after, limit),
            ).fetchall()
        return [dict(zip((*REWARD, "characters"), row, strict=True)) for row in rows]

    def runs(self) -> list[dict[str, Any]]:
        """Return the training runs: number of rewards, first and last time."""
        with self._lock:
            return training_runs(self._db)

    def close(self) -> None:
        """Close the database."""
        with self._lock:
            self._db.close()
        self._reader.close()


def _correct(question: Conversation, text: str) -> bool | None:
    if question.answer is None or not question.options:
        return None
    return extract_answer(text, question.options).letter == question.answer


def _flat(row: Judgement) -> tuple[Any, ...]:
    values = (getattr(row, name) for name in JUDGEMENT)
    return tuple(",".join(v) if isinstance(v, tuple) else v for v in values)
