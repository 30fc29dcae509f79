"""A benchmark in a format of its own: an adapter turns one row into one question.

    python examples/own_benchmark.py [OUT]

Files whose columns only have other names need no adapter: `multiple_choice` and `preference`
take `columns:` (docs/benchmarks.md).
"""

import json
import sys
from pathlib import Path

import bon
from bon import Adapter, Form


def convert(context, row):
    """One row of {"sum": "3 + 4", "result": 7} as a question with ten options."""
    result = int(row.get("result"))
    options = [str(number) for number in range(10)]
    text = f"What is {row.need('sum')}?"
    return context.question(row, text=text, options=options, answer="ABCDEFGHIJ"[result], images=())


bon.register(
    Adapter(
        kind="questions",
        title="Sums below ten",
        licence="yours",
        forms=(Form(need={"sum": "sum", "result": "result"}),),
        convert=convert,
    ),
    name="sums",
)

if __name__ == "__main__":
    out = Path(sys.argv[1] if len(sys.argv) > 1 else "runs/own-benchmark")
    out.mkdir(parents=True, exist_ok=True)
    rows = [{"sum": f"{a} + {b}", "result": a + b} for a in range(4) for b in range(4)]
    data = out / "sums.jsonl"
    data.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    study = bon.run(
        {
            "name": "sums",
            "questions": {"benchmark": "sums", "path": str(data.resolve())},
            "policies": [{"card": "mini-policy-a", "n": 4}],
            "rewarders": ["mini-critic-a"],
        },
        out=out / "run",
    )
    print(study.tables.candidates.groupby("policy").correct.mean())
