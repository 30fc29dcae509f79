"""Files of an export: none is overwritten, none is left behind."""

import json
from pathlib import Path

import pytest

from bon.core.errors import BonError
from bon.exports import export_run
from bon.exports.preferences import Preferences
from bon.importing.import_files import import_files


@pytest.fixture
def run(tmp_path: Path) -> Path:
    for name, texts in {"one": ["Answer: A", "Answer: B"], "two": ["Answer: B", "hm"]}.items():
        rows = [
            {"id": f"q{i}", "question": f"{i}?", "options": "['x', 'y']", "answer": "A"}
            | {"response": text}
            for i, text in enumerate(texts)
        ]
        (tmp_path / f"{name}.jsonl").write_text("\n".join(map(json.dumps, rows)))
    files = [tmp_path / "one.jsonl", tmp_path / "two.jsonl"]
    import_files(files, "p", tmp_path / "run", quiet=True)
    return tmp_path / "run"


def test_a_file_of_other_contents_is_not_overwritten_without_a_word(run, tmp_path):
    out = tmp_path / "out"
    (path,) = export_run(run, out, "trl")
    before = path.read_bytes()
    assert export_run(run, out, "trl") == [path]  # the same again
    path.write_bytes(b"mine")
    with pytest.raises(BonError, match=r"train\.parquet exists with other contents.*--replace"):
        export_run(run, out, "trl")
    assert path.read_bytes() == b"mine"
    export_run(run, out, "trl", replace=True)
    assert path.read_bytes() == before
    assert [one.name for one in tmp_path.glob(".*")] == []


def test_a_refused_export_leaves_nothing(run, tmp_path):
    with pytest.raises(BonError, match="no rewarder 'x'"):
        export_run(run, tmp_path / "new" / "out", "trl", Preferences("x"))
    assert not (tmp_path / "new").exists()
    assert [one.name for one in tmp_path.glob(".*")] == []
