"""Weights & Biases: curves while a run goes, and its results (`pip install 'bon[wandb]'`).

Offline unless WANDB_MODE is set; `wandb sync` uploads the files later.
"""

import os
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bon.analysis.results import Results
from bon.core.errors import BonError
from bon.exports.contents import Contents
from bon.running.reporting import read_results


class Tracker:
    """A W&B run of the project WANDB_PROJECT, or `bon`; it fits `bon.running.progress.Watcher`."""

    def __init__(self, folder: Path, settings: Mapping[str, Any]) -> None:
        try:
            import wandb
        except ImportError:
            raise BonError("W&B needs the package wandb", "pip install 'bon[wandb]'") from None
        folder.mkdir(parents=True, exist_ok=True)
        self._name = str(settings.get("name", "experiment"))
        self._axes: set[str] = set()
        self._run = wandb.init(
            project=os.environ.get("WANDB_PROJECT", "bon"),
            name=self._name,
            dir=str(folder),
            config=dict(settings),
            mode=os.environ.get("WANDB_MODE", "offline"),
            settings=wandb.Settings(console="off", silent=True),
        )

    def scalars(self, values: Mapping[str, float], step: int, axis: str) -> None:
        """Record values at a step of an axis (`n` or `rows`); each top-level name has one axis."""
        for group in {name.partition("/")[0] for name in values} - self._axes:
            self._run.define_metric(f"{group}/*", step_metric=axis)
            self._axes.add(group)
        self._run.log({axis: step, **values})

    def record(self, directory: Path) -> None:
        """Record the results of a finished run, with results.json and report.html."""
        import wandb

        by_step: dict[int, dict[str, float]] = defaultdict(dict)
        for name, value, step in result_numbers(read_results(directory)):
            by_step[step][name] = value
        for step, values in sorted(by_step.items()):
            self.scalars(values, step, "n")
        artifact = wandb.Artifact("".join(c if c.isalnum() else "-" for c in self._name), "results")
        for name in ("results.json", "report.html"):
            if (directory / name).is_file():
                artifact.add_file(str(directory / name))
        self._run.log_artifact(artifact)

    def close(self) -> None:
        """Close the W&B run."""
        self._run.finish()


@contextmanager
def tracking(
    names: Sequence[str], directory: Path, settings: Mapping[str, Any]
) -> Iterator[list[Tracker]]:
    """Open the trackers for a run in DIRECTORY/tracking; they record its results if it completes.

    Raises:
        BonError: an unknown tracker, or its package is not installed.
    """
    if unknown := set(names) - {"wandb"}:
        raise BonError(f"no tracker {min(unknown)!r}", "use --track wandb")
    trackers = [Tracker(directory / "tracking" / name, settings) for name in dict.fromkeys(names)]
    try:
        yield trackers
        for tracker in trackers:
            tracker.record(directory)
    finally:
        for tracker in trackers:
            tracker.close()


def result_numbers(results: Results) -> Iterator[tuple[str, float, int]]:
    """Yield (name, value, n) of the known results; n is 0 where it does not apply."""
    rows: list[tuple[str, float | None, int]] = []
    for best in results.best_of_n:
        if best.headline:
            name = f"{best.policy}/{best.rewarder}"
            rows += [(f"best_of_n/{name}", p.accuracy.value, p.n) for p in best.curve]
            rows.append((f"gain/{name}", best.gain.value, best.n))
    for row in results.benchmarks:
        name = f"benchmark/{row.benchmark}/{row.rewarder}"
        rows += [(f"{name}/macro", row.macro.value, 0), (f"{name}/overall", row.overall.value, 0)]
    if results.main is not None:
        name = f"correlation/{results.main.policy}/{results.main.benchmark}"
        r = results.main.pearson.estimate
        rows += [(f"{name}/r", r.value, 0), (f"{name}/low", r.low, 0), (f"{name}/high", r.high, 0)]
    yield from ((name, value, n) for name, value, n in rows if value is not None)


def write_wandb(contents: Contents, out: Path) -> list[Path]:
    """Record a finished run; `out` is for the files of W&B."""
    read_results(contents.directory)  # raises before W&B is opened
    tracker = Tracker(out, contents.setup.raw)
    tracker.record(contents.directory)
    tracker.close()
    return [out]
