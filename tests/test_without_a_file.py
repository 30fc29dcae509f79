"""An experiment of options alone: what it runs, the file it leaves, and completion of its words."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.conftest import write_pairs, write_questions
from tests.terminal import Terminal

BON = str(Path(sys.executable).with_name("bon"))
OPTIONS = [
    *("--policy", "p.yaml", "--rewarder", "one.yaml", "--rewarder", "two.yaml"),
    *("--questions", "multiple_choice=questions.jsonl", "--pairs", "preference=pairs.jsonl"),
    *("--n", "3"),
]


@pytest.fixture
def folder(tmp_path):
    write_questions(tmp_path / "questions.jsonl", 6)
    write_pairs(tmp_path / "pairs.jsonl", 6)
    echo = {"engine": "echo", "placement": {"group": "all"}}
    cards = {"p": {"prompt": "bare"}, "one": {"kind": "scalar"}, "two": {"kind": "scalar"}}
    for name, card in cards.items():
        (tmp_path / f"{name}.yaml").write_text(yaml.safe_dump({"name": name} | echo | card))
    return tmp_path


def bon(folder, *words):
    done = subprocess.run([BON, *words], cwd=folder, capture_output=True, text=True, timeout=240)
    assert "Traceback" not in done.stderr
    return done.returncode, done.stdout, done.stderr


@pytest.mark.ray
@pytest.mark.usefixtures("commands_on_one_ray")
def test_options_alone_run_an_experiment_and_leave_its_file(folder):
    code, text, _ = bon(folder, "plan", *OPTIONS)
    assert code == 0
    assert "18" in text  # responses: 6 questions × 3
    code, *_ = bon(folder, "run", *OPTIONS, "--limit", "4", "--quiet")
    assert code == 0
    run = folder / "runs" / "p-multiple_choice"
    written = yaml.safe_load((run / "experiment.yaml").read_text())
    assert [policy["n"] for policy in written["policies"]] == [3]
    assert len(written["rewarders"]) == 2
    # The file of the run resumes it.
    code, _, errors = bon(folder, "run", str(run / "experiment.yaml"), "--quiet")
    assert (code, errors) == (0, "")


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["run"], "no experiment is given"),
        (["run", "e.yaml", "--n", "2"], "e.yaml and options describe two experiments"),
        (["plan", "--policy", "p.yaml"], "questions"),
        (["run", *OPTIONS, "--policy", "nobody"], "nobody"),
        (["run", "--policy", "p.yaml", "--questions", "mmmu_prp"], "mmmu_pro"),
        (["run", "--policy", "p.yaml", "--questions", "mmmu_pro="], "'mmmu_pro=' names no file"),
        (["plan", "--policy", "a=b/c", "--questions", "mmmu_pro"], "no policy card 'a=b/c'"),
    ],
)
def test_what_is_missing_or_too_much_is_said(folder, words, line):
    code, _, errors = bon(folder, *words)
    assert code == 2
    assert line in errors


def test_four_questions_write_an_experiment(folder):
    """In a terminal; a name that is unknown is asked for again."""
    terminal = Terminal([BON, "init", "mine.yaml"], cwd=folder)
    for question, answer in (
        ("Policy", "nobody"),
        ("no card 'nobody'", "p.yaml"),
        ("Rewarders", "one.yaml, two.yaml"),
        ("Questions", "multiple_choice=questions.jsonl"),
        ("Reward benchmark", "preference=pairs.jsonl"),
    ):
        terminal.wait_until(lambda question=question: question in terminal.text)
        terminal.press(answer.encode() + b"\n")
    ended = terminal.wait()
    assert ended.code == 0
    assert "wrote mine.yaml; next: bon plan mine.yaml" in ended.text
    written = (folder / "mine.yaml").read_text()
    assert written.count("\n# ") >= 5
    assert [card["card"] for card in yaml.safe_load(written)["rewarders"]] == [
        "one.yaml",
        "two.yaml",
    ]
    code, text, _ = bon(folder, "plan", "mine.yaml")
    assert code == 0
    assert "to do: " in text
    assert "assumptions" not in text
    assert "assumptions" in bon(folder, "plan", "mine.yaml", "--assumptions")[1]


def test_without_a_terminal_options_write_it(folder):
    code, _, errors = bon(folder, "init", "mine.yaml", "--policy", "p.yaml")
    assert (code, (folder / "mine.yaml").exists()) == (2, False)
    assert "--rewarder, --questions, --pairs missing, and no terminal to ask in" in errors
    code, *_ = bon(folder, "init", "mine.yaml", *OPTIONS)
    assert code == 0
    assert yaml.safe_load((folder / "mine.yaml").read_text())["policies"] == [
        {"card": "p.yaml", "n": 3}
    ]
    code, _, errors = bon(folder, "init", "mine.yaml", *OPTIONS)
    assert (code, "mine.yaml exists" in errors) == (2, True)


def test_a_shipped_experiment_is_shown_as_a_file_to_begin_with(folder):
    code, text, _ = bon(folder, "show", "single-gpu")
    (folder / "study.yaml").write_text(text)
    assert code == 0
    assert bon(folder, "plan", "study.yaml")[1] == bon(folder, "plan", "single-gpu")[1]


def test_no_flag_has_a_type(folder):
    for command in ([], ["run"], ["curate", "draw"]):
        assert "<bool>" not in bon(folder, *command, "--help")[1]


@pytest.mark.parametrize(
    ("shell", "load"),
    [
        (["bash", "--norc", "-i"], 'PS1="ready> "; eval "$(bon --show-completion)"'),
        (["zsh", "-f", "-i"], 'autoload -U compinit; compinit -D; eval "$(bon --show-completion)"'),
        (["fish", "--no-config", "-i"], "bon --show-completion | source"),
    ],
)
def test_tab_completes_commands_options_and_cards(folder, shell, load):
    """With the script that `--show-completion` prints in each shell."""
    if shutil.which(shell[0]) is None:
        pytest.skip(f"needs {shell[0]}")
    path = f"{Path(BON).parent}:{os.environ['PATH']}"
    kind = "dumb" if shell[0] == "bash" else "xterm"
    terminal = Terminal(shell, cwd=folder, columns=120, TERM=kind, PATH=path, HOME=str(folder))
    terminal.press(f'{load}; echo do"ne"\n'.encode())
    terminal.wait_until(lambda: "done" in terminal.text)
    for typed, whole in (
        ("bon stat", "bon status"),
        ("bon run --pol", "bon run --policy"),
        ("bon run --rewarder r1-re", "bon run --rewarder r1-reward"),
    ):
        terminal.press(typed.encode() + b"\t")
        terminal.wait_until(lambda whole=whole: whole in terminal.text)
        terminal.press(b"\x15")  # clears the line
    terminal.press(b"exit\n")
    assert terminal.wait().code == 0
