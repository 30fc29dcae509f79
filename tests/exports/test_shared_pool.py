"""The same rollouts, your reward model: a pool is exported, and judged by another rewarder."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

import bon
from bon.core.errors import BonError
from bon.experiment.cards import load_policy
from bon.exports import export_run, licences
from bon.exports.licences import Licence, licence_of
from bon.exports.pool import source_of
from bon.running.reporting import open_run
from bon.storage.store import Store
from bon.work.setup import prepare
from tests.conftest import echo_experiment
from tests.running.conftest import go_in

HEAD = {**echo_experiment()["rewarders"][2], "name": "mine"}


def candidates(directory: Path) -> dict[str, list[tuple[Any, ...]]]:
    """What each question's candidates say, what was read, and how they ended."""
    found = {}
    with Store(directory, readonly=True) as store:
        for policy in open_run(store).policies:
            for question in store.questions():
                found[f"{policy.card.name} {question.id} {question.text}"] = [
                    (question.options, question.answer, question.meta.get("cluster"),
                     [image.sha256 for image in question.images],
                     row.index, row.text, row.answer, row.outcome)
                    for row in store.candidates(policy.spec, question.key)
                ]  # fmt: skip
    return found


def judged_again(base: Path, pool: str, **more: Any) -> Path:
    raw = {"name": "again", "policies": [{"pool": pool}], "rewarders": [HEAD], **more}
    return go_in(base)(raw, out="again")


def test_another_rewarder_judges_the_same_candidates(run, tmp_path):
    export_run(run, tmp_path / "pool", "pool")
    again = judged_again(tmp_path, "pool")
    assert candidates(again) == candidates(run)
    with Store(again, readonly=True) as store:
        assert store.count("judgements", "rewarder = 'mine'") > 8


def test_it_is_a_dataset_with_images_by_hash_and_a_card(run, tmp_path):
    datasets = pytest.importorskip("datasets")
    export_run(run, tmp_path / "pool", "pool")
    rows = datasets.load_dataset("parquet", data_files=f"{tmp_path}/pool/data/policy.parquet")
    row = rows["train"][0]
    assert row["images"][0].size
    assert len(row["response"]) == len(row["correct"]) == 4
    table = pq.read_table(tmp_path / "pool/data/policy.parquet").to_pylist()
    hashes = {Path(image["path"]).stem for row in table for image in row["images"]}
    with Store(run, readonly=True) as store:
        assert hashes == {image.sha256 for q in store.questions() for image in q.images}
    card = (tmp_path / "pool/README.md").read_text()
    assert "| policy | policy | not stated |" in card
    assert yaml.safe_load(card.split("---")[1])["configs"][0]["config_name"] == "policy"
    (policy,) = yaml.safe_load((tmp_path / "pool/policies.yaml").read_text())["policies"]
    assert (policy["n"], policy["sampling"]["temperature"]) == (4, 1.0)


def test_free_answers_cut_failed_and_clustered_ones_keep_their_grades(tmp_path):
    rows = [
        {"question": f"{i} + {i}?", "answer": str(2 * i), "aliases": [f"{2 * i}.0"],
         "grader": "number", "tolerance": "0.5", "unit": "cm", "cluster": f"c{i // 2}"}
        for i in range(8)
    ]  # fmt: skip
    (tmp_path / "questions.jsonl").write_text("\n".join(map(json.dumps, rows)))
    raw = echo_experiment(failure_rate=0.2, unparsed_rate=0.2)
    raw |= {"questions": {"benchmark": "open_ended", "path": "questions.jsonl"}, "pairs": []}
    raw["policies"][0]["prompt"] = "open"
    directory = go_in(tmp_path)(raw)
    with Store(directory) as store, store.transaction():
        store.db.execute(
            "UPDATE candidates SET finish = 'length', num_tokens = 999, answer = NULL, "
            "outcome = 'unparsed' WHERE \"index\" = 1 AND outcome = 'parsed'"
        )
    export_run(directory, tmp_path / "pool", "pool")
    before, after = candidates(directory), candidates(judged_again(tmp_path, "pool"))
    assert after == before
    assert {row[-1] for rows in before.values() for row in rows} > {"parsed", "error"}


def test_what_may_not_be_passed_on_is_joined_by_id(run, tmp_path, monkeypatch):
    shut = Licence("CC BY-ND", "no derivatives", shareable=False)
    monkeypatch.setattr(licences, "licence_of", lambda name: shut)
    export_run(run, tmp_path / "pool", "pool")
    file = tmp_path / "pool/data/policy.parquet"
    assert not {"question", "options", "images"} & set(pq.read_schema(file).names)
    card = (tmp_path / "pool/README.md").read_text()
    assert "name the benchmark under `questions:`" in card
    assert "**mmmu_pro** (CC BY-ND): no derivatives" in card
    assert yaml.safe_load(card.split("---")[1])["license"] == "other"
    with pytest.raises(BonError, match="neither questions nor options"):
        judged_again(tmp_path, "pool")
    questions = {"benchmark": "mmmu_pro", "path": str(run.parent / "questions.parquet")}
    assert candidates(judged_again(tmp_path, "pool", questions=questions)) == candidates(run)


@pytest.mark.parametrize(
    ("name", "share", "says"),
    [
        ("Apache-2.0", True, ""),
        ("MIT", True, ""),
        ("MIT (its page: research use only)", False, "research use only"),
        ("CC BY-NC 4.0", True, "no commercial use"),
        ("CC BY-NC-ND 4.0", False, "no derivatives"),
        ("OpenAI's terms of service", True, "competing models"),
        ("Qwen Research Licence (non-commercial)", True, "no commercial use"),
        ("not stated", False, "not stated"),
        ("something new", False, "not stated"),
        ("as the data", True, "only you know"),
    ],
)
def test_licences_are_read_by_name(name, share, says):
    found = licence_of(name)
    assert found.shareable == share
    assert says in found.terms
    assert bool(says) == bool(found.terms)


@pytest.mark.parametrize(
    ("model", "source"),
    [
        ("Qwen/Qwen2.5-VL-7B-Instruct", "Qwen/Qwen2.5-VL-7B-Instruct"),
        ("/home/me/checkpoints/mine", "mine"),
        ("../mine", "mine"),
        ("imported:0123", "mine"),
    ],
)
def test_no_path_of_this_machine_names_a_model(model, source):
    raw = {"name": "mine", "engine": "transformers", "model": model, "n": 2}
    assert source_of(load_policy(raw, Path.cwd()).card) == source


def test_one_policy_of_several_is_chosen(run, tmp_path):
    export_run(run, tmp_path / "pool", "pool")
    listed = yaml.safe_load((tmp_path / "pool/policies.yaml").read_text())
    listed["policies"].append({**listed["policies"][0], "name": "other", "licence": "MIT"})
    (tmp_path / "pool/policies.yaml").write_text(yaml.safe_dump(listed))
    shutil.copy(tmp_path / "pool/data/policy.parquet", tmp_path / "pool/data/other.parquet")
    raw = {"name": "again", "rewarders": [HEAD]}
    both = prepare({**raw, "policies": [{"pool": "pool"}]}, tmp_path)
    assert [each.card.name for each in both.policies] == ["policy", "other"]
    one = prepare({**raw, "policies": [{"pool": "pool", "of": "other", "n": 2}]}, tmp_path)
    assert [(p.card.name, p.card.licence, p.card.n) for p in one.policies] == [("other", "MIT", 2)]
    for wrong, message in (
        ({"pool": "pool", "of": "none"}, "holds no policy 'none'"),
        ({"pool": "pool", "name": "mine"}, "holds 2 policies: policy, other"),
        ({"pool": "nowhere"}, "no file or run"),
        ({"pool": "pool", "from": "x"}, "exclude each other"),
    ):
        with pytest.raises(BonError, match=message):
            prepare({**raw, "policies": [wrong]}, tmp_path)


def test_a_pool_of_the_hub_is_judged_from_its_copy_here(run, tmp_path):
    """The hub's own library finds it in its cache, as after a download."""
    pytest.importorskip("huggingface_hub")
    copy = tmp_path / "hub/datasets--someone--rollouts"
    export_run(run, copy / "snapshots/0123", "pool")
    (copy / "refs").mkdir()
    (copy / "refs/main").write_text("0123")
    experiment = {"name": "mine", "policies": [{"pool": "someone/rollouts"}], "rewarders": [HEAD]}
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump(experiment))
    hub = {"HF_HUB_CACHE": str(tmp_path / "hub"), "HF_HUB_OFFLINE": "1"}
    shown = subprocess.run(
        [sys.executable, "-m", "bon", "plan", "mine.yaml"],
        cwd=tmp_path, env={**os.environ, **hub}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert shown.returncode == 0, shown.stderr
    assert "8 questions" in shown.stdout


def test_graded_responses_of_ppe_are_a_pool_and_keep_their_grades(tmp_path):
    """Its columns, as its public readers use them; the right answers are not among them."""
    said = [["So 1.", "Answer: 2", "Answer: 2", "It is 3."], ["Answer: 4", "5", "6", "7"]]
    rows = [
        {"question_id": i, "model_name": model, "prompt": f"{i}?", "scores": scores,
         "sampled_conflict_pairs": [], **{f"response_{n}": t for n, t in enumerate(texts, 1)}}
        for i, texts in enumerate(said)
        for model, scores in (("a", [False, True, True, False]), ("b", [False] * 4))
    ]  # fmt: skip
    (tmp_path / "ppe").mkdir()
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "ppe/train.parquet")
    first = judged_again(tmp_path, "ppe")
    export_run(first, tmp_path / "pool", "pool")
    again = go_in(tmp_path)(
        {"name": "x", "policies": [{"pool": "pool"}], "rewarders": [HEAD]}, out="more"
    )
    for run in (first, again):
        correct = bon.load(run).tables.candidates.groupby("question", sort=False)["correct"]
        assert sorted(map(sum, map(list, dict(list(correct)).values()))) == [0, 0, 2, 2]
        (policy,) = bon.load(run).analyse(draws=100).policies
        assert policy.pass_at_1.value == 0.25
        assert policy.majority.value == (1 + 0.5) / 4  # "2" by two of four; four different ones


def test_a_folder_of_answers_and_a_run_are_pools_too(run, tmp_path):
    (tmp_path / "shared/theirs").mkdir(parents=True)
    export_run(run, tmp_path / "pool", "pool")
    shutil.copy(tmp_path / "pool/data/policy.parquet", tmp_path / "shared/theirs/rows.parquet")
    for pool, name in (("shared/theirs", "theirs"), (str(run), "policy")):
        raw = {"name": "again", "policies": [{"pool": pool}], "rewarders": [HEAD]}
        (policy,) = prepare(raw, tmp_path).policies
        assert (policy.card.name, policy.card.n) == (name, 4)
