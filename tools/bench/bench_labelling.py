"""Does the audit find what was planted? People with a known error rate label through the page.

    python tools/bench/bench_labelling.py RUN [--items 110] [--errors 0.12] [--mislabelled 9]

A benchmark is proposed from the run and some of its labels are turned around. Two annotators who
err at that rate, and a third where they disagree, answer by keyboard in headless Chromium; then it
is audited. Prints what was planted beside what the audit says.
"""

import argparse
import random
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from playwright.sync_api import sync_playwright

from bon.analysis.results import Estimate
from bon.curating.audit import write_audit
from bon.curating.items import CuratedItem, write_items
from bon.curating.judged_runs import begin
from bon.curating.labelling.annotations import current
from bon.curating.propose import propose
from bon.curating.workbench import Workbench, open_workbench
from tests.conftest import CHROMIUM
from tests.curating.test_annotate_browser import Person
from tests.service.server import serving


class Annotator(Person):
    """Somebody who knows what is right and errs now and then."""

    def __init__(self, tab: Any, address: str, bench: Workbench, name: str, errors: float) -> None:
        super().__init__(tab, address, bench, name, errors)
        self.bench, self.draws, self.erred = bench, random.Random(name), 0

    def before(self) -> CuratedItem | None:
        """The item that is shown: several may be about one question."""
        self.tab.wait_for_selector("#annotate[data-phase=choose], #annotate[data-phase=done]")
        if self.tab.locator("#done").is_visible():
            return None
        prompt = self.tab.locator("#prompt").inner_text()
        shown = sorted(self.tab.locator(".response .text").all_inner_texts())
        (found,) = [
            item
            for item in self.bench.items
            if item.prompt == prompt and sorted(item.responses) == shown
        ]
        return found

    def answer_as(self, truth: dict[str, int | None]) -> int:
        """Answer everything that is asked; how many answers that were."""
        while (item := self.before()) is not None:
            right = truth[item.key]
            wrong = [place for place in range(len(item.responses)) if place != right]
            errs = self.draws.random() < self.error_rate
            self.erred += errs
            choice = str(self.draws.choice(wrong) if errs else right)
            self.tab.keyboard.press(self.key_of(item, choice))
            self.pressed[item.key] = choice
            self.tab.wait_for_selector("#go:visible")
            self.tab.keyboard.press("Enter")
        return len(self.pressed)


def main() -> None:
    """Plant, label, audit, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", type=Path)
    parser.add_argument("--items", type=int, default=110)
    parser.add_argument("--errors", type=float, default=0.12)
    parser.add_argument("--mislabelled", type=int, default=9)
    parser.add_argument("--seed", type=int, default=5)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        bench, truth, planted = prepared(Path(folder), args)
        answers = erred = 0
        with sync_playwright() as playwright, serving(Path(folder)) as server:
            browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
            for name in ("ann", "bob", "cem"):
                tab = browser.new_context().new_page()
                person = Annotator(tab, server.address, bench, name, args.errors)
                answers += person.answer_as(truth)
                erred += person.erred
                kept = [row for row in current(bench.annotations_path) if row.annotator == name]
                assert {row.item: row.choice for row in kept} == person.pressed
        report(bench, planted, answers, erred)


def prepared(
    folder: Path, args: argparse.Namespace
) -> tuple[Workbench, dict[str, int | None], set[str]]:
    """The benchmark with some labels turned around, what is right, and whose were turned."""
    where = folder / "data" / "benchmarks" / "planted"
    begin([args.run], where, items=args.items, seed=args.seed)
    propose(open_workbench(where), quiet=True)
    items = open_workbench(where).items
    truth = {item.key: item.better for item in items}
    keys = [item.key for item in items]
    planted = set(random.Random(args.seed).sample(keys, args.mislabelled))
    turned = [replace(item, better=item.wrong) if item.key in planted else item for item in items]
    bench = open_workbench(where)
    write_items(turned, bench.items_path)
    return bench, truth, planted


def report(bench: Workbench, planted: set[str], answers: int, erred: int) -> None:
    """What was planted, beside what the audit says."""
    found = write_audit(bench)
    contradicted = set(found.contradicted)
    print(f"annotators erred in {erred} of {answers} answers ({erred / answers:.1%})")
    print(
        f"labels turned around: {len(planted)} of {found.items} ({len(planted) / found.items:.1%})"
    )
    print(f"  audit: {said(found.label_error)}")
    print(f"contradicted: {len(contradicted)} items, {len(contradicted & planted)} of them turned")


def said(one: Estimate) -> str:
    """A share with its interval."""
    if one.value is None or one.low is None or one.high is None:
        return "unknown"
    return f"{one.value:.1%} [{one.low:.1%}, {one.high:.1%}]"


if __name__ == "__main__":
    main()
