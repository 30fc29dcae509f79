"""What a run has cost by its ledger, which the engines of endpoints keep."""

import sqlite3
import time
from contextlib import closing
from pathlib import Path

from bon.core.errors import BonError

LEDGER = "ledger.sqlite"


def spent_by_spec(path: Path) -> dict[str, float]:
    """Return what each spec of a run cost, unknown outcomes included; {} without a ledger."""
    if not path.is_file():
        return {}
    query = (
        "SELECT spec, TOTAL(dollars) FROM (SELECT spec, dollars FROM spent UNION ALL "
        "SELECT spec, dollars FROM reserved WHERE until < ?) GROUP BY spec"
    )
    try:
        file = f"{path.absolute().as_uri()}?mode=ro"
        with closing(sqlite3.connect(file, uri=True, timeout=30)) as db:
            return dict(db.execute(query, (time.time(),)).fetchall())
    except sqlite3.DatabaseError as error:
        raise BonError(f"{path}: {error}", "put a copy of it back") from None
