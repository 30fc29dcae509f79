"""Write the block of README.md that `make demo` ends with: `python -m tools.readme runs/demo`.

`--check` compares instead, and exits with 1 where README shows something else.
"""

import re
import subprocess
import sys
import textwrap
from difflib import unified_diff
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "README.md"
START, END = "It ends with\n\n```text\n", "```\n"
FIRST, LAST = 4, 2
"""Rows of the first policy that are shown from the top and from the end, beside the baselines."""

WIDTH = 110
BASELINES = ("majority vote", "pass@1")


def block(run: Path) -> str:
    """Return what `bon report` prints of a run, with most rows of its tables left out."""
    command = [sys.executable, "-m", "bon", "report", str(run)]
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stderr
    printed = re.sub(r", [\d.]+ \w+ per question", "", printed)  # depends on the machine
    *tables, rest = printed.rstrip().split("\n\n")
    head, header, *rows = tables[0].splitlines()
    kept = {*range(FIRST), *range(len(rows) - LAST, len(rows))}
    kept |= {at for at, row in enumerate(rows) if row.startswith(BASELINES)}
    lines, before = [head, header], -1
    for at in sorted(kept):
        lines += ["…"] * (at > before + 1) + [rows[at]]
        before = at
    others = [line for table in tables[1:] for line in ("", table.splitlines()[0], "…")]
    last = [part for line in rest.splitlines() for part in textwrap.wrap(line, WIDTH)]
    return "\n".join([*lines, *others, "", *last]).replace(str(run), "runs/demo") + "\n"


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
