"""Tables of the rewards that a reward server gave (docs/reward_server.md), and their reader."""

import sqlite3
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bon.core.errors import BonError
from bon.core.records import Judgement

if TYPE_CHECKING:
    import pandas as pd

FILE = "rewards.sqlite"
REWARD = (
    "id", "time", "owner", "run", "rewarder", "spec", "rule", "scale", "question", "response",
    "team", "team_size", "score", "reward", "parsed", "consistency", "cached", "tokens", "cost",
    "correct",
)  # fmt: skip
JUDGEMENT = Judgement._fields
SCHEMA = f"""
CREATE TABLE IF NOT EXISTS questions (key TEXT PRIMARY KEY, text TEXT, images TEXT);
CREATE TABLE IF NOT EXISTS responses (key TEXT PRIMARY KEY, text TEXT);
CREATE TABLE IF NOT EXISTS judgements (
  {", ".join(f'"{n}"' + (" TEXT PRIMARY KEY" if n == "key" else "") for n in JUDGEMENT)});
CREATE TABLE IF NOT EXISTS rewards (
  {", ".join(f'"{n}"' + (" INTEGER PRIMARY KEY" if n == "id" else "") for n in REWARD)});
CREATE INDEX IF NOT EXISTS rewards_by_run ON rewards (run, id);
CREATE INDEX IF NOT EXISTS judgements_by_item ON judgements (item, spec);
"""


def rewards_file(path: Path) -> Path | None:
    """Return the rewards file at a path or in a server's data directory."""
    file = path / FILE if path.is_dir() else path
    return file if file.suffix == ".sqlite" and file.is_file() else None


def training_runs(db: sqlite3.Connection) -> list[dict[str, Any]]:
    """Return the training runs: number of rewards, first and last time."""
    rows = db.execute(
        "SELECT run, COUNT(*), MIN(time), MAX(time) FROM rewards GROUP BY run ORDER BY 3"
    )
    return [dict(zip(("run", "rewards", "first", "last"), row, strict=True)) for row in rows]


def reward_frame(path: Path, run: str | None = None) -> "pd.DataFrame":
    """Return the rewards of a training run in order, with the text of each response.

    Raises:
        BonError: not a rewards file, no such run, or several runs and no `run`.
    """
    import pandas as pd

    try:
        with sqlite3.connect(f"file:{path.absolute()}?mode=ro", uri=True) as db:
            runs = [row[0] for row in db.execute("SELECT DISTINCT run FROM rewards ORDER BY run")]
            if not runs:
                raise BonError(f"{path} holds no rewards", "train with it first")
            if run is None and len(runs) == 1:
                run = runs[0]
            if run not in runs:
                fault = "holds several training runs" if run is None else f"has no run {run!r}"
                fix = f"name one with --run: {', '.join(map(repr, runs))}"
                raise BonError(f"{path} {fault}", fix)
            return pd.read_sql_query(
                "SELECT rewards.*, responses.text FROM rewards "
                "JOIN responses ON responses.key = response WHERE run = ? ORDER BY id",
                db,
                params=[run],
            )
    except (sqlite3.DatabaseError, pd.errors.DatabaseError) as error:
        fix = "name the rewards.sqlite of a server's data directory"
        raise BonError(f"{path}: {error}", fix) from None
