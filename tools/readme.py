"""Write what README.md says of `make demo`: `python -m tools.readme runs/demo`.

`--check` compares instead, and exits with 1 where README shows something else.
"""

import json
import re
import subprocess
import sys
import textwrap
from difflib import unified_diff
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "README.md"
START, END = "<!-- python -m tools.readme runs/demo -->\n", "<!-- end -->\n"
FIRST, LAST = 2, 1
"""Rows of the first policy that are shown from the top and from the end, beside the baselines."""

WIDTH = 110
BASELINES = ("majority vote", "pass@1")


def block(run: Path) -> str:
    """Return what `bon report` prints of a run: its sentences, then few rows of its tables."""
    command = [sys.executable, "-m", "bon", "report", str(run)]
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stderr
    printed = re.sub(r", [\d.]+ \w+ per question", "", printed)  # depends on the machine
    table, *_, rest = printed.rstrip().split("\n\n")
    verdict, take, _ = rest.rsplit("\n", 2)
    said = [
        line
        for text in (verdict, take)
        for line in textwrap.wrap(text, WIDTH, break_on_hyphens=False)
    ]
    head, header, *rows = table.splitlines()
    kept = {*range(FIRST), *range(len(rows) - LAST, len(rows))}
    kept |= {at for at, row in enumerate(rows) if row.startswith(BASELINES)}
    lines, before = [head, header], -1
    for at in sorted(kept):
        lines += ["…"] * (at > before + 1) + [rows[at]]
        before = at
    results = json.loads((run / "results.json").read_text(encoding="utf-8"))
    counts, n = results["counts"], results["protocol"]["n"]
    made = (
        f"{len(results['policies'])} policies sampled {n} candidates for each of "
        f"{counts['questions']} questions; {counts['rewarders']} rewarders made "
        f"{counts['judgements']:,} judgements of them and of {counts['pairs']} preference pairs. "
        "Above the verdict stands a table for each policy:"
    )
    shown = ["```text", "$ make demo", *said, "```", "", *textwrap.wrap(made, 118), "", "```text"]
    return "\n".join([*shown, *lines, "```"]) + "\n"


def main() -> None:
    """Write or compare the block."""
    run, page = Path(sys.argv[1]), PAGE.read_text(encoding="utf-8")
    before, _, rest = page.partition(START)
    shown, _, after = rest.partition(END)
    made = block(run)
    if "--check" in sys.argv:
        difference = unified_diff(
            shown.splitlines(), made.splitlines(), "README.md", str(run), "", ""
        )
        if lines := list(difference):
            sys.exit("\n".join([*lines, f"write it anew: python -m tools.readme {run}"]))
        return
    PAGE.write_text(before + START + made + END + after, encoding="utf-8")


if __name__ == "__main__":
    main()
