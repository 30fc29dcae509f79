"""The correlation so far, of a run that still goes on: `python -m bon.service.interim RUN`.

The analysis takes seconds and all of a core, so it has a process of its own. It draws what the
report will draw, from the rows that are there, with few bootstrap draws; it is a look, and the
pages say so.
"""

import json
import subprocess
import sys
import threading
import time
from pathlib import Path

from bon.core.files import write_atomic
from bon.core.modules import module

DRAWS = 200
EVERY_SECONDS = 15.0


def draw(directory: Path) -> None:
    """Write interim.json and interim-light.svg, interim-dark.svg beside the run."""
    from bon.analysis import plots
    from bon.analysis.run import analyse
    from bon.running.frames import run_tables
    from bon.running.reporting import open_run
    from bon.running.setup import options
    from bon.running.store import Store

    with Store(directory, readonly=True) as store:
        setup = open_run(store)
        tables = run_tables(setup, store)
    results = analyse(tables, options(setup).model_copy(update={"draws": DRAWS}))
    for name, theme in (("light", plots.LIGHT), ("dark", plots.DARK)):
        path = directory / f".interim-{name}.svg"
        plots.save(plots.correlation(results, theme=theme, width=4.4), path)
        path.replace(directory / f"interim-{name}.svg")
    counts = results.counts.model_dump(include={"questions", "candidates", "judgements"})
    text = {"at": time.time(), "sentence": results.finding.sentence, **counts}
    write_atomic(directory / "interim.json", json.dumps(text))


class Interim:
    """Draws again, now and then, for as long as somebody looks; one drawing at a time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._busy = False
        self._not_before: dict[str, float] = {}

    def want(self, directory: Path) -> None:
        """Somebody looks at this run: start a drawing if it is due."""
        with self._lock:
            if self._busy or time.monotonic() < self._not_before.get(directory.name, 0.0):
                return
            self._busy = True
        threading.Thread(target=self._draw, args=(directory,), daemon=True).start()

    def _draw(self, directory: Path) -> None:
        started = time.monotonic()
        try:
            subprocess.run(
                ["nice", "-n", "10", *module("bon.service.interim", str(directory))],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                timeout=600,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired):
            pass
        finally:
            took = time.monotonic() - started
            with self._lock:
                self._busy = False
                wait = max(EVERY_SECONDS, 5 * took)
                self._not_before[directory.name] = time.monotonic() + wait


if __name__ == "__main__":
    draw(Path(sys.argv[1]))
