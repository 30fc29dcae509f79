"""What people do on a bad day, as processes: a line that helps, exit code 2, no traceback."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import write_pairs, write_questions

EXPERIMENT = """\
name: everyday
questions: {benchmark: multiple_choice, path: questions.jsonl}
policies:
  - {name: p, engine: echo, prompt: bare, n: 2}
rewarders:
  - {name: head, kind: scalar, engine: echo}
"""
LONG = "a" * 300
BOMB = "".join(f"k{i}: &k{i} [{', '.join([f'*k{i - 1}'] * 9)}]\n" for i in range(1, 12))


def bon(folder: Path, *arguments: str, **environment: str) -> tuple[int, list[str]]:
    code = "from bon.commands.main import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        cwd=folder,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert "Traceback" not in done.stdout + done.stderr
    return done.returncode, done.stderr.splitlines()


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("everyday")
    write_questions(path / "questions.jsonl", 4)
    (path / "e.yaml").write_text(EXPERIMENT)
    (path / "table.csv").write_text("question,answer\n")
    (path / "torn.parquet").write_bytes(b"PAR1 and no more")
    (path / "study").mkdir()
    (path / "study/experiment.yaml").write_text(EXPERIMENT)
    (path / "card.yaml").mkdir()
    (path / "one.csv").write_text("name,benchmark,bon\na,0.5,0.6\n")
    (path / "file").write_text("x")
    (path / "bomb.yaml").write_text("k0: &k0 [x, x]\n" + BOMB)
    (path / "deep.yaml").write_text("a: " + "[" * 100_000)
    (path / "latin.yaml").write_bytes(b"name: caf\xe9\n")
    (path / "endless.yaml").symlink_to("/dev/zero")
    os.mkfifo(path / "pipe.yaml")
    (path / "pipes").mkdir()
    os.mkfifo(path / "pipes/rows.jsonl")
    (path / "deep.jsonl").write_text("[" * 200_000 + "\n")
    write_pairs(path / "pairs.jsonl", 6)
    return path


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("plan study", "study is a folder, not a YAML file -> did you mean study/experiment.yaml?"),
        ("run .", ". is a folder, not a YAML file -> name a YAML file in it"),
        ("show card.yaml", "card.yaml is a folder"),
        ("plan e.yaml --set policies.0=card.yaml", "card.yaml is a folder"),
        ("plan e.yaml --set seed=[1", "--set seed=[1: not valid YAML"),
        ("plan e.yaml --set policies.7=x", "index 7 is out of range for a list of 1 -> use 0"),
        ("plan e.yaml --out file", "cannot use file: it is a file -> name a folder"),
        ("run e.yaml --out file", "cannot use file: it is a file -> name a folder"),
        ("run e.yaml --out file/run", "a file lies where a folder should be"),
        ("run e.yaml --out /proc/run", "cannot use /proc/run"),
        ("plan e.yaml --set questions.path=table.csv", "jsonl, .arrow nor .json"),
        ("plan e.yaml --set questions.path=torn.parquet", "is not a complete parquet file"),
        (f"plan {LONG}", "File name too long -> use a shorter name"),
        (f"plan e.yaml --set name={LONG}", "expected up to 100 letters"),
        ("plan bomb.yaml", "more than 20,000 values"),
        ("plan deep.yaml", "nested deeper than 32 levels"),
        (f"plan e.yaml --set description={'[' * 5000}", "nested deeper than 32 levels"),
        ("plan latin.yaml", "is not UTF-8 text (byte 9) -> save it as UTF-8"),
        ("plan endless.yaml", "has more than 1,000,000 bytes"),
        ("plan pipe.yaml", "pipe.yaml is a pipe, not a file"),
        ("show pipe.yaml", "pipe.yaml is a pipe, not a file"),
        ("correlate pipe.yaml", "pipe.yaml is a pipe, not a file"),
        ("correlate endless.yaml", "has more than 50,000,000 bytes"),
        ("plan e.yaml --set policies.0.prompt={file: pipe.yaml}", "pipe.yaml is a pipe"),
        ("plan e.yaml --set policies.0.prompt={file: endless.yaml}", "more than 1,000,000 bytes"),
        ("run e.yaml -q --set policies.0.placement={gpus: 1}", "this machine has none -> set"),
        (
            "run e.yaml -q --set rewarders.0.engine_args={trust_remote_code: true} "
            "--set rewarders.0.engine=transformers --set rewarders.0.model=some/model",
            "allow it with --allow-remote-code",
        ),
        (
            "run e.yaml -q --set policies.0.engine=openai --set policies.0.model=gpt "
            "--set policies.0.engine_args={base_url: http://127.0.0.1:9, api_key_env: NO_KEY}",
            "the environment variable NO_KEY",
        ),
        ("run", "no experiment is given -> name a file, or --policy, --questions"),
        ("runn e.yaml", "No such command 'runn'. Did you mean 'run'? -> bon [OPTIONS] COMMAND"),
        ("run e.yaml --retry_errors", "--retry_errors (Possible options: --retry-errors"),
        ("run e.yaml --limit 0", "greater than or equal to 1 -> bon run [OPTIONS] [FILE]"),
        ("run e.yaml --seed 1.5", "'--seed': Input should be a valid integer"),
        ("run e.yaml --set", "Option '--set' requires an argument -> bon COMMAND"),
        ("demo e.yaml", "demo: Got unexpected extra argument(s) (e.yaml) -> bon demo [OPTIONS]"),
        ("gate run --min-gain 2%", "gate: Invalid value for '--min-gain': Input should"),
        ("token new", "token: No such command 'new' -> bon token [OPTIONS] COMMAND"),
        ("correlate e.yaml", "holds a single column"),
        ("correlate one.csv", "1 rewarder for the policy: a correlation needs at least 3 -> add"),
        ("show e.yaml", "e.yaml is an experiment, not a card -> bon plan e.yaml"),
        ("export nowhere", "no run in nowhere -> give the directory"),
        ("status nowhere", "no run in nowhere"),
        ("report nowhere", "no run in nowhere"),
        ("curate draw nowhere --out new", "no run in nowhere"),
        ("curate audit nowhere", "no recipe.yaml -> bon curate draw RUN --out nowhere"),
        ("gate nowhere --min-gain 0", "no results.json -> bon report nowhere"),
        ("gate nowhere --min-gain 0 --over vote", "is not one of 'pass@1', 'majority'"),
        ("compare nowhere nowhere", "no results.json -> bon report nowhere"),
        ("run nothing.yaml", "no file nothing.yaml -> check the path"),
        ("correlate nothing.csv", "nothing.csv"),
        ("list polices", "policies"),
        ("plan e.yaml --set analysis.rules=[best]", "no rule 'best' -> choose among best_score"),
        ("plan e.yaml --set analysis.n=3", "found 3, but 2 candidates are sampled per question"),
        ("plan e.yaml --set analysis.axis=group", "expected macro, overall, group:NAME"),
        (
            "plan e.yaml --set rewarders.0.options={max_steps: 0}",
            "options: kind scalar has none -> leave `options` out",
        ),
        ("run e.yaml --out study", "study holds an experiment.yaml of your own"),
    ],
)  # fmt: skip
def test_a_mistake_is_one_line_with_its_fix(arguments, said, folder, monkeypatch, capsys):
    parts = re.split(r" (?![^{]*\})", arguments)
    code, lines = in_process(parts, folder, monkeypatch, capsys)
    assert code == 2
    assert len(lines) == 1, lines
    assert said in lines[0]
    assert lines[0].startswith("bon: ")
    assert " -> " in lines[0]
    assert not (folder / "nowhere").exists()
    assert (folder / "study/experiment.yaml").read_text() == EXPERIMENT


def in_process(arguments, folder, monkeypatch, capsys) -> tuple[int, list[str]]:
    """The same entry point without the seconds that a process takes to import."""
    from bon.commands.main import main
    from bon.work import preflight

    monkeypatch.setattr(preflight, "_GPUS", ())
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "argv", ["bon", *arguments])
    with pytest.raises(SystemExit) as stopped:
        main()
    return stopped.value.code, capsys.readouterr().err.splitlines()


PAIRS = "pairs=[{benchmark: preference, path: pairs.jsonl}]"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["plan", "--set", "questions.path=pipes"], "no .parquet, .jsonl, .arrow or .json file"),
        (["plan", "--set", "questions.path=pipes/rows.jsonl"], "no .parquet, .jsonl"),
        (["plan", "--set", "questions.path=deep.jsonl"], "the first: is not JSON"),
        (["plan", "--set", PAIRS, "--set", "analysis.axis=group:none"], "has no group:none"),
        (["run", "--set", PAIRS, "--set", "analysis.axis=group:none"], "has no group:none"),
    ],
    ids=["folder of a pipe", "pipe", "200,000 brackets", "plan of a group", "run of a group"],
)
def test_a_process_refuses_bad_data(arguments, said, folder):
    command, *options = arguments
    code, lines = bon(folder, command, "e.yaml", *options)
    assert (code, len(lines)) == (2, 1), lines
    assert said in lines[0]
    assert " -> " in lines[0]


def test_an_axis_that_pairs_have_is_planned(folder):
    code, lines = bon(
        folder, "plan", "e.yaml", "--set", PAIRS, "--set", "analysis.axis=group:general"
    )
    assert code == 0, lines


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_cannot_be_written(folder, tmp_path):
    tmp_path.chmod(0o500)
    code, lines = bon(folder, "run", "e.yaml", "--out", str(tmp_path / "run"))
    assert (code, len(lines)) == (2, 1)
    assert "Permission denied -> check the permissions" in lines[0]


def test_several_mistakes_are_a_line_each(folder):
    code, lines = bon(folder, "plan", "e.yaml", "--set", "sed=1", "--set", "judging.design=best")
    assert code == 2
    assert lines == [
        "bon: --set judging.design: judging.design: found 'best', expected one of all_pairs, race, "
        "knockout -> for example `design: all_pairs`",
        "bon: --set sed: unknown key 'sed' -> did you mean 'seed'?",
    ]
