"""The process of a validation: `python -m bon.service.validations.job RUN_DIRECTORY ATTEMPT`.

It runs what `bon run` runs, and ends with its server, whose end closes its standard input. It
reports in files beside the run, each written atomically.

    request.json   the experiment (written by the server)
    progress.json  phase and stages
    outcome.json   the final state; missing if the process was killed
"""

import fcntl
import json
import os
import signal
import sys
import threading
import time
import traceback
from pathlib import Path
from typing import Any

from bon.core.errors import BonError, Unavailable, one_line
from bon.core.files import write_atomic

REQUEST, PROGRESS, OUTCOME, LOG = "request.json", "progress.json", "outcome.json", "log.txt"
STOP_SECONDS = 60
"""From the end of the server to the end of a process that hangs."""


def read_json(path: Path) -> dict[str, Any] | None:
    """Return a JSON mapping; None if there is no such file yet."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return data if isinstance(data, dict) else None


def main(directory: Path, attempt: int) -> int:
    """Run the validation, unless the server has started another attempt since."""

    def end_with_server() -> None:
        os.read(0, 1)
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(STOP_SECONDS)
        os.killpg(0, signal.SIGKILL)

    # A process started in the background of a shell ignores SIGINT unless told otherwise.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    threading.Thread(target=end_with_server, daemon=True).start()
    with (directory / "job.lock").open("a", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # wait until no other process works on this run
        request = read_json(directory / REQUEST)
        if request is None or request["attempt"] != attempt:
            return 0
        state, error = _run(directory, request)
        outcome = {"attempt": attempt, "state": state, "error": error}
        write_atomic(directory / OUTCOME, json.dumps(outcome))
    return 0 if state == "done" else 1


def _run(directory: Path, request: dict[str, Any]) -> tuple[str, str]:
    from bon.running.runner import run
    from bon.work.setup import prepare

    try:
        setup = prepare(request["experiment"], Path(request["base"]))
        again = request["retry_errors"]
        run(setup, directory, retry_errors=again, progress_file=directory / PROGRESS)
    except KeyboardInterrupt:
        print("stopped; what was computed is kept", file=sys.stderr, flush=True)
        return "cancelled", ""
    except BonError as error:  # a lost cluster may come back: the server tries again
        print(f"bon: {error}", file=sys.stderr, flush=True)
        return "crashed" if isinstance(error, Unavailable) else "failed", str(error)
    except Exception as error:
        traceback.print_exc()
        return "crashed", one_line(error)
    return "done", ""


if __name__ == "__main__":
    try:
        code = main(Path(sys.argv[1]), int(sys.argv[2]))
    except KeyboardInterrupt:
        code = 130
    sys.exit(code)
