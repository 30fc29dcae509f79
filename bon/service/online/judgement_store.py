"""Judgements made for trainers, kept on disk: a request that is sent again reuses them."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

from bon.core.records import Judgement
from bon.storage.database import SharedDatabase
from bon.storage.store import judgement_values, parse_judgement

FILE = "judgements.sqlite"
_COLUMNS = ", ".join(f'"{name}"' for name in Judgement._fields)
_SCHEMA = f"""
CREATE TABLE IF NOT EXISTS judgements ({_COLUMNS}, PRIMARY KEY (key));
CREATE INDEX IF NOT EXISTS judgements_by_item ON judgements (item, spec);
"""
_INSERT = f"INSERT OR IGNORE INTO judgements VALUES ({', '.join('?' * len(Judgement._fields))})"


class JudgementStore(SharedDatabase):
    """The database of judgements, shared by the threads of one server."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, "NORMAL")
        with self.write() as db:
            db.executescript(_SCHEMA)

    async def add(self, judgements: Sequence[Judgement]) -> None:
        """Commit judgements; a group whose judgements cannot be written fails alone."""
        await asyncio.to_thread(self._write, [*map(judgement_values, judgements)])

    def _write(self, rows: list[tuple[object, ...]]) -> None:
        with self.write() as db:
            db.executemany(_INSERT, rows)

    def judged(self, spec: str, item: str) -> list[Judgement]:
        """Return the judgements of an item."""
        query = f"SELECT {_COLUMNS} FROM judgements WHERE item = ? AND spec = ? AND outcome != ?"
        return [*map(parse_judgement, self.rows(query, item, spec, "error"))]
