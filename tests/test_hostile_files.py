"""Files and endpoints of strangers: what they unpack to, print, and put into tables."""

import csv
import json
import re
import sys
import zipfile
from pathlib import Path

import pandas as pd
import pytest
import yaml
from typer.testing import CliRunner

from bon.analysis.artifacts import csv_text
from bon.commands.main import app
from bon.core.errors import ExitCode
from tests.conftest import echo_experiment, write_questions
from tests.engines.fake_endpoint import serve
from tests.terminal import Terminal

PADDING = 150_000_000
SAMPLE = b'{"id":"a","epoch":1,"input":"q","choices":["x","y"],"target":"A","pad":"'
OBEYED = frozenset("\x1b\x07\x9b\x9d\u202e")
ATTACK = "\x1b]0;pwned\x07\x1b[2J\x1b]52;c;ZXZpbA==\x07\x9b2J\x9d0;x\x9c\u202e"


def deflated(path: Path) -> None:
    with (
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as log,
        log.open("samples/a_epoch_1.json", "w") as file,
    ):
        file.write(SAMPLE)
        for _ in range(PADDING // 1_000_000):
            file.write(b"a" * 1_000_000)
        file.write(b'"}')


def zstandard(path: Path, *, honest: bool) -> None:
    """As inspect_ai writes logs; the sizes that it declares may be invented."""
    compressor = pytest.importorskip("zstandard").ZstdCompressor()
    data = compressor.compress(SAMPLE + b"a" * PADDING + b'"}')
    with zipfile.ZipFile(path, "w") as log:
        log.writestr("samples/a_epoch_1.json", data)
        (member,) = log.infolist()
        member.compress_type = 93
        member.file_size = PADDING if honest else 100
        # What the directory at the end says is what readers go by.


def workbook(path: Path) -> None:
    """Rows and columns to the last that a sheet may have, in one cell."""
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    book.active.append(["index", "question", "answer", "prediction", "A", "B"])
    book.save(path)
    with zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED, compresslevel=9) as file:
        file.writestr("xl/media/image1.bin", b"\0" * PADDING)


BOMBS = {
    "deflate.eval": deflated,
    "zstandard.eval": lambda path: zstandard(path, honest=True),
    "zstandard that lies.eval": lambda path: zstandard(path, honest=False),
    "workbook.xlsx": workbook,
}


@pytest.mark.parametrize("name", BOMBS)
def test_a_file_that_unpacks_to_too_much_is_refused_in_one_line(name, tmp_path):
    path = tmp_path / name.replace(" ", "-")
    BOMBS[name](path)
    assert path.stat().st_size < 1_000_000
    code = (
        "import resource, sys; resource.setrlimit(resource.RLIMIT_DATA, (900 << 20,) * 2)\n"
        "sys.argv = ['bon', 'import', sys.argv[1], '--out', sys.argv[2]]\n"
        "from bon.__main__ import main; main()"
    )
    ended = Terminal(
        [sys.executable, "-c", code, str(path), str(tmp_path / "run")],
        cwd=tmp_path, columns=300, OMP_NUM_THREADS="1",
    ).wait()  # fmt: skip
    assert ended.code == ExitCode.MISTAKE, ended.text
    assert "would unpack to" in ended.text or "is not a complete inspect log" in ended.text
    assert not (tmp_path / "run" / "run.sqlite").exists()


SAYS = """
import sys
from bon.commands.main import _exit_with
from bon.commands.options import echo, emit
from bon.core.console import say, show_listing, stderr
from bon.core.errors import BonError
text = sys.argv[1]
say(f"model said {text}")
stderr().print(text)
echo(text)
emit({"text": text}, lambda: text, True)
emit({}, lambda: show_listing([{"name": text, "score": text}]), False)
_exit_with(BonError(f"last: EndpointError: {text}", text))
"""


def test_nothing_that_is_printed_controls_the_terminal(tmp_path):
    ended = Terminal(
        [sys.executable, "-c", SAYS, ATTACK], cwd=tmp_path, columns=200, NO_COLOR="1"
    ).wait()
    assert ended.code == ExitCode.MISTAKE
    assert ended.text.count("pwned") == 8
    assert not OBEYED & {*ended.raw.replace("\x1b[0m", "")}  # the end of a style


@pytest.mark.ray
@pytest.mark.slow
def test_what_an_endpoint_answers_is_shown_and_controls_nothing(tmp_path):
    write_questions(tmp_path / "questions.jsonl", 3)
    with serve(lambda *_: (400, {}, {"error": {"message": f"bad {ATTACK}"}})) as endpoint:
        policy = {
            "name": "away", "model": "m", "engine": "openai", "n": 2,
            "engine_args": {"base_url": endpoint.url, "api_key_env": None, "retries": 0},
        }  # fmt: skip
        experiment = echo_experiment() | {"policies": [policy], "pairs": []}
        (tmp_path / "e.yaml").write_text(yaml.safe_dump(experiment))
        bon = str(Path(sys.executable).with_name("bon"))
        ran = Terminal([bon, "run", "e.yaml", "--out", "run"], cwd=tmp_path, columns=300).wait()
    assert ran.code != ExitCode.COMPLETE
    assert "pwned" in ran.text
    assert not (OBEYED - {"\x1b"}) & {*ran.raw}
    assert not re.search(r"\x1b\]|\x1b\[2J", ran.raw)


def test_names_of_strangers_are_no_formulas_in_the_tables_of_a_run(tmp_path):
    rows = [
        {"rewarder": "rw", "pair": f"=HYPERLINK({i})", "chosen": (i * 7) % 5, "rejected": 2,
         "group": f"{'=+-@'[i % 4]}cmd|x!A0"}
        for i in range(24)
    ]  # fmt: skip
    (tmp_path / "scores.jsonl").write_text("\n".join(map(json.dumps, rows)))
    options = [str(tmp_path / "scores.jsonl"), "--out", str(tmp_path / "run")]
    assert CliRunner().invoke(app, ["import", *options]).exit_code in (0, 3)
    cells = {
        cell
        for path in (tmp_path / "run").rglob("*.csv")
        for row in csv.reader(path.open(encoding="utf-8"))
        for cell in row
    }
    assert "'=cmd|x!A0" in cells
    assert not [c for c in cells if c[:1] in (*"=+@\t\r",) or re.match("-[^0-9.]", c)]


def test_a_cell_is_what_it_was_but_for_formulas():
    frame = pd.DataFrame({"=a": ["=1+1", "+1", "-x", "@x", "plain", None], "n": [-1.5] * 6})
    assert csv_text(frame).splitlines() == [
        "'=a,n", "'=1+1,-1.5", "'+1,-1.5", "'-x,-1.5", "'@x,-1.5", "plain,-1.5", ",-1.5",
    ]  # fmt: skip


def test_commands_print_through_one_function():
    folder = Path(__file__).parents[1] / "bon/commands"
    texts = {path.stem: path.read_text(encoding="utf-8") for path in folder.glob("*.py")}
    printing = {name for name, text in texts.items() if re.search(r"typer\.s?echo\(", text)}
    assert printing == {"main", "options"}
    assert not [name for name, text in texts.items() if re.search(r"(?<![\w.])print\(", text)]
