"""The report: one HTML file that works offline, made from `Results` and question views."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from markupsafe import Markup

from bon.analysis.report import board
from bon.analysis.report import format as text
from bon.analysis.report.figures import Figures, report_figures
from bon.analysis.report.pack import Packed, Packing, write_beside
from bon.analysis.report.pictures import Images
from bon.analysis.report.templates import HERE, pages
from bon.analysis.report.views import QuestionView
from bon.analysis.results import BenchmarkResult, BestOfN, Estimate, Results, Slice

MAX_BYTES = 5_000_000
_ROOM = 200_000  # kept free below the limit


def write_report(
    results: Results,
    browser: Iterable[QuestionView] | None,
    path: Path,
    *,
    images: Images = "none",
    max_bytes: int = MAX_BYTES,
    figures: Callable[[], Figures] | None = None,
) -> Path:
    """Write the report to `path` and return it.

    `browser` holds the questions to look through; None leaves the browser out. `images`:
    `none` leaves images out, `embed` puts them into the file, `folder` copies them to
    `<stem>_files` beside it, and `fit` embeds them where they are few (bon.analysis.report
    .pictures.ROOM) and copies them where they are many. What would make the rest of the file
    larger than `max_bytes` (texts and rationales of large runs) goes to the same folder.
    `figures` gives those that are being drawn already (`report_figures`).
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    folder = path.parent / f"{path.stem}_files"
    with ExitStack() as stack:
        figures = figures or stack.enter_context(report_figures(results))
        packing = None
        if browser is not None:  # meanwhile
            names = [r.rewarder for r in results.rewarders if not r.baseline]
            packing = Packing(folder, images, names)
            for view in browser:
                packing.add(view)
        page = _Page(results, figures())
    packed = None
    if packing is not None:
        bare = len(page.html(None, folder.name).encode())
        packed = packing.finish(max_bytes - _ROOM - bare)
        packed.data["labels"] = _labels(results)
        write_beside(packed, folder)
    path.write_text(page.html(packed, folder.name), encoding="utf-8")
    return path


class _Page:
    """Renders the page with and without the browser's data."""

    def __init__(self, results: Results, figures: Figures) -> None:
        self.results = results
        self.figures = figures
        self.style = (HERE / "style.css").read_text(encoding="utf-8") + "".join(figures.css)
        self.script = script()

    def html(self, packed: Packed | None, folder: str) -> str:
        """The whole page."""
        page = pages().get_template("report.html.jinja")
        return page.render(
            results=self.results,
            figures=self.figures,
            style=Markup(self.style),
            script=Markup(self.script),
            csp=policy(self.style, self.script, packed),
            packed=packed,
            data=Markup(packed.text()) if packed else "",
            folder=folder,
            icon=icon(),
            **_context(self.results),
        )


def icon() -> str:
    """The picture of the page's tab, as an address that needs nothing beside the page."""
    return (
        "data:image/svg+xml;base64," + base64.b64encode((HERE / "icon.svg").read_bytes()).decode()
    )


def script() -> str:
    """What a report does where scripts run."""
    return "".join((HERE / name).read_text(encoding="utf-8") for name in ("tables.js", "report.js"))


def policy(style: str, script: str, packed: Packed | None) -> str:
    """A content security policy: only this style, this script and the side folder."""
    beside = " 'self' file:" if packed and packed.beside else ""
    images = " 'self' file:" if packed and packed.images_beside else ""
    return (
        f"default-src 'none'; style-src {_hash(style)}; script-src {_hash(script)}{beside}; "
        f"img-src data:{images}; base-uri 'none'; form-action 'none'"
    )


def _hash(source: str) -> str:
    digest = hashlib.sha256(source.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


def _context(results: Results) -> dict[str, Any]:
    """What the templates need besides the results themselves."""
    boards = [(p, board.leaderboard(results, p)) for p in results.policies]
    baselines = {r.rewarder for r in results.rewarders if r.baseline}
    everyone = {r.rewarder for r in results.rewarders}
    chosen = {
        p.policy: [b for b in results.best_of_n if b.policy == p.policy] for p in results.policies
    }
    treatments = dict.fromkeys(t.treatment for b in results.benchmarks for t in b.sensitivity)
    return {
        "main": results.main,
        "without_rewarders": _without_rewarders(results),
        "main_correlations": board.carried(results),
        "axes": {p.policy: board.axes_table(results, p.policy) for p in results.policies},
        "boards": boards,
        "boards_by": {
            policy: [b for b in found if b.headline and b.rewarder not in baselines]
            for policy, found in chosen.items()
        },
        "below": {
            p.policy: [r.name for r in found if r.standing == "below" and not r.baseline]
            for p, found in boards
        },
        "other_rules": {
            policy: [b for b in found if b.rewarder not in baselines]
            if any(not b.headline for b in found)
            else []
            for policy, found in chosen.items()
        },
        "matrices": {
            p.policy: board.difference_matrix(results, p.policy) for p in results.policies
        },
        "ranks": {(r.policy, r.rewarder): r for r in results.ranks},
        "separation": {s.policy: s for s in results.separation if s.policy},
        "benchmark_tables": list(_benchmark_tables(results)),
        "baseline_names": baselines | ({b.rewarder for b in results.benchmarks} - everyone),
        "treatments": list(treatments),
        "costs": any(
            r.cost or r.seconds or r.num_judgements for r in results.rewarders if not r.baseline
        ),
        "unsupported": [r for r in results.rules if not r.supported],
        "estimated": _estimated(results),
        "rated_in_full": max((j.rated_questions for j in results.judging), default=0)
        if any(_raced(b) for b in results.best_of_n)
        else 0,
        "slice_of": _slice_of,
        "named": _named,
        "outcome_of": _outcome_of,
        "treated": _treated,
        "asked": _asked,
    }


def _labels(results: Results) -> dict[str, dict[int, str]]:
    """Names of candidate indexes, where an index means something: the file it came from."""
    return {
        p.policy: {f.index: f.label for f in p.files if f.label not in ("", str(f.index))}
        for p in results.policies
    }


def _raced(b: BestOfN) -> bool:
    """Whether other n rest on fewer questions than the headline."""
    basis = b.estimated.questions if b.estimated else b.num_questions
    return b.headline and any(p.estimated and p.estimated.questions < basis for p in b.curve)


def _estimated(results: Results) -> dict[tuple[str, str, str], list[str]]:
    """Rules that were estimated from a sample, by policy, rewarder and how."""
    found: dict[tuple[str, str, str], list[str]] = {}
    for r in results.rules:
        if r.supported and r.reason:
            key = (r.policy, r.rewarder, r.reason)
            found.setdefault(key, []).append(r.rule.replace("_", " "))
    return found


def _without_rewarders(results: Results) -> str:
    """What can be said of the candidates alone."""
    said = []
    for p in results.policies:
        if None in (p.pass_at_1.value, p.majority.value, p.oracle.value):
            continue
        said.append(
            f"{text.count(p.num_questions)} questions with {p.num_candidates} candidates of "
            f"{p.policy} each: a random one is right on {text.share(p.pass_at_1)}, the majority "
            f"vote on {text.share(p.majority)}, and no choice could exceed {text.share(p.oracle)}."
        )
    return " ".join(said)


def _benchmark_tables(
    results: Results,
) -> Iterable[tuple[str, list[BenchmarkResult], list[str], list[str]]]:
    """Each benchmark with its results, best first, its groups and its tags."""
    for name in dict.fromkeys(b.benchmark for b in results.benchmarks):
        shown = [b for b in results.benchmarks if b.benchmark == name]
        shown.sort(key=lambda b: (-(b.macro.value or 0), b.rewarder))
        groups = dict.fromkeys(g.name for b in shown for g in b.groups)
        tags = dict.fromkeys(t.name for b in shown for t in b.tags if t.name)
        yield name, shown, list(groups), list(tags)


def _named(slices: Iterable[Slice], name: str) -> Estimate | None:
    return next((s.accuracy for s in slices if s.name == name), None)


def _slice_of(best: BestOfN, by: str, name: str) -> Estimate | None:
    return _named(best.by_subject if by == "subject" else best.by_difficulty, name)


def _outcome_of(result: BenchmarkResult, outcome: str) -> Estimate | None:
    return next((o.rate for o in result.outcomes if o.outcome == outcome), None)


def _treated(result: BenchmarkResult, treatment: str) -> Estimate | None:
    return next((t.macro for t in result.sensitivity if t.treatment == treatment), None)


def _asked(votes: int, orders: str) -> str:
    """5 votes in both orders."""
    if votes == 0:
        return "not asked"
    said = f"{votes} vote{'s' if votes != 1 else ''}"
    return said if orders == "none" else f"{said}, {orders} order{'s' if orders == 'both' else ''}"
