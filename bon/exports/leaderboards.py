"""The leaderboard as a table of a paper: LaTeX with booktabs, and Markdown."""

import re
from collections.abc import Iterator
from pathlib import Path

from bon.analysis.report.leaderboard import leaderboard
from bon.analysis.results import PolicyResult, Results
from bon.analysis.results.phrasing import MINUS, NONE, difference, scaled
from bon.exports.contents import Contents
from bon.running.reporting import read_results

_HEAD = ("reward model", "rank", "accuracy", "over majority vote", "over pass@1")
_SPECIAL = {c: f"\\{c}" for c in "&%$#_{}"} | {
    "\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
    MINUS: "$-$", NONE: "--", "…": r"\ldots{}",
}  # fmt: skip


def write_latex(contents: Contents, out: Path) -> list[Path]:
    """Write `leaderboard.tex`, a tabular with booktabs' rules, to be put into a table."""
    results = read_results(contents.store.directory)
    lines = [
        "% \\usepackage{booktabs}",
        rf"% {_caption(results)}",
        rf"\begin{{tabular}}{{l{'r' * len(_head(results)[1:])}}}",
        r"\toprule",
        _latex(_head(results)),
    ]
    for policy, rows in _blocks(results):
        lines.append(r"\midrule")
        if len(results.policies) > 1:
            title = rf"\multicolumn{{{len(_head(results))}}}{{l}}{{\textit{{{_escaped(policy)}}}}}"
            lines += [rf"{title} \\"]
        lines += map(_latex, rows)
    path = out / "leaderboard.tex"
    path.write_text("\n".join([*lines, r"\bottomrule", r"\end{tabular}", ""]), encoding="utf-8")
    return [path]


def write_markdown(contents: Contents, out: Path) -> list[Path]:
    """Write `leaderboard.md`, the same table."""
    results = read_results(contents.store.directory)
    lines = []
    for policy, rows in _blocks(results):
        lines += [f"**{policy}**", ""] if len(results.policies) > 1 else []
        head = _head(results)
        for row in (head, ("---", *("---:" for _ in head[1:])), *rows):
            lines.append(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |")
        lines.append("")
    path = out / "leaderboard.md"
    path.write_text("\n".join([*lines, f"{_caption(results)}", ""]), encoding="utf-8")
    return [path]


def _head(results: Results) -> tuple[str, ...]:
    return (*_HEAD, *(["benchmark"] if results.benchmarks else []))


def _caption(results: Results) -> str:
    level = round(100 * results.options.level)
    over = ", ".join(
        f"{p.policy}: {p.num_questions} questions, best of {p.n}" for p in results.policies
    )
    return f"Percent and points with {level}% intervals; {over}."


def _blocks(results: Results) -> Iterator[tuple[str, list[tuple[str, ...]]]]:
    """Yield the rows of each policy, best first."""
    results.policy()  # or say that there is none
    for policy in results.policies:
        yield policy.policy, list(_rows(results, policy))


def _rows(results: Results, policy: PolicyResult) -> Iterator[tuple[str, ...]]:
    places = {r.rewarder: r.places for r in results.ranks if r.policy == policy.policy}
    for row in leaderboard(results, policy):
        best = row.best
        yield (
            row.name,
            NONE if row.baseline else places.get(row.name, NONE),
            scaled(row.accuracy),
            difference(best.versus_majority) if best and row.standing != "is" else NONE,
            difference(best.gain) if best and row.info.rewarder != "random" else NONE,
            *([scaled(row.score)] if results.benchmarks else []),
        )


def _latex(cells: tuple[str, ...]) -> str:
    row = " & ".join(map(_escaped, cells)) + r" \\"
    return f"{{}}{row}" if row.startswith("[") else row  # else an argument of the row before


def _escaped(text: str) -> str:
    return re.sub(r"[\\&%$#_{}~^−–…]", lambda match: _SPECIAL[match[0]], text)
