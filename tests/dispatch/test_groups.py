"""How many items are sent together."""

import pytest

from bon.dispatch.groups import Group, Worker
from bon.dispatch.source import Source
from bon.experiment.config import ClusterConfig, Placement


class Some(Source):
    stage = "judge"

    def steps(self):
        yield None


def group(*, workers=1, total=1000, answered=0, seconds=0.0, open_=0):
    source = Some("m", total, 1)
    source.answer(answered, seconds)
    source.open = open_
    made = Group(Placement(), {}, [source])
    made.workers = [Worker(None, None) for _ in range(workers)]
    return made, source


@pytest.mark.parametrize(
    ("state", "size"),
    [
        ({}, 32),  # nothing is known yet
        ({"answered": 32, "seconds": 0.0}, 128),
        ({"answered": 32, "seconds": 1.0}, 64),  # two seconds' worth
        ({"answered": 32, "seconds": 320.0}, 32),  # slow engines want many at once
        ({"answered": 936, "seconds": 1.0, "open_": 32}, 128),  # one worker has the rest anyway
        ({"workers": 4, "answered": 200, "seconds": 0.1}, 100),
        ({"workers": 4, "answered": 800, "seconds": 0.1, "open_": 40}, 20),
        ({"workers": 4, "answered": 990, "seconds": 0.1, "open_": 4}, 8),
    ],
)
def test_batches_follow_what_items_take_and_what_is_left(state, size):
    made, source = group(**state)
    assert made.batch_size(source, ClusterConfig()) == size


def test_a_batch_of_the_experiment_is_kept():
    made, source = group(workers=2, answered=990, seconds=0.1)
    assert made.batch_size(source, ClusterConfig(batch=50)) == 50
    made, source = group(answered=32, seconds=0.1)
    assert made.batch_size(source, ClusterConfig(spending_cap=1.0)) == 32
