"""The analysis and report of a large run, by stage, and its estimators beside plain loops.

python tools/bench/bench_evidence.py [--rewarders 100 --questions 1730 --draws 10000]
"""

import argparse

from measured import Side, note

from tools.bench_analysis import large, small


def main() -> None:
    """100 rewarders × 1,730 questions × 64 candidates and 1,250 pairs, unless told."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rewarders", type=int, default=100)
    parser.add_argument("--questions", type=int, default=1730)
    parser.add_argument("--draws", type=int, default=10_000)
    a = parser.parse_args()
    small()
    wall, cpu = large(a.rewarders, a.questions, 64, 1250, a.draws)
    size = f"{a.rewarders} x {a.questions:,} x 64, {a.draws:,} draws"
    note(f"evidence and plots, {size}", "s", Side("bon", wall, cpu, wall), at_most=12)


if __name__ == "__main__":
    main()
