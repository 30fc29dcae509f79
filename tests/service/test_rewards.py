"""The reward server: what trainers send, answered as they expect it."""

import json
import sqlite3
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from bon.core.errors import BonError
from bon.service.online.judgement_store import FILE
from tests.service.server import idle
from tests.service.test_online import asks, online_settings, picture

SETS = {"sums": {"benchmark": "multiple_choice", "path": "files/questions.jsonl"}}
PROMPT = "<|im_start|>user\nWhat is 2 + 2?<|im_end|>\n<|im_start|>assistant\n"
ROLLOUT = {"query": [f"{PROMPT}It is 4.<|im_end|>\n"], "prompts": [PROMPT], "labels": ["4"]}
SAMPLE = {"prompt": "What is 2 + 2?", "response": "It is 4.", "label": "4"}
MUTE = {
    "name": "mute", "engine": "echo", "kind": "pointwise", "score": {"pattern": r"Score: (\d)"},
    "engine_args": {"reply": "no idea of {choice}"},
}  # fmt: skip
HEAD = {"name": "head", "engine": "echo", "kind": "scalar"}


def with_sets(settings, **changes):
    result = online_settings(settings, sets=SETS, **changes)
    return result.model_copy(update={"base": settings.data})


@pytest.fixture
def trainer(settings):
    with idle(with_sets(settings)) as client:
        yield client


def good(answer):
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_marks_of_turns_are_read_in_time_that_grows_with_their_number(trainer):
    prompt = "<|im_start|>user\n" * 60_000
    rollout = {"query": [prompt], "prompts": [prompt], "labels": ["bon://sums/q1"]}
    started = time.process_time()
    assert good(trainer.post("/get_reward?rewarder=head", json=rollout))["rewards"][0] is not None
    assert time.process_time() - started < 10


def test_a_batch_never_fills_the_queue_by_itself(trainer):
    samples = [{"prompt": f"question {n}", "response": "yes"} for n in range(400)]
    result = good(trainer.post("/get_reward?rewarder=head", json={"samples": samples}))
    assert len(result["rewards"]) == 400


def test_texts_that_would_be_shown_again_and_again(trainer):
    """64 texts of 150,000 characters are 4,032 comparisons of 300,000: 35 s of a core."""
    texts = [str(n) + "x" * 150_000 for n in range(64)]
    started = time.process_time()
    body = {"rewarder": "judge", "messages": asks(), "candidates": texts}
    refused(trainer.post("/v1/score", json=body), 413, "characters")
    item = {**SAMPLE, "response": texts[0]}
    refused(trainer.post("/get_reward?rewarder=judge&group=64", json=item), 413, "characters")
    assert time.process_time() - started < 10


def refused(answer, status, words):
    assert answer.status_code == status, answer.text
    error = answer.json()["error"]
    assert words in error["message"] + error["fix"]


# ------------------------------------------------------------------ protocols


def test_every_protocol_gives_the_rewarders_own_score(trainer):
    """The same prompt and answer through every door, beside bon's own."""
    own = {"rewarder": "head", "messages": asks(), "candidates": ["It is 4."]}
    score = good(trainer.post("/v1/score", json=own))["scores"][0]
    assert score is not None
    rollout = good(trainer.post("/get_reward?rewarder=head", json=ROLLOUT))
    assert rollout["rewards"] == rollout["scores"] == [score]
    assert rollout["extra_logs"]["parsed"] == [1.0]
    assert all(isinstance(v[0], int | float) for v in rollout["extra_logs"].values())
    assert good(trainer.post("/get_reward?rewarder=head", json=SAMPLE)) == score
    keyed = good(trainer.post("/get_reward?rewarder=head&key=score", json=SAMPLE))
    assert keyed["score"] == score
    assert keyed["no_image"] == 1
    batch = good(trainer.post("/get_reward?rewarder=head", json={"samples": [SAMPLE] * 2}))
    assert batch["rewards"] == [score, score]


TEMPLATES = {
    "chatml": (PROMPT, "<|im_end|>\n<|endoftext|>"),
    "padded": (f"[PAD]<|endoftext|>{PROMPT}<think>\n", "<|im_end|>[PAD][PAD]"),
    "qwen-vl": (PROMPT.replace("What", "<|vision_start|><|image_pad|><|vision_end|>What"), ""),
    "internvl": (PROMPT.replace("What", "<img><IMG_CONTEXT><IMG_CONTEXT></img>\nWhat"), ""),
    "llama": (
        "<|begin_of_text|><|start_header_id|>user<|end_header_id|>\n\nWhat is 2 + 2?<|eot_id|>"
        "<|start_header_id|>assistant<|end_header_id|>\n\n", "<|eot_id|>",
    ),
    "deepseek": (
        "<｜begin▁of▁sentence｜><｜User｜>What is 2 + 2?<｜Assistant｜>", "<｜end▁of▁sentence｜>"
    ),
    "mistral": ("<s>[INST] What is 2 + 2? [/INST]", "</s>"),
    "gemma": (
        "<bos><start_of_turn>user\nWhat is 2 + 2?<end_of_turn>\n<start_of_turn>model\n",
        "<end_of_turn>",
    ),
    "glm": ("[gMASK]<sop><|user|>\nWhat is 2 + 2?<|assistant|>\n", "<|user|>"),
    "phi": ("<|user|>\nWhat is 2 + 2?<|end|>\n<|assistant|>\n", "<|end|>"),
    "llava": ("USER: <image>\nWhat is 2 + 2? ASSISTANT:", "</s>"),
    "kimi": (
        "<|im_user|>user<|im_middle|>What is 2 + 2?<|im_end|>"
        "<|im_assistant|>assistant<|im_middle|>",
        "<|im_end|>",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", TEMPLATES)
def test_decoded_templates_leave_no_trace(trainer, name):
    plain = {**SAMPLE, "response": "It ends in `<|im_end|>`."}
    score = good(trainer.post("/get_reward?rewarder=head", json=plain))
    prompt, end = TEMPLATES[name]
    rollout = {"query": [f"{prompt}{plain['response']}{end}"], "prompts": [prompt]}
    assert good(trainer.post("/get_reward?rewarder=head", json=rollout))["rewards"] == [score]


REFUSED = {
    "no rewarder named": ("/get_reward", SAMPLE, 422, "rewarder=NAME"),
    "unknown rewarder": ("/get_reward?rewarder=nobody", SAMPLE, 404, "nobody"),
    "unknown setting": ("/get_reward?rewarder=head&grop=8", SAMPLE, 422, "grop"),
    "counting rule": ("/get_reward?rewarder=head&rule=majority", SAMPLE, 422, "counts"),
    "nothing to compare": ("/get_reward?rewarder=judge", SAMPLE, 422, "group=N"),
    "group too large": ("/get_reward?rewarder=judge&group=65", SAMPLE, 413, "at most 64"),
    "waits for ever": ("/get_reward?rewarder=judge&group=2&wait=1e9", SAMPLE, 422, "wait"),
    "no such set": ("/get_reward?rewarder=head", {**SAMPLE, "label": "bon://x/q1"}, 422, "sums"),
    "no such id": ("/get_reward?rewarder=head", {**SAMPLE, "label": "bon://sums/x"}, 422, "'x'"),
    "another prompt": (
        "/get_reward?rewarder=head", {**ROLLOUT, "prompts": ["x"]}, 422, "begin with its prompt"
    ),
    "unequal lists": ("/get_reward?rewarder=head", {**ROLLOUT, "labels": ["a", "b"]}, 422, "len"),
    "no body": ("/get_reward?rewarder=head", {}, 422, "query"),
    "long text": (
        "/get_reward?rewarder=head", {**SAMPLE, "response": "x" * 300_000}, 413, "300000"
    ),
    "image of a file": (
        "/get_reward?rewarder=head",
        {**SAMPLE, "prompt": asks(image="file:///etc/passwd")}, 422, "data URL",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused(trainer, name):
    path, body, status, words = REFUSED[name]
    refused(trainer.post(path, json=body), status, words)


def test_a_token_in_the_path_opens_the_reward_routes_and_is_not_logged(settings, caplog):
    closed = with_sets(settings).model_copy(update={"auth": True})
    with idle(closed) as client:
        service = client.app.state.service
        token, reader = service.tokens.add("t", "submit"), service.tokens.add("r", "read")
        caplog.set_level("INFO", "bon.access")
        path = "get_reward?rewarder=head"
        assert client.post(f"/t/{token}/{path}", json=SAMPLE).status_code == 200
        assert client.post(f"/{path}", json=SAMPLE).status_code == 401
        assert client.post(f"/t/wrong/{path}", json=SAMPLE).status_code == 401
        assert client.post(f"/t/{reader}/{path}", json=SAMPLE).status_code == 403
        assert client.post(f"/t/{token}/v1/validations", json={}).status_code == 401
        assert client.get(f"/t/{token}/v1/validations").status_code in (401, 404)
        lines = [r.getMessage() for r in caplog.records if r.name == "bon.access"]
        assert "POST /get_reward" in lines
        assert not any(token in line for line in lines if "/v1/validations" not in line)


# ------------------------------------------------------------------ questions by id


def test_a_label_brings_the_question_with_its_images(settings):
    folder = settings.data / "files"
    (folder / "red.png").write_bytes(picture())
    row = {"id": "one two", "question": "Which colour?", "options": ["red", "blue"], "answer": "A"}
    (folder / "seen.jsonl").write_text(json.dumps({**row, "image": "red.png"}))
    sets = {**SETS, "seen": {"benchmark": "multiple_choice", "path": "files/seen.jsonl"}}
    ready = online_settings(settings, sets=sets).model_copy(update={"base": settings.data})
    with idle(ready) as client:
        address = "/get_reward?rewarder=head&key=r"
        for label in (
            "bon://seen/one%20two",
            "red|bon://seen/one%20two",
            {"bon": "bon://seen/one%20two", "answer": "A"},
            json.dumps({"bon": "bon://seen/one%20two"}),
        ):
            body = {"prompt": "whatever was templated", "response": "A", "label": label}
            assert good(client.post(address, json=body))["no_image"] == 0
        plain = {**SAMPLE, "prompt": "tell me about bon://seen/nothing", "label": None}
        assert good(client.post(address, json=plain))["no_image"] == 1
        only = {"prompt": "bon://seen/one%20two", "response": "A"}
        assert good(client.post(address, json=only))["no_image"] == 0
        with sqlite3.connect(settings.data / FILE) as db:
            items = db.execute("SELECT DISTINCT item FROM judgements").fetchall()
        assert len(items) == 2  # the named question, however it is named, and the plain prompt


def test_a_set_that_cannot_be_read_stops_the_start(settings):
    missing = {"x": {"benchmark": "multiple_choice", "path": "nothing.jsonl"}}
    with pytest.raises(BonError, match=r"nothing\.jsonl"):
        idle(online_settings(settings, sets=missing)).__enter__()
    path = settings.data / "files" / "twice.jsonl"
    path.write_text((settings.data / "files" / "questions.jsonl").read_text() * 2)
    twice = {"x": {"benchmark": "multiple_choice", "path": str(path)}}
    with pytest.raises(BonError, match="two questions have the id 'q0'"):
        idle(online_settings(settings, sets=twice)).__enter__()


# ------------------------------------------------------------------ groups


def at_once(client, address, responses, label="bon://sums/q3"):
    """One request for each response, all open at the same time."""

    def ask(text):
        body = {"prompt": "", "response": text, "label": label}
        return good(client.post(address, json=body))

    with ThreadPoolExecutor(len(responses)) as pool:
        return list(pool.map(ask, responses))


TEXTS = ["six", "seven", "eight", "six"]


@pytest.mark.parametrize("rule", ["round_robin", "knockout", "copeland"])
def test_one_response_per_request_is_judged_with_the_others(trainer, rule):
    address = f"/get_reward?rewarder=judge&group=4&key=r&rule={rule}&scale=rank"
    result = at_once(trainer, address, TEXTS)
    assert [row["group_size"] for row in result] == [4] * 4
    assert result[0]["r"] == result[3]["r"]  # the same text is the same response
    assert sum(row["r"] for row in result) == pytest.approx(2)


def test_missing_and_late_members(trainer):
    address = "/get_reward?rewarder=judge&group=3&wait=0.6&key=r"
    started = time.monotonic()
    first = at_once(trainer, address, ["one", "two"])
    assert time.monotonic() - started >= 0.5
    assert [row["group_size"] for row in first] == [2, 2]
    assert len(trainer.app.state.reward_judge.groups) == 1  # still open for the one that is late
    (late,) = at_once(trainer, address, ["three"])
    assert late["group_size"] == 3
    assert late["cached"] == 2  # the pair that was judged is not judged again
    assert len(trainer.app.state.reward_judge.groups) == 0
    alone = trainer.post(
        "/get_reward?rewarder=judge&group=3&wait=0.1", json={**SAMPLE, "label": "bon://sums/q4"}
    )
    refused(alone, 503, "nothing to compare")
    assert alone.headers["retry-after"] == "1"
    time.sleep(0.3)
    assert len(trainer.app.state.reward_judge.groups) == 0  # and forgotten


def test_groups_of_one_batch_and_copies_alone(trainer):
    labels = ["bon://sums/q1", "bon://sums/q2"]
    samples = [{"prompt": "", "response": t, "label": lab} for lab in labels for t in TEXTS]
    address = "/get_reward?rewarder=judge&group=4&scale=win_rate"
    result = good(trainer.post(address, json={"samples": samples}))
    assert result["extra_logs"]["group_size"] == [4] * 8
    assert all(0 <= value <= 1 for value in result["rewards"])
    copies = [{**SAMPLE, "response": "the same"}] * 4
    result = good(trainer.post(address, json={"samples": copies}))
    assert result["rewards"] == [0.5] * 4
    assert result["extra_logs"]["tokens"] == [0] * 4


def test_a_failing_caller_costs_the_others_no_rewards(settings):
    """A judge that fails is an error for all of its group, and for nobody else."""
    broken = {**MUTE, "name": "broken", "engine_args": {"failure_rate": 1.0, "reply": "{choice}"}}
    with idle(with_sets(settings, rewarders=[broken, HEAD])) as client:
        address = "/get_reward?group=2&key=r&rewarder="
        body = {**SAMPLE, "label": "bon://sums/q1"}
        with ThreadPoolExecutor(2) as pool:
            created = [pool.submit(client.post, f"{address}broken", json=body) for _ in range(2)]
            assert [item.result().status_code for item in created] == [502, 502]
        assert len({row["r"] for row in at_once(client, f"{address}head", ["a", "b"])}) == 2


# ------------------------------------------------------------------ never a silent zero


def test_what_cannot_be_read_is_never_a_number(settings):
    with idle(with_sets(settings, rewarders=[MUTE, HEAD])) as client:
        address = "/get_reward?rewarder=mute"
        refused(client.post(address, json=SAMPLE), 503, "could not be read")
        assert good(client.post(f"{address}&on_unparsed=null", json=SAMPLE)) is None
        null = good(client.post(f"{address}&on_unparsed=null", json=ROLLOUT))
        assert null["rewards"] == [None]
        assert null["extra_logs"]["parsed"] == [0.0]
        refused(client.post(f"{address}&on_unparsed=mean", json=SAMPLE), 503, "could not be read")
        for scale in ("rank", "win_rate"):
            alone = f"/get_reward?rewarder=head&scale={scale}&on_unparsed=null"
            assert good(client.post(alone, json=SAMPLE)) is None


# ------------------------------------------------------------------ what is kept


def test_every_judgement_is_kept_and_reused(settings):
    samples = [{**SAMPLE, "response": text} for text in TEXTS]
    cached = []
    for _ in range(2):  # the second server reads what the first one stored
        with idle(with_sets(settings)) as client:
            result = good(client.post("/get_reward?rewarder=judge", json={"samples": samples}))
            cached += result["extra_logs"]["cached"]
    assert cached == [0] * 4 + [6] * 4
    with sqlite3.connect(settings.data / FILE) as db:
        rows = db.execute("SELECT outcome, text FROM judgements").fetchall()
    assert len(rows) == 6
    assert all("Overall Judgment" in text for _, text in rows)
