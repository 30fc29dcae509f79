"""`bon doctor`: whatever is missing says what it disables and how to get it."""

import json
import subprocess

import pytest
from typer.testing import CliRunner

from bon.commands import doctor
from bon.commands.main import app


def by_name(findings):
    return {finding.name: finding for finding in findings}


@pytest.fixture(autouse=True)
def no_network(monkeypatch):
    def refuse(*args, **kwargs):
        raise OSError("no network here")

    monkeypatch.setattr(doctor.socket, "create_connection", refuse)


def test_every_fault_says_what_it_disables_and_the_fix(monkeypatch):
    for name, _ in doctor.KEYS:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(doctor, "PACKAGES", ((("no-such-package",), "all of it", "pip install x"),))
    found = doctor.examine()
    for each in found:
        assert each.found
        if each.state != "ok":
            assert each.disables, each.name
            assert each.fix, each.name
    assert by_name(found)["no-such-package"].state == "missing"
    assert by_name(found)["hub"].state == "warning"
    assert "pip install x" in doctor.show_findings(found)


def test_a_key_is_named_and_never_shown(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret-value")
    found = doctor.examine()
    assert by_name(found)["OPENAI_API_KEY"].state == "ok"
    assert "secret" not in doctor.show_findings(found)


def test_gpus_are_what_the_driver_says(monkeypatch):
    def smi(command, **kwargs):
        return subprocess.CompletedProcess(command, 0, "Tiny GPU, 24576 MiB\n", "")

    monkeypatch.setattr(doctor.subprocess, "run", smi)
    gpu = by_name(doctor.examine(network=False))["GPU"]
    assert (gpu.state, gpu.found) == ("ok", "Tiny GPU, 24576 MiB")
    monkeypatch.setattr(doctor.subprocess, "run", lambda *a, **k: (_ for _ in ()).throw(OSError()))
    assert by_name(doctor.examine(network=False))["GPU"].state == "missing"


def test_little_disk_and_offline(monkeypatch, tmp_path):
    monkeypatch.setenv("HF_HOME", str(tmp_path / "not" / "there"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    usage = doctor.shutil.disk_usage(tmp_path)._replace(free=10**8)
    monkeypatch.setattr(doctor.shutil, "disk_usage", lambda path: usage)
    found = by_name(doctor.examine())
    assert found["disk here"].state == found["disk for models"].state == "warning"
    assert "HF_HUB_OFFLINE" in found["hub"].found


def test_the_command():
    shown = CliRunner().invoke(app, ["doctor"])
    assert shown.exit_code == 0
    assert "Python" in shown.output
    rows = json.loads(CliRunner().invoke(app, ["doctor", "--json"]).output)
    assert {"name", "state", "found", "disables", "fix"} == set(rows[0])
