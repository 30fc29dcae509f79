"""People who label through the page, by keyboard, while the server and tabs die."""

import time

import pytest
from playwright.sync_api import expect

from bon.curating.labelling.annotations import TIE, current, history
from bon.curating.labelling.drafts import Draft, save_drafts
from tests.conftest import accessibility_violations
from tests.curating.labelled_items import make_bench, verdict
from tests.service.server import serving

pytestmark = [pytest.mark.slow, pytest.mark.browser]
ERROR_RATE = 0.3


class Person:
    """Somebody who presses keys; `pressed` is what they meant, item -> choice."""

    def __init__(self, tab, address, bench, name, error_rate=ERROR_RATE):
        self.tab, self.name, self.error_rate = tab, name, error_rate
        self.items = {item.prompt: item for item in bench.items}
        self.pressed = {}
        tab.goto(f"{address}/annotate/{bench.name}")
        tab.get_by_label("Your name").fill(name)
        tab.keyboard.press("Enter")
        expect(tab.locator("#who")).to_be_hidden()

    def before(self):
        """The item that is shown, or None at the end."""
        ready = "#annotate[data-phase=choose], #annotate[data-phase=done]"
        self.tab.wait_for_selector(ready)
        if self.tab.locator("#done").is_visible():
            return None
        return self.items[self.tab.locator("#prompt").inner_text()]

    def key_of(self, item, choice):
        """What to press for a choice, as the responses stand on the screen."""
        if choice == TIE:
            return "0"
        texts = self.tab.locator(".response .text").all_inner_texts()
        return str(texts.index(item.responses[int(choice)]) + 1)

    def answer(self, item, *keys):
        """Press the verdict, what comes after it, and go on."""
        choice = verdict(item, self.name, self.error_rate)
        self.tab.keyboard.press(self.key_of(item, choice))
        self.pressed[item.key] = choice
        for key in keys:
            self.tab.keyboard.press(key)
        expect(self.tab.locator("#go")).to_be_visible()
        self.tab.keyboard.press("Enter")

    def answer_all(self):
        while (item := self.before()) is not None:
            self.answer(item)


def said(bench, name):
    return {
        row.item: row.choice for row in current(bench.annotations_path) if row.annotator == name
    }


def until(condition):
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.05)


def test_the_labelling_page_violates_no_accessibility(tmp_path, tab):
    bench = make_bench(tmp_path / "data" / "benchmarks" / "shapes", pairs=2)
    with serving(tmp_path) as server:
        ann = Person(tab, server.address, bench, "ann")
        item = ann.before()
        assert accessibility_violations(tab) == []
        tab.keyboard.press(ann.key_of(item, TIE))
        expect(tab.locator("#go")).to_be_visible()
        assert accessibility_violations(tab) == []


def test_what_is_pressed_is_what_is_kept(tmp_path, tab):
    bench = make_bench(tmp_path / "data" / "benchmarks" / "shapes", pairs=11)
    new = tab.context.browser.new_context
    with serving(tmp_path) as server:
        ann = Person(tab, server.address, bench, "ann")
        ann.answer_all()
        bob = Person(new().new_page(), server.address, bench, "bob")
        bob.answer_all()
        assert ann.pressed.keys() == bob.pressed.keys() == {item.key for item in bench.items}
        apart = {key for key in ann.pressed if ann.pressed[key] != bob.pressed[key]}
        assert len(apart) >= 3, "the seeds make them disagree"
        cem = Person(new().new_page(), server.address, bench, "cem", error_rate=0)
        cem.answer_all()
        for person in (ann, bob, cem):
            assert said(bench, person.name) == person.pressed
        assert cem.pressed.keys() == apart, "what the others disagree on is adjudicated"
        assert all(0 < row.seconds < 60 for row in current(bench.annotations_path))


def test_undo_tags_reasons_and_drafts_by_keyboard(tmp_path, tab):
    bench = make_bench(tmp_path / "data" / "benchmarks" / "shapes", pairs=3)
    drafts = [Draft(item.key, "tie", "Both miscount.") for item in bench.items]
    save_drafts(bench.drafts_path, drafts)
    with serving(tmp_path) as server:
        ann = Person(tab, server.address, bench, "ann", error_rate=0)
        first = ann.before()
        expect(tab.locator("#after")).to_be_hidden()
        assert "Both miscount" not in tab.content()
        tab.keyboard.press(ann.key_of(first, str(first.better)))
        expect(tab.locator("#draft")).to_contain_text("A model says: Tie. Both miscount.")
        tab.keyboard.press("c")
        tab.keyboard.press("w")
        tab.keyboard.type("one 1 too many")  # keys that mean something elsewhere
        tab.keyboard.press("Enter")
        second = ann.before()
        assert second != first
        tab.keyboard.press("0")
        expect(tab.locator("#draft")).to_be_visible()
        tab.keyboard.press(ann.key_of(second, str(second.better)))
        tab.keyboard.press("Enter")
        ann.answer(ann.before())
        assert ann.before() is None
        rows = {row.item: row for row in current(bench.annotations_path)}
        one, two = rows[first.key], rows[second.key]
        assert (one.choice, one.first) == (str(first.better), str(first.better))
        assert (one.tags, one.rationale) == (("counting",), "one 1 too many")
        assert (two.choice, two.first) == (str(second.better), "tie")
        third = next(item for item in bench.items if item.key not in (first.key, second.key))
        for gone in (third, second):
            tab.keyboard.press("u")
            assert ann.before() == gone
        assert said(bench, "ann").keys() == {first.key}
        tab.keyboard.press("z")
        expect(tab.locator("#zoom")).to_be_visible()
        tab.keyboard.press("1")  # nothing is chosen behind a picture
        tab.keyboard.press("Escape")
        expect(tab.locator("#zoom")).to_be_hidden()
        tab.keyboard.press("x")
        expect(tab.locator("#after")).to_be_visible()
        until(lambda: said(bench, "ann").get(second.key) == "cannot")


def test_a_killed_server_and_a_closed_tab_lose_nothing(tmp_path, tab):
    bench = make_bench(tmp_path / "data" / "benchmarks" / "shapes", pairs=8)
    context = tab.context.browser.new_context()  # its storage outlives its tabs
    with serving(tmp_path) as server:
        ann = Person(context.new_page(), server.address, bench, "ann")
        for _ in range(3):
            ann.answer(ann.before())
        fourth = ann.before()
        server.kill()
        assert said(bench, "ann") == ann.pressed, "on disk before the next was shown"
        ann.answer(fourth)
        expect(ann.tab.locator("#trouble")).to_contain_text("is sent again")
        assert ann.tab.locator("#prompt").inner_text() == fourth.prompt
        server.start()
        fifth = ann.before()
        assert fifth != fourth
        assert said(bench, "ann") == ann.pressed
        expect(ann.tab.locator("#trouble")).to_be_hidden()

        server.kill()
        ann.answer(fifth)
        expect(ann.tab.locator("#trouble")).to_be_visible()
        ann.tab.close()  # with an answer that no server has heard
        server.start()
        ann.tab = context.new_page()
        ann.tab.goto(f"{server.address}/annotate/shapes")
        ann.answer_all()
        assert said(bench, "ann") == ann.pressed
        assert len(ann.pressed) == 8
        events = [row.event for row in history(bench.annotations_path)]
        assert len(events) == len(set(events)) == 8, "nothing twice"
