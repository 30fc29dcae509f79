"""Policies and rewarders that are read `from` files and runs, judged like any other."""

import json
from pathlib import Path

import pytest

from bon.core.errors import BonError
from bon.planning.plan import make_plan
from bon.running.reporting import open_run
from bon.storage.store import Store
from bon.work.completeness import completeness
from bon.work.setup import prepare

OPTIONS = ["one", "two", "three"]


def judged(directory: Path, name: str) -> dict[tuple[str, ...], str]:
    """(item, first, second) -> outcome of one rewarder."""
    with Store(directory, readonly=True) as store:
        sql = "SELECT item, first, second, vote, outcome, score FROM judgements WHERE rewarder = ?"
        return {tuple(map(str, row[:4])): str(row[4:]) for row in store.query(sql, (name,))}


def complete(directory: Path) -> bool:
    with Store(directory, readonly=True) as store:
        return completeness(open_run(store), store).complete


def answers_of(directory: Path, path: Path) -> Path:
    """What a run's policy said, as a file of answers in another order."""
    rows = []
    with Store(directory, readonly=True) as store:
        (policy,) = open_run(store).policies
        for question in store.questions():
            said = [row.text for row in store.candidates(policy.spec, question.key)]
            rows.append({
                "id": question.id, "question": question.text, "options": list(question.options),
                "answer": question.answer, "response": said,
            })  # fmt: skip
    path.write_text("".join(json.dumps(row) + "\n" for row in reversed(rows)))
    return path


@pytest.fixture
def sampled(go, make_experiment):
    """A run with its own candidates, and the experiment that made it."""
    experiment = make_experiment()
    return go(experiment, out="sampled"), experiment


@pytest.mark.parametrize("source", ["answers.jsonl", "sampled"])
def test_candidates_from_elsewhere_are_judged_as_if_they_were_sampled(
    go, sampled, tmp_path, source
):
    directory, experiment = sampled
    answers_of(directory, tmp_path / "answers.jsonl")
    wanted = {**experiment, "policies": [{"from": source, "name": "imported"}]}
    other = go(wanted, out="other")
    for rewarder in ("judge", "critic"):
        assert judged(other, rewarder) == judged(directory, rewarder)
        assert judged(other, rewarder)
    assert complete(other)
    (work,) = make_plan(prepare(wanted, tmp_path), other).policies
    assert work.to_do == 0


def test_all_policies_and_rewarders_of_a_run_are_taken(go, make_experiment):
    experiment = make_experiment()
    (policy,) = experiment["policies"]
    settings = {**policy.get("engine_args", {}), "accuracy": 0.3}
    experiment["policies"] = [policy, {**policy, "name": "second", "engine_args": settings}]
    directory = go(experiment, out="sampled")
    taken = {"policies": [{"from": "sampled"}], "rewarders": [{"from": "sampled"}]}
    other = go({**experiment, **taken}, out="other")
    with Store(other, readonly=True) as store:
        names = [policy.card.name for policy in open_run(store).policies]
    assert names == [policy["name"], "second"]
    for rewarder in ("judge", "critic"):
        assert judged(other, rewarder) == judged(directory, rewarder)
    assert complete(other)


def test_judgements_of_a_run_are_gone_on_with(go, sampled, tmp_path):
    directory, experiment = sampled
    with Store(directory) as store:
        store.db.execute("UPDATE judgements SET seconds = 77")
    other = go({**experiment, "policies": [{"from": "sampled"}]}, out="other")
    with Store(other, readonly=True) as store:
        assert store.count("judgements", "seconds = 77") == store.count("judgements") > 0


def test_questions_come_with_the_answers(go, sampled, tmp_path):
    directory, experiment = sampled
    answers_of(directory, tmp_path / "answers.jsonl")
    del experiment["questions"]
    other = go({**experiment, "policies": [{"from": "answers.jsonl"}]}, out="other")
    with Store(other, readonly=True) as store:
        (policy,) = open_run(store).policies
        assert (policy.card.name, policy.card.n) == ("answers", 4)
        assert store.count("questions", "active > 0") == 12
        assert {row.text for q in store.questions() for row in store.candidates(policy.spec, q.key)}
    assert complete(other)
    few = {**experiment, "policies": [{"from": "sampled", "n": 2}], "questions": {"limit": 5}}
    with Store(go(few, out="few"), readonly=True) as store:
        assert (store.count("questions", "active > 0"), store.count("candidates")) == (5, 10)


def test_questions_that_nobody_answered_are_said(go, sampled, tmp_path):
    directory, experiment = sampled
    path = answers_of(directory, tmp_path / "answers.jsonl")
    path.write_text("".join(path.read_text().splitlines(keepends=True)[3:]))
    other = go({**experiment, "policies": [{"from": "answers.jsonl"}]}, out="other")
    assert complete(other)
    with Store(other, readonly=True) as store:
        assert "answers answers 9 of 12 questions." in store.meta("notes")


def test_imported_scores_stand_beside_our_own_judgements(go, sampled, tmp_path):
    directory, experiment = sampled
    with Store(directory, readonly=True) as store:
        scores = [
            {"rewarder": "theirs", "question": question.id, "scores": [0.1, 0.4, 0.3, 0.2]}
            for question in store.questions()
        ]
        pairs = [
            {"rewarder": "theirs", "pair": pair.id, "chosen": 2, "rejected": 1}
            for _, pair in store.pairs()
        ]
    (tmp_path / "scores.jsonl").write_text("".join(json.dumps(row) + "\n" for row in scores))
    (tmp_path / "pairs_of_theirs.jsonl").write_text("".join(json.dumps(r) + "\n" for r in pairs))
    experiment["rewarders"] += [
        {"from": ["scores.jsonl", "pairs_of_theirs.jsonl"], "family": "Qwen2.5-VL-7B"},
        {"from": {"files": ["sampled"], "of": "critic"}, "name": "critic-then", "family": "Gemma"},
    ]
    other = go({**experiment, "policies": [{"from": "sampled"}]}, out="other")
    kept = {key[0] for key in judged(other, "theirs")}
    with Store(other, readonly=True) as store:
        assert kept == {q.key for q in store.questions()} | {p.key for _, p in store.pairs()}
        families = [one.card.family for one in open_run(store).rewarders]
    assert families[-2:] == ["Qwen2.5-VL-7B", "Gemma"]
    assert len(judged(other, "theirs")) > 12 + 9
    assert judged(other, "critic-then") == judged(other, "critic")
    assert complete(other)
    with Store(other, readonly=True) as store:  # as written down, without the files
        names = [one.card.name for one in open_run(store).rewarders]
    assert names[-2:] == ["theirs", "critic-then"]


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({"options": ["x", *OPTIONS]}, "question 'q0': its options there"),
        ({"answer": "C"}, "question 'q0': its right answer there: 'C', here: "),
        ({"id": "another"}, "this experiment has none of the questions of"),
    ],
)
def test_answers_to_other_questions_are_refused(go, sampled, tmp_path, row, said):
    directory, experiment = sampled
    path = answers_of(directory, tmp_path / "answers.jsonl")
    with Store(directory, readonly=True) as store:
        ids = [question.id for question in store.questions()]
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    (first,) = [one for one in rows if one["id"] == ids[0]]
    said = said.replace("q0", ids[0])
    path.write_text(json.dumps({**first, **row}) + "\n")
    with pytest.raises(BonError, match=said):
        go({**experiment, "policies": [{"from": "answers.jsonl"}]}, out="other")


def test_a_column_of_another_name_is_named_where_the_file_is_named(go, sampled, tmp_path):
    directory, experiment = sampled
    path = answers_of(directory, tmp_path / "answers.jsonl")
    path.write_text(path.read_text().replace('"response"', '"output"'))
    with pytest.raises(BonError, match=r"`from: \{columns: \{response: COLUMN\}\}`"):
        go({**experiment, "policies": [{"from": "answers.jsonl"}]}, out="other")
    source = {"files": ["answers.jsonl"], "columns": {"response": "output"}}
    assert complete(go({**experiment, "policies": [{"from": source}]}, out="named"))


def test_what_cannot_be_read_from_there_is_one_line(go, sampled, tmp_path):
    directory, experiment = sampled
    answers_of(directory, tmp_path / "answers.jsonl")
    (tmp_path / "scores.jsonl").write_text('{"rewarder": "r", "question": "q", "scores": [1]}\n')

    def refused(said: str, **changed: object) -> None:
        with pytest.raises(BonError, match=said):
            prepare({**experiment, **changed}, tmp_path)

    refused("no file or run", policies=[{"from": "missing.jsonl"}])
    refused("holds scores, not answers", policies=[{"from": "scores.jsonl"}])
    refused("holds answers, not scores", rewarders=[{"from": "answers.jsonl"}])
    refused("holds 4 candidates per question", policies=[{"from": "answers.jsonl", "n": 5}])
    refused("has no key 'file'|unknown key", policies=[{"from": {"file": "answers.jsonl"}}])
    refused(
        "no 'nobody'.*judge, critic", rewarders=[{"from": {"files": ["sampled"], "of": "nobody"}}]
    )


def test_a_file_that_changed_is_another_model(sampled, tmp_path):
    directory, experiment = sampled
    path = answers_of(directory, tmp_path / "answers.jsonl")
    wanted = {**experiment, "policies": [{"from": "answers.jsonl"}]}
    before = prepare(wanted, tmp_path).policies[0].spec
    assert prepare(wanted, tmp_path).policies[0].spec == before
    path.write_text(path.read_text().replace("nswer", "NSWER"))
    assert prepare(wanted, tmp_path).policies[0].spec != before


def test_candidates_without_texts_are_not_judged(go, sampled, tmp_path):
    _, experiment = sampled
    from bon.importing.import_files import import_files

    rows = [
        {"id": f"q{i}", "question": "?", "candidates": [{"correct": True}, {"correct": False}]}
        for i in range(3)
    ]
    table = tmp_path / "right.jsonl"
    table.write_text("".join(json.dumps(row) + "\n" for row in rows))
    import_files([table], "p", tmp_path / "bare", quiet=True)
    del experiment["questions"]
    with pytest.raises(BonError, match="their texts were not imported"):
        go({**experiment, "policies": [{"from": "bare"}]}, out="other")
