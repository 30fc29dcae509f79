"""What an attacker sends: each gets a clear 4xx and nothing else happens."""

import json
import time
from pathlib import Path

import pytest
import yaml

from tests.service.conftest import experiment
from tests.service.server import idle

ROOT = Path(__file__).parents[2]
YAML = {"content-type": "application/yaml"}
JSON = {"content-type": "application/json"}


def changed(**changes):
    result = json.loads(json.dumps(experiment()))
    for path, value in changes.items():
        node = result
        *parents, last = path.split("__")
        for part in parents:
            node = node[int(part)] if part.isdigit() else node.setdefault(part, {})
        node[int(last) if last.isdigit() else last] = value
    return result


REFUSED = {
    "absolute path": changed(questions__path="/etc/passwd"),
    "upward path": changed(questions__path="../service.sqlite"),
    "upward path inside": changed(questions__path="a/../../secret"),
    "home": changed(questions__path="~/.ssh/id_rsa"),
    "null character": changed(questions__path="questions.jsonl\x00"),
    "a share of Windows": changed(questions__path="\\\\evil\\share\\x.jsonl"),
    "a drive of Windows": changed(questions__path="C:\\x.jsonl"),
    "an address": changed(questions__path="https://evil.example/x.jsonl"),
    "a file's address": changed(questions__path="file:///etc/passwd"),
    "a data URL": changed(questions__path="data:text/plain,x"),
    "encoded dots": changed(questions__path="%2e%2e/service.sqlite"),
    "a device": changed(questions__path="/dev/zero"),
    "capitals": changed(questions__path="QUESTIONS.JSONL"),
    "link out": changed(questions__path="link/hosts"),
    "config upward": changed(questions__config="../../runs"),
    "pairs path": changed(pairs__0__path="/etc/hosts"),
    "hub packaged builder": changed(questions={
        "benchmark": "multiple_choice", "hub": "text", "limit": 3}),
    "hub folder of the working directory": changed(questions={
        "benchmark": "multiple_choice", "hub": "runs/secret", "limit": 3}),
    "hub unlisted": changed(questions={
        "benchmark": "multiple_choice", "hub": "someone/else", "limit": 3}),
    "hub change of a stranger": changed(pairs=[
        {"benchmark": "vl_rewardbench", "revision": "refs/pr/7"}]),
    "binary prompt": changed(policies__0__prompt={"file": "picture.png"}),
    "link to a card": changed(rewarders__0="link/card.yaml"),
    "link to a model": changed(policies__0={"name": "x", "model": "link/ssl", "prompt": "bare"}),
    "link to a prompt": changed(policies__0__prompt={"file": "link/passwd"}),
    "hub address": changed(questions={"benchmark": "mmmu_pro", "hub": "http://evil/x"}),
    "card path": changed(rewarders__0="/tmp/card.yaml"),
    "card upward": changed(rewarders__0={"card": "../x.yaml"}),
    "unknown card": changed(rewarders__0="no-such-card"),
    "python": changed(rewarders__0={"name": "x", "kind": "python", "python": "os:system"}),
    "python unlisted key": changed(rewarders__0__python="subprocess:Popen"),
    "remote code": changed(allow_remote_code=True),
    "trust": changed(policies__0={
        "name": "x", "model": "a/b", "engine_args": {"trust_remote_code": True}}),
    "model path": changed(policies__0={"name": "x", "model": "/etc", "prompt": "bare"}),
    "model upward": changed(policies__0={"name": "x", "model": "../../x", "prompt": "bare"}),
    "runtime env": changed(policies__0__placement={"runtime_env": {"pip": ["evil"]}}),
    "a flag of vLLM's that is a path": changed(policies__0={
        "name": "x", "model": "a/b", "engine": "vllm", "prompt": "bare",
        "engine_args": {"engine_args": {"download_dir": "/etc"}}}),
    "a flag of vLLM's that is not known": changed(policies__0={
        "name": "x", "model": "a/b", "engine": "vllm", "prompt": "bare",
        "engine_args": {"engine_args": {"worker_cls": "os.system"}}}),
    "spending cap": changed(policies__0={
        "card": "gpt-4o", "engine_args": {"spending_cap": 1e9}}),
    "base url": changed(policies__0={
        "name": "x", "model": "m", "engine": "openai",
        "engine_args": {"base_url": "http://169.254.169.254/"}}),
    "key of the environment": changed(policies__0={
        "name": "x", "model": "m", "engine": "openai", "engine_args": {"api_key_env": "HOME"}}),
    "stolen key": changed(policies__0={
        "card": "gpt-4o", "engine_args": {"base_url": "https://evil.example/v1"}}),
    "ray address": changed(cluster={"address": "ray://evil:10001"}),
    "ports": changed(cluster={"listen_beyond_loopback": True}),
    "prompt file": changed(policies__0__prompt={"file": "/etc/passwd"}),
    "system prompt file": changed(rewarders__0__system={"file": "/etc/passwd"}),
    "system prompt link": changed(rewarders__0__system={"file": "link/passwd"}),
    "a grader's prompt": changed(grading={
        "card": "gpt-4o-judge", "prompt": {"file": "/etc/passwd"}}),
    "a grader's system prompt": changed(grading={
        "card": "gpt-4o-judge", "system": {"file": "link/passwd"}}),
    "a grader elsewhere": changed(grading={
        "card": "gpt-4o-judge", "engine_args": {"base_url": "https://evil.example/v1"}}),
    "a grader's code": changed(grading={"name": "x", "kind": "python", "python": "os:system"}),
    "a grader's votes": changed(grading={"card": "gpt-4o-judge", "votes": 101}),
    "a grader's path": changed(grading="/tmp/card.yaml"),
    "lmms-eval's code": changed(questions={"benchmark": "lmms_eval:chartqa", "limit": 3}),
    "lmms-eval's scorer": changed(questions__grader="lmms_eval:chartqa"),
    "prompt name": changed(policies__0__prompt="../../../etc/passwd"),
    "upstream prompt": changed(policies__0__prompt={"upstream": "../../x"}),
    "too many candidates": changed(policies__0__n=4000),
    "a template of one's own": changed(policies__0={
        "card": "mini-policy-a", "engine_args": {"chat_template_kwargs": {
            "chat_template": "{{ 'a' * 1500000000 }}"}}}),
    "code of a kernel": changed(policies__0={
        "card": "mini-policy-a", "engine_args": {
            "attn_implementation": "kernels-community/flash-attn3"}}),
    "a change of a stranger to a model": changed(policies__0={
        "name": "x", "model": "a/b", "revision": "refs/pr/1", "prompt": "bare"}),
    "deep candidates": changed(judging={"deep": {"n": 4096, "share": 1}}),
    "deep thoughts": changed(policies__0__sampling={"max_thinking_tokens": 10**5}),
    "thoughts past all": changed(policies__0__sampling={"max_thinking_tokens": 10**9}),
    "steps without end": changed(rewarders__0__options={"max_steps": 10**9}),
    "200 tasks": changed(questions=[
        {"benchmark": "multiple_choice", "path": "questions.jsonl", "name": f"q{i}"}
        for i in range(200)]),
    "200 sets of pairs": changed(pairs=[
        {"benchmark": "preference", "path": "pairs.jsonl", "name": f"p{i}"} for i in range(200)]),
    "a name that a terminal obeys": changed(questions__name="\x1b]0;pwned\x07"),
    "a name of 8-bit control characters": changed(pairs__0__name="\x9b2J"),
    "a name that turns the line": changed(questions__name="a\u202eb"),
    "a name that leads upward": changed(pairs__0__name="../../x"),
    "too many votes": changed(rewarders__0__votes=99),
    "too many questions": changed(questions__limit=10**7),
    "too many gpus": changed(policies__0__placement={"gpus": 64, "group": "all"}),
    "too many actors": changed(policies__0__placement={"actors": 10_000, "group": "all"}),
    "answers of the server": changed(policies__0={"name": "x", "from": "/etc/passwd"}),
    "a pool of the server": changed(policies__0={"pool": "/etc"}),
    "a run of the server": changed(rewarders__0={"from": {"files": ["../runs/secret"]}}),
    "a card over answers": changed(policies__0={"card": "gpt-4o", "from": "questions.jsonl"}),
    "1,000 rewarders": changed(rewarders=[{"name": "x", "kind": "scalar"}] * 1000),
    "script name": changed(name="<script>alert(1)</script>"),
    "unknown key": changed(evil=1),
    "regex": changed(rewarders__0__verdict={"pattern": "((("}),
    "wrong type": changed(policies="x"),
    "number key": {1: 2},
    "huge number": changed(seed=10**30),
    "latency": changed(policies__0__engine_args={"latency": 1e9}),
    "timeout": changed(policies__0={
        "name": "x", "model": "m", "engine": "openai",
        "engine_args": {"base_url": "http://free.example/v1", "timeout": 1e300}}),
    "reply": changed(policies__0__engine_args={"reply": "x" * 5000}),
    "tokens": changed(policies__0__sampling={"max_tokens": 10**6}),
    "bootstrap": changed(analysis={"bootstrap": 10**6}),
    "cluster timeout": changed(cluster={"timeout_seconds": 1e300}),
    "retries": changed(cluster={"retries": 10**6}),
    "batch": changed(cluster={"batch": 10**9}),
    "blur": changed(rewarders__1__image_filter="blur:99999"),
    "pattern": changed(rewarders__0__verdict={"pattern": r"(a*)\1*b"}),
    "long pattern": changed(rewarders__0__verdict={"pattern": "(x)" + "a?" * 50_000}),
    "long key": changed(**{"x" * 200_000: 1}),
    "many keys": changed(**{f"k{i}": 1 for i in range(15_000)}),
    "long name": changed(rewarders__0={"name": "a-" * 90_000, "kind": "scalar"}),
    "score pattern": changed(rewarders__1__score={"pattern": r"(?=(a+)+b)a"}),
    "template": changed(policies__0__prompt={"text": "{% for a in range(10**9) %}x{% endfor %}"}),
    "system": changed(rewarders__0__system={"text": "{{ prompt * 10**9 }}"}),
}  # fmt: skip


@pytest.fixture(scope="module")
def files(shared):
    """The files that experiments may name, some of which are traps."""
    folder = shared.app.state.service.settings.files
    (folder / "link").symlink_to("/etc")
    (folder / "picture.png").write_bytes(b"\x89PNG\xff\xfe")


@pytest.mark.usefixtures("files")
@pytest.mark.parametrize("name", REFUSED)
def test_experiments_that_reach_out_or_cost_too_much_are_refused(shared, name):
    for route in ("validations", "plan"):
        started = time.process_time()
        answer = shared.post(f"/v1/{route}", json=REFUSED[name])
        assert time.process_time() - started < 20
        assert answer.status_code == 422, answer.text
        error = answer.json()["error"]
        assert error["message"]
        assert "Traceback" not in answer.text
    assert shared.get("/v1/validations").json()["validations"] == []


def test_a_flag_that_reaches_nowhere_may_be_set(shared):
    flags = {"engine_args": {"engine_args": {"max_model_len": 4096, "max_num_seqs": 8}}}
    answer = shared.post("/v1/plan", json=changed(policies__0={"card": "qwen2.5-vl-3b", **flags}))
    assert answer.status_code == 200, answer.text


BODIES = {
    "bad utf-8": (b"name: \xff\xfe", YAML, 422),
    "not yaml": (b"{a: [", YAML, 422),
    "a list": (b"[1, 2]", YAML, 422),
    "nothing": (b"", YAML, 422),
    "python tag": (b"!!python/object/apply:os.system ['id']", YAML, 422),
    "date": (b"name: 2020-01-01", YAML, 422),
    "bomb": (
        b"a: &a [x,x,x,x,x,x,x,x,x]\n"
        + b"".join(
            b"%c: &%c [%s]\n" % (98 + i, 98 + i, b",".join([b"*%c" % (97 + i)] * 9))
            for i in range(9)
        ),
        YAML,
        422,
    ),
    "merge bomb": (
        b"a: &a {k: 1}\n"
        + b"".join(b"%c: &%c {<<: [*%c, *%c]}\n" % (b, b, b - 1, b - 1) for b in range(98, 120)),
        YAML,
        422,
    ),
    "itself": (b"&a [*a]", YAML, 422),
    "itself inside": (b"name: &a [*a]", YAML, 422),
    "deep": (b"[" * 5000, YAML, 422),
    "deep blocks": (b"".join(b" " * i + b"a:\n" for i in range(400)), YAML, 422),
    "surrogate": (b'{"name": "\\ud800"}', JSON, 422),
    "infinity": (b"seed: .inf", YAML, 422),
    "base 60": (b"seed: " + b":".join([b"59"] * 60_000), YAML, 422),
    "base 60 with a fraction": (b"seed: " + b":".join([b"59"] * 60_000) + b".5", YAML, 422),
    "base 60 by its tag": (b"seed: !!float " + b":".join([b"59"] * 60_000) + b".5", YAML, 422),
    "200,000 digits": (b"seed: " + b"9" * 200_000, YAML, 422),
    "200,000 digits in hex": (b"seed: 0x" + b"f" * 200_000, YAML, 422),
    "an exponent of 99999999": (b"seed: 1.0e+99999999", YAML, 422),
    "120,000 keys": (b"?\n" * 120_000, YAML, 422),
    "40,000 times the same key": (b"{" + b"a: 1," * 40_000 + b"}", YAML, 422),
    "40,000 anchors": (b"[" + b"".join(b"&a%d 1," % i for i in range(20_000)) + b"]", YAML, 422),
    "an anchor of 200 kB": (b"x: &" + b"a" * 200_000 + b" 1", YAML, 422),
    "a key of a list": (b"? [a, b]\n: c", YAML, 422),
    "an unknown tag": (b"name: !foo bar", YAML, 422),
    "a tag of bytes": (b"name: !!binary aGk=", YAML, 422),
    "a tag of a date": (b"name: !!timestamp 2001-01-01", YAML, 422),
    "UTF-16": ("name: x".encode("utf-16"), YAML, 422),
    "another version": (b"%YAML 9.9\n---\nname: x", YAML, 422),
    "two documents": (b"name: x\n---\nname: y", YAML, 422),
    "a control character": (b"name: a\x01b", YAML, 422),
    "the same key twice": (b'{"name": "x", "name": "y"}', JSON, 422),
    "no number": (b'{"seed": NaN}', JSON, 422),
    "a number past all": (b'{"seed": 1e999}', JSON, 422),
    "wrong type": (b"name: x", {"content-type": "text/plain"}, 415),
    "no type": (b"name: x", {}, 415),
    "too long": (b"#" * 300_000, YAML, 413),
}  # fmt: skip


@pytest.mark.parametrize("name", BODIES)
def test_bodies_that_are_no_experiment(shared, name):
    body, headers, status = BODIES[name]
    started = time.process_time()
    answer = shared.post("/v1/validations", content=body, headers=headers)
    assert time.process_time() - started < 10
    assert answer.status_code == status, answer.text
    assert answer.json()["error"]["message"]


def test_a_body_of_100_mb_is_not_read(shared):
    def parts():
        for _ in range(100):
            yield b"x" * 1_000_000

    assert shared.post("/v1/plan", content=parts(), headers=YAML).status_code == 413
    declared = shared.post(
        "/v1/plan", content=b"x", headers={**YAML, "content-length": "104857600"}
    )
    assert declared.status_code == 413


def test_requests_from_other_sites_and_for_other_names(client):
    for headers, status in (
        ({"host": "evil.example"}, 421),
        ({"sec-fetch-site": "cross-site"}, 403),
        ({"origin": "https://evil.example"}, 403),
        ({"origin": "null"}, 403),
        ({"origin": "http://localhost"}, 201),
    ):
        answer = client.post("/v1/validations", json=experiment(), headers=headers)
        assert answer.status_code == status, answer.text
    for path, status in (("/healthz", 200), ("/readyz", 503), ("/v1/models", 421)):
        assert client.get(path, headers={"host": "10.0.0.1"}).status_code == status


def test_ids_that_are_paths(shared):
    for key in ("..", "%2e%2e%2fsecret", "v000000-0000000000/../../x", "x" * 5000):
        assert shared.get(f"/v1/validations/{key}").status_code in (404, 422)
        assert shared.get(f"/v1/validations/{key}/log").status_code in (404, 422)
    assert shared.get("/v1/validations/v000000-0000000000").status_code == 404


def test_headers_and_request_ids(shared):
    answer = shared.get("/healthz", headers={"x-request-id": "mine-1"})
    assert answer.headers["x-request-id"] == "mine-1"
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    assert answer.headers["x-content-type-options"] == "nosniff"
    odd = shared.get("/healthz", headers={"x-request-id": "a b\tc"}).headers["x-request-id"]
    assert " " not in odd


def test_too_many_requests_are_told_when_to_come_back(settings):
    limits = settings.limits.model_copy(update={"requests_per_minute": 60})
    with idle(settings.model_copy(update={"limits": limits})) as client:
        answers = [client.get("/v1/validations") for _ in range(30)]
    assert {answer.status_code for answer in answers} == {200, 429}
    assert int(answers[-1].headers["retry-after"]) >= 1


def test_yaml_aliases_of_ordinary_size_are_fine(shared):
    text = yaml.safe_dump(experiment())
    assert "&id" in text
    assert shared.post("/v1/plan", content=text, headers=YAML).status_code == 200


def test_an_error_tells_nothing_of_a_file(client, settings):
    (settings.files / "card.yaml").write_text("key: hunter2: [hunter3\nhunter4")
    answer = client.post("/v1/plan", json=changed(rewarders__0="card.yaml"))
    assert answer.status_code == 422
    assert "card.yaml:1:13" in answer.text
    assert "hunter" not in answer.text


def failed(client, settings, error):
    """A validation that failed with an error, which its log has too; {} stands for its folder."""
    key = client.post("/v1/validations", json=experiment()).json()["id"]
    directory = settings.runs / key
    directory.mkdir(parents=True)
    error = error.format(directory)
    (directory / "log.txt").write_text(f"{error}\n")
    with client.app.state.service.jobs.write() as db:
        db.execute("UPDATE validations SET state = 'failed', error = ? WHERE id = ?", (error, key))
    return key


def test_no_secret_on_pages_or_in_errors(client, settings, monkeypatch):
    monkeypatch.setenv("SOME_API_KEY", "hunter2hunter2")
    key = failed(client, settings, "401 for Bearer abcdefghijkl hunter2hunter2")
    html = {"accept": "text/html"}
    for path in (f"/validations/{key}", "/validations", f"/v1/validations/{key}",
                 f"/v1/validations/{key}/log", "/v1/validations"):  # fmt: skip
        text = client.get(path, headers=html).text
        assert "[redacted]" in text, path
        assert "hunter2" not in text
        assert "abcdefghijkl" not in text
    answer = client.post("/v1/plan", json=changed(questions__split="hunter2hunter2/"))
    assert answer.status_code == 422
    assert "hunter2" not in answer.text


def test_no_answer_names_a_folder_of_this_machine(client, settings):
    """Those who ask may be strangers: where the data lie is none of their business."""
    (settings.files / "card.yaml").write_text("key: [")
    (settings.files / "broken.parquet").write_bytes(b"PAR1")
    (settings.files / "empty.jsonl").write_text("")
    trouble = f"cannot read {{}}/run.sqlite or {settings.files}/questions.jsonl"
    key = failed(client, settings, trouble)
    answers = [
        client.post("/v1/plan", json=changed(**change))
        for change in (
            {"rewarders__0": "card.yaml"},
            {"rewarders__0": "none.yaml"},
            {"questions__path": "none.jsonl"},
            {"questions__path": "broken.parquet"},
            {"questions__path": "empty.jsonl"},
            {"policies__0__prompt": {"file": "none.jinja"}},
        )
    ]
    assert {answer.status_code for answer in answers} <= {200, 422}
    answers += [
        client.get(path, headers={"accept": "text/html"})
        for path in (f"/validations/{key}", f"/v1/validations/{key}", f"/v1/validations/{key}/log",
                     f"/v1/validations/{key}/results", "/validations")
    ]  # fmt: skip
    for answer in answers:
        assert str(settings.data) not in answer.text, answer.text
        assert str(ROOT) not in answer.text, answer.text
    assert f"cannot read runs/{key}/run.sqlite or files/questions.jsonl" in answers[-3].text
