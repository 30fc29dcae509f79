"""People with a known error rate at a desk: who is asked what, and what the audit makes of it."""

import pytest

from bon.analysis.results import Options
from bon.curating.annotations import TIE
from bon.curating.assigning import LEASE_SECONDS, shown_order
from bon.curating.audit import labelling_of
from bon.curating.consensus import label_audit
from bon.curating.desk import Desk, Stated
from tests.curating.labelled import make_bench, verdict

ERROR_RATE = 0.3


def stated(item, annotator, choice):
    order = shown_order(item.key, annotator, len(item.responses))
    place = None if choice == TIE else order.index(int(choice))
    event = f"{annotator}-{item.id}"
    return Stated(event, item.key, choice if choice == TIE else "", place, seconds=4.0)


def test_the_audit_finds_the_error_rate_of_people_and_the_third_sees_what_they_differ_on(tmp_path):
    bench = make_bench(tmp_path / "shapes", pairs=50, images=0)
    desk = Desk(bench.directory)
    said = {}
    for name in ("ann", "bob", "cem"):
        said[name] = {}
        while (item := desk.ask(name)) is not None:
            said[name][item.key] = verdict(item, name, ERROR_RATE)
            desk.answer(name, stated(item, name, said[name][item.key]))
    assert len(said["ann"]) == len(said["bob"]) == 50
    apart = {key for key in said["ann"] if said["ann"][key] != said["bob"][key]}
    assert apart <= said["cem"].keys()
    assert len(said["cem"].keys() - apart) <= 3, "and gold checks"
    audit = label_audit(labelling_of(bench), Options())
    # Half of the errors are ties, which contradict no label.
    planted = (ERROR_RATE / 2) / (1 - ERROR_RATE / 2)
    for one in audit.annotators:
        assert one.answers == len(said[one.annotator])
        assert one.against_gold.low < planted < one.against_gold.high
    assert desk.progress("ann").complete == 50


@pytest.mark.parametrize("waits", [0, LEASE_SECONDS + 1])
def test_a_late_answer_is_kept_and_an_item_that_was_left_goes_to_others(tmp_path, waits):
    now = [0.0]
    bench = make_bench(tmp_path / "shapes", pairs=1, images=0, annotators_per_item=1, gold_checks=0)
    desk = Desk(bench.directory, clock=lambda: now[0])
    item = desk.ask("ann")
    now[0] += waits
    assert (desk.ask("bob") is None) == (waits == 0)
    desk.answer("ann", stated(item, "ann", "0"))
    assert desk.ask("ann") is None
    assert desk.progress("ann").mine == 1
