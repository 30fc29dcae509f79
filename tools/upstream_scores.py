"""Score replies with lmms-eval's own code: `python -m tools.upstream_scores`.

Writes tests/benchmarks/upstream_scores.json, with which a test compares bon's tasks. Needs the
package lmms-eval and what its tasks import.
"""

import json
from importlib.metadata import version
from pathlib import Path
from typing import Any

OUT = Path(__file__).parents[1] / "tests" / "benchmarks" / "upstream_scores.json"
NUMBERS = (
    "14", "14.7", "14.71", "13.3", "13.29", "-14", "0", "1,400", "1e1", "nan", "inf", "14%", "14.0",
    "fourteen", "Answer: 14", "14 or 15", "not 14",
)  # fmt: skip
TEXTS = (
    "Paris", "paris", "Pariss", "Pari", "London", "par", "pa", "the Paris", "Paris.", "PARIS ",
    "Paris, France", "Paris or London", "In my opinion it is Paris", "Answer: Paris",
)  # fmt: skip
PEOPLE = (
    ["stop"] * 10, ["stop"] * 3 + ["go"] * 7, ["stop"] * 2 + ["go"] * 8, ["stop"] + ["go"] * 9,
    ["go"] * 10, ["stop sign"] * 10, ["2"] * 10,
)  # fmt: skip
WORDS = ("stop", "Stop.", "the stop", "stop-sign", "two", "go", "stop go")
LETTERS = (
    "B", "b", "(B)", "B.", "B. a dog", "Answer: B", "The answer is B.", "A", "A or B", "not B",
    "It is A. No, B.", "a dog", "C", "I cannot tell.",
)  # fmt: skip


def main() -> None:
    """Run upstream's scorers and write what they give."""
    from lmms_eval.api.metrics import anls
    from lmms_eval.tasks.chartqa.utils import chartqa_process_results
    from lmms_eval.tasks.mmstar.utils import mmstar_process_results
    from lmms_eval.tasks.ocrbench.utils import ocrbench_process_results
    from lmms_eval.tasks.realworldqa.utils import realworldqa_process_results
    from lmms_eval.tasks.scienceqa.utils import sqa_process_results
    from lmms_eval.tasks.textvqa.utils import textvqa_process_results

    rows: list[dict[str, Any]] = []
    document: dict[str, Any]

    def add(task: str, reply: str, answer: Any, score: float) -> None:
        rows.append({"task": task, "reply": reply, "answer": answer, "score": score})

    for right in ("14", "0", "14%"):
        for reply in NUMBERS:
            document = {"answer": right, "type": "human_test"}
            result = chartqa_process_results(document, [reply])
            add("chartqa", reply, right, result["relaxed_overall"])
    for reply in TEXTS:
        add("docvqa", reply, ["Paris"], anls(["Paris"], [reply])["anls"])
        add("infovqa", reply, ["Lyon", "Paris"], anls(["Lyon", "Paris"], [reply])["anls"])
        document = {"answer": ["Paris"], "dataset": "x", "question_type": "x"}
        result = ocrbench_process_results(document, [reply])
        add("ocrbench", reply, ["Paris"], float(result["ocrbench_accuracy"]["score"]))
    for people in PEOPLE:
        for word in WORDS:
            document = {"answers": list(people), "question_id": 1}
            result = textvqa_process_results(document, [word])
            add("textvqa", word, people, result["exact_match"])
    for reply in LETTERS:
        choices = ["a cat", "a dog", "a cow", "a pig"]
        document = {"answer": "B", "category": "c", "l2_category": "d", "index": 0}
        result = mmstar_process_results(document, [reply])
        add("mmstar", reply, "B", result["average"]["score"])
        document = {"answer": 1, "choices": choices}
        add("scienceqa", reply, 1, sqa_process_results(document, [reply])["exact_match"])
        result = realworldqa_process_results({"answer": "B"}, [reply])
        add("realworldqa", reply, "B", result["exact_match"])
    head = {"lmms-eval": version("lmms-eval"), "command": "python -m tools.upstream_scores"}
    lines = ",\n".join(json.dumps(row) for row in rows)
    OUT.write_text(f'{{"source": {json.dumps(head)},\n"rows": [\n{lines}\n]}}\n', encoding="utf-8")


if __name__ == "__main__":
    main()
