"""Commands that show progress or a table, in a pseudo-terminal: what is then on its screen."""

import json
import os
import re
import sys
from pathlib import Path

import psutil
import pytest
import yaml

from bon.core.errors import ExitCode
from bon.running.progress import LABELS
from tests.conftest import echo_experiment, write_pairs, write_questions
from tests.terminal import CTRL_C, Ended, Terminal

BON = str(Path(sys.executable).with_name("bon"))
STOPPED = "bon: stopped; the same command resumes from here"
STYLE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
COLOR = re.compile(r"\x1b\[(?:[0-9]+;)*(?:3[0-9]|9[0-7]|38|4[0-8])[;m]")
NARROW = 60
STATES = ("ok", "missing", "warning", "")


def bon(*arguments: object, cwd: Path, columns: int = NARROW, **environment: str) -> Ended:
    """What a command leaves that must succeed, in lines that the terminal had to break nowhere."""
    command = [BON, *map(str, arguments)]
    ended = Terminal(command, cwd=cwd, columns=columns, **environment).wait()
    assert ended.code == ExitCode.COMPLETE, ended.text
    assert not ended.cursor_hidden
    assert_whole(ended, columns)
    return ended


def assert_whole(ended: Ended, columns: int) -> None:
    """No line is so long that the terminal breaks it, but for single words such as paths."""
    lines = STYLE.sub("", ended.raw).replace("\r", "\n").split("\n")
    assert not [line for line in lines if len(line) > columns and " " in line.strip()]


def bars(ended: Ended) -> dict[str, str]:
    """The share done by stage, of the last bars on the screen."""
    rows = (re.match(r"([a-z ]+?) +[━╸]* +(\d+/\d+)", line) for line in ended.screen)
    return dict(row.groups() for row in rows if row)


COMMANDS = (
    ["run", "--help"], ["doctor", "--help"], ["report", "--help"], ["client", "--help"],
    ["uplift", "--help"], ["list", "rewarders"], ["plan", "single-gpu"],
)  # fmt: skip


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_no_word_is_cut_in_a_narrow_terminal(command, tmp_path):
    """Help is compared with that in 200 columns; lists leave columns out there."""
    narrow, wide = (
        STYLE.sub("", bon(*command, cwd=tmp_path, columns=columns).raw) for columns in (NARROW, 200)
    )
    assert "…" not in narrow
    if "--help" in command:
        found, whole = (set(re.findall(r"[\w-]{3,}", text)) for text in (narrow, wide))
        assert found <= whole


# ------------------------------------------------------------------ bars alone

SHOWS = """
import sys, time
from pathlib import Path
from bon.core.console import say
from bon.dispatch.source import Source
from bon.running.progress import LABELS, Reporter

class Items(Source):
    def __init__(self, stage, total):
        super().__init__("m", total, 1)
        self.stage, self.left = stage, iter([[1]] * total)
    def steps(self):
        yield from self.left

sources = [Items(stage, int(sys.argv[1])) for stage in LABELS]
with Reporter(sources) as reporter:
    for source in sources:
        while tasks := source.take(100):
            source.answer(len(tasks), 500.0)
            reporter.update()
            if source.stage == "judge" and source.done == 100:
                while not Path("go").exists():
                    time.sleep(0.1)
        say("said meanwhile of policy:key: [m] " + "and more words " * 12 + source.stage)
        print("printed meanwhile", source.stage)
        print("on stderr meanwhile", source.stage, file=sys.stderr)
print("ended")
"""


@pytest.mark.parametrize("columns", [60, 80, 200])
def test_bars_stay_below_other_lines(columns, tmp_path):
    terminal = Terminal([sys.executable, "-c", SHOWS, "300"], cwd=tmp_path, columns=columns)
    terminal.wait_until(lambda: "about 17 min left" in terminal.text)
    for size in (columns + 40, columns):
        terminal.resize(size)
        terminal.draw(0.3)
    (tmp_path / "go").touch()
    ended = terminal.wait()
    assert ended.code == 0, ended.text
    assert_whole(ended, columns)
    said = "said meanwhile of policy:key: [m] " + "and more words " * 12
    text = " ".join(ended.text.split())
    for stage in LABELS:
        for line in (said + stage, f"printed meanwhile {stage}", f"on stderr meanwhile {stage}"):
            assert text.count(line) == 1
    labels = (
        "sampling",
        "reading answers",
        "reward benchmark",
        "grading answers",
        "judging candidates",
    )
    assert bars(ended) == dict.fromkeys(labels, "300/300")
    assert ended.text.count("300/300") == len(labels)
    assert re.match("judging candidates +━+ +300/300", ended.screen[-2])
    assert ended.screen[-1] == "ended"
    assert not ended.cursor_hidden


def test_a_run_without_items_shows_no_bar_and_a_dumb_terminal_lines(tmp_path):
    command = [sys.executable, "-c", SHOWS, "0"]
    ended = Terminal(command, cwd=tmp_path, columns=300).wait()
    assert "━" not in ended.text
    assert "left" not in ended.text
    assert len(ended.screen) == len(LABELS) * 3 + 1
    command[-1] = "9"
    ended = Terminal(command, cwd=tmp_path, columns=300, TERM="dumb").wait()
    assert "\x1b" not in ended.raw
    assert ended.screen[-2].startswith("sampling 9/9; reading answers 9/9; reward benchmark 9/9")


# ------------------------------------------------------------------ a run and what is made of it

pytestmark = [pytest.mark.ray]
LONG = "a-judge-with-a-name-that-is-rather-long"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An experiment that takes some seconds."""
    base = tmp_path_factory.mktemp("study")
    write_questions(base / "questions.jsonl", 30)
    write_pairs(base / "pairs.jsonl", 9)
    raw = echo_experiment(latency=0.3) | {"analysis": {"bootstrap": 100}}
    for number, rewarder in enumerate(raw["rewarders"]):
        rewarder["name"] = f"{LONG}-{number}"
    raw["policies"][0]["size"] = 1_000_000
    raw["cluster"] = {"batch": 2, "in_flight": 2}
    (base / "e.yaml").write_text(yaml.safe_dump(raw))
    return base


def handles_signals(pid: int) -> bool:
    """Whether the process has a handler for SIGTERM of its own: `bon` has begun."""
    if BON not in psutil.Process(pid).cmdline():  # a fork of the tests, with their handlers
        return False
    (caught,) = re.findall(r"SigCgt:\t(\w+)", Path(f"/proc/{pid}/status").read_text())
    return bool(int(caught, 16) & 1 << 14)


def starts_ray(pid: int) -> bool:
    return any(child.name() == "gcs_server" for child in psutil.Process(pid).children())


def interrupt(terminal: Terminal, times: int) -> Ended:
    """Press Ctrl-C, again and again within a tenth of a second."""
    for _ in range(times):
        terminal.press(CTRL_C)
        terminal.draw(0.03)
    ended = terminal.wait()
    assert ended.code == ExitCode.INTERRUPTED, ended.text
    assert [line for line in ended.screen if line.startswith("bon: ")] == [STOPPED]
    assert not re.search("Traceback|Exception|Error", ended.raw)
    assert not ended.cursor_hidden
    return ended


@pytest.mark.parametrize("times", [1, 3])
@pytest.mark.parametrize("begun", [handles_signals, starts_ray])
def test_an_interrupt_while_it_starts_is_one_line(begun, times, folder, tmp_path):
    terminal = Terminal([BON, "run", "e.yaml", "--out", str(tmp_path / "run")], cwd=folder)
    terminal.wait_until(lambda: begun(terminal.pid))
    below = psutil.Process(terminal.pid).children(recursive=True)
    interrupt(terminal, times)
    assert not psutil.wait_procs(below, timeout=30)[1]


@pytest.fixture(scope="module")
def ran(folder: Path, ray_address: str) -> tuple[Path, list[Ended]]:
    """A run that was interrupted once, interrupted thrice, then resumed in a resized terminal."""
    command, ended = [BON, "run", "e.yaml", "--out", "run"], []
    for columns, times, stage in ((60, 1, "sampling"), (80, 3, "sampling"), (200, 0, "")):
        terminal = Terminal(
            command, cwd=folder, columns=columns, BON_RAY_ADDRESS=ray_address, NO_COLOR="1"
        )
        started = re.compile(rf"{stage} .*[━╸]")
        terminal.wait_until(lambda t=terminal, s=started: s.search(t.text))
        if times:
            ended.append(interrupt(terminal, times))
        else:
            for size in (60, 80, 60):
                terminal.resize(size)
                terminal.draw(0.2)
            ended.append(terminal.wait())
    return folder / "run", ended


def test_an_interrupted_run_resumes_where_it_was(ran):
    _, (once, thrice, resumed) = ran
    for ended in (once, thrice):
        assert STOPPED in ended.screen[-2:]  # the terminal may echo the last ^C after it
        assert "left" not in ended.text  # nothing is running that would take time
        assert not COLOR.search(ended.raw)
    before, after = (int(bars(e)["sampling"].split("/")[0]) for e in (once, thrice))
    assert 0 < before <= after
    assert resumed.code == ExitCode.COMPLETE, resumed.text
    done = [share.split("/") for share in bars(resumed).values()]
    assert [have for have, _ in done] == [total for _, total in done]
    assert list(bars(resumed)) == ["sampling", "reward benchmark", "judging candidates"]
    assert resumed.screen[0] == "30 questions, 9 preference pairs"
    assert resumed.screen[-1] == "report: run/report.html"
    assert re.search(r"^ +Best-of-4$", resumed.text, re.MULTILINE)
    for name in ("oracle", "majority vote", "pass@1", *(f"{LONG}-{i}" for i in range(3))):
        assert sum(line.startswith(f"{name} ") for line in resumed.screen) == 1


@pytest.mark.parametrize("columns", [60, 80, 200])
def test_tables_of_a_run_fit_the_terminal(ran, columns):
    run, _ = ran
    shown = bon("status", "run", cwd=run.parent, columns=columns).screen
    assert shown[0] == "echo: 30 questions, 9 preference pairs"
    for number in range(3):
        assert any(line.startswith(f"  {LONG}-{number}  ") for line in shown)
    found = bon("doctor", cwd=run.parent, columns=columns, HF_HUB_OFFLINE="1").screen
    assert found[0].startswith("ok       Python             3.")
    assert {line[:7].strip() for line in found if line[7:9] == "  "} <= set(STATES)


def test_results_fit_a_narrow_terminal(ran, ray_address, tmp_path):
    run, _ = ran
    reported = bon("report", run, cwd=tmp_path).screen
    assert [line for line in reported if line.startswith(LONG)]
    assert "Not shown in 60 columns: vs majority vote, benchmark (--json shows all)." in " ".join(
        reported
    )
    others = tmp_path / "others.jsonl"
    others.write_text('{"id":"o","question":"How heavy?","options":["1 g","1 kg"],"answer":"A"}\n')
    exported = bon("uplift", run, others, "--export", "arms", cwd=tmp_path)
    assert "arms/arms.yaml" in exported.screen


def test_answers_are_imported(tmp_path):
    options = ["one", "two"]
    rows = [
        {"id": i, "question": f"How much is {i}?", "options": options, "answer": "A",
         "response": f"Answer: {'AB'[i % 2]}"} for i in range(6)
    ]  # fmt: skip
    (tmp_path / "answers.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    imported = bon("import", "answers.jsonl", "--policy", "theirs", cwd=tmp_path)
    assert imported.screen[-1] == "report: runs/import/report.html"


def test_a_server_is_stopped_by_its_terminal(tmp_path):
    command = [BON, "serve", "--no-auth", "--port", "0"]
    terminal = Terminal(command, cwd=tmp_path, columns=NARROW)
    terminal.wait_until(lambda: "Without tokens (--no-auth)" in terminal.text)
    interrupt(terminal, 3)


def test_a_mistake_is_a_line_in_red_that_breaks_no_word(tmp_path):
    command = [BON, "run", "a-file-of-nobody-with-a-name/" * 2 + "e.yaml"]
    for environment, colored in (({}, True), ({"NO_COLOR": "1"}, False)):
        ended = Terminal(command, cwd=tmp_path, columns=NARROW, **environment).wait()
        assert ended.code == ExitCode.MISTAKE
        assert bool(COLOR.search(ended.raw)) == colored
        assert_whole(ended, NARROW)
        assert os.fspath(command[-1]) in "".join(ended.screen)
