"""The process that compares formulas: lines [first, second] in, true or false out.

    python -m bon.graders.formulas SECONDS

It ends itself at a formula that takes more CPU time, and with its input. Only LaTeX is parsed:
other expressions would be evaluated as Python.
"""

import json
import logging
import resource
import signal
import sys

from math_verify import LatexExtractionConfig, parse, verify
from sympy import Expr, N

MEMORY = 4 << 30
CLOSE = 1e-5
"""The relative difference up to which two values are one."""


def equal(first: str, second: str) -> bool:
    """Return whether two formulas have the same value, in either direction."""
    own, right = (
        parse(f"${text}$", [LatexExtractionConfig()], "no_fallback", parsing_timeout=None)
        for text in (first, second)
    )
    if not (own and right and verify(right, own, timeout_seconds=None)):
        return False
    # math-verify rounds to six decimals, where all tiny values are one.
    values = [parsed[0] for parsed in (own, right)]
    if all(isinstance(value, Expr) and value.is_number for value in values):
        one, other = (abs(N(value, 30)) for value in values)
        return bool(abs(one - other) <= CLOSE * max(one, other))
    return True


def main() -> None:
    """Answer lines until the input ends."""
    seconds = int(sys.argv[1])
    logging.disable()
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    equal("(x+1)^2", "x^2+2x+1")  # imports what is imported on use
    print("ready", flush=True)
    for line in sys.stdin:
        signal.setitimer(signal.ITIMER_PROF, seconds)
        try:
            same = equal(*json.loads(line))
        except Exception:
            same = False
        signal.setitimer(signal.ITIMER_PROF, 0)
        print(json.dumps(same), flush=True)


if __name__ == "__main__":
    main()
