"""Every reader and grader of the cases in this folder, and what each makes of a case."""

import re
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache, partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from bon.core.text import option_letters
from bon.engines.base import Sample
from bon.experiment.config import ScoreRule, VerdictRule
from bon.experiment.yamlfile import load_yaml
from bon.graders import Gold, is_usable, value
from bon.policies.extractors import EXTRACTORS, extract_answer
from bon.rewarders.reply_parsing import read_score, read_verdict
from tests.rewarders.reply_rules import rule_of

FOLDER = Path(__file__).parent
FOUR = ["a red ball", "a blue cube", "a green cone", "a grey disc"]
SOLUTIONS = 4  # of a listwise reply
OTHER = "0.123456789"
"""The right answer where a reply says none: whatever is read is wrong."""


class Case(NamedTuple):
    """A case with the settings of its block."""

    kind: str
    about: str
    case: dict[str, Any]

    @property
    def says(self) -> Any:
        """What a careful person reads; None for nothing."""
        return self.case["says"]


def cases() -> Iterator[Case]:
    """Yield every case; its kind is the name of its file, up to the first underscore."""
    for path in sorted(FOLDER.glob("*.yaml")):
        for block in load_yaml(path.read_text("utf-8")):
            shared = {key: value for key, value in block.items() if key != "cases"}
            for case in block["cases"]:
                yield Case(path.stem.partition("_")[0], path.name, shared | case)


Outcome = str
"""`right`, `wrong`, `unread`, `silent` (read where nothing is said), or `quiet`."""


def outcome(read: Any, says: Any) -> Outcome:
    """Compare what was read with what is said."""
    if read is None:
        return "quiet" if says is None else "unread"
    return "silent" if says is None else "right" if read == says else "wrong"


# ------------------------------------------------------------------ letters


def _letter(name: str, case: dict[str, Any]) -> str | None:
    options = case.get("options", FOUR)
    return EXTRACTORS[name](case["reply"], option_letters(options), options)


def _math_verify_letter(case: dict[str, Any]) -> str | None:
    from math_verify import StringExtractionConfig, parse

    letters = tuple(option_letters(case.get("options", FOUR)))
    found = parse(
        case["reply"], [StringExtractionConfig(letters)], "no_fallback", parsing_timeout=None
    )
    return str(found[0]).upper() if found else None


def _lighteval_letter(case: dict[str, Any]) -> str | None:
    from lighteval.metrics.utils import extractive_match_utils as lighteval
    from lighteval.tasks.requests import Doc
    from lighteval.utils.language import Language

    options = list(case.get("options", FOUR))
    rules = lighteval.get_extraction_regexes(
        Doc("", options, 0),
        [lighteval.IndicesExtractionConfig("NativeLetters")],
        Language.ENGLISH,
    )
    found = lighteval.extract_target_from_pred(case["reply"], rules)
    return str(found[0]) if found else None


# ------------------------------------------------------------------ numbers and boxes


def _answer(grader: str, case: dict[str, Any]) -> str | None:
    asked = {"grader": grader, "question": case.get("question", "")}
    answer = extract_answer(case["reply"], (), **asked).letter
    return _same(answer, case, grader)


def _same(answer: str | None, case: dict[str, Any], grader: str = "number") -> str | None:
    """Return what is said if the answer equals it, another text if not, None if it is unread."""
    worth = None if answer is None else value(grader, answer, Gold((case["says"] or OTHER,)))
    return None if worth is None else case["says"] if worth and case["says"] else f"{answer} (!)"


_FLEXIBLE = re.compile(r"-?[$0-9.,]{2,}|-?[0-9]+")


def _flexible(case: dict[str, Any]) -> str | None:
    """Apply lm-eval's flexible-extract: the last number of the reply."""
    found = _FLEXIBLE.findall(case["reply"])
    return _same(found[-1].strip("$,.") or None, case) if found else None


def _math_verify_answer(case: dict[str, Any]) -> str | None:
    from math_verify import parse, verify

    found = parse(case["reply"], parsing_timeout=None)
    if not found:
        return None
    gold = parse(case["says"] or OTHER, parsing_timeout=None)
    return case["says"] if case["says"] and verify(gold, found, timeout_seconds=None) else "(!)"


# ------------------------------------------------------------------ judgements


@cache
def _rule(card: str) -> VerdictRule | ScoreRule:
    return rule_of(card).rule


def _judgement(reader: str, case: dict[str, Any]) -> Any:
    rule = _rule(case["card"]) if "card" in case else None
    if rule is None:
        kind = VerdictRule if "first" in case["rule"] else ScoreRule
        rule = kind(**case["rule"])
    rule = rule.model_copy(update={"reader": reader})
    cut = case.get("cut", False)
    if isinstance(rule, VerdictRule):
        read = read_verdict(case["reply"], rule, cut=cut).outcome
        return None if read == "unparsed" else read
    score = read_score(Sample(case["reply"], 1), rule, cut=cut).score
    listed = "listwise" not in case.get("card", "") or score in range(1, SOLUTIONS + 1)
    return score if listed else None


Read = Callable[[dict[str, Any]], Any]
_MATH = find_spec("math_verify") is not None
READERS: dict[str, dict[str, Read]] = {
    "letters": {
        "bon strict": partial(_letter, "strict"),
        "MMMU-Pro (bon official)": partial(_letter, "official"),
        "lmms-eval": partial(_letter, "lmms-eval"),
        "VLMEvalKit": partial(_letter, "vlmevalkit"),
        **({"math-verify": _math_verify_letter} if _MATH else {}),
        **({"lighteval": _lighteval_letter} if find_spec("lighteval") else {}),
    },
    "sentences": {
        "bon number": partial(_answer, "number"),
        "lm-eval flexible-extract": _flexible,
        **({"math-verify": _math_verify_answer} if _MATH else {}),
    },
    "boxes": {
        **({"bon math": partial(_answer, "math")} if _MATH else {}),
        **({"math-verify": _math_verify_answer} if _MATH else {}),
    },
    "judgements": {
        "bon strict": partial(_judgement, "strict"),
        "published (last match)": partial(_judgement, "published"),
    },
}


def graded(case: dict[str, Any]) -> bool | None:
    """Return whether a grader gives what the case says; None if its package is missing."""
    if not is_usable(case["grader"]):
        return None
    golds = case["gold"] if isinstance(case["gold"], list) else [case["gold"]]
    gold = Gold(tuple(golds), case.get("tolerance", ""), case.get("unit", ""))
    worth = value(case["grader"], case["answer"], gold)
    expected = case["worth"]
    if worth is None or expected is None:
        return worth == expected
    return abs(worth - expected) < 1e-9


def table() -> dict[tuple[str, str], Counter[Outcome]]:
    """Return the outcomes by kind and reader."""
    counts: dict[tuple[str, str], Counter[Outcome]] = {}
    for kind, _, case in cases():
        for name, read in READERS.get(kind, {}).items():
            counts.setdefault((kind, name), Counter())[outcome(read(case), case["says"])] += 1
        if kind == "grading" and (same := graded(case)) is not None:
            counts.setdefault((kind, "bon graders"), Counter())["right" if same else "wrong"] += 1
    return counts
