"""Every reward that was given and every judgement behind it, kept for the analysis of a training.

`bon.running.rewarded` has the tables, and reads them.
"""

import asyncio
import json
import sqlite3
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bon.core.keys import content_key
from bon.core.records import Judgement
from bon.policies.ask import text_key
from bon.policies.reader import read_answer
from bon.running.rewarded import JUDGEMENT, REWARD, SCHEMA
from bon.service.online import Conversation
from bon.service.ratings import Rated

_Rows = dict[str, list[tuple[Any, ...]]]


class RewardLog:
    """The file, shared by the threads of one server."""

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
            found = self._db.execute("SELECT 1 FROM judgements LIMIT 1").fetchone()
        address = f"{path.absolute().as_uri()}?mode=ro"
        self._reader = sqlite3.connect(address, uri=True, check_same_thread=False)
        self._old = found is not None

    async def add(
        self,
        about: dict[str, str],
        asked: Conversation,
        texts: Sequence[str],
        judgements: Sequence[Judgement],
        rated: Rated,
    ) -> None:
        """One group; comes back when it is in the file. `about`: owner, run, rewarder, spec, rule
        and scale. Groups that come while others are written are written together.
        """
        now, keys = time.time(), [text_key(text) for text in texts]
        shared = (*(about[name] for name in REWARD[2:8]), asked.key)
        team = content_key("team", about["owner"], asked.key, *keys, repr(now))
        sound = (
            rated.parsed, rated.consistency, rated.cached,
            rated.prompt_tokens + rated.completion_tokens, rated.cost,
        )  # fmt: skip
        rows: _Rows = {
            "questions": [
                (asked.key, asked.text, json.dumps([image.sha256 for image in asked.images]))
            ],
            "responses": list(zip(keys, texts, strict=True)),
            "judgements": [_flat(row) for row in judgements],
            "rewards": [
                (None, now, *shared, key, team, len(texts), *given, *sound, _correct(asked, text))
                for key, text, *given in zip(keys, texts, rated.scores, rated.rewards, strict=True)
            ],
        }
        written = asyncio.get_running_loop().create_future()
        self._waiting.append((rows, written))
        if self._writing is None:
            self._writing = asyncio.create_task(self._write_all())
        await written

    async def _write_all(self) -> None:
        """Write what waits, and what has come meanwhile, until nothing does."""
        while self._waiting:
            batch, self._waiting = self._waiting, []
            failures = await asyncio.to_thread(self._write, [rows for rows, _ in batch])
            for (_, written), failure in zip(batch, failures, strict=True):
                if written.done():  # whoever waited has gone
                    continue
                if failure is None:
                    written.set_result(None)
                else:
                    written.set_exception(failure)
        self._writing = None

    def _write(self, groups: Sequence[_Rows]) -> list[Exception | None]:
        """All of them at once, or each alone where that fails; what became of each."""
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
        """What a server before this one kept of an item, so that nothing is judged again.

        What came since is the caller's to know.
        """
        if not self._old:
            return []
        columns = ", ".join(f'"{name}"' for name in JUDGEMENT)
        rows = self._reader.execute(
            f"SELECT {columns} FROM judgements WHERE item = ? AND spec = ? AND outcome != 'error'",
            (item, spec),
        )
        return [_judgement(dict(zip(JUDGEMENT, row, strict=True))) for row in rows]

    def page(self, run: str, after: int, limit: int) -> list[dict[str, Any]]:
        """Rewards of a training run in the order in which they were given."""
        columns = ", ".join(f"rewards.{name}" for name in REWARD)
        with self._lock:
            rows = self._db.execute(
                f"SELECT {columns}, length(text) FROM rewards JOIN responses "
                "ON responses.key = response WHERE run = ? AND id > ? ORDER BY id LIMIT ?",
                (run, after, limit),
            ).fetchall()
        return [dict(zip((*REWARD, "characters"), row, strict=True)) for row in rows]

    def runs(self) -> list[dict[str, Any]]:
        """The training runs: how many rewards each was given, and when."""
        with self._lock:
            rows = self._db.execute(
                "SELECT run, COUNT(*), MIN(time), MAX(time) FROM rewards GROUP BY run ORDER BY 3"
            ).fetchall()
        return [dict(zip(("run", "rewards", "first", "last"), row, strict=True)) for row in rows]

    def close(self) -> None:
        """Let go of the file."""
        with self._lock:
            self._db.close()
        self._reader.close()


def _judgement(row: dict[str, Any]) -> Judgement:
    return Judgement(**{**row, "shown": tuple(filter(None, row["shown"].split(",")))})


def _correct(asked: Conversation, text: str) -> bool | None:
    if asked.answer is None or not asked.options:
        return None
    return read_answer(text, asked.options).letter == asked.answer


def _flat(row: Judgement) -> tuple[Any, ...]:
    values = (getattr(row, name) for name in JUDGEMENT)
    return tuple(",".join(v) if isinstance(v, tuple) else v for v in values)
