"""The server's parts: settings, database, supervisor, tokens."""

import fcntl
import secrets
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from bon.core.errors import BonError
from bon.core.files import write_atomic
from bon.core.ledger import LEDGER, Ledger
from bon.service.server.access import Tokens
from bon.service.settings import Settings
from bon.service.validations.budget import ServerBudget
from bon.service.validations.jobs import Jobs, Validation
from bon.service.validations.plan_pool import PlanPool
from bon.service.validations.supervisor import Supervisor

DATABASE = "service.sqlite"
SECRET_BYTES = 32


@dataclass
class Service:
    """One server on one data directory."""

    settings: Settings
    jobs: Jobs
    supervisor: Supervisor
    tokens: Tokens
    budget: ServerBudget
    ledger: Ledger
    plans: PlanPool = field(default_factory=PlanPool)

    def directory(self, validation: Validation) -> Path:
        """Return a validation's run directory."""
        return self.settings.runs / validation.id


def open_tokens(data: Path) -> Tokens:
    """Return the tokens of a data directory, also while a server runs on it."""
    return Tokens(Jobs(data / DATABASE), server_secret(data))


@contextmanager
def open_service(settings: Settings) -> Iterator[Service]:
    """Lock the data directory and yield the server's parts; the supervisor is not started."""
    data = settings.data
    try:
        for folder in (data, settings.files, settings.runs):
            folder.mkdir(parents=True, exist_ok=True)
        lock = (data / "server.lock").open("a", encoding="utf-8")
    except OSError as error:
        raise BonError(f"cannot use {data}: {error.strerror}", "choose another --data") from None
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            fix = "stop it, or choose another --data"
            raise BonError(f"another bon serve uses {data}", fix) from None
        if settings.miniature and not (settings.files / "miniature" / "pairs.parquet").exists():
            from bon.miniature.data import write

            write(settings.files / "miniature")
        with closing(Jobs(data / DATABASE)) as jobs, closing(Ledger(data / LEDGER)) as ledger:
            tokens = Tokens(jobs, server_secret(data))
            budget = ServerBudget(settings, jobs, ledger)
            yield Service(settings, jobs, Supervisor(settings, jobs), tokens, budget, ledger)


def server_secret(data: Path) -> bytes:
    """Return the random bytes that sign report links; made where there are none, or too few."""
    path = data / "secret"
    data.mkdir(parents=True, exist_ok=True)
    if not path.exists() or path.stat().st_size < SECRET_BYTES:
        path.unlink(missing_ok=True)  # with whatever mode it had
        write_atomic(path, secrets.token_bytes(SECRET_BYTES))
    return path.read_bytes()
