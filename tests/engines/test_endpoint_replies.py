"""What an endpoint answers: which model, which text, and what must not be credited."""

import asyncio
import json
import re
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from fake_endpoint import Reply, ordinary, serve
from test_openai import KEY, always, ask, engine, one, run

import bon
from bon.core.errors import BonError
from bon.engines.endpoints.endpoint import EndpointError
from bon.experiment.config import PolicyCard
from bon.policies import generate
from bon.policies.extractors import declines

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEST_KEY", KEY)


SAME = [
    ("gpt-4o", "gpt-4o-2024-08-06"),
    ("gpt-4", "gpt-4-0613"),
    ("openai/gpt-4o", "gpt-4o-2024-08-06"),
    ("gpt-4o-2024-08-06", "openai/gpt-4o-2024-08-06"),
    ("X-7B", "Qwen/X-7B"),
    ("anthropic/claude-sonnet-4", "us.anthropic.claude-sonnet-4-20250514-v1:0"),
    ("gemini-2.5-flash", "models/gemini-2.5-flash"),
    ("gemini-2.0-flash", "gemini-2.0-flash-001"),
    ("claude-3-7-sonnet-latest", "claude-3-7-sonnet-20250219"),
    ("anthropic/claude-sonnet-4.5", "claude-sonnet-4-5-20250929"),
    ("us.anthropic.claude-sonnet-4-20250514-v1:0", "claude-sonnet-4-20250514"),
    ("claude-sonnet-4", "claude-sonnet-4@20250514"),
    ("mistral-large-latest", "mistral-large-2411"),
    ("command-r", "command-r-08-2024"),
    ("qwen/qwen2.5-vl-72b-instruct:free", "qwen/qwen2.5-vl-72b-instruct"),
    ("Qwen/Qwen2.5-VL-7B-Instruct", "/models/Qwen2.5-VL-7B-Instruct/"),
    ("llava", "llava:latest"),
    ("m", "m"),
    ("m", ""),  # it does not say
]
OTHER = [
    ("gpt-4o", "gpt-4o-mini"),
    ("gpt-4o-mini", "gpt-4o"),
    ("gpt-4o", "gpt-4o-mini-2024-07-18"),
    ("gpt-4o-2024-08-06", "gpt-4o-2024-11-20"),
    ("gpt-4o-2024-08-06", "gpt-4o"),
    ("claude-sonnet-4@20250514", "claude-sonnet-4-latest"),
    ("Qwen/X-7B", "evil/X-7B"),
    ("openai/gpt-4o", "evil/gpt-4o-2024-08-06"),
    ("anthropic/claude-sonnet-4", "evil.claude-sonnet-4-20250514-v1:0"),
    ("claude-sonnet-4.5", "claude-sonnet-4"),
    ("claude-opus-4", "claude-opus-4-1-20250805"),
    ("Qwen/Qwen2.5-VL-7B-Instruct", "Qwen/Qwen2.5-VL-7B-Instruct-AWQ"),
    ("Qwen2.5-VL-7B-Instruct", "Qwen2.5-VL-72B-Instruct"),
    ("o3", "o3-mini"),
    ("gpt-5", "gpt-5.1"),
    ("llama3:8b", "llama3:70b"),
    ("gemini-2.5-flash", "gemini-2.5-flash-lite"),
    ("meta-llama/Llama-3.3-70B-Instruct", "meta-llama/Llama-3.3-70B-Instruct-Turbo"),
]


def named(name: str) -> Any:
    return lambda _, body: (200, {}, {**ordinary(body), "model": name})


@pytest.mark.parametrize(("model", "name"), SAME)
def test_snapshots_and_prefixed_names_are_the_model(model: str, name: str) -> None:
    with serve(named(name)) as server:
        made = engine(server.url, model=model)
        assert one(made, ask()).samples
        assert made.info()["answered_as"] == ([name] if name else [])


@pytest.mark.parametrize(("model", "name"), OTHER)
def test_another_model_stops_every_request(model: str, name: str) -> None:
    with serve(named(name)) as server:
        results = run(engine(server.url, model=model), ask(text="a"), ask(text="b"))
        assert all(isinstance(result, BonError) for result in results)
        said = f"was asked for {model!r}, but {name!r} answered -> name that model on the card, or"
        assert f"{said} set engine_args.served_as: {name} if" in str(results[0])
        listed = engine(server.url, model=model, served_as=["another", name])
        assert one(listed, ask()).samples


def test_scores_come_from_the_model_too() -> None:
    def other(_: int, body: dict[str, Any]) -> Reply:
        return 200, {}, {"data": [{"score": 0.5}], "usage": {}, "model": "another"}

    from bon.engines.base import RankRequest

    with serve(other) as server, pytest.raises(BonError, match="but 'another' answered"):
        asyncio.run(engine(server.url, endpoint="vllm").rank(RankRequest(("q",), ("d",))))


# -- what is no answer ---------------------------------------------------------------------

LETTER = "The answer is (B).\nAnswer: B"


def choice(content: Any, finish: Any = "stop", **message: Any) -> dict[str, Any]:
    return {"index": 0, "message": {"content": content, **message}, "finish_reason": finish}


def reply(*choices: Any) -> dict[str, Any]:
    return {"choices": list(choices), "usage": {"prompt_tokens": 5, "completion_tokens": 5}}


WITHHELD = {
    "filtered": choice(LETTER, "content_filter"),
    "filtered by Gemini": choice(LETTER, "PROHIBITED_CONTENT"),
    "refused": choice(None, refusal="I will not choose (B)."),
    "refused in parts": choice([{"type": "refusal", "refusal": "I will not choose (B)."}]),
}


def candidate(made: Any, extractor: str) -> Any:
    card = PolicyCard(name="p", model="m", extractor=extractor)
    question = generate.Ask("q", ask().messages, ("one", "two", "three"), (0,))
    (row,) = asyncio.run(generate.sample(made, card, "spec", 0, question))
    return row


@pytest.mark.parametrize("extractor", ["official", "strict"])
@pytest.mark.parametrize("kind", WITHHELD)
def test_a_policy_is_not_credited_for_what_the_endpoint_withheld(kind: str, extractor: str) -> None:
    with serve(always(200, reply(WITHHELD[kind]))) as server:
        row = candidate(engine(server.url), extractor)
        assert (row.answer, row.outcome) == (None, "unparsed")
        filtered = kind.startswith("filtered")
        assert row.finish == ("content_filter" if filtered else "refusal")
        assert declines(row.text) == (not filtered)
        assert "(B)" in row.text


@pytest.mark.parametrize("kind", WITHHELD)
def test_a_judge_is_not_credited_for_what_the_endpoint_withheld(kind: str) -> None:
    cut = WITHHELD[kind] | {"message": {"content": "Score: 7"}} if "filtered" in kind else None
    with serve(always(200, reply(cut or WITHHELD[kind]))) as server:
        card = {
            "name": "critic", "model": "m", "kind": "pointwise", "engine": "openai",
            "engine_args": {"base_url": server.url, "api_key_env": None},
            "prompt": {"text": "{{prompt}} {{response}}"},
            "score": {"pattern": r"Score: (\d+)", "range": [0, 10]},
        }  # fmt: skip
        assert bon.score(card, "Which?", ["one"]) == [None]


@pytest.mark.parametrize(
    ("content", "finish", "text"),
    [
        ([{"type": "text", "text": "Answer: "}, {"type": "text", "text": "B"}],
         "stop", "Answer: B"),
        ([{"type": "thinking", "thinking": [{"type": "text", "text": "(A)?"}]},
          {"type": "text", "text": "Answer: B"}], "stop", "Answer: B"),
        (None, "stop", ""),
        (None, "content_filter", "[content_filter] "),
        ([], "stop", ""),
    ],
)  # fmt: skip
def test_content_may_be_a_list_of_parts(content: Any, finish: str, text: str) -> None:
    with serve(always(200, reply(choice(content, finish)))) as server:
        sample = one(engine(server.url), ask()).samples[0]
        assert (sample.text, sample.finish) == (text, finish)


@pytest.mark.parametrize("name", ["reasoning", "reasoning_content"])
def test_reasoning_is_apart_from_the_answer(name: str) -> None:
    with serve(always(200, reply(choice(LETTER, **{name: "Perhaps (A)?"})))) as server:
        sample = one(engine(server.url), ask()).samples[0]
        assert (sample.text, sample.reasoning) == (LETTER, "Perhaps (A)?")


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (reply(choice({"text": "B"})), "content of type dict, not text"),
        (reply(choice(7)), "content of type int, not text"),
        (reply(choice([{"type": "image_url", "image_url": {}}])), "a part of type 'image_url'"),
        (reply({"index": 0, "message": "B"}), "a choice without a message"),
        (reply(choice("B", "error")), "the error of a reply cut short"),
        (reply(), "0 of 1 samples came back"),
        ({"error": "overloaded"}, "overloaded"),
        ({"choices": {"0": choice("B")}}, "0 of 1 samples came back"),
        (b"[" * 200_000, "not a JSON object"),
        (b"data: {}\n\ndata: [DONE]\n\n", "not a JSON object"),
        (b"\xff\xfe\x00", "not a JSON object"),
    ],
)
def test_a_reply_that_is_none_is_one_line(answer: Any, message: str) -> None:
    with serve(always(200, answer)) as server, pytest.raises(EndpointError, match=message) as info:
        one(engine(server.url, retries=0), ask())
    assert "\n" not in str(info.value)


def test_log_probabilities_that_are_no_numbers_lose_no_sample() -> None:
    broken = {"content": [{"token": "B", "logprob": float("nan"), "top_logprobs": []}]}
    for logprobs in (broken, {"content": [{}]}, {"content": "none"}, []):
        with serve(always(200, reply(choice("B") | {"logprobs": logprobs}))) as server:
            sample = one(engine(server.url, endpoint="openai"), ask(logprobs=2)).samples[0]
            assert (sample.text, sample.logprob, sample.tokens) == ("B", None, ())


@pytest.mark.parametrize("indices", [(1, 0), (0, 0), (5, 9), (None, None), ("1", "0"), (-1, 0)])
def test_wrong_indices_give_every_seed_one_sample(indices: tuple[Any, Any]) -> None:
    texts = ("first", "second")
    choices = [choice(text) | {"index": i} for text, i in zip(texts, indices, strict=True)]
    with serve(always(200, reply(*choices))) as server:
        result = one(engine(server.url, endpoint="openai"), ask((1, 2)))
        assert sorted(sample.text for sample in result.samples) == sorted(texts)


USAGES = ["5", [5], {"prompt_tokens": "5"}, {"input_tokens": 5}, None]


@pytest.mark.parametrize("usage", [*USAGES, {"prompt_tokens": 1e300, "completion_tokens": True}])
def test_usage_in_other_units_is_counted_here(usage: Any) -> None:
    with serve(always(200, reply(choice("B")) | {"usage": usage})) as server:
        made = engine(server.url)
        result = one(made, ask(), input_price=1.0, output_price=1.0)
        ledger = made.info()["ledger"]
        assert ledger["estimated"] == 1
        assert 0 < result.cost == ledger["spent"] < 1e-3


# -- what is no HTTP -----------------------------------------------------------------------


@contextmanager
def raw(*replies: bytes) -> Iterator[str]:
    """Answer requests with these bytes in turn, the last one for ever."""
    remaining = list(replies)

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            length = 0
            while line := self.rfile.readline().strip():
                if line.lower().startswith(b"content-length:"):
                    length = int(line.split(b":")[1])
            self.rfile.read(length)
            self.wfile.write(remaining.pop(0) if len(remaining) > 1 else remaining[0])

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}/v1"
        server.shutdown()


GOOD = json.dumps(reply(choice("B"))).encode()


def test_http_1_0_without_a_length_ends_with_the_connection() -> None:
    with raw(b"HTTP/1.0 200 OK\r\nContent-Type: application/json\r\n\r\n" + GOOD) as url:
        assert [r.samples[0].text for r in run(engine(url), ask(), ask(text="b"))] == ["B", "B"]


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\ngarbage\r\n", EndpointError),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9999\r\n\r\n" + GOOD, EndpointError),
        (b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 4\r\n\r\nnope",
         EndpointError),
        (b"HTTP/9 what\r\n\r\n", EndpointError),
        (b"SSH-2.0-OpenSSH_9.6\r\n", EndpointError),
        (b"HTTP/1.1 302 Found\r\nLocation: file:///etc/passwd\r\nContent-Length: 0\r\n\r\n",
         BonError),
        (b"HTTP/1.1 307 Go\r\nLocation: http://169.254.169.254/\r\nContent-Length: 0\r\n\r\n",
         BonError),
    ],
)  # fmt: skip
def test_what_is_no_http_reply_is_one_line_and_never_followed(answer: bytes, error: Any) -> None:
    with raw(answer) as url, pytest.raises(error) as info:
        one(engine(url, retries=1, timeout=5.0), ask())
    redirected = re.search("redirects to '(file|http):.*' -> set base_url", str(info.value))
    assert bool(redirected) is (error is BonError)
    assert "\n" not in str(info.value)
    assert KEY not in str(info.value)


@pytest.mark.parametrize(
    ("after", "is_long"),
    [("Fri, 01 Jan 3000 00:00:00 GMT", True), ("1e300", True), ("nan", False), ("-5", False),
     ("soon", False)],
)  # fmt: skip
def test_a_retry_after_beyond_all_patience_is_capped(
    after: str, is_long: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    from bon.engines.endpoints import endpoint

    monkeypatch.setattr(endpoint, "_LONGEST_WAIT", 0.05)
    head = f"HTTP/1.1 429 Slow\r\nRetry-After: {after}\r\nContent-Length: 2\r\n\r\n{{}}".encode()
    good = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(GOOD) + GOOD
    with raw(head, good) as url:
        made = engine(url, retries=1)
        assert one(made, ask()).samples[0].text == "B"
        assert ("asks to wait" in made._endpoint._wait_reason) is is_long
