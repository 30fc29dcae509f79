"""`bon plan`: its counts are those of the code that asks."""

import gzip
import json
import os
import subprocess
import sys
import threading
from datetime import date, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from typer.testing import CliRunner

from bon.commands.main import app
from bon.commands.plan_text import show_plan
from bon.core.errors import BonError
from bon.core.records import Candidate, Judgement
from bon.experiment.config import RewarderCard
from bon.planning.plan import make_plan
from bon.policies.generate import candidate_key
from bon.rewarders.item_judging import Protocol, max_calls, missing_calls
from bon.running.start import start
from bon.storage.store import Store
from bon.work import preflight
from bon.work.catalogue import listing
from bon.work.preflight import check_models
from bon.work.setup import find_experiment, prepare, read_experiment, shipped_experiments
from bon.work.sources import GenerateSource
from tests.running.conftest import go_in

ARITY = {"pairwise": "two", "pointwise": "one", "listwise": "many"}
RULES = {"verdict": {"pattern": "(x)"}, "score": {"pattern": "(x)"}}


def asked(card, design, keys, votes):
    """Judgements that the judging code makes, every verdict being `first`."""
    protocol = Protocol("s", votes, design)
    known = []
    while found := missing_calls(card, ARITY[card.kind], keys, "item", protocol, known):
        for call in found:
            many = card.kind == "listwise"
            known += [
                Judgement(
                    key=f"{len(known)}-{vote}", rewarder="r", spec="s", item_kind="question",
                    item="item", first=call.shown[0], vote=vote,
                    second=call.shown[1] if card.kind == "pairwise" else None,
                    outcome="chosen" if many else "first", score=0.0 if many else None,
                    shown=call.shown if many else (),
                )
                for vote in call.votes
            ]  # fmt: skip
    return len(known)


@pytest.mark.parametrize("kind", list(ARITY))
@pytest.mark.parametrize("design", ["all_pairs", "race", "knockout"])
@pytest.mark.parametrize("orders", ["both", "random"])
def test_calls_are_those_that_the_judge_makes(kind, design, orders):
    card = RewarderCard(name="r", kind=kind, orders=orders, window=3, **RULES)
    for responses in (1, 2, 3, 5, 8):
        keys = [f"k{place}" for place in range(responses)]
        found = max_calls(card, design, responses, 2)
        assert asked(card, design, keys, 2) == found, responses


@pytest.mark.parametrize(("days", "said"), [(-1, "was retired on"), (90, "")])
def test_a_model_that_its_vendor_retires(days, said, make_experiment, tmp_path):
    experiment = make_experiment()
    experiment["rewarders"][0]["retires"] = str(date.today() + timedelta(days=days))
    lines = [line for line in plan_of(experiment, tmp_path).warnings if "retire" in line]
    assert bool(lines) == bool(said)
    assert all(said in line and "judge" in line for line in lines)
    setup = prepare(experiment, tmp_path)
    if days < 0:
        with pytest.raises(BonError, match=r"was retired on .* -> take a newer card"):
            check_models(setup, ["judge"], here=True)
    else:
        check_models(setup, ["judge"], here=True)


def test_a_checkpoint_that_these_versions_cannot_load_is_refused(make_experiment, tmp_path):
    experiment = make_experiment()
    judge = experiment["rewarders"][0]
    judge.update(engine="transformers", engine_args={}, model="owner/old")
    for needs, refused in ((">=4.0", False), (">=4.0,<4.49", True)):
        setup = prepare(
            {
                **experiment,
                "rewarders": [{**judge, "needs": {"transformers": f"transformers{needs}"}}],
            },
            tmp_path,
        )
        found = [str(error) for error in preflight.mistakes(setup, ["judge"], here=True)]
        said = "owner/old needs transformers>=4.0,<4.49 (transformers here: "
        assert any(said in error for error in found) is refused
    rows = {row["name"]: row["run"] for row in listing("rewarders")}
    assert rows["molmo-7b-judge"].startswith("cannot: needs transformers<4.49 (transformers here: ")
    assert rows["phi-3.5-vision-judge"] == "no"  # vLLM has code of its own


def test_a_problem_of_several_cards_is_said_once(make_experiment, tmp_path, monkeypatch):
    monkeypatch.setattr(preflight, "_GPUS", ())
    experiment = make_experiment()
    for card in experiment["rewarders"][:2]:
        card["placement"] = {"gpus": 1}
    names = [card["name"] for card in experiment["rewarders"][:2]]
    (error,) = preflight.mistakes(prepare(experiment, tmp_path), names, here=True)
    assert error.message.startswith(f"cards {names[0]!r}, {names[1]!r}: 1 GPU per actor is needed")


def plan_of(experiment, tmp_path, out=None):
    return make_plan(prepare(experiment, tmp_path), out)


def test_local_files_are_counted_and_limits_kept(make_experiment, tmp_path):
    experiment = make_experiment(questions=12, pairs=9)
    plan = plan_of(experiment, tmp_path)
    assert (plan.questions.count, plan.pairs[0].count) == (12, 9)
    assert plan.questions.known_from == "counted in the file"
    judge, critic, head = plan.rewarders
    assert (judge.on_questions, judge.on_pairs) == (12 * 12, 9 * 2)
    assert (critic.on_questions, head.on_pairs) == (12 * 4, 9 * 2)
    assert plan.policies[0].to_do == 12 * 4
    rows = [json.loads(line) for line in (tmp_path / "questions.jsonl").open()]
    texts = sum(len("\n".join([row["question"], *row["options"]])) for row in rows)
    assert plan.policies[0].prompt_tokens == round(texts / 4)
    experiment["questions"]["limit"] = 5
    experiment["pairs"][0]["votes"] = 3
    plan = plan_of(experiment, tmp_path)
    assert plan.policies[0].to_do == 5 * 4
    assert plan.rewarders[0].on_pairs == 9 * 2 * 3


def test_a_prompt_is_read_once_for_all_its_candidates(make_experiment, tmp_path):
    experiment = make_experiment(questions=12)
    before = plan_of(experiment, tmp_path).policies[0]
    experiment["judging"] = {"deep": {"n": 32, "share": 1.0}}
    deep = plan_of(experiment, tmp_path).policies[0]
    assert (deep.to_do, deep.prompt_tokens) == (12 * 32, before.prompt_tokens)


def test_what_a_run_has_is_reused_and_measured(make_experiment, tmp_path):
    experiment = make_experiment(questions=6, pairs=3)
    setup = prepare(experiment, tmp_path)
    policy, (_, critic, _) = setup.policies[0], setup.rewarders
    out = tmp_path / "run"
    with Store(out) as store:
        start(setup, store, quiet=True)
        source = GenerateSource(setup, store, policy)
        for ask, places in zip(source.take(4), [range(4)] * 3 + [range(2)], strict=True):
            store.add_candidates(
                Candidate(
                    key=candidate_key(policy.spec, ask.question, place), question=ask.question,
                    policy="policy",
                    spec=policy.spec, index=place, text=f"t{place}", text_key=f"t{place}",
                    answer="AB"[place % 2], outcome="parsed", seed=1, num_tokens=50,
                    num_prompt_tokens=100,
                )
                for place in places
            )  # fmt: skip
    plan = make_plan(setup, out)
    work = plan.policies[0]
    assert plan.questions.known_from == "in the run"
    assert (work.reused, work.to_do) == (3 * 4 + 2, 24 - 14)
    assert work.lengths.startswith("measured")
    assert work.reply_tokens == work.to_do * 50
    assert plan.rewarders[1].name == critic.card.name
    assert plan.rewarders[1].on_questions == 20  # all that the third question has is wrong
    experiment["judging"] = {"skip": "nothing"}
    every = plan_of(experiment, tmp_path, out)
    assert every.rewarders[1].on_questions == 24


def test_models_that_were_measured_alike_share_a_line(make_experiment, tmp_path):
    plan = plan_of(make_experiment(), tmp_path)
    for work in plan.work:
        work.lengths, work.speed = "measured on 20", "measured"
    text = " ".join(show_plan(plan).split())
    models = ", ".join(work.name for work in plan.work)
    assert f"lengths measured on 20 calls: {models}" in text
    assert text.count("measured by this run") == 1


def test_a_finished_run_has_nothing_left_to_do(make_experiment, tmp_path):
    experiment = make_experiment(questions=8, pairs=3)
    out = go_in(tmp_path)(experiment)
    plan = make_plan(prepare(experiment, tmp_path), out)
    assert plan.totals()["calls"] == 0
    assert all(work.reused for work in plan.rewarders)
    experiment["policies"][0]["n"] = 6
    larger = plan_of(experiment, tmp_path, out)
    assert larger.policies[0].to_do == 16
    assert larger.rewarders[1].to_do > 0


def test_prices_hours_and_warnings(make_experiment, tmp_path):
    experiment = make_experiment()
    experiment["rewarders"][0]["cost"] = {"input_per_million": 1e6, "output_per_million": 0.0}
    experiment["rewarders"][1] |= {"size": 7e9, "placement": {"gpus": 1}}
    experiment["cluster"] = {"spending_cap": 1.0}
    plan = plan_of(experiment, tmp_path)
    judge, critic, _ = plan.rewarders
    assert judge.dollars == pytest.approx(judge.prompt_tokens, rel=1e-5)
    assert critic.gpu_hours > 0
    text = " ".join(plan.warnings)
    assert "more than cluster.spending_cap" in text
    assert "no size, GPU or price on the card" in text
    assert "GPU hours" in show_plan(plan)


def test_a_dataset_that_cannot_be_counted_says_what_to_set(make_experiment, tmp_path):
    experiment = make_experiment()
    experiment["questions"] = {"benchmark": "multiple_choice", "hub": "some/where"}
    with pytest.raises(BonError, match="set `limit`"):
        plan_of(experiment, tmp_path)
    experiment["questions"]["limit"] = 40
    assert plan_of(experiment, tmp_path).questions.count == 40


@pytest.mark.parametrize("name", sorted(shipped_experiments()))
def test_a_shipped_experiment_prepares_and_plans(name):
    setup = read_experiment(Path(name))
    assert setup.experiment.name == name
    assert setup.experiment.description
    plan = make_plan(setup)
    assert "not read" in show_plan(plan)
    if setup.experiment.questions[0].limit is None:
        assert plan.questions.count == 1730
    assert plan.totals()["gpu_hours"] > 0


def test_a_plan_asks_nothing_of_the_hub():
    """Without a network each question to it took 23 s of retries."""
    asked: list[str] = []

    class Hub(BaseHTTPRequestHandler):
        def do_HEAD(self):
            if "/resolve/" in self.path or "/api/models/" in self.path:
                asked.append(self.path)
            self.send_error(404)

        def log_message(self, *args):
            pass

        do_GET = do_HEAD

    with ThreadingHTTPServer(("127.0.0.1", 0), Hub) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        environment = {k: v for k, v in os.environ.items() if k != "HF_HUB_OFFLINE"}
        environment["HF_ENDPOINT"] = f"http://127.0.0.1:{server.server_port}"
        command = [sys.executable, "-m", "bon", "plan", "reproduce"]
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
        server.shutdown()
    assert (done.returncode, asked) == (0, []), done.stderr


def test_the_paper_is_the_paper():
    setup = read_experiment(Path("paper"))
    assert [policy.card.n for policy in setup.policies] == [8, 8]
    assert len(setup.rewarders) == 6
    assert setup.experiment.pairs[0].votes == 5
    plan = make_plan(setup)
    assert plan.pairs[0].count == 1250
    engines = {}
    for loaded in (*setup.policies, *setup.rewarders):
        group = loaded.card.placement.group
        if group:  # models of one group share one loaded engine: same model, same settings
            engines.setdefault(group, set()).add(
                json.dumps([loaded.card.model, loaded.card.revision, loaded.card.engine_args])
            )
    assert {len(found) for found in engines.values()} == {1}


def test_names_and_paths(tmp_path):
    assert find_experiment(tmp_path / "mine.yaml") == (tmp_path / "mine.yaml", tmp_path)
    with pytest.raises(BonError, match="did you mean 'paper'"):
        find_experiment(Path("papr"))


WRONG = {
    "gzip read as lines": ({"questions": "gzip"}, "compressed by gzip"),
    "a file of pairs as questions": ({"questions": "pairs"}, "no column for question"),
    "free-form rows": ({"questions": "free"}, "no column for options"),
    "one response in a pairwise prompt": (
        {"rewarders": {"prompt": {"text": "{{ prompt }} {{ first }}: good?"}}}, "shows no `second`",
    ),
    "actors": ({"policies": {"placement": {"actors": 100_000_000}}}, "from 1 to 10,000"),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_a_plan_refuses_what_the_run_refuses_in_the_same_line(case, make_experiment, tmp_path):
    change, message = WRONG[case]
    experiment = make_experiment(questions=4)
    for key, value in change.items():
        if key == "questions":
            path = tmp_path / f"{value}.jsonl"
            rows = {"pairs": '{"prompt": "Q", "chosen": "a", "rejected": "b"}\n' * 3,
                    "free": '{"id": "q", "question": "Q", "answer": "four"}\n' * 3}  # fmt: skip
            path.write_bytes(gzip.compress(b"{}") if value == "gzip" else rows[value].encode())
            experiment[key] = {"benchmark": "multiple_choice", "path": str(path)}
        else:
            experiment[key][0] = {**experiment[key][0], **value}
    file = tmp_path / "wrong.yaml"
    file.write_text(json.dumps(experiment))
    planned, ran = (
        CliRunner().invoke(app, [command, str(file), "--out", str(tmp_path / "run")])
        for command in ("plan", "run")
    )
    assert isinstance(planned.exception, BonError)
    assert planned.exception.exit_code == 2
    assert message in str(planned.exception)
    assert str(planned.exception) == str(ran.exception)


def test_a_plan_fits_80_columns_and_says_what_it_does_not_know(make_experiment, tmp_path):
    file = tmp_path / "plain.yaml"
    file.write_text(json.dumps(make_experiment(questions=4)))
    printed = CliRunner().invoke(app, ["plan", str(file)]).stdout
    assert "GPU hours and cost unknown" in printed
    assert "$0.00" not in printed
    for name in (str(file), "reproduce-24gb"):
        printed = CliRunner().invoke(app, ["plan", name]).stdout
        assert max(map(len, printed.splitlines())) <= 80


def test_the_copy_in_a_run_is_planned_where_the_run_started(make_experiment, go, tmp_path):
    copy = go(make_experiment(questions=4), until="generate") / "experiment.yaml"
    planned = CliRunner().invoke(app, ["plan", str(copy), "--json"])
    assert planned.exit_code == 0, planned.exception
    assert json.loads(planned.stdout)["policies"][0]["reused"] == 16


def test_what_datasets_saved_to_disk_is_planned_and_run(make_experiment, go, tmp_path):
    datasets = pytest.importorskip("datasets")
    experiment = make_experiment(questions=5)
    rows = [json.loads(line) for line in (tmp_path / "questions.jsonl").open()]
    datasets.Dataset.from_list(rows).save_to_disk(tmp_path / "saved")
    experiment["questions"]["path"] = "saved"
    assert make_plan(prepare(experiment, tmp_path)).questions.count == 5
    with Store(go(experiment, until="generate"), readonly=True) as store:
        assert [question.id for question in store.questions()] == [row["id"] for row in rows]
