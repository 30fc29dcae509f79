"""Run a small study on the embedded miniature, print what it found, and analyse it at another n.

    python examples/run_a_study.py [OUT]

Your own study is the same call with the path of an experiment file (docs/experiment.md); `bon.load`
opens a finished one.
"""

import sys

import bon

out = sys.argv[1] if len(sys.argv) > 1 else "runs/example"
study = bon.demo(out, settings=["questions.limit=20", "pairs.limit=30", "policies.0.n=4"])

print(study.results.finding.sentence)
print(study.leaderboard().to_string(index=False))
print("at n = 2:", study.analyse(n=2).finding.sentence)  # nothing is sampled or judged anew
print("report:", study.report)
