"""Check a run directory (`bon doctor RUN`) and repair it under a backup (`--repair`).

No result is thrown away: impossible values become errors, and what is removed (unreadable settings
and data, damaged images) comes back when the run is started again.
"""

import hashlib
import json
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bon.core.errors import BonError
from bon.core.records import Candidate, Judgement
from bon.storage.database import DATABASE, guard, take_lock
from bon.storage.row_validation import validate_candidate, validate_judgement
from bon.storage.salvage import back_up, salvage
from bon.storage.store import Store

Repair = Callable[[], None]


@dataclass(frozen=True)
class Check:
    """The number of faults of one kind, their description and remedy."""

    name: str
    faults: int = 0
    found: str = "ok"
    remedy: str = ""


def check_run(directory: Path) -> list[Check]:
    """Check a run directory without changing it, also beside a running driver.

    Raises BonError if its database cannot be read at all.
    """
    with Store(directory, readonly=True) as store:
        database = _check_database(store)
        if database.faults:
            return [database]
        return [database, *(check(store)[0] for check in CHECKS)]


def repair_run(directory: Path) -> tuple[list[Check], Path | None]:
    """Repair a run directory; return the checks and, where there were faults, the backup.

    Raises BonError while a driver writes the run, or if no row can be read.
    """
    checks = check_run(directory)
    if not any(check.faults for check in checks):
        return checks, None
    by_name = {check.name: check for check in checks}
    with take_lock(directory):
        folder = back_up(directory / DATABASE)
        if by_name["database"].faults:
            salvage(directory / DATABASE)
    with Store(directory) as store, store.transaction():
        for run_check in CHECKS:  # each as the repair before it left the run
            check, repair = run_check(store)
            by_name.setdefault(check.name, check)
            repair()
    return list(by_name.values()), folder


def show_checks(checks: list[Check]) -> str:
    """Format one line per check, and remedies."""
    width = max(len(check.name) for check in checks)
    lines = []
    for check in checks:
        state = "damaged" if check.faults else "ok     "
        lines.append(f"{state}  {check.name:<{width}}  {check.found}")
        if check.remedy:
            lines.append(f"{'':<{width + 11}}remedy: {check.remedy}")
    return "\n".join(lines)


def _check_database(store: Store) -> Check:
    try:
        problems = [text for (text,) in store.query("PRAGMA integrity_check(20)")]
    except BonError as error:
        problems = [error.message]
    if problems == ["ok"]:
        return Check("database")
    more = f" and {len(problems) - 1} more" if problems[1:] else ""
    found = " ".join(problems[0].split()) + more
    remedy = "--repair saves every row that can be read; running again computes the others"
    return Check("database", len(problems), found, remedy)


def _check_data(store: Store) -> tuple[Check, Repair]:
    """Find settings, questions and pairs that cannot be read."""
    readers: dict[str, Callable[[str], Any]] = {
        "meta": json.loads,
        "questions": store.read_question,
        "pairs": store.read_pair,
    }
    bad: dict[str, list[str]] = {}
    for table, reader in readers.items():
        column = "value" if table == "meta" else "data"
        rows = store.query(f"SELECT key, {column} FROM {table}")
        bad[table] = [key for key, text in rows if not _is_readable(reader, text)]
    found = [f"{len(bad[table])} {table}" for table in ("questions", "pairs") if bad[table]]
    found += [f"settings {', '.join(bad['meta'])}"] if bad["meta"] else []

    def repair() -> None:
        for table, keys in bad.items():
            _remove(store, table, keys)

    faults = [key for keys in bad.values() for key in keys]
    remedy = "--repair removes them; running again reads them anew"
    return _check("data", faults, f"cannot be read: {'; '.join(found)}", remedy), repair


def _check_values(store: Store) -> tuple[Check, Repair]:
    candidates = [
        valid for row in store.stored_candidates() if (valid := validate_candidate(row)) != row
    ]
    judgements = [
        sound for row in store.stored_judgements() if (sound := validate_judgement(row)) != row
    ]
    bad: list[Candidate | Judgement] = [*candidates, *judgements]
    error = next((row.error for row in bad if row.error), "")
    found = f"{len(bad)} rows with impossible values" + (f" (the first: {error})" if error else "")

    def repair() -> None:
        _remove(store, "candidates", [row.key for row in candidates])
        _remove(store, "judgements", [row.key for row in judgements])
        store.add_candidates(candidates)
        store.add_judgements(judgements)

    remedy = "--repair files them as the errors they are; --retry-errors asks those again"
    return _check("values", bad, found, remedy), repair


def _check_images(store: Store) -> tuple[Check, Repair]:
    hashes: set[str] = set()
    for (text,) in store.query("SELECT data FROM questions UNION ALL SELECT data FROM pairs"):
        if _is_readable(json.loads, text):
            hashes.update(json.loads(text).get("images", ()))
    missing, damaged = [], []
    for sha256 in sorted(hashes):
        path = store.images.path(sha256)
        try:
            with path.open("rb") as file:
                if hashlib.file_digest(file, "sha256").hexdigest() != sha256:
                    damaged.append(path)
        except OSError:
            missing.append(path)
    found = f"{len(missing)} images are missing, {len(damaged)} have other content"

    def repair() -> None:
        for path in damaged:
            path.unlink()

    remedy = "--repair removes damaged ones; running again takes all of them from the data"
    return _check("images", [*missing, *damaged], found, remedy), repair


CHECKS = (_check_data, _check_values, _check_images)


def _is_readable(reader: Callable[[str], Any], text: str) -> bool:
    try:
        reader(text)
    except (TypeError, ValueError, KeyError):
        return False
    return True


def _check(name: str, faults: Collection[Any], found: str, remedy: str) -> Check:
    return Check(name, len(faults), found, remedy) if faults else Check(name)


def _remove(store: Store, table: str, keys: list[str]) -> None:
    with guard(store.path):
        store.db.executemany(f"DELETE FROM {table} WHERE key = ?", [(key,) for key in keys])
