"""Draw the light figures of docs/gallery.md: python -m tools.gallery runs/demo."""

import io
import sys
from pathlib import Path

from matplotlib.figure import Figure
from PIL import Image

from bon.analysis import plots
from bon.analysis.published import correlate_table
from bon.running.reporting import read_results

ROOT = Path(__file__).parents[1]
WIDTH, COLOURS = 1000, 128


def write(name: str, figure: Figure) -> None:
    """Write a PNG of few colours, which compresses well."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=200, facecolor=figure.get_facecolor())
    image = Image.open(buffer).convert("RGB")
    image = image.resize(
        (WIDTH, round(image.height * WIDTH / image.width)), Image.Resampling.LANCZOS
    )
    image.quantize(COLOURS, Image.Quantize.FASTOCTREE).save(
        ROOT / "docs/images/gallery" / f"{name}.png", optimize=True
    )


def main(run: Path) -> None:
    """Draw every figure from a finished demo and from the published tables in examples/."""
    results = read_results(run)
    write("correlation", plots.correlation(results))
    write("accuracy_at_n", plots.accuracy_at_n(results, policy=results.policies[0].policy))
    for table in ("vl_rewardbench", "rewardmath"):
        report = correlate_table(ROOT / "examples/published" / f"{table}.csv")
        write(table, plots.correlation(report))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
