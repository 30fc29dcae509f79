import asyncio
import base64
import io
import json
import pickle
import socket
import time
from collections.abc import Callable
from typing import Any

import pytest
from fake_endpoint import Reply, ordinary, serve
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from bon.core.errors import BonError, SpendingCapReached, Unsupported
from bon.core.ledger import Ledger
from bon.core.sampling import Sampling
from bon.engines import build
from bon.engines.base import GenerateRequest, ImagePart, Message, RankRequest, ScoreRequest
from bon.engines.endpoints.budget import Budget, paying
from bon.engines.endpoints.endpoint import AdaptiveLimit, EndpointError
from bon.engines.endpoints.openai import OpenAIEngine
from bon.engines.metering import metered

KEY = "sk-very-secret-123"


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEST_KEY", KEY)


def engine(url: str, **args: Any) -> OpenAIEngine:
    settings = {"base_url": url, "model": "m", "api_key_env": "TEST_KEY", "retry_wait": 0.01}
    built = build("openai", settings | args)
    assert isinstance(built, OpenAIEngine)
    return built


def ask(seeds: tuple[int, ...] = (1,), text: str = "q", **sampling: Any) -> GenerateRequest:
    logprobs = sampling.pop("logprobs", 0)
    messages = (Message("system", ("s",)), Message("user", (text,)))
    return GenerateRequest(messages, Sampling(max_tokens=9, **sampling), seeds, logprobs)


def run(made: OpenAIEngine, *requests: GenerateRequest, **prices: float) -> list[Any]:
    async def all_at_once() -> list[Any]:
        with paying(Budget(Ledger(), "m", **prices)):
            results = await asyncio.gather(
                *(made.generate(request) for request in requests), return_exceptions=True
            )
        await made.close()
        return list(results)

    return asyncio.run(all_at_once())


def one(made: OpenAIEngine, request: GenerateRequest, **prices: float) -> Any:
    (result,) = run(made, request, **prices)
    if isinstance(result, BaseException):
        raise result
    return result


def always(status: int, body: Any = None, **headers: str) -> Callable[[int, Any], Reply]:
    return lambda *_: (status, headers, body if body is not None else {"error": "no"})


def test_n_samples_are_asked_for_as_the_endpoint_can() -> None:
    seeds = (5, 6, 7, 20, 21, 3)
    with serve() as server:
        texts = [s.text for s in one(engine(server.url, endpoint="vllm"), ask(seeds)).samples]
        assert texts == [f"Answer: {seed}" for seed in seeds]
        assert sorted((b.get("n", 1), b["seed"]) for b in server.bodies) == [
            (1, 3), (2, 20), (3, 5),
        ]  # fmt: skip
    with serve() as server:
        generation = one(engine(server.url, endpoint="openai"), ask(seeds))
        assert [b["n"] for b in server.bodies] == [6]
        assert len(generation.samples) == 6
    with serve() as server:
        with pytest.warns(UserWarning, match="takes no seed"):
            generation = one(engine(server.url), ask(seeds))
        assert len(server.bodies) == len(generation.samples) == 6
        assert all("n" not in b and "seed" not in b for b in server.bodies)


def test_sampling_is_explicit() -> None:
    with serve() as server:
        request = ask(temperature=0.5, top_p=0.9, stop=("\n",))
        one(engine(server.url, endpoint="vllm", extra_body={"x": 1}), request)
        one(engine(server.url, endpoint="openai"), request)
        ours, theirs = server.bodies
    assert ours["temperature"] == theirs["temperature"] == 0.5
    assert ours["top_p"] == 0.9
    assert ours["top_k"] == 0
    assert ours["repetition_penalty"] == 1.0
    assert ours["max_tokens"] == theirs["max_completion_tokens"] == 9
    assert ours["stop"] == ["\n"]
    assert ours["x"] == 1
    assert "top_k" not in theirs


def test_logprobs() -> None:
    with serve() as server:
        sample = one(engine(server.url, endpoint="openai"), ask(logprobs=2)).samples[0]
        assert sample.logprob == pytest.approx(-0.3)
        assert sample.tokens[0].top == {"Yes": -0.1, "No": -2.4}
        # The sum is wanted of every candidate, the alternatives only where asked for.
        sample = one(engine(server.url, endpoint="openai"), ask()).samples[0]
        assert sample.logprob == pytest.approx(-0.3)
        assert sample.tokens == ()


@pytest.mark.parametrize(
    ("endpoint", "request_", "match"),
    [
        ("anthropic", ask(temperature=1.3), "takes temperatures up to 1, not 1.3"),
        (
            "anthropic",
            ask(temperature=0.5, top_p=0.9),
            "does not take top_p together with a temperature",
        ),
        ("plain", ask(top_k=5), "takes no top_k"),
        ("plain", ask(logprobs=5), "gives no log-probabilities"),
        ("openai", ask(logprobs=50), "gives up to 20 alternatives, not 50"),
    ],
)
def test_what_an_endpoint_cannot_do_is_refused(
    endpoint: str, request_: GenerateRequest, match: str
) -> None:
    with serve() as server:
        with pytest.raises(Unsupported, match=match):
            one(engine(server.url, endpoint=endpoint), request_)
        assert server.bodies == []


def test_scoring_is_refused_without_the_means() -> None:
    request = ScoreRequest((Message("user", ("q",)), Message("assistant", ("a",))))
    made = engine("http://127.0.0.1:1/v1")
    with pytest.raises(Unsupported, match="no log-probabilities of a given text"):
        asyncio.run(made.likelihood(request))
    with pytest.raises(Unsupported, match="no reward head"):
        asyncio.run(made.reward(request))


def test_images_travel_inline() -> None:
    encoded = io.BytesIO()
    Image.new("RGB", (2, 2), "red").save(encoded, "BMP")
    bmp = ImagePart("00", encoded.getvalue())
    encoded = io.BytesIO()
    Image.new("RGB", (2, 2), "red").save(encoded, "JPEG")
    jpeg = ImagePart("01", encoded.getvalue())
    request = GenerateRequest((Message("user", (jpeg, "q", bmp)),), Sampling(), (1,))
    with serve() as server:
        one(engine(server.url, endpoint="openai"), request)
        parts = server.bodies[0]["messages"][0]["content"]
    assert [part["type"] for part in parts] == ["image_url", "text", "image_url"]
    head, _, data = parts[0]["image_url"]["url"].partition(",")
    assert head == "data:image/jpeg;base64"
    assert base64.b64decode(data) == jpeg.data
    assert parts[2]["image_url"]["url"].startswith("data:image/png;base64,")


def test_429_waits_as_told_and_slows_down() -> None:
    def busy_twice(number: int, body: Any) -> Reply | None:
        return (429, {"retry-after": "0.4"}, {"error": "slow down"}) if number < 2 else None

    with serve(busy_twice) as server:
        made = engine(server.url, endpoint="openai", concurrency=10)
        assert one(made, ask()).samples[0].text
        first, second, third = server.times
        assert second - first >= 0.4
        assert third - second >= 0.4
        assert made._endpoint.limit.limit < 10
        assert made.info()["ledger"]["retries"] == 2


def test_server_errors_are_retried_then_reported() -> None:
    def twice(number: int, body: Any) -> Reply | None:
        return (503, {}, b"<html>bad gateway</html>") if number < 2 else None

    with serve(twice) as server:
        assert one(engine(server.url, endpoint="openai"), ask()).samples
    with serve(always(500, {"error": {"message": f"oh\nno {KEY}"}})) as server:
        with pytest.raises(EndpointError, match=r"failed after 3 tries: HTTP 500 oh no \*\*\*$"):
            one(engine(server.url, endpoint="openai", retries=2), ask())
        assert len(server.bodies) == 3


def test_refusals_are_not_retried() -> None:
    with serve(always(400, {"error": {"message": "too long"}})) as server:
        with pytest.raises(EndpointError, match="HTTP 400 too long"):
            one(engine(server.url, endpoint="openai"), ask())
        assert len(server.bodies) == 1
    page = (400, {"content-type": "text/plain; charset=gb2312"}, "模型不存在".encode("gb2312"))
    with (
        serve(lambda number, body: page) as server,
        pytest.raises(EndpointError, match="HTTP 400 模型不存在"),
    ):
        one(engine(server.url, endpoint="openai"), ask())
    with (
        serve(always(401, {"error": {"message": f"bad key {KEY}"}})) as server,
        pytest.raises(BonError, match=r"refused the key: HTTP 401 bad key \*\*\* -> check the key"),
    ):
        one(engine(server.url, endpoint="openai"), ask())
    with (
        serve(always(404, {"message": "no such model"})) as server,
        pytest.raises(BonError, match="no such model -> check base_url and model"),
    ):
        one(engine(server.url, endpoint="openai"), ask())


def test_an_endpoint_that_is_down() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}/v1"
    with pytest.raises(BonError, match="cannot be reached after 2 tries"):
        one(engine(url, retries=1, endpoint="openai"), ask())


def test_time_limit() -> None:
    with serve(delay=1.0) as server:
        made = engine(server.url, endpoint="openai", timeout=0.2, retries=0)
        with pytest.raises(EndpointError, match="failed after 1 tries: ReadTimeout"):
            one(made, ask((1, 2)), output_price=1e6)
    assert made.info()["ledger"]["spent"] == 18  # two samples of 9 tokens may have been billed


def test_concurrency_grows_within_its_bounds() -> None:
    with serve(delay=0.2) as server:  # long against what a request costs a busy machine
        made = engine(server.url, endpoint="openai", concurrency=2, max_concurrency=5)
        results = run(made, *(ask(text=str(i)) for i in range(20)))
        assert all(result.samples for result in results)
        assert server.most_in_flight == 5


def test_adaptive_limit() -> None:
    limit = AdaptiveLimit(start=10, most=12, cooldown=10)
    for _ in range(5):
        limit.grow()
    assert limit.limit == 12
    for _ in range(5):
        limit.shrink()
    assert limit.limit == pytest.approx(9.6)  # one burst of refusals cuts once
    limit.grow()
    assert limit.limit == pytest.approx(9.6)  # and nothing grows during the cool-down
    calm = AdaptiveLimit(start=2, most=9, cooldown=0)
    for _ in range(5):
        calm.shrink()
    assert calm.limit == 1


def test_connections_are_kept_and_closed_at_the_end() -> None:
    with serve(delay=0.01) as server:
        made = engine(server.url, endpoint="openai", concurrency=4, max_concurrency=4)
        assert len(run(made, *(ask(text=str(i)) for i in range(40)))) == 40
        assert server.connections == 4
        for _ in range(100):
            if not server.open:
                break
            time.sleep(0.02)
        assert server.open == 0


@given(
    limit=st.integers(1, 5),
    seconds=st.lists(st.integers(0, 3), min_size=1, max_size=30),
    gone=st.sets(st.integers(0, 29)),
    grows=st.sets(st.integers(0, 29)),
)
@settings(max_examples=50)
def test_a_place_is_never_lost_and_never_given_twice(
    limit: int, seconds: list[int], gone: set[int], grows: set[int]
) -> None:
    places = AdaptiveLimit(start=limit, most=8, cooldown=0)
    served: list[int] = []

    async def hold(number: int) -> None:
        async with places.slot():
            assert places.in_flight <= int(places.limit)
            for _ in range(seconds[number]):
                await asyncio.sleep(0)
            if number in grows:
                places.grow()
            served.append(number)

    async def crowd() -> None:
        tasks = [asyncio.create_task(hold(number)) for number in range(len(seconds))]
        await asyncio.sleep(0)
        for number, task in enumerate(tasks):
            if number in gone:
                task.cancel()
                await asyncio.sleep(0)
        await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), 5)

    asyncio.run(crowd())
    assert set(served) >= set(range(len(seconds))) - gone
    assert places.in_flight == 0


def test_a_free_place_wakes_one_of_those_who_wait() -> None:
    places = AdaptiveLimit(start=1, most=1, cooldown=0)

    async def crowd() -> int:
        async def hold() -> None:
            async with places.slot():
                await asyncio.sleep(0)

        loop = asyncio.get_running_loop()
        steps, plain = 0, loop.call_soon

        def counted(*args: Any, **kwargs: Any) -> Any:
            nonlocal steps
            steps += 1
            return plain(*args, **kwargs)

        loop.call_soon = counted  # type: ignore[method-assign]
        await asyncio.gather(*(hold() for _ in range(300)))
        return steps

    assert asyncio.run(crowd()) < 300 * 10  # all woken each time: 300 * 300 / 2 and more


def test_spending_cap() -> None:
    prices = {"input_price": 2.0, "output_price": 10.0}  # a request costs 0.0003
    with serve() as server:
        made = engine(
            server.url, endpoint="openai", spending_cap=0.002, concurrency=1, max_concurrency=1
        )
        results = run(made, *(ask(text=str(i)) for i in range(12)), **prices)
        done = [r for r in results if not isinstance(r, BaseException)]
        refused = [r for r in results if isinstance(r, SpendingCapReached)]
        assert len(done) == len(server.bodies) == 6
        assert len(refused) == 6
        assert done[0].cost == pytest.approx(0.0003)
        ledger = made.info()["ledger"]
        assert ledger["spent"] == pytest.approx(0.0018)
        assert (ledger["requests"], ledger["input_tokens"], ledger["output_tokens"]) == (6, 600, 60)
    assert SpendingCapReached.stops_run
    assert str(pickle.loads(pickle.dumps(refused[0]))) == str(refused[0])


def test_cached_prompt_tokens_are_reported() -> None:
    usages = [
        {"prompt_tokens": 1000, "completion_tokens": 5},
        {"prompt_tokens": 1000, "prompt_tokens_details": {"cached_tokens": 600}},
        {"prompt_tokens": 1000, "prompt_tokens_details": None},
    ]

    def behave(number: int, body: dict[str, Any]) -> Reply:
        return 200, {}, {**ordinary(body), "usage": usages[number]}

    with serve(behave) as server:
        made = engine(server.url, endpoint="openai", concurrency=1, max_concurrency=1)
        one(made, ask())
        assert "prefix_hit_rate" not in made.info()["ledger"]
        run(made, ask((2,)), ask((3,)))
    assert made.info()["ledger"]["cached_tokens"] == 600
    assert made.info()["ledger"]["prefix_hit_rate"] == 0.2


def test_prompts_are_metered_where_the_endpoint_counts_cache_hits() -> None:
    def kept(number: int, body: dict[str, Any]) -> Any:
        told = {"prompt_tokens_details": {"cached_tokens": 40}} if number else {}
        answer = ordinary(body)
        return 200, {}, {**answer, "usage": {**answer["usage"], **told}}

    async def metered_twice(made: Any) -> list[tuple[int, int]]:
        found = []
        for _ in range(3):
            with metered() as meter:
                await asyncio.gather(made.generate(ask()))
            found.append((meter.read, meter.cached))
        return found

    for kind in ("vllm", "openai"):
        with serve(kept) as server:
            made = engine(server.url, endpoint=kind)
            # Nothing where the endpoint does not say it: that is not the same as none.
            assert asyncio.run(metered_twice(made)) == [(0, 0), (100, 40), (100, 40)]


def test_keys_come_from_the_environment_and_stay_there(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    with serve() as server:
        made = engine(server.url, endpoint="openai")
        one(made, ask())
        sent = server.headers[0]
        assert sent["Authorization"] == f"Bearer {KEY}"
        assert sent["Content-Type"] == "application/json"
        assert sent["User-Agent"].startswith("bon ")
        assert KEY not in json.dumps(made.info())
        assert KEY not in caplog.text
        open_one = engine(server.url, endpoint="openai", api_key_env=None)
        one(open_one, ask())
        assert "Authorization" not in server.headers[1]
    monkeypatch.delenv("TEST_KEY")
    with pytest.raises(BonError, match=r"variable TEST_KEY is not set -> export TEST_KEY=\.\.\."):
        engine("http://x/v1")


def test_hosts_are_known() -> None:
    made = engine("https://api.anthropic.com/v1/")
    assert made.info()["endpoint"] == "anthropic"
    assert made.info()["repeatable"].startswith("no")
    changed = engine("https://api.openai.com/v1", capabilities={"n": False})
    assert changed.can.logprobs
    assert not changed.can.n


def ranked(made: OpenAIEngine, request: RankRequest) -> Any:
    async def rank() -> Any:
        try:
            return await made.rank(request)
        finally:
            await made.close()

    return asyncio.run(rank())


PAIR = RankRequest(("Which colour?",), ("Red.",), "Find the answer.", "{{ query }}")


def test_a_pair_is_scored_raw_beside_v1() -> None:
    def answer(_: int, body: dict[str, Any]) -> Reply:
        return 200, {}, {"data": [{"index": 0, "score": -7.25}], "usage": {"prompt_tokens": 33}}

    with serve(answer) as server:
        found = ranked(engine(server.url, endpoint="vllm"), PAIR)
        (body,) = server.bodies
        assert server.paths == ["/score"]
    assert (found.score, found.num_prompt_tokens) == (-7.25, 33)
    assert body == {
        "model": "m",
        "queries": {"content": [{"type": "text", "text": "Which colour?"}]},
        "documents": {"content": [{"type": "text", "text": "Red."}]},
        "use_activation": False,
        "instruction": "Find the answer.",
    }


def test_an_endpoint_without_rerankers_says_so() -> None:
    with pytest.raises(Unsupported, match="runs no rerankers"):
        ranked(engine("http://127.0.0.1:1/v1", endpoint="openai"), PAIR)
