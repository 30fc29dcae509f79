"""What a further row takes, counted where the speed of the machine does not matter."""

import pickle
import sys
import tracemalloc
from collections import Counter
from contextlib import contextmanager

import pytest
from ray import cloudpickle

from bon.core.records import Candidate, Judgement
from bon.dispatch.worker import Reply
from bon.running.runner import make_sources
from bon.running.start import start
from bon.running.tally import Tally
from bon.storage import store as storage
from bon.storage.store import COMMIT_ROWS, Store
from bon.work.completeness import completeness
from bon.work.setup import prepare
from tests.conftest import echo_experiment, write_pairs, write_questions

from .conftest import work_here

CANDIDATE = Candidate("c1", "k1", "pol", "spec", 0, "Answer: A", "t1", "A", "parsed", 7)
JUDGEMENT = Judgement("j1", "rew", "rspec", "pair", "p1", "t1", None, 0, "scored", 0.5)


@contextmanager
def calls():
    """Counts the calls of Python functions."""
    found: Counter[str] = Counter()

    def count(_, event, __):
        found[event] += 1

    sys.setprofile(count)
    try:
        yield found
    finally:
        sys.setprofile(None)


def opened(folder, questions, pairs):
    """An experiment of one scalar rewarder over this much data, and its new run."""
    folder.mkdir()
    write_questions(folder / "questions.jsonl", questions)
    write_pairs(folder / "pairs.jsonl", pairs)
    experiment = echo_experiment()
    experiment["rewarders"] = experiment["rewarders"][2:]
    return prepare(experiment, folder), Store(folder / "run")


def work(folder, questions):
    """What a run of so many questions and pairs takes: rows, calls, and statements by kind."""
    setup, store = opened(folder, questions, questions)
    statements: list[str] = []
    with store:
        start(setup, store, quiet=True)
        store.db.set_trace_callback(statements.append)
        with calls() as found:
            work_here(setup, Tally(setup, store), make_sources(setup, store))
        store.commit()
        store.db.set_trace_callback(None)
        rows = store.count("candidates") + store.count("judgements")
    return Counter(word.split()[0] for word in statements) + found + Counter(rows=rows)


def test_a_further_row_takes_few_calls_and_statements(tmp_path, monkeypatch):
    monkeypatch.setattr(storage, "COMMIT_SECONDS", 1e9)
    work(tmp_path / "warm", 20)  # what is imported and cached on first use
    few, many = work(tmp_path / "few", 100), work(tmp_path / "many", 500)
    more = many - few
    rows = more["rows"]
    assert rows > 3000
    assert more["call"] / rows < 105
    # Of each question its candidates and their judgements; what exists of others is read by page.
    assert more["SELECT"] < 2 * 400 + 20
    assert many["COMMIT"] <= many["rows"] / COMMIT_ROWS + 2
    assert abs(more["INSERT"] - rows) < 100


def test_rows_travel_by_column():
    def travel(count):
        rows = [CANDIDATE._replace(key=f"c{i}") for i in range(count)]
        judged = [JUDGEMENT._replace(key=f"j{i}") for i in range(count)]
        reply = Reply(tuple(rows), tuple(judged), {"engine": "echo"}, bought=("one",))
        with calls() as found:
            assert pickle.loads(cloudpickle.dumps(reply)) == reply
        return found["call"]

    assert travel(200) <= travel(100) + 2  # not one for each row


@pytest.mark.parametrize("kind", ["questions", "pairs"])
def test_counting_a_run_holds_a_page_of_it(tmp_path, kind):
    def peak(count):
        sizes = (count, 1) if kind == "questions" else (1, count)
        setup, store = opened(tmp_path / str(count), *sizes)
        with store:
            start(setup, store, quiet=True)
            tracemalloc.start()
            assert not completeness(setup, store).complete
            _, found = tracemalloc.get_traced_memory()
            tracemalloc.stop()
        return found

    peak(10)
    assert peak(9000) < peak(3000) + 200_000
