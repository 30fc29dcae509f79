"""`bon client`: each printed file, called over HTTP exactly as its trainer calls it."""

import asyncio
from types import ModuleType, SimpleNamespace

import pytest
from PIL import Image
from typer.testing import CliRunner

from bon.commands.main import app as command_line
from bon.commands.serve import trainers
from bon.service.app import create_app
from bon.service.server.state import open_service
from bon.service.settings import Settings
from tests.service.server import served
from tests.service.test_online import CARDS
from tests.service.test_rewards import MUTE

TEXTS = ["six", "seven", "eight", "six"]


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """A server with tokens on a port of its own."""
    data = tmp_path_factory.mktemp("rewards")
    online = {"rewarders": [*CARDS["rewarders"], MUTE], "backend": "process"}
    settings = Settings(data=data, base=data, miniature=False, online=online)
    with open_service(settings) as service:
        service.supervisor.start = service.supervisor.stop = lambda: None
        token = service.tokens.add("trainer", "submit")
        with served(create_app(service)) as url:
            yield SimpleNamespace(url=url, token=token)


def loaded(server, trainer, rewarder="judge", *options):
    """The printed file as a module, with its token in the environment."""
    arguments = ["client", trainer, "--url", server.url, "--rewarder", rewarder, *options]
    printed = CliRunner().invoke(command_line, arguments)
    assert printed.exit_code == 0, printed.output
    module = ModuleType(f"{trainer.replace('-', '_')}_reward")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BON_TOKEN", server.token)
        exec(compile(printed.output, f"{trainer}.py", "exec"), vars(module))
    return module


def ranked(rewards):
    """Four rewards, those of two equal responses equal."""
    assert len(rewards) == 4
    assert rewards[0] == rewards[3]
    assert all(isinstance(reward, float) for reward in rewards)


def test_trl(server):
    """As GRPOTrainer calls it: columns as lists, prompts and completions text or conversations."""
    reward = loaded(server, "trl").bon_reward
    more = {"completion_ids": [[1]] * 4, "trainer_state": None, "log_extra": print}
    ranked(reward(prompts=["2 + 2?"] * 4, completions=TEXTS, **more))
    turns = [[{"role": "assistant", "content": text}] for text in TEXTS]
    content = [{"type": "image"}, {"type": "text", "text": "Which colour?"}]
    prompts = [[{"role": "user", "content": content}]] * 4
    images = [[Image.new("RGB", (8, 8), "red")]] * 4
    ranked(reward(prompts=prompts, completions=turns, images=images, **more))
    mute = loaded(server, "trl", "mute").bon_reward
    assert mute(prompts=["2 + 2?"] * 2, completions=["a", "b"], **more) == [None, None]


def test_verl(server):
    """As the naive reward manager does: one sample a call, many calls awaited together."""
    score = loaded(server, "verl", "head").compute_score

    async def batch():
        info = {"index": 3, "question": "2 + 2?"}
        calls = (score("sums", text, "B", info, reward_router_address=None) for text in TEXTS)
        return await asyncio.gather(*calls)

    result = asyncio.run(batch())
    ranked([row["score"] for row in result])
    assert {frozenset(row) for row in result} == {frozenset(result[0])}
    assert {row["group_size"] for row in result} == {1}


def test_openrlhf(server):
    """As OpenRLHF's agent calls it; its tensors are torch's."""
    torch = pytest.importorskip("torch")
    function = loaded(server, "openrlhf").reward_func
    result = function([f"2 + 2?{t}<|im_end|>" for t in TEXTS], ["2 + 2?"] * 4, ["4"] * 4)
    ranked(result["rewards"].tolist())
    assert all(isinstance(value, torch.Tensor) for value in result["extra_logs"].values())


def test_what_the_command_refuses():
    run = CliRunner().invoke
    assert set(trainers()) == {"trl", "verl", "openrlhf"}
    for arguments, words in (
        (["tlr", "--rewarder", "x"], "no file for the trainer"),
        (["trl", "--rewarder", "x", "--url", "here"], "not an address"),
        (["trl", "--rewarder", "x", "--url", 'http://x/"+evil()+"'], "not an address"),
    ):
        result = run(command_line, ["client", *arguments])
        assert result.exit_code != 0
        assert words in str(result.exception)
