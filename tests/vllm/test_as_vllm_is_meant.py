"""vLLM in process has the defaults of `LLM`, and its limit on thinking."""

import os
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

found = find_spec("vllm")
if found is None or found.origin is None:  # a folder of that name is not the package
    pytest.skip("vllm is not installed: see tests/vllm/run.sh", allow_module_level=True)

from tiny_checkpoint import make_checkpoint  # noqa: E402

from bon.core.sampling import Sampling  # noqa: E402
from bon.engines import build  # noqa: E402
from bon.engines.base import GenerateRequest, Message  # noqa: E402
from tests.processes import command, descendants  # noqa: E402

pytestmark = [pytest.mark.model, pytest.mark.slow, pytest.mark.timeout(1200)]

OPENS = "{% if add_generation_prompt %}<think>\n{% endif %}{# </think> #}"


@pytest.fixture(scope="module")
def thinker(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = make_checkpoint(tmp_path_factory.mktemp("thinker"), added=("<think>", "</think>"))
    template = folder / "chat_template.jinja"
    template.write_text(template.read_text().rstrip() + OPENS)
    return folder


@pytest.fixture(scope="module")
def started(thinker: Path, flags: dict[str, Any], session: Any) -> Iterator[tuple[Any, list[Any]]]:
    """The engine, and its core's processes."""
    others = descendants([os.getpid()])
    engine = build("vllm", {"model": str(thinker), "engine_args": flags})
    new = [each for each in descendants([os.getpid()]) if each not in others]
    yield engine, [each for each in new if "EngineCore" in command(each)]
    session.run(engine.close())


@pytest.fixture(scope="module")
def thinking(started: tuple[Any, list[Any]]) -> Any:
    return started[0]


def ask(**limits: int) -> GenerateRequest:
    sampling = Sampling(temperature=0, max_tokens=4, **limits)
    return GenerateRequest((Message("user", ("Which is red?",)),), sampling, (1,), logprobs=1)


def test_reasoning_has_a_limit_of_its_own(session: Any, thinker: Path, thinking: Any) -> None:
    plain = build("transformers", {"model": str(thinker)})
    limited = ask(max_thinking_tokens=5)
    (expected,) = session.run(plain.generate(limited)).samples
    (sample,) = session.run(thinking.generate(limited)).samples
    session.run(plain.close())
    assert sample.reasoning == expected.reasoning
    assert sample.finish == expected.finish == "length"
    assert sample.num_tokens == 5 + 1 + 4  # reasoning, what ends it, answer
    assert len(sample.tokens) == 4
    (endless,) = session.run(thinking.generate(ask())).samples
    assert (endless.text, endless.num_tokens, endless.finish) == ("", 4, "length")


def test_a_step_has_as_many_sequences_and_tokens_as_llm_takes(
    thinker: Path, thinking: Any, flags: dict[str, Any]
) -> None:
    from vllm import LLM

    # In chunks of prompts, too: what bon switches off on a CPU decides neither number.
    llm = LLM(str(thinker), enable_chunked_prefill=False, **flags)
    ours, theirs = (
        engine.vllm_config.scheduler_config for engine in (thinking._engine, llm.llm_engine)
    )
    llm.llm_engine.engine_core.shutdown()
    for name in ("max_num_seqs", "max_num_batched_tokens"):
        assert getattr(ours, name) == getattr(theirs, name)


def test_its_process_which_holds_the_memory_ends_with_it(
    session: Any, started: tuple[Any, list[Any]]
) -> None:
    engine, cores = started
    assert cores
    session.run(engine.close())
    deadline = time.monotonic() + 60  # what vLLM had to kill ends a little later
    while any(each.alive() for each in cores) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not any(each.alive() for each in cores)
