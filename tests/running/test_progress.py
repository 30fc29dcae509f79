"""What a run says of its speed and of the time that it still takes, against what it then takes."""

import itertools
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bon.dispatch.source import Source
from bon.running.progress import (
    CURVE_POINTS,
    Pace,
    Reporter,
    format_rate,
    format_time_left,
    note_phase,
)


class Clock:
    now = 1000.0

    def __call__(self):
        return self.now


class Items(Source):
    """Items of which the first `known` and then every `skip`-th lack nothing."""

    def __init__(self, stage, model, total, *, calls=1, known=0, skip=0):
        super().__init__(model, total, calls)
        self.stage = stage
        self._left = iter([[]] * known + [[place + 1] for place in range(total - known)])
        self._skip = skip

    def steps(self):
        for step in self._left:
            yield [] if step and self._skip and step[0] % self._skip == 0 else step


def work(pace, clock, sources, each, *, load=0.0, batch=10, says=None):
    """One worker, a batch at a time, in order; `each` seconds per item by (stage, model)."""
    clock.now += load
    for source in sources:
        source.has_work()
        while tasks := source.take(batch):
            spent = len(tasks) * each[source.stage, source.model]
            clock.now += spent
            source.answer(len(tasks), spent)
            pace.update()
            if says is not None:
                says.append((clock.now, pace.seconds_left()))


def rates(pace):
    return {row.stage: row.rate for row in pace.stages()}


def test_before_any_work_nothing_is_claimed():
    pace = Pace([Items("generate", "p", 10), Items("judge", "r", 10)], Clock())
    assert rates(pace) == {"generate": None, "judge": None}
    assert pace.seconds_left() is None
    assert (format_rate(None), format_time_left(None)) == ("", "")


def test_each_stage_has_the_rate_of_its_own_work_and_keeps_it():
    clock = Clock()
    sources = [Items("generate", "p", 100), Items("benchmark", "r", 400), Items("judge", "r", 50)]
    pace = Pace(sources, clock)
    each = {("generate", "p"): 0.1, ("benchmark", "r"): 0.5, ("judge", "r"): 2.0}
    work(pace, clock, sources, each, load=20.0)
    clock.now += 500
    pace.update()
    assert rates(pace) == pytest.approx({"generate": 10, "benchmark": 2, "judge": 0.5}, rel=0.01)
    assert pace.seconds_left() == 0


def test_a_resumed_run_counts_only_what_it_does_itself():
    clock = Clock()
    sources = [Items("generate", "p", 200, known=200), Items("judge", "r", 200, known=150)]
    pace = Pace(sources, clock)
    says = []
    work(pace, clock, sources, {("judge", "r"): 1.0}, load=20.0, says=says)
    assert rates(pace) == {"generate": None, "judge": pytest.approx(1.0)}
    for at, left in says:
        assert left == pytest.approx(clock.now - at)
    assert sources[0].done == sources[0].total == sources[0].known


def test_nothing_is_claimed_of_a_stage_that_has_not_begun():
    clock = Clock()
    first, *later = Items("benchmark", "a", 100), *(Items("judge", name, 100) for name in "ab")
    pace = Pace([first, *later], clock)
    each = {("benchmark", "a"): 0.2, ("judge", "a"): 0.4}
    work(pace, clock, [first], each)
    assert pace.seconds_left() is None
    work(pace, clock, later[:1], each)
    assert pace.seconds_left() == pytest.approx(40)  # b as a in this stage
    pace.update(workers=4)
    assert pace.seconds_left() == pytest.approx(10)


def test_a_model_that_loads_for_long_does_not_turn_minutes_into_hours():
    clock = Clock()
    sources = [Items("judge", name, 100) for name in "ab"]
    pace, says = Pace(sources, clock), []
    each = {("judge", "a"): 1.0, ("judge", "b"): 1.0}
    for source in sources:
        work(pace, clock, [source], each, load=600.0, says=says)
    assert max(left for _, left in says) == pytest.approx(190)


def test_a_stage_without_items_is_not_shown():
    pace = Pace([Items("generate", "p", 0), Items("judge", "r", 10)], Clock())
    assert [row.stage for row in pace.stages()] == ["judge"]


@settings(max_examples=60)
@given(
    known=st.integers(0, 90),
    skip=st.sampled_from([0, 2, 5]),
    load=st.sampled_from([0.0, 3.0, 60.0]),
    batch=st.integers(1, 15),
    seconds=st.floats(0.01, 30),
)
def test_time_left_comes_true_whatever_was_there_before(known, skip, load, batch, seconds):
    clock = Clock()
    source = Items("judge", "r", 200, known=known, skip=skip)
    pace, says = Pace([source], clock), []
    work(pace, clock, [source], {("judge", "r"): seconds}, load=load, batch=batch, says=says)
    end = clock.now
    later = [(at, left) for at, left in says if at > says[0][0] + 1.0]
    for at, left in later[len(later) // 2 :]:
        assert left == pytest.approx(end - at, rel=0.35, abs=seconds * (batch + skip + 1))


def test_a_rate_follows_what_happens_now():
    clock = Clock()
    source = Items("judge", "r", 1000)
    pace = Pace([source], clock)
    for spent in itertools.chain([1.0] * 30, [6.0] * 12):
        tasks = source.take(10)
        clock.now += spent
        source.answer(len(tasks), spent)
        pace.update()
    assert rates(pace)["judge"] == pytest.approx(10 / 6, rel=0.01)


@pytest.mark.parametrize("between", [0.0, 0.0001])
def test_batches_that_come_back_together_were_not_made_in_that_moment(between):
    """As at the end of a resumed run, whose few missing rows are in flight at once."""
    clock = Clock()
    source = Items("judge", "r", 120, known=100)
    pace = Pace([source], clock)
    source.has_work()
    batches = [source.take(10), source.take(10)]
    clock.now += 20.0
    for workers, batch in zip((2, 1), batches, strict=True):  # the first leaves the other at work
        source.answer(len(batch), 20.0)
        pace.update(workers)
        clock.now += between
    assert rates(pace) == {"judge": pytest.approx(1.0)}


@pytest.mark.parametrize(
    ("rate", "said"), [(3.14, "3.1/s"), (0.5, "30.0/min"), (0.004, "14.4/h"), (1e-6, "0.0/h")]
)
def test_slow_rates_are_said_in_a_unit_that_shows_them(rate, said):
    assert format_rate(rate) == said


@pytest.mark.parametrize(
    ("left", "shown"),
    [(61.4, "about 61 s left"), (300.0, "about 5 min left"), (9000.0, "about 2 h left")],
)
def test_time_left_in_words(left, shown):
    assert format_time_left(left) == shown


def test_the_file_has_the_whole_curve_in_few_points_and_keeps_it(tmp_path, monkeypatch):
    monkeypatch.setattr("bon.running.progress.FILE_SECONDS", 0.0)
    file, source = tmp_path / "progress.json", Items("judge", "r", 1000)
    with Reporter([source], quiet=True, file=file) as reporter:
        while tasks := source.take(2):
            source.answer(len(tasks), 1.0)
            reporter.update()
    note_phase(file, "analysing")
    progress = json.loads(file.read_text())
    done = [point["judging candidates"] for point in progress["curve"]]
    assert progress["phase"] == "analysing"
    assert CURVE_POINTS / 3 < len(done) <= CURVE_POINTS
    assert done == sorted(done)
    assert (done[0], done[-1]) == (0, 1000)
    assert progress["curve"][0]["seconds"] <= progress["curve"][-1]["seconds"]
