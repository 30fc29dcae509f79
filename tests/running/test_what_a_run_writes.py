"""What a run writes outside its directory is what docs/cluster.md lists, and most of it goes."""

import os
import re
import shutil
import sys
import tempfile
import time
from contextlib import suppress
from fnmatch import fnmatch
from pathlib import Path

import psutil
import pytest
import yaml

from tests.conftest import echo_experiment, write_pairs, write_questions

ROOT = Path(__file__).parents[2]
KEPT = ("HF_", "XDG_", "RAY_TMPDIR", "TMPDIR", "HOME", "MPLCONFIGDIR")
WRITES = os.O_WRONLY | os.O_RDWR


def listed(**folders: Path) -> list[str]:
    """The patterns of the table, for these folders."""
    rows = re.findall(r"^\| (`[$/].*?`) \|", (ROOT / "docs/cluster.md").read_text("utf-8"), re.M)
    patterns = [pattern for row in rows for pattern in re.findall("`(.*?)`", row)]
    assert patterns
    for name, folder in folders.items():
        patterns = [pattern.replace(f"${name}", str(folder)) for pattern in patterns]
    return patterns


def open_for_writing(process: psutil.Process) -> set[str]:
    """The files that a process and those that it started hold open to write."""
    found = set()
    for child in [process, *process.children(recursive=True)]:
        folder = Path(f"/proc/{child.pid}")
        with suppress(OSError):
            for link in (folder / "fd").iterdir():
                with suppress(OSError, IndexError):
                    flags = (folder / "fdinfo" / link.name).read_text().split("flags:")[1]
                    if int(flags.split()[0], 8) & WRITES:
                        found.add(str(link.readlink()).removesuffix(" (deleted)"))
    return {path for path in found if path.startswith("/") and Path(path).parent != Path("/dev")}


@pytest.mark.ray
@pytest.mark.model
@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs /proc")
def test_all_that_a_run_writes_elsewhere_is_listed(tmp_path):
    temporary = Path(tempfile.mkdtemp(prefix="w", dir="/tmp"))  # Ray needs a short path
    home, work = tmp_path / "home", tmp_path / "work"
    home.mkdir()
    work.mkdir()
    write_questions(work / "questions.jsonl", 6)
    write_pairs(work / "pairs.jsonl", 6)
    experiment = echo_experiment() | {"analysis": {"bootstrap": 100}}
    experiment["policies"] = [*experiment["policies"], {"card": "mini-policy-a", "n": 2}]
    (work / "e.yaml").write_text(yaml.safe_dump(experiment))
    own = {key: value for key, value in os.environ.items() if not key.startswith(KEPT)}
    own |= {"HOME": str(home), "TMPDIR": str(temporary), "HF_HUB_OFFLINE": "1"}
    command = [str(Path(sys.executable).with_name("bon")), "run", "e.yaml", "--out", "run"]
    seen: set[str] = set()
    try:
        with (tmp_path / "printed").open("w") as printed:
            process = psutil.Popen(command, cwd=work, env=own, stdout=printed, stderr=printed)
            while process.poll() is None:
                with suppress(psutil.Error):
                    seen |= open_for_writing(process)
                time.sleep(0.05)
        assert process.returncode == 0, (tmp_path / "printed").read_text()
        left = {str(path) for path in (*home.rglob("*"), *temporary.rglob("*")) if path.is_file()}
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    patterns = listed(TMPDIR=temporary, HOME=home)
    seen = {path for path in seen | left if not path.startswith((str(work), str(printed.name)))}
    assert any("/bon-" in path for path in seen)
    assert not [path for path in seen if not any(fnmatch(path, each) for each in patterns)]
    assert not [path for path in left if path.startswith(f"{temporary}/bon-")]
