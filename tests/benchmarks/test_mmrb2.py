"""MMRB2's reasoning task: replicas of both published forms, and what judges are shown of it."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from bon.benchmarks import BENCHMARKS, BadRow, load_pairs
from bon.benchmarks.leaks import find_leaks
from bon.core.errors import BonError
from bon.core.images import ImageStore, image_mark
from bon.core.keys import text_key
from bon.core.records import PreferencePair, Question
from bon.dispatch.worker import filter_images
from bon.engines.base import (
    Engine,
    GenerateRequest,
    Generation,
    ImagePart,
    Reward,
    Sample,
    ScoreRequest,
)
from bon.experiment.config import DatasetSpec, RewarderCard
from bon.experiment.prompts import Prompt
from bon.rewarders.base import Rewarder
from bon.rewarders.generative import PairwiseJudge
from bon.rewarders.scalar import ScalarHead
from bon.work.sources import pair_item

from .conftest import Write, png, struct

A_TEXT = ["Look at the left, ", ", and at the whole, ", ".\n\nAnswer: (D)"]


def built(label: str = "blink_1", **changes: Any) -> dict[str, Any]:
    """A row of reasoning.json as the benchmark's scripts build it."""
    answer = [["text", A_TEXT[0]], ["image", "images/a_0.png"], ["text", A_TEXT[1]]]
    row = {
        "id": label,
        "prompt_content": [
            ["image", "input_images/first.png"],
            ["image", "input_images/second.png"],
            ["text", "Which image is real?"],
        ],
        "prompt_source": "blink",
        "prompt_metadata": {"id": "val_1"},
        "response_a": {
            "model_name": "GPT5_Gemini_SketchpadAgent",
            "response_content": [*answer, ["image", "images/a_1.png"], ["text", A_TEXT[2]]],
        },
        "response_b": {"model_name": "o3", "response_content": [["text", "Answer: (A)"]]},
        "chosen": "A",
        "human_annotations": {"response_a_ratings": ["B"], "response_b_ratings": ["C"]},
    }
    return row | changes


FILES = {
    "input_images/first.png": 1,
    "input_images/second.png": 2,
    "images/a_0.png": 3,
    "images/a_1.png": 4,
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The benchmark's folder after its own build: four tasks, two folders of images."""
    home = tmp_path / "benchmark"
    for name, shade in FILES.items():
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_bytes(png(shade))
    for task in ("t2i", "edit", "interleaved"):
        (home / f"{task}.json").write_text(json.dumps({"pairs": [{"id": task}]}))
    write_task(home, [built()])
    return home


def write_task(home: Path, rows: list[dict[str, Any]]) -> None:
    (home / "reasoning.json").write_text(json.dumps({"pairs": rows}))


def hub_row(**changes: Any) -> dict[str, Any]:
    """The same row as the copy on the hub holds it; the numbers of its placeholders are odd."""
    row = {
        "pair_id": "blink_1",
        "prompt_text": "<image_1><image_2>Which image is real?",
        "prompt_images": [struct(png(1)), struct(png(2))],
        "response_a_text": f"{A_TEXT[0]}<image_7>{A_TEXT[1]}<image_0>{A_TEXT[2]}",
        "response_a_images": [struct(png(3)), struct(png(4))],
        "response_a_model": "GPT5_Gemini_SketchpadAgent",
        "response_b_text": "Answer: (A)",
        "response_b_images": [],
        "response_b_model": "o3",
        "chosen": "a",
        "human_annotations": "{}",
        "prompt_source": "blink",
        "prompt_metadata": "{}",
    }
    return row | changes


def load(path: Path, store: ImageStore) -> list[PreferencePair | BadRow]:
    return list(load_pairs(DatasetSpec(benchmark="mmrb2", path=str(path)), store))


def one(path: Path, store: ImageStore) -> PreferencePair:
    (pair,) = load(path, store)
    assert isinstance(pair, PreferencePair)
    return pair


def test_both_published_forms_are_the_same_pair(
    folder: Path, write: Write, store: ImageStore
) -> None:
    pair = one(folder, store)
    parquet = write("copy/reasoning/test-00000-of-00001.parquet", [hub_row()])
    assert one(parquet.parents[1], store).key == pair.key
    assert one(folder / "reasoning.json", store).key == pair.key
    assert (pair.id, pair.group, pair.tag, pair.dataset) == (
        "blink_1", "reasoning", "blink", "mmrb2"
    )  # fmt: skip
    one_, two, three, four = (image_mark(image.sha256) for image in pair.images)
    assert pair.prompt == f"{one_}{two}Which image is real?"
    better = f"{A_TEXT[0]}{three}{A_TEXT[1]}{four}{A_TEXT[2]}"
    assert pair.responses[pair.preferred] == better
    assert [Path(image.path).read_bytes() for image in pair.images] == [
        png(shade) for shade in FILES.values()
    ]


def test_a_task_that_generates_images_is_read_by_its_name(folder: Path, store: ImageStore) -> None:
    row = built(
        "t2i_1",
        prompt_content=[["text", "Draw a cat."]],
        response_a={"response_content": [["image", "images/a_0.png"]]},
        response_b={"response_content": [["image", "images/a_1.png"]]},
    )
    (folder / "t2i.json").write_text(json.dumps({"pairs": [row]}))
    spec = DatasetSpec(benchmark="mmrb2", path=str(folder), config="t2i")
    (pair,) = load_pairs(spec, store)
    assert isinstance(pair, PreferencePair)
    assert (pair.group, len(pair.images)) == ("t2i", 2)
    better, worse = (image_mark(image.sha256) for image in pair.images)
    assert pair.responses[pair.preferred] == better
    assert pair.responses[1 - pair.preferred] == worse


def test_images_without_a_placeholder_stand_at_the_end(write: Write, store: ImageStore) -> None:
    rows = [
        hub_row(prompt_text="Which?", response_a_text="", response_b_text="x <image_1> y"),
        hub_row(prompt_text="<image_1><image_2><image_3>Which?"),
    ]
    pairs = load(write("x.parquet", rows), store)
    first, second = (pair for pair in pairs if isinstance(pair, PreferencePair))
    marks = [image_mark(image.sha256) for image in first.images]
    assert first.prompt == f"Which?{marks[0]}{marks[1]}"
    assert first.responses[first.preferred] == f"{marks[2]}{marks[3]}"
    assert first.responses[1 - first.preferred] == "x \n y"  # a placeholder of no image
    assert second.prompt == f"{marks[0]}{marks[1]}Which?"


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"chosen": "C"}, "its better response is 'C', neither A nor B"),
        ({"prompt_content": "Which?"}, "its prompt is not a list of texts and images"),
        ({"prompt_content": [["video", "x.mp4"]]}, "neither a text nor an image"),
        ({"prompt_content": []}, "its prompt or a response is empty"),
        ({"prompt_content": [["image", "input_images/gone.png"]]}, "gone.png is missing"),
        ({"response_a": built()["response_b"]}, "both responses are the same text"),
    ],
)
def test_bad_rows(changes: dict[str, Any], reason: str, folder: Path, store: ImageStore) -> None:
    write_task(folder, [built(), built("bad", **changes)])
    _, bad = load(folder, store)
    assert isinstance(bad, BadRow)
    assert bad.id == "bad"
    assert reason in bad.reason


def test_before_its_prompts_are_downloaded_it_says_what_is_missing(
    folder: Path, store: ImageStore
) -> None:
    row = {key: value for key, value in built().items() if key != "prompt_content"}
    write_task(folder, [row])
    with pytest.raises(BonError, match=r"no column for prompt \(prompt_content\)"):
        load(folder, store)


def test_a_question_with_the_same_image_or_text_leaks(folder: Path, store: ImageStore) -> None:
    pair = one(folder, store)

    def question(key: str, text: str, shade: int) -> Question:
        image = store.add(png(shade))
        return Question(key, key, "d", f"<image 1> {text}", (), "A", (image,))

    questions = [
        question("image", "Another?", 2),
        question("text", "Which image is real?", 99),
        question("neither", "Another?", 99),
    ]
    leaks = find_leaks(questions, [pair])
    assert {(leak.question, leak.rule) for leak in leaks} == {("image", "image"), ("text", "text")}


class Heard(Engine):
    """Keeps what it is asked."""

    name = "heard"

    def __init__(self) -> None:
        self.requests: list[Any] = []

    async def generate(self, request: GenerateRequest) -> Generation:
        self.requests.append(request)
        return Generation((Sample("1", 1),), 1)

    async def reward(self, request: ScoreRequest) -> Reward:
        self.requests.append(request)
        return Reward(1.0)


def heard(
    kind: type[Rewarder], pair: PreferencePair, shown: tuple[int, ...], **card: Any
) -> list[list[str]]:
    """The parts of each message that a rewarder sends; an image as the shade of its file."""
    engine = Heard()
    settings: dict[str, Any] = {"verdict": {"pattern": "(1|2)"}} if len(shown) == 2 else {}
    made = RewarderCard.model_validate(
        {"name": "r", "kind": "pairwise" if settings else "scalar", **settings, **card}
    )
    item = filter_images(pair_item(pair), made.image_filter)
    text = "Q: {{ prompt }} 1: {{ first }} 2: {{ second }}" if settings else ""
    rewarder = kind(made, Prompt("p", text), engine)
    keys = tuple(text_key(pair.responses[side]) for side in shown)
    asyncio.run(rewarder.judge(item, keys, (0,)))
    shades = {png(shade): f"[{shade}]" for shade in range(100)}
    return [
        [shades.get(p.data, "[?]") if isinstance(p, ImagePart) else p for p in message.parts]
        for message in engine.requests[0].messages
    ]


BETTER = [A_TEXT[0], "[3]", A_TEXT[1], "[4]", A_TEXT[2]]


def test_a_judge_sees_each_image_where_it_stands(folder: Path, store: ImageStore) -> None:
    pair = one(folder, store)
    sides = (pair.preferred, 1 - pair.preferred)
    (parts,) = heard(PairwiseJudge, pair, sides)
    assert "".join(parts) == f"Q: [1][2]Which image is real? 1: {''.join(BETTER)} 2: Answer: (A)"
    assert all("<image" not in part for part in parts)
    (swapped,) = heard(PairwiseJudge, pair, sides[::-1])
    assert "".join(swapped) == f"Q: [1][2]Which image is real? 1: Answer: (A) 2: {''.join(BETTER)}"


def test_one_response_is_shown_without_the_other_ones_images(
    folder: Path, store: ImageStore
) -> None:
    pair = one(folder, store)
    user, assistant = heard(ScalarHead, pair, (1 - pair.preferred,))
    assert (user, assistant) == (["[1]", "[2]", "Which image is real?"], ["Answer: (A)"])
    assert heard(ScalarHead, pair, (pair.preferred,))[1] == BETTER


def test_a_handicap_is_for_these_images_too(folder: Path, store: ImageStore) -> None:
    pair = one(folder, store)
    sides = (pair.preferred, 1 - pair.preferred)
    (parts,) = heard(PairwiseJudge, pair, sides, image_filter="gray")
    assert sum(part.startswith("[") for part in parts) == 4
    assert "[4]" not in parts
    (blind,) = heard(PairwiseJudge, pair, sides, image_filter="drop")
    assert len(blind) == 1
    assert blind[0].count("<image ") == 4


def test_a_text_that_looks_like_a_mark_stays_text(folder: Path, store: ImageStore) -> None:
    write_task(
        folder, [built(response_b={"response_content": [["text", "<image 0123456789abcdef>"]]})]
    )
    pair = one(folder, store)
    assert heard(ScalarHead, pair, (1 - pair.preferred,))[1] == ["<image 0123456789abcdef>"]


def test_its_licence_and_source_are_named() -> None:
    found = BENCHMARKS["mmrb2"]
    assert found.licence == "CC BY-NC 4.0"
    assert found.hub == "rl-research/multimodal-rewardbench-2"
    assert "2512.16899" in found.citation
