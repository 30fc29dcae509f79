"""The benchmarks' one table: what it holds; a script that fails costs only its own rows."""

import importlib.util
import json
import sys
from pathlib import Path

import pytest

BENCH = Path(__file__).parents[1] / "tools" / "bench"


@pytest.fixture
def whole(monkeypatch):
    """tools/bench/__main__.py as it is."""
    monkeypatch.syspath_prepend(str(BENCH))
    spec = importlib.util.spec_from_file_location("bench_main", BENCH / "__main__.py")
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "bench_main", module)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def bench(whole, monkeypatch, tmp_path):
    """It with two scripts in place of its own."""
    (tmp_path / "bench_good.py").write_text(
        f"import sys; sys.path.append({str(BENCH)!r})\n"
        "from measured import Side, note\n"
        "note('calls', 'calls', Side('bon', 19), Side('bare', 100), at_most=.2)\n"
        "note('rate', '/s', Side('bon', 9, 1.5, 2), Side('bare', 10), Side('other', 3),"
        " at_least=1)\n"
        "note('absent', '', said='not installed')\n"
    )
    (tmp_path / "bench_bad.py").write_text(
        f"import sys; sys.path.append({str(BENCH)!r})\n"
        "from measured import Side, note\n"
        "note('before it failed', 's', Side('bon', 1))\n"
        "sys.exit('no such thing')\n"
    )
    monkeypatch.setattr(whole, "HERE", tmp_path)
    monkeypatch.setattr(whole, "SCRIPTS", (whole.Script("bad"), whole.Script("good")))
    return whole


def test_one_table_of_every_script(bench, monkeypatch, tmp_path, capfd):
    monkeypatch.setattr(sys, "argv", ["bench", "--out", str(tmp_path / "out")])
    assert bench.main() == 1
    said = capfd.readouterr()
    assert "no such thing" in said.err
    text = (tmp_path / "out/bench.md").read_text()
    assert text in said.out
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in text.splitlines()
        if line.startswith("|")
    ][2:]
    assert rows == [
        ["before it failed", "1 s", "", "", "", "", "", "", "", ""],
        ["calls", "19 calls", "bare", "100", "0.190", "≤ 0.2 yes", "", "", "", ""],
        ["rate", "9 /s", "bare", "10", "0.900", "≥ 1 **no**", "1.5", "", "2", ""],
        ["", "", "other", "3", "3.000", "", "", "", "", ""],
        ["absent", "not installed", "", "", "", "", "", "", "", ""],
    ]
    assert "Asked and not reached: rate." in text
    assert "Failed: bad " in text
    kept = [json.loads(line) for line in (tmp_path / "out/bench.json").read_text().splitlines()]
    assert [line.get("what") for line in kept] == [
        None, "before it failed", None, "calls", "rate", "absent", None,
    ]  # fmt: skip
    assert [line["exit"] for line in kept if "ran" in line] == [1, 0]


def test_every_script_of_the_list_is_there(whole):
    for script in whole.SCRIPTS:
        assert (BENCH / f"bench_{script.name}.py").exists(), script.name


@pytest.mark.usefixtures("whole")
def test_the_time_of_what_a_command_starts_counts():
    from measured import spent

    work = "import time\nwhile time.process_time() < .3: pass"
    both = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {work!r}]); sys.exit(3)"
    wall, cpu, code = spent([sys.executable, "-c", both])
    assert code == 3
    assert wall >= 0.3
    assert cpu >= 0.3
