"""Weights & Biases: the results of a run (`pip install 'bon[wandb]'`).

Offline unless WANDB_MODE is set; `wandb sync` uploads the files later.
"""

import os
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from bon.analysis.results import Results
from bon.core.errors import BonError
from bon.exports.contents import Contents
from bon.running.reporting import read_results


def write_wandb(contents: Contents, out: Path) -> list[Path]:
    """Record a run in the W&B project WANDB_PROJECT, or `bon`; `out` holds the files of W&B."""
    results = read_results(contents.directory)
    try:
        import wandb
    except ImportError:
        raise BonError("W&B needs the package wandb", "pip install 'bon[wandb]'") from None
    settings = contents.setup.raw
    name = str(settings.get("name", "experiment"))
    out.mkdir(parents=True, exist_ok=True)
    run = wandb.init(
        project=os.environ.get("WANDB_PROJECT", "bon"),
        name=name,
        dir=str(out),
        config=dict(settings),
        mode=os.environ.get("WANDB_MODE", "offline"),
        settings=wandb.Settings(console="off", silent=True),
    )
    run.define_metric("*", step_metric="n")
    by_n: dict[int, dict[str, float]] = defaultdict(dict)
    for metric, value, n in result_numbers(results):
        by_n[n][metric] = value
    for n, values in sorted(by_n.items()):
        run.log({"n": n, **values})
    artifact = wandb.Artifact("".join(c if c.isalnum() else "-" for c in name), "results")
    for file in ("results.json", "report.html"):
        if (contents.directory / file).is_file():
            artifact.add_file(str(contents.directory / file))
    run.log_artifact(artifact)
    run.finish()
    return [out]


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
