"""People with a known error rate at a queue: who is asked what."""

import pytest

from bon.curating.labelling.annotation_queue import (
    LEASE_SECONDS,
    AnnotationQueue,
    Submission,
    shown_order,
)
from bon.curating.labelling.annotations import TIE
from tests.curating.labelled_items import make_bench, verdict

ERROR_RATE = 0.3


def stated(item, annotator, choice):
    order = shown_order(item.key, annotator, len(item.responses))
    said = choice if choice == TIE else str(order.index(int(choice)) + 1)
    return Submission(event=f"{annotator}-{item.id}", item=item.key, choice=said, seconds=4.0)


def test_a_third_is_asked_where_two_differ(tmp_path):
    bench = make_bench(tmp_path / "shapes", pairs=50, images=0)
    queue = AnnotationQueue(bench.directory)
    said = {}
    for name in ("ann", "bob", "cem"):
        said[name] = {}
        while (item := queue.lease_next(name)) is not None:
            said[name][item.key] = verdict(item, name, ERROR_RATE)
            queue.submit(name, stated(item, name, said[name][item.key]))
    assert len(said["ann"]) == len(said["bob"]) == 50
    apart = {key for key in said["ann"] if said["ann"][key] != said["bob"][key]}
    assert said["cem"].keys() == apart
    assert queue.progress("ann").complete == 50


@pytest.mark.parametrize("waits", [0, LEASE_SECONDS + 1])
def test_a_late_answer_is_kept_and_an_item_that_was_left_goes_to_others(tmp_path, waits):
    now = [0.0]
    bench = make_bench(tmp_path / "shapes", pairs=1, images=0, annotators_per_item=1)
    queue = AnnotationQueue(bench.directory, clock=lambda: now[0])
    item = queue.lease_next("ann")
    now[0] += waits
    assert (queue.lease_next("bob") is None) == (waits == 0)
    queue.submit("ann", stated(item, "ann", "0"))
    assert queue.lease_next("ann") is None
    assert queue.progress("ann").answered == 1
