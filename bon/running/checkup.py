"""The soundness of a run directory: `bon doctor RUN` looks, `--repair` mends under a backup.

Nothing that was computed is thrown away: a value that means nothing is filed as what it is, and
what is removed (settings and data that cannot be read, files that are not the image they are named
after) comes back when the run is started again.
"""

import hashlib
import json
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bon.core.errors import BonError
from bon.core.records import Candidate, Judgement
from bon.policies.ask import read, text_key
from bon.running.database import DATABASE, guard, take_lock
from bon.running.door import sound_candidate, sound_judgement
from bon.running.reporting import open_run
from bon.running.salvage import back_up, salvage
from bon.running.store import Store

Mend = Callable[[], None]


@dataclass(frozen=True)
class Check:
    """One thing that was looked at: how many `faults`, what they are, and what mends them."""

    name: str
    faults: int = 0
    found: str = "ok"
    remedy: str = ""


def check_run(directory: Path) -> list[Check]:
    """Look at a run directory; changes nothing, also beside a running driver.

    Raises:
        BonError: there is no database that could be read at all.
    """
    with Store(directory, readonly=True) as store:
        damage = _damage(store)
        if damage:
            return [damage]
        return [Check("database"), *(check for check, _ in _checks(store))]


def repair_run(directory: Path) -> tuple[list[Check], Path | None]:
    """Mend what can be mended; returns what was found, and the backup where anything was.

    Raises:
        BonError: a driver is writing the run, or no row of it can be read.
    """
    checks = check_run(directory)
    if not any(check.faults for check in checks):
        return checks, None
    found = {check.name: check for check in checks}
    with take_lock(directory):
        folder = back_up(directory / DATABASE)
        if found["database"].faults:
            salvage(directory / DATABASE)
    with Store(directory) as store, store.transaction():
        for check, mend in _checks(store):
            found.setdefault(check.name, check)
            if check.faults:
                mend()
    return list(found.values()), folder


def show_checks(checks: list[Check]) -> str:
    """One line per check, and what mends those with faults."""
    width = max(len(check.name) for check in checks)
    lines = []
    for check in checks:
        state = "damaged" if check.faults else "ok     "
        lines.append(f"{state}  {check.name:<{width}}  {check.found}")
        if check.remedy:
            lines.append(f"{'':<{width + 11}}remedy: {check.remedy}")
    return "\n".join(lines)


def _damage(store: Store) -> Check | None:
    try:
        found = [text for (text,) in store.query("PRAGMA integrity_check(20)")]
    except BonError as error:
        found = [error.message]
    if found == ["ok"]:
        return None
    return Check(
        "database",
        len(found),
        f"{' '.join(found[0].split())}" + (f" and {len(found) - 1} more" if found[1:] else ""),
        "--repair saves every row that can be read; running again computes the others",
    )


def _checks(store: Store) -> Iterator[tuple[Check, Mend]]:
    """Everything but the database itself, each check as the one before it left the run."""
    yield _metas(store)
    yield _records(store)
    yield _orphans(store)
    yield _values(store)
    yield _answers(store)
    yield _images(store)


def _metas(store: Store) -> tuple[Check, Mend]:
    bad = [k for k, text in store.query("SELECT key, value FROM meta") if _parsed(text) is _NOTHING]
    remedy = "--repair removes them; running again writes them anew"
    return (
        _check("settings", bad, f"cannot be read: {', '.join(bad)}", remedy),
        lambda: _remove(store, "meta", bad),
    )


def _records(store: Store) -> tuple[Check, Mend]:
    bad: dict[str, list[str]] = {}
    readers = {"questions": store.read_question, "pairs": store.read_pair}
    for table, reader in readers.items():
        rows = store.query(f"SELECT key, data FROM {table}")
        bad[table] = [key for key, data in rows if not _can(reader, data)]
    said = ", ".join(f"{len(keys)} {table} cannot be read" for table, keys in bad.items() if keys)

    def mend() -> None:
        for table, keys in bad.items():
            _remove(store, table, keys)

    remedy = "--repair removes them; running again reads them from the data"
    return _check("data", [*bad["questions"], *bad["pairs"]], said, remedy), mend


def _orphans(store: Store) -> tuple[Check, Mend]:
    """Rows that belong to nothing: harmless, and paid for, so they are told and kept."""
    texts: dict[str, set[str]] = {key: set() for (key,) in store.query("SELECT key FROM questions")}
    candidates = judgements = 0
    for question, text in store.query("SELECT question, text_key FROM candidates"):
        if question in texts:
            texts[question].add(text)
        else:
            candidates += 1
    for key, data in store.query("SELECT key, data FROM pairs"):
        raw = _parsed(data)
        if isinstance(raw, dict):
            texts[key] = {text_key(response) for response in raw.get("responses", ())}
    for item, first, second, shown in store.query(
        "SELECT item, first, second, shown FROM judgements"
    ):
        named = {first, second or first, *(shown.split(",") if shown else ())}
        judgements += not named <= texts.get(item, set())
    if not candidates + judgements:
        return Check("orphans"), _nothing
    found = (
        f"{candidates} candidates and {judgements} judgements belong to nothing in the run; "
        "they are kept, and used again when what they belong to is back"
    )
    return Check("orphans", found=found), _nothing


def _values(store: Store) -> tuple[Check, Mend]:
    candidates: list[Candidate] = []
    for candidate in store.stored_candidates():
        sound = sound_candidate(candidate)
        if sound is not candidate:
            candidates.append(sound)
    judgements: list[Judgement] = []
    for judgement in store.stored_judgements():
        decoded = judgement._replace(score=_decoded(judgement.score))
        sound_row = sound_judgement(decoded)
        if sound_row != judgement or type(sound_row.score) is not type(judgement.score):
            judgements.append(sound_row)
    bad: list[Candidate | Judgement] = [*candidates, *judgements]
    first = next((row.error for row in bad if row.error), "")
    said = f"{len(bad)} rows with impossible values" + (f" (the first: {first})" if first else "")

    def mend() -> None:
        _remove(store, "candidates", [row.key for row in candidates])
        _remove(store, "judgements", [row.key for row in judgements])
        store.add_candidates(candidates)
        store.add_judgements(judgements)

    remedy = "--repair files them as the errors they are; --retry-errors asks those again"
    return _check("values", bad, said, remedy), mend


def _answers(store: Store) -> tuple[Check, Mend]:
    """Answers that the reader of their policy does not read so: another one read them."""
    try:
        policies = open_run(store).policies
    except BonError as error:
        return Check("experiment", 1, error.message, error.fix), _nothing
    parsed = {k: _parsed(data) for k, data in store.query("SELECT key, data FROM questions")}
    options = {
        key: raw["options"]
        for key, raw in parsed.items()
        if isinstance(raw, dict) and "options" in raw
    }
    wrong = []
    for policy in policies:
        for key, question, text, *read_as in store.query(
            "SELECT key, question, text, answer, outcome FROM candidates "
            "WHERE spec = ? AND outcome != 'error'",
            (policy.spec,),
        ):
            if question in options:
                now = read(text, options[question], policy.card.reader)
                if now != tuple(read_as):
                    wrong.append((*now, key))
    said = f"{len(wrong)} candidates are not as the reader of their policy reads them"
    remedy = "--repair reads them again"
    return _check("answers", wrong, said, remedy), lambda: store.set_answers(wrong)


def _images(store: Store) -> tuple[Check, Mend]:
    wanted: set[str] = set()
    for table in ("questions", "pairs"):
        for (data,) in store.query(f"SELECT data FROM {table}"):
            raw = _parsed(data)
            wanted |= set(raw.get("images", ())) if isinstance(raw, dict) else set()
    missing, damaged = [], []
    for sha256 in sorted(wanted):
        path = store.images.path(sha256)
        try:
            with path.open("rb") as file:
                if hashlib.file_digest(file, "sha256").hexdigest() != sha256:
                    damaged.append(path)
        except OSError:
            missing.append(path)
    said = f"{len(missing)} images are missing, {len(damaged)} are no longer what they were"

    def mend() -> None:
        for path in damaged:
            path.unlink()

    remedy = "--repair removes damaged ones; running again takes all of them from the data"
    return _check("images", [*missing, *damaged], said, remedy), mend


# ------------------------------------------------------------------ inside

_NOTHING = object()


def _nothing() -> None:
    """There is nothing to mend."""


def _parsed(text: Any) -> Any:
    try:
        return json.loads(text)
    except (TypeError, ValueError):
        return _NOTHING


def _can(reader: Callable[[str], Any], data: str) -> bool:
    try:
        reader(data)
    except (TypeError, ValueError, KeyError):
        return False
    return True


def _decoded(score: Any) -> Any:
    """A NumPy float32 as version 0.1 stored it: its four bytes."""
    if isinstance(score, bytes) and len(score) == 4:
        return struct.unpack("<f", score)[0]
    return score


def _check(name: str, faults: list[Any], found: str, remedy: str) -> Check:
    return Check(name, len(faults), found, remedy) if faults else Check(name)


def _remove(store: Store, table: str, keys: list[str]) -> None:
    with guard(store.path):
        store.db.executemany(f"DELETE FROM {table} WHERE key = ?", [(key,) for key in keys])
