import sqlite3
from dataclasses import replace

import pytest

from bon.core.errors import BonError
from bon.core.records import Candidate, ImageRef, Judgement, PreferencePair, Question
from bon.storage.store import Store

QUESTION = Question("k1", "id1", "set", "What?", ("a", "b"), "A", meta={"x": 1})
PAIR = PreferencePair("p1", "id1", "set", "Which?", ("yes", "no"), 0, group="general")
CANDIDATE = Candidate("c1", "k1", "pol", "spec", 0, "Answer: A", "t1", "A", "parsed", 7)
JUDGEMENT = Judgement("j1", "rew", "rspec", "pair", "p1", "t1", "t2", 0, "first")


def test_rows_come_back_as_they_went_in(tmp_path):
    with Store(tmp_path) as store:
        image = store.images.put(b"bytes of an image")
        store.set_questions([replace(QUESTION, images=(image,))])
        store.set_pairs([("bench", PAIR)])
        store.add_candidates([CANDIDATE])
        listwise = JUDGEMENT._replace(
            key="j2", second=None, shown=("t1", "t2"), outcome="chosen", score=0.0
        )
        store.add_judgements([JUDGEMENT, listwise])
    with Store(tmp_path, readonly=True) as store:
        assert list(store.questions()) == [replace(QUESTION, images=(image,))]
        assert list(store.pairs()) == [("bench", PAIR)]
        assert store.candidates("spec", "k1") == [CANDIDATE]
        assert store.judgements("rspec", "p1") == [JUDGEMENT, listwise]


def test_a_run_directory_can_be_moved_with_its_images(tmp_path):
    with Store(tmp_path / "a") as store:
        store.set_questions([replace(QUESTION, images=(store.images.put(b"image"),))])
    (tmp_path / "a").rename(tmp_path / "b")
    with Store(tmp_path / "b", readonly=True) as store:
        (question,) = store.questions()
        assert isinstance(question.images[0], ImageRef)
        with open(question.images[0].path, "rb") as file:
            assert file.read() == b"image"


def test_the_same_key_is_never_doubled(tmp_path):
    with Store(tmp_path) as store:
        store.add_candidates([CANDIDATE, CANDIDATE])
        store.add_candidates([CANDIDATE._replace(text="another")])
        assert store.candidates("spec", "k1") == [CANDIDATE]


def test_questions_no_longer_asked_are_kept_and_inactive(tmp_path):
    other = replace(QUESTION, key="k2")
    with Store(tmp_path) as store:
        store.set_questions([QUESTION, other])
        store.set_questions([other])
        assert [q.key for q in store.questions()] == ["k2"]
        assert store.question("k1") == QUESTION


def test_two_drivers_on_one_run(tmp_path):
    with Store(tmp_path), pytest.raises(BonError, match="another driver"):
        Store(tmp_path)
    Store(tmp_path).close()


def test_a_reader_beside_a_driver(tmp_path):
    with Store(tmp_path) as driver:
        driver.add_candidates([CANDIDATE])
        driver.commit()
        with Store(tmp_path, readonly=True) as reader:
            assert reader.count("candidates") == 1


def test_no_run_there(tmp_path):
    with pytest.raises(BonError, match="no run in"):
        Store(tmp_path / "nothing", readonly=True)
    assert not (tmp_path / "nothing").exists()


def test_a_damaged_file_is_one_line(tmp_path):
    Store(tmp_path).close()
    path = tmp_path / "run.sqlite"
    path.write_bytes(b"not a database at all" * 400)
    with pytest.raises(BonError, match=r"is not a database.* -> put a copy"):
        Store(tmp_path)
    assert path.exists()


@pytest.mark.parametrize("readonly", [True, False])
def test_an_empty_file_is_named_and_not_begun_anew(tmp_path, readonly):
    (tmp_path / "run.sqlite").touch()
    with pytest.raises(BonError, match=r"is empty \(0 bytes\).* -> put a copy"):
        Store(tmp_path, readonly=readonly)
    assert (tmp_path / "run.sqlite").stat().st_size == 0


def test_what_fails_in_a_transaction_was_never_there(tmp_path):
    with Store(tmp_path) as store:
        store.set_questions([QUESTION])
        store.set_meta(name="one")

        def change():
            with store.transaction():
                store.set_meta(name="two")
                store.add_candidates([CANDIDATE])
                store.set_questions([])
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            change()
    with Store(tmp_path, readonly=True) as store:
        assert store.meta("name") == "one"
        assert list(store.questions()) == [QUESTION]
        assert store.count("candidates") == 0


def test_a_full_disk_keeps_what_was_committed(tmp_path):
    with Store(tmp_path) as store:
        store.add_candidates([CANDIDATE])
        store.commit()
        pages = store.db.execute("PRAGMA page_count").fetchone()[0]
        store.db.execute(f"PRAGMA max_page_count = {pages + 2}")
        rows = [CANDIDATE._replace(key=f"c{i}", text="x" * 4000) for i in range(2, 50)]
        with pytest.raises(BonError, match=r"disk .* is full -> free space"):
            store.add_candidates(rows)
        store.db.rollback()
    with Store(tmp_path, readonly=True) as store:
        assert store.candidates("spec", "k1") == [CANDIDATE]


@pytest.mark.parametrize("version", [1, 99])  # 1: of bon 0.1 to 0.3, whose cards had other keys
def test_another_schema_version_is_refused(tmp_path, version):
    Store(tmp_path).close()
    with sqlite3.connect(tmp_path / "run.sqlite") as db:
        db.execute(f"PRAGMA user_version = {version}")
    db.close()
    before = (tmp_path / "run.sqlite").read_bytes()
    with pytest.raises(BonError, match=f"schema version {version}, .* -> use the version of bon"):
        Store(tmp_path)
    assert (tmp_path / "run.sqlite").read_bytes() == before


def test_rows_are_on_the_disk_before_the_ledger_forgets_their_replies(tmp_path):
    with Store(tmp_path) as store:
        assert store.db.execute("PRAGMA synchronous").fetchone() == (2,)  # FULL


def test_errors_can_be_forgotten(tmp_path):
    with Store(tmp_path) as store:
        store.add_candidates([CANDIDATE, CANDIDATE._replace(key="c2", outcome="error")])
        assert store.forget_errors() == 1
        assert store.count("candidates") == 1
