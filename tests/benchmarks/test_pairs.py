"""Reward benchmarks: forms, groups, keys, bad rows."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from bon.benchmarks import BENCHMARKS, BadRow, load_pairs
from bon.benchmarks.vl_rewardbench import group_of
from bon.core.errors import BonError
from bon.core.images import ImageStore
from bon.core.records import PreferencePair
from bon.experiment.config import DatasetSpec

from .conftest import Write, png, struct


def load(
    benchmark: str, path: Path, store: ImageStore, **settings: Any
) -> list[PreferencePair | BadRow]:
    spec = DatasetSpec(benchmark=benchmark, path=str(path), **settings)
    return list(load_pairs(spec, store))


def good(rows: list[PreferencePair | BadRow]) -> list[PreferencePair]:
    assert not [row for row in rows if isinstance(row, BadRow)]
    return [row for row in rows if isinstance(row, PreferencePair)]


def best(pair: PreferencePair) -> str:
    return pair.responses[pair.preferred]


def vlrb_row(label: str = "RLHF-V-1", **changes: Any) -> dict[str, Any]:
    row = {
        "id": label,
        "query": "<image>\nWhat is it?",
        "response": ["a cat", "a dog"],
        "human_ranking": [1, 0],
        "image": struct(png()),
        "query_source": "RLHF-V",
    }
    return row | changes


@pytest.mark.parametrize("name", BENCHMARKS)
def test_every_benchmark_says_what_it_is(name: str) -> None:
    found = BENCHMARKS[name]
    assert found.kind in ("questions", "pairs")
    assert found.title
    assert found.licence


def test_both_forms_of_vl_rewardbench_are_the_same_pair(write: Write, store: ImageStore) -> None:
    published = write("data/test-00000-of-00001.parquet", [vlrb_row()]).parents[1] / "data"
    (a,) = good(load("vl_rewardbench", published, store))
    text = {
        "id": "RLHF-V-1",
        "prompt": "What is it?",
        "chosen": "a dog",
        "rejected": "a cat",
        "image": "a.png",
    }
    path = write("text/x.jsonl", [text])
    (path.parent / "a.png").write_bytes(png())
    (b,) = good(load("vl_rewardbench", path, store))
    assert (a.key, a.responses, a.preferred) == (b.key, b.responses, b.preferred)
    assert best(a) == "a dog"
    assert a.prompt == "What is it?"
    assert a.group == "hallucination"
    assert (a.tag, b.tag) == ("RLHF-V", "")


def test_neither_place_is_the_better_one(write: Write, store: ImageStore) -> None:
    rows = [
        {"prompt": f"p{i}", "chosen": f"right {i}", "rejected": f"wrong {i}"} for i in range(400)
    ]
    pairs = good(load("preference", write("x.jsonl", rows), store))
    assert 160 < sum(pair.preferred for pair in pairs) < 240
    assert all(best(pair).startswith("right") for pair in pairs)


@pytest.mark.parametrize(
    ("label", "group"),
    [
        ("hallucination_pair-1003", "hallucination"),
        ("RLAIF-V-3", "hallucination"),
        ("RLHF-V-12", "hallucination"),
        ("mathverse_1063-2", "reasoning"),
        ("mmmu_pro_test_Math_1", "reasoning"),
        ("wildvision-battle-6481", "general"),
        ("LRVInstruction-000000007746", "general"),
        ("jailbreak-typo-1", "general"),
    ],
)
def test_groups_of_vl_rewardbench(label: str, group: str) -> None:
    assert group_of(label) == group


def test_an_explicit_group_wins(write: Write, store: ImageStore) -> None:
    (pair,) = good(load("vl_rewardbench", write("x.parquet", [vlrb_row(group="mine")]), store))
    assert pair.group == "mine"


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"response": ["a cat"]}, "two responses"),
        ({"response": ["a cat", "a cat"]}, "the same text"),
        ({"response": ["a cat", ""]}, "two responses"),
        ({"human_ranking": [0, 0]}, "neither [0, 1] nor [1, 0]"),
        ({"human_ranking": None}, "neither [0, 1] nor [1, 0]"),
        ({"query": None}, "no text in column 'query'"),
        ({"image": struct(b"GIF89a")}, "image sha256"),
    ],
)
def test_bad_rows_of_vl_rewardbench(
    changes: dict[str, Any], reason: str, write: Write, store: ImageStore
) -> None:
    path = write("x.parquet", [vlrb_row(), vlrb_row("bad", **changes)])
    _, bad = load("vl_rewardbench", path, store)
    assert isinstance(bad, BadRow)
    assert reason in bad.reason


def test_multimodal_rewardbench(write: Write, store: ImageStore) -> None:
    def row(label: str, category: str, better: str = "Output2") -> dict[str, Any]:
        return {
            "ID": label,
            "Text": f"about {label}",
            "Image": "images/a.png",
            "Output1": "one",
            "Output2": "two",
            "Better": better,
            "Category": category,
        }

    path = write(
        "data/all_data.json",
        [
            row("nocaps_1", "open_generation/correctness_task", "Output1"),
            row("visitbench_1", "open_generation/preference_task"),
            row("pairs_1", "safety"),
            row("hateful_1", "safety"),
            row("mathvista_1", "reasoning"),
            row("EMMA_1", "reasoning"),
            row("mmmu_1", "knowledge"),
            row("seed_1", "vqa"),
            row("odd", "vqa", "neither"),
        ],
    )
    (path.parent / "images").mkdir()
    (path.parent / "images" / "a.png").write_bytes(png())
    *pairs, bad = load("multimodal_rewardbench", path, store)
    assert isinstance(bad, BadRow)
    assert "neither Output1 nor Output2" in bad.reason
    assert [(pair.group, pair.tag) for pair in good(pairs)] == [
        ("correctness", ""),
        ("preference", ""),
        ("safety", "bias"),
        ("safety", "toxicity"),
        ("reasoning", "math"),
        ("reasoning", "coding"),
        ("knowledge", ""),
        ("vqa", ""),
    ]
    assert [best(pair) for pair in good(pairs)] == ["one"] + ["two"] * 7


def test_mm_rlhf_keeps_its_clusters_and_leaves_videos_out(write: Write, store: ImageStore) -> None:
    base = {"prompt": "p", "chosen": "c", "rejected": "r"}
    path = write(
        "x.jsonl",
        [
            base | {"id": "7", "image": "mcq/a.png"},
            base | {"id": "7", "image": "mcq/a.png", "rejected": "r2"},
            base | {"id": "8", "video": "video/a.mp4"},
        ],
    )
    (path.parent / "mcq").mkdir()
    (path.parent / "mcq" / "a.png").write_bytes(png())
    *pairs, video = load("mm_rlhf", path, store)
    assert [(pair.group, pair.meta) for pair in good(pairs)] == [("mcq", {"cluster": "7"})] * 2
    assert video == BadRow("8", "it is about a video")


MM_RLHF = [
    {"id": "7", "image": "mcq/a.png", "prompt": "p", "chosen": "c", "rejected": "r"},
    {"id": "7", "image": "mcq/a.png", "prompt": "p", "chosen": "c", "rejected": "r2"},
    {"id": "9", "image": "safety/b.png", "prompt": "q", "chosen": "c", "rejected": "r"},
    {"id": "8", "video": "video/a.mp4", "prompt": "p", "chosen": "c", "rejected": "r"},
    {"id": "8", "video": "video/a.mp4", "prompt": "p", "chosen": "c", "rejected": "r3"},
]


@pytest.fixture
def mm_rlhf(write: Write, tmp_path: Path) -> Path:
    """The repository of MM-RLHF-RewardBench as it is published: rows, and images beside them."""
    rows = [{"image": None, "video": None, **row} for row in MM_RLHF]
    write("mm/data/train-00000-of-00001.parquet", rows)
    write("mm/mm_reward_bench.jsonl", MM_RLHF)
    for name in ("mcq/a.png", "safety/b.png"):
        place = tmp_path / "mm" / "images" / name
        place.parent.mkdir(parents=True)
        place.write_bytes(png(len(name)))
    return tmp_path / "mm"


@pytest.mark.parametrize(
    "where",
    [
        {"path": ""},
        {"path": "data"},
        {"path": "data/train-00000-of-00001.parquet"},
        {"path": "mm_reward_bench.jsonl"},
        {"path": "", "split": "train"},
        {"hub": ""},
        {"hub": "", "limit": 3},
    ],
    ids=str,
)
def test_mm_rlhf_as_it_is_published(mm_rlhf: Path, store: ImageStore, where: Any) -> None:
    place = {key: str(mm_rlhf / where[key]) for key in ("path", "hub") if key in where}
    spec = DatasetSpec(benchmark="mm_rlhf", **{**where, **place})
    rows = list(load_pairs(spec, store))
    pairs = [row for row in rows if isinstance(row, PreferencePair)]
    assert [pair.group for pair in pairs] == ["mcq", "mcq", "safety"]
    assert all(len(pair.images) == 1 for pair in pairs)
    videos = [row for row in rows if isinstance(row, BadRow)]
    assert [row.id for row in videos] == ([] if "limit" in where else ["8", "8"])


def test_groups_of_mm_rlhf_outlive_its_images(mm_rlhf: Path, store: ImageStore) -> None:
    for place in ({"path": str(mm_rlhf)}, {"hub": str(mm_rlhf)}):
        spec = DatasetSpec(benchmark="mm_rlhf", columns={"image": ""}, **place)
        pairs = [row for row in load_pairs(spec, store) if isinstance(row, PreferencePair)]
        assert [pair.group for pair in pairs] == ["mcq", "mcq", "safety"]
        assert not any(pair.images for pair in pairs)


@pytest.mark.parametrize("name", ["../secret.png", "mcq/../../../secret.png", "/SECRET"])
def test_a_downloaded_row_names_no_file_outside_the_download(
    mm_rlhf: Path, write: Write, store: ImageStore, name: str
) -> None:
    (mm_rlhf.parent / "secret.png").write_bytes(png(77))
    named = name.replace("/SECRET", str(mm_rlhf.parent / "secret.png"))
    write("mm/data/train-00000-of-00001.parquet", [{**MM_RLHF[0], "image": named}])
    with pytest.raises(BonError, match="an image is given as a file name"):
        list(load_pairs(DatasetSpec(benchmark="mm_rlhf", hub=str(mm_rlhf)), store))
    assert not list(store.folder.rglob("?" * 64))


def test_any_preference_set(write: Write, store: ImageStore) -> None:
    rows = [
        {"ask": "p", "both": ["bad", "good"], "win": 1, "kind": "k"},
        {"ask": "p", "both": ["bad", "good"], "win": 2, "kind": "k"},
        {"ask": "p", "both": ["bad"], "win": 0, "kind": "k"},
    ]
    columns = {"prompt": "ask", "responses": "both", "preferred": "win", "group": "kind"}
    first, *bad = load("preference", write("x.jsonl", rows), store, columns=columns)
    (pair,) = good([first])
    assert (best(pair), pair.group, pair.id) == ("good", "k", "row-0")
    assert [row.reason for row in bad if isinstance(row, BadRow)] == [
        "its preferred response is 2, not 0 or 1",
        "it does not have two responses",
    ]


def test_conversations_give_their_last_message(write: Write, store: ImageStore) -> None:
    def turn(role: str, content: Any) -> dict[str, Any]:
        return {"role": role, "content": content}

    row = {
        "prompt": [turn("user", [{"type": "image"}, {"type": "text", "text": "What?"}])],
        "chosen": [turn("user", "What?"), turn("assistant", "yes")],
        "rejected": [turn("assistant", "no")],
    }
    (pair,) = good(load("preference", write("x.jsonl", [row]), store))
    assert (pair.prompt, best(pair), set(pair.responses)) == ("What?", "yes", {"yes", "no"})
    broken = load("preference", write("y.jsonl", [row, row | {"chosen": []}]), store)[1]
    assert broken == BadRow("row-1", "its better response has no text")


def test_the_real_text_only_benchmark(real: Path, store: ImageStore) -> None:
    path = real / "vl_rewardbench" / "pairs.jsonl"
    pairs = good(load("vl_rewardbench", path, store, columns={"image": ""}))
    assert len(pairs) == len({pair.key for pair in pairs}) == 1250
    assert len({pair.id for pair in pairs}) == 1225
    groups = Counter(pair.group for pair in pairs)
    assert groups == {"hallucination": 749, "reasoning": 318, "general": 183}
    longer = sum(len(best(p)) > len(p.responses[1 - p.preferred]) for p in pairs)
    assert longer / 1250 == pytest.approx(0.426, abs=5e-4)
    # Its images are not there: that is said, not passed over.
    with pytest.raises(BonError, match=r"image_0\.jpg is missing"):
        load("vl_rewardbench", path, store)


def test_every_better_response_meets_every_worse_one(write: Write, store: ImageStore) -> None:
    row = {
        "id": "1", "prompt": "Q", "chosen": ["right"], "rejected": ["a", "b", "c"],
        "subset": "Math", "num_correct": 1,
    }  # fmt: skip
    pairs = good(load("reward_bench_2", write("rb2.jsonl", [row]), store))
    assert [best(pair) for pair in pairs] == ["right"] * 3
    assert {pair.meta["set"] for pair in pairs} == {"1/0"}
    assert {(pair.group, pair.meta["cluster"]) for pair in pairs} == {("Math", "1")}
    assert len({pair.key for pair in pairs}) == 3
    styles = {"id": "2", "prompt": "Q", "domain": "chat",
              "chosen": ["c0", "c1", "c2"], "rejected": ["r0", "r1", "r2"]}  # fmt: skip
    pairs = good(load("rm_bench", write("rm.jsonl", [styles]), store))
    tags = {tuple(sorted(pair.responses)): pair.tag for pair in pairs}
    assert len(pairs) == 9
    assert tags["c0", "r2"] == "hard"
    assert tags["c1", "r1"] == "normal"
    assert tags["c2", "r0"] == "easy"


@pytest.mark.parametrize(("label", "better"), [("A>B", "a"), ("B>A", "b"), ("A=B", None)])
def test_labels_of_judgebench(
    label: str, better: str | None, write: Write, store: ImageStore
) -> None:
    row = {"pair_id": "1", "source": "math", "question": "Q", "response_A": "a",
           "response_B": "b", "label": label}  # fmt: skip
    other = {**row, "label": "A>B"}
    first, *_ = load("judgebench", write("x.jsonl", [row, other]), store)
    assert (best(first) if isinstance(first, PreferencePair) else None) == better


@pytest.mark.parametrize(
    ("winner", "better"),
    [("model_a", "a"), ("model_b", "b"), ("tie", None), ("tie (bothbad)", None)],
)
def test_ties_of_ppe_are_left_out(
    winner: str, better: str | None, write: Write, store: ImageStore
) -> None:
    row = {"question_id": "1", "language": "English", "prompt": "Q", "response_1": "a",
           "response_2": "b", "winner": winner}  # fmt: skip
    other = {**row, "winner": "model_a"}
    first, *_ = load("ppe", write("x.jsonl", [row, other]), store)
    assert (best(first) if isinstance(first, PreferencePair) else None) == better
    assert better is None or getattr(first, "group", "") == "English"


def test_the_criterion_is_part_of_the_prompt(write: Write, store: ImageStore) -> None:
    row = {"id": "1", "prompt": "Q", "response1": "a", "response2": "b", "image": struct(png()),
           "criteria": "Brevity", "criteria_preference": "response2"}  # fmt: skip
    (pair,) = good(load("omni_rewardbench", write("x.parquet", [row]), store))
    assert (best(pair), len(pair.images)) == ("b", 1)
    assert pair.prompt.endswith("criterion alone: Brevity")
