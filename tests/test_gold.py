"""Gold labels stay with the driver: two runs whose gold differs ask byte for byte the same.

Engines and rewarders of a user's own write down all that they are passed, pickled, while they run
in the real workers. The answers of all questions and the preferences of all pairs are then changed.
"""

import json
import os
import pickle
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import pytest
import yaml

from bon.core.images import image_mark
from bon.core.records import ImageRef, PreferencePair
from bon.dispatch.worker import JudgeTask, Payload
from bon.engines import ENGINES
from bon.policies.generate import Ask
from bon.running.runner import make_sources
from bon.running.start import start
from bon.running.tally import Tally
from bon.storage.store import Store
from bon.work.setup import prepare
from bon.work.sources import pair_item
from tests.conftest import write_pairs, write_questions
from tests.running.conftest import work_here

PARTS = """
import os
import pickle
from hashlib import sha256
from pathlib import Path

from bon.engines import EngineEntry, echo
from bon.engines.base import Engine, Generation, Likelihood, Reward, Sample
from bon.engines.fields import EngineSettings, setting
from bon.rewarders.base import Rewarder, Verdict


def note(name, *received):
    # What the echo engine may know is part of what these could reach.
    received = pickle.dumps((*received, echo._ANSWER_KEY.get()))
    with (Path(os.environ["RECEIVED"]) / f"{name}-{os.getpid()}").open("ab") as file:
        pickle.dump(received, file)
    return received


class RecordingSettings(EngineSettings):
    reply: str = setting("Answer: {choice}", "what it says", shapes=True)
    label: str = setting("", "whose requests these are", shapes=False)


class Recording(Engine):
    name = "recording"

    def __init__(self, settings):
        self._settings = settings

    async def generate(self, request):
        self._note(request)
        choices = request.choices or ("3",)
        texts = [
            self._settings.reply.format(choice=choices[(seed // 3) % len(choices)])
            for seed in request.seeds
        ]
        return Generation(tuple(Sample(text, 3, -1.0) for text in texts), 10)

    async def likelihood(self, request):
        return Likelihood(-self._note(request), 1)

    async def reward(self, request):
        return Reward(self._note(request))

    async def rank(self, request):
        return Reward(self._note(request))

    def _note(self, request):
        return float(sha256(note(self._settings.label, request)).digest()[0])


ENTRY = EngineEntry(path="recording_parts:Recording", settings=RecordingSettings)


class ByHash(Rewarder):
    arity = "one"

    async def judge(self, item, shown, seeds):
        card = self.card.model_dump_json()
        received = note(self.card.name, card, self.prompt, item, shown, seeds)
        return [Verdict("scored", score=float(sha256(received).digest()[0]))] * len(seeds)


class TwoByHash(ByHash):
    arity = "two"

    async def judge(self, item, shown, seeds):
        (verdict, *_) = await super().judge(item, shown, seeds)
        return [Verdict("first" if verdict.score > 128 else "second")] * len(seeds)


class ManyByHash(ByHash):
    arity = "many"

    async def judge(self, item, shown, seeds):
        (verdict, *_) = await super().judge(item, shown, seeds)
        return [Verdict("chosen", score=int(verdict.score) % len(shown))] * len(seeds)
"""
METADATA = "Metadata-Version: 2.1\nName: recording-parts\nVersion: 1\n"
ENTRY_POINTS = "[bon.engines]\nrecording = recording_parts:ENTRY\n"
WORDS = {"pattern": r"Answer: (\w+)"}
CARDS: dict[str, dict[str, Any]] = {
    "pairwise": {
        "kind": "pairwise",
        "prompt": {"text": "{{ prompt }}|{{ first }}|{{ second }}"},
        "verdict": WORDS,
    },
    "pointwise": {
        "kind": "pointwise",
        "prompt": {"text": "{{ prompt }}|{{ response }}"},
        "score": {**WORDS, "values": {"good": 1, "bad": 0}},
    },
    "listwise": {
        "kind": "listwise",
        "window": 3,
        "prompt": {"text": "{{ prompt }}|{{ responses | join('|') }}"},
        "score": WORDS,
    },
    "stepwise": {
        "kind": "stepwise",
        "step_separator": " ",
        "prompt": {"text": "{{ prompt }}|{{ steps | length }}|{{ step }}"},
        "score": {**WORDS, "values": {"good": 1, "bad": 0}},
    },
    "scalar": {"kind": "scalar"},
    "likelihood": {"kind": "likelihood"},
    "rerank": {"kind": "rerank", "prompt": {"text": "{{ query }}{{ document }}"}},
}
OWN = {"one": "ByHash", "two": "TwoByHash", "many": "ManyByHash"}


def experiment(kinds: Any = CARDS, **judging: Any) -> dict[str, Any]:
    """A policy and rewarders of these kinds on the recording engine, and classes of a user's."""
    asked = [
        {**CARDS[kind], "name": kind, "engine": "recording", "engine_args": {"label": kind}}
        for kind in kinds
    ]
    own = [  # on the echo engine, too, a user's class must not learn the gold
        {"name": f"own-{arity}-{engine}", "kind": "python", "python": f"recording_parts:{name}",
         "engine": engine}
        for arity, name in OWN.items() for engine in ("none", "echo")
    ]  # fmt: skip
    policy = {"name": "policy", "engine": "recording", "prompt": "bare", "n": 5}
    policy["engine_args"] = {"label": "policy", "reply": "Well, then. Answer: {choice}"}
    models = [policy, *asked, *own]
    return {
        "name": "gold",
        "questions": {"benchmark": "multiple_choice", "path": "questions.jsonl"},
        "pairs": [{"benchmark": "preference", "path": "pairs.jsonl"}],
        "policies": [policy],
        "rewarders": [{**card, "placement": {"group": "all"}} for card in models[1:]],
        "judging": {"skip": "nothing", **judging},
        "analysis": {"bootstrap": 100},
    }


def write_data(folder: Path, *, changed: bool) -> None:
    """Write questions and pairs; `changed`: every answer and every preference is another one."""
    folder.mkdir()
    write_questions(folder / "questions.jsonl", 8)
    write_pairs(folder / "pairs.jsonl", 6)
    if not changed:
        return
    for name in ("questions", "pairs"):
        path = folder / f"{name}.jsonl"
        rows = [json.loads(line) for line in path.read_text().splitlines()]
        for row in rows:
            if name == "questions":
                row["answer"] = "BCDEA"["ABCDE".index(row["answer"])]
            else:
                row["chosen"], row["rejected"] = row["rejected"], row["chosen"]
        path.write_text("\n".join(map(json.dumps, rows)))


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An installed package with an engine and rewarders that write down what they receive."""
    folder = tmp_path / "site"
    info = folder / "recording_parts-1.dist-info"
    info.mkdir(parents=True)
    (folder / "recording_parts.py").write_text(textwrap.dedent(PARTS))
    (info / "METADATA").write_text(METADATA)
    (info / "entry_points.txt").write_text(ENTRY_POINTS)
    monkeypatch.syspath_prepend(str(folder))
    return folder


@pytest.fixture
def here(site: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The package is there in this process."""
    monkeypatch.delitem(vars(ENGINES), "_installed", raising=False)
    monkeypatch.setitem(vars(ENGINES), "_added", {})
    yield
    sys.modules.pop("recording_parts", None)


def received(folder: Path) -> dict[str, list[bytes]]:
    """What each model received, in the order in which its worker did."""
    calls: dict[str, list[bytes]] = {}
    for path in sorted(folder.iterdir()):
        with path.open("rb") as file:
            size = path.stat().st_size
            while file.tell() < size:
                calls.setdefault(path.name.rpartition("-")[0], []).append(pickle.load(file))
    return calls


def sent(study: dict[str, Any], base: Path) -> list[bytes]:
    """Do a run in this process; return every payload as it would go to a worker."""
    setup = prepare(study, base)
    with Store(base / "run") as store:
        start(setup, store, quiet=True)
        tally, sources = Tally(setup, store), make_sources(setup, store)
        asked = work_here(setup, tally, sources)
        assert tally.failed == {}
        assert not store.has("judgements", "outcome = 'error'")
    return [pickle.dumps((source.model, task)) for source, tasks in asked for task in tasks]


@pytest.mark.parametrize(
    "judging",
    [
        {"design": "all_pairs"},
        {"design": "race"},
        {"design": "knockout"},
    ],
    ids=lambda judging: judging["design"],
)
def test_what_is_sent_and_received_does_not_depend_on_the_gold(
    judging: dict[str, Any], here: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = experiment(**judging)
    payloads, calls, gold = [], [], []
    for name, changed in (("one", False), ("two", True)):
        write_data(tmp_path / name, changed=changed)
        heard = tmp_path / f"{name}-received"
        heard.mkdir()
        monkeypatch.setenv("RECEIVED", str(heard))
        payloads.append(sent(study, tmp_path / name))
        calls.append(received(heard))
        with Store(tmp_path / name / "run", readonly=True) as store:
            questions = {question.key: question.answer for question in store.questions()}
            gold.append((questions, {pair.key: pair.preferred for _, pair in store.pairs()}))
    assert all(gold[0][0][key] != answer for key, answer in gold[1][0].items())
    assert all(gold[0][1][key] != better for key, better in gold[1][1].items())
    assert payloads[0] == payloads[1]
    models = {card["name"] for card in [*study["policies"], *study["rewarders"]]}
    assert set(calls[0]) == models
    assert calls[0] == calls[1]


@pytest.mark.ray
@pytest.mark.slow
def test_workers_of_a_run_receive_the_same_whatever_the_gold(site: Path, tmp_path: Path) -> None:
    calls = []
    for name, changed in (("one", False), ("two", True)):
        write_data(tmp_path / name, changed=changed)
        (tmp_path / name / "e.yaml").write_text(yaml.safe_dump(experiment()))
        heard = tmp_path / f"{name}-received"
        heard.mkdir()
        done = subprocess.run(
            [sys.executable, "-c", "from bon.commands.main import main; main()",
             "run", "e.yaml", "--out", "run"],
            cwd=tmp_path / name,
            env={
                **os.environ,
                "RECEIVED": str(heard),
                "PYTHONPATH": f"{site}{os.pathsep}{os.environ.get('PYTHONPATH', '')}",
            },
            capture_output=True, text=True, timeout=280,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        # Batches overlap: which item comes first is not the gold's doing.
        calls.append({model: sorted(rows) for model, rows in received(heard).items()})
    assert len(calls[0]) == 1 + len(CARDS) + 2 * len(OWN)
    assert calls[0] == calls[1]


def test_only_own_classes_on_echo_get_an_answer_key(
    here: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = experiment()
    for card in (*study["policies"], *study["rewarders"]):
        if card["engine"] == "recording":
            card |= {"engine": "echo", "engine_args": {"accuracy": 1.0}}
    write_data(tmp_path / "one", changed=False)
    monkeypatch.setenv("RECEIVED", str(tmp_path / "one"))
    payloads: list[tuple[str, Payload]] = [
        pickle.loads(row) for row in sent(study, tmp_path / "one")
    ]
    told = {model for model, payload in payloads if payload.answer_key is not None}
    assert told == {"policy", *CARDS}
    for _, payload in payloads:
        if isinstance(payload, JudgeTask) and payload.answer_key:
            assert payload.answer_key.keys() == payload.item.responses.keys()
    letters = {payload.answer_key for _, payload in payloads if isinstance(payload, Ask)}
    assert letters == set("ABCDE")


def test_the_order_of_a_pair_does_not_change_what_is_shown() -> None:
    images = [ImageRef(f"{digit}" * 64, "") for digit in range(3)]
    first, second = (f"See {image_mark(image.sha256)}" for image in images[1:])
    places: tuple[Literal[0, 1], ...] = (0, 1)
    made = [
        PreferencePair("k", "i", "d", "Which?", responses, preferred, (images[0], *inside))
        for responses, inside in (
            ((first, second), images[1:]),
            ((second, first), images[:0:-1]),
        )
        for preferred in places
    ]
    assert len({pickle.dumps(pair_item(pair)) for pair in made}) == 1
