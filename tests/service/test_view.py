"""`bon view`: reports on loopback without tokens, and nothing else."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import httpx
import pytest
from starlette.testclient import TestClient

from bon.core.errors import BonError
from bon.service.view import create_view, reports_in
from tests.formats_made import MADE
from tests.service.test_neighbours import AS_OTHER
from tests.terminal import CTRL_C, Terminal

BON = str(Path(sys.executable).with_name("bon"))


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A folder of two runs, which imports made, and of something else."""
    folder = tmp_path_factory.mktemp("view")
    MADE["answers"].write(folder / "answers.jsonl", MADE["answers"].rows())
    for name in ("first", "second"):
        command = [BON, "import", "answers.jsonl", "--policy", "p", "--out", f"runs/{name}"]
        subprocess.run(command, cwd=folder, check=True, capture_output=True)
    (folder / "runs" / "notes").mkdir()
    return folder / "runs"


def test_a_folder_of_runs_is_listed_and_each_report_opens(runs):
    found = reports_in([runs])
    assert [run.name for run in found] == ["first", "second"]
    with TestClient(create_view(found), base_url="http://localhost") as client:
        listed = client.get("/")
        assert re.findall(r'href="(/\d/report.html)"', listed.text) == [
            "/0/report.html",
            "/1/report.html",
        ]
        for link in ("/0/report.html", "/1/report.html"):
            shown = client.get(link)
            assert shown.content == (found[int(link[1])] / "report.html").read_bytes()
            assert "sandbox" in shown.headers["content-security-policy"]
        for hidden in ("/0/run.sqlite", "/0/results.json", "/2/report.html", "/-1/report.html",
                       "/0/report_files/../run.sqlite", "/v1/validations"):  # fmt: skip
            assert client.get(hidden).status_code in (404, 422), hidden
        rebound = client.get("/0/report.html", headers={"host": "evil.example"})
        assert rebound.status_code == 403
    with TestClient(create_view(found[:1]), base_url="http://localhost") as client:
        assert client.get("/").content == (found[0] / "report.html").read_bytes()


def test_a_folder_without_a_report_is_named_with_the_command(runs):
    with pytest.raises(BonError, match=r"no report in .*notes.* bon report .*notes"):
        reports_in([runs / "notes"])


def test_the_command_serves_its_user_alone_until_it_is_interrupted(runs):
    terminal = Terminal([BON, "view", "first", "--port", "0"], cwd=runs, columns=200)
    terminal.wait_until(lambda: "Ctrl-C ends it" in terminal.text)
    address = re.search(r"http://127\.0\.0\.1:\d+/", terminal.text)[0]
    answer = httpx.get(address, follow_redirects=True)
    assert answer.content == (runs / "first" / "report.html").read_bytes()
    if os.geteuid() == 0 and shutil.which("setpriv"):
        ask = f"import urllib.request as r; print(r.urlopen({address!r}).status)"
        other = subprocess.run(
            [*AS_OTHER, os.path.realpath(sys.executable), "-I", "-c", ask],
            capture_output=True,
            text=True,
            cwd="/",
        )
        assert other.returncode != 0
        assert "403" in other.stderr
    terminal.press(CTRL_C)
    assert terminal.wait().code == 130


def test_no_other_interface_is_offered(runs):
    words = [BON, "view", "first", "--host", "0.0.0.0"]
    done = subprocess.run(words, cwd=runs, capture_output=True, text=True)
    assert done.returncode == 2
    assert "--host" in done.stderr
