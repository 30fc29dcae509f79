"""Packed checkpoints: what comes out, in which place, and by whom."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from bon.core.errors import BonError
from bon.engines.packed_checkpoints import packed_key, rounded, tensors_of, unpacked
from bon.experiment.cards import load_rewarder

torch = pytest.importorskip("torch")
from safetensors.torch import load_file, save_file  # noqa: E402

from tools.miniature.packing import pack_all, parents  # noqa: E402

ENTRIES = [
    {"name": "base", "base": "base", "role": "likelihood-base"},
    {"name": "judge", "base": "base", "role": "pointwise", "starts_from": "base"},
    {"name": "policy", "base": "base", "role": "policy"},
    {"name": "copy", "base": "base", "role": "policy"},
]


@pytest.fixture
def packed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Three checkpoints: a base, a judge that shares its first tensor and has a head, a policy."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    torch.manual_seed(0)
    base = {"eyes": torch.randn(8, 3, 4), "words": torch.randn(50, 32), "norm": torch.ones(32)}
    judge = base | {"words": base["words"] + 0.1 * torch.randn(50, 32), "head": torch.randn(1, 32)}
    policy = base | {"words": base["words"] + 0.1 * torch.randn(50, 32)}
    for name, tensors in (("base", base), ("judge", judge), ("policy", policy), ("copy", base)):
        folder = tmp_path / "plain" / name
        folder.mkdir(parents=True)
        save_file(
            {k: v.to(torch.bfloat16) for k, v in tensors.items()}, folder / "model.safetensors"
        )
        (folder / "config.json").write_text(json.dumps({"name": name}))
        (folder / "tokenizer.json").write_text("{}")
    pack_all(tmp_path / "plain", ENTRIES, tmp_path / "packed")
    return tmp_path / "packed"


def test_an_unpacked_checkpoint_is_close_to_the_original(packed: Path) -> None:
    for name, most in (("base", 0.04), ("judge", 0.04), ("policy", 0.02)):
        folder = unpacked(packed / name)
        assert {p.name for p in folder.iterdir()} == {
            *("config.json", "model.safetensors", "tokenizer.json")
        }
        found = load_file(folder / "model.safetensors")
        wanted = load_file(packed.parent / "plain" / name / "model.safetensors")
        assert found.keys() == wanted.keys()
        for key, tensor in wanted.items():
            assert found[key].dtype == torch.bfloat16
            assert (found[key].float() - tensor.float()).abs().max() < most


def test_what_is_equal_in_the_parent_is_stored_once_and_stays_equal(packed: Path) -> None:
    base, judge = tensors_of(packed / "base"), tensors_of(packed / "judge")
    assert judge["eyes"] is base["eyes"]
    assert tensors_of(packed / "copy").keys() == base.keys()
    assert (packed / "copy" / "weights.xz").stat().st_size < 200
    assert (packed / "shared" / "tokenizer.json").exists()
    assert not (packed / "judge" / "tokenizer.json").exists()


def test_an_ordinary_folder_is_returned_as_it_is(packed: Path) -> None:
    plain = packed.parent / "plain" / "base"
    assert unpacked(plain) == plain


def test_processes_that_unpack_at_once_agree(packed: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from bon.engines.packed_checkpoints import unpacked"
    )
    code += "; print(unpacked(Path(sys.argv[1])))"
    command = [sys.executable, "-c", code, str(packed / "judge")]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(4)]
    folders = {process.communicate()[0].strip() for process in running}
    assert [process.returncode for process in running] == [0] * 4
    (folder,) = folders
    assert [p.name for p in Path(folder).parent.iterdir()] == [Path(folder).name]  # nothing is left


def test_the_key_changes_with_the_parent_and_not_with_the_model_card(packed: Path) -> None:
    before = packed_key(packed / "judge")
    (packed / "judge" / "README.md").write_text("# judge")
    assert packed_key(packed / "judge") == before
    (packed / "base" / "config.json").write_text("{}")
    assert packed_key(packed / "judge") != before


def test_a_cache_that_cannot_be_written_is_reported_with_the_setting(
    packed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (packed.parent / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(packed.parent / "file"))
    with pytest.raises(BonError) as error:
        unpacked(packed / "base")
    assert "XDG_CACHE_HOME" in error.value.fix


def test_the_folder_is_absolute_whatever_the_cache_is(
    packed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(packed.parent)
    monkeypatch.setenv("XDG_CACHE_HOME", "near")
    assert unpacked(packed / "base").is_absolute()


def test_rounding_is_torch_s() -> None:
    values = np.random.RandomState(0).normal(size=10_000).astype(np.float32)
    theirs = torch.from_numpy(values).to(torch.bfloat16).float().numpy()
    assert np.array_equal(rounded(values), theirs)


def test_a_card_names_a_packed_folder_and_loading_it_writes_nothing(
    packed: Path, tmp_path: Path
) -> None:
    card = {
        "name": "mine", "kind": "likelihood", "engine": "transformers", "model": "packed/base",
    }  # fmt: skip
    loaded = load_rewarder(card, tmp_path)
    assert not (tmp_path / "cache").exists()
    assert Path(loaded.model_path).is_relative_to(tmp_path / "cache")


def test_the_first_of_a_base_is_its_parent() -> None:
    entries = [
        {"name": "policy-b", "base": "base-b"},
        {"name": "critic-b", "base": "base-b", "starts_from": "base-b"},
        {"name": "pair-b", "base": "base-b", "starts_from": "critic-b"},
    ]
    assert parents(entries) == {"policy-b": "", "critic-b": "policy-b", "pair-b": "critic-b"}
