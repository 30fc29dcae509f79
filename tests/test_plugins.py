"""Parts of an installed package: every kind in the same way, by the entry point of its group."""

import os
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest
import yaml

from bon.benchmarks import BENCHMARKS
from bon.choosing.rules import RULES
from bon.core.errors import BonError
from bon.core.registry import Registry
from bon.engines import ENGINES
from bon.experiment.prompts import PROMPTS
from bon.exports import EXPORTS
from bon.formats import FORMATS
from bon.graders import GRADERS
from bon.rewarders.registry import REWARDERS

REGISTRIES: dict[str, Registry[Any]] = {
    "BENCHMARK": BENCHMARKS, "ENGINE": ENGINES, "EXPORT": EXPORTS, "FORMAT": FORMATS,
    "GRADER": GRADERS, "PROMPT": PROMPTS, "REWARDER": REWARDERS, "RULE": RULES,
}  # fmt: skip
PACKAGE = '''
    """One part of every kind."""
    from dataclasses import replace
    from pathlib import Path

    import bon
    from bon.benchmarks.open_ended import ADAPTER as BENCHMARK
    from bon.choosing.rules import RULES
    from bon.engines import EngineEntry
    from bon.engines.settings import EchoSettings
    from bon.exports import EXPORTS
    from bon.formats import FORMATS

    ENGINE = EngineEntry(path="bon.engines.echo:EchoEngine", settings=EchoSettings)
    EXPORT = replace(EXPORTS["trl"], name="theirs")
    FORMAT = replace(FORMATS["answers"], name="theirs")
    PROMPT = Path(__file__).with_name("theirs.jinja")
    RULE = replace(RULES["best_score"], name="theirs", rank=99)

    def GRADER(answer, gold):
        return float(answer[:1] == gold.answers[0][:1])

    class REWARDER(bon.Rewarder):
        arity = "one"

        async def judge(self, item, shown, seeds):
            return [bon.Verdict("scored", score=1.0)] * len(seeds)
'''


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Path]:
    """A folder of installed packages that holds this one."""
    info = tmp_path / "site" / "their_package-1.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: their-package\nVersion: 1\n")
    points = [
        f"[{registry.group}]\ntheirs = their_package:{attribute}\n"
        for attribute, registry in REGISTRIES.items()
    ]
    (info / "entry_points.txt").write_text("\n".join(points))
    (info.parent / "their_package.py").write_text(textwrap.dedent(PACKAGE))
    (info.parent / "theirs.jinja").write_text("{{ question }}")
    yield info.parent
    sys.modules.pop("their_package", None)


@pytest.mark.parametrize("attribute", REGISTRIES)
def test_every_kind_has_parts_of_packages(
    attribute: str, site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry = REGISTRIES[attribute]
    monkeypatch.delitem(vars(registry), "_installed", raising=False)
    monkeypatch.setitem(vars(registry), "_added", {})
    monkeypatch.syspath_prepend(str(site))
    assert registry.added == ["theirs"]
    assert "their_package" not in sys.modules
    assert registry["theirs"] is getattr(sys.modules["their_package"], attribute)
    vars(registry).pop("_installed")


@pytest.mark.parametrize("attribute", REGISTRIES)
def test_what_a_package_does_wrong_is_one_line(
    attribute: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry = REGISTRIES[attribute]
    wrong = {"pi": EntryPoint("pi", "math:pi", registry.group)}
    monkeypatch.setitem(vars(registry), "_added", {})
    monkeypatch.setitem(vars(registry), "_installed", wrong)
    with pytest.raises(BonError, match=f"'pi' of math:pi is no {registry.kind} -> see docs/python"):
        registry["pi"]
    with pytest.raises(BonError, match=rf"no {registry.kind} 'py' -> did you mean 'pi'\?"):
        registry["py"]
    taken = next(iter(registry.shipped))
    with pytest.raises(BonError, match=f"there is a {registry.kind} {taken!r} already"):
        registry.add(taken, registry[taken])


def test_a_package_cannot_replace_what_ships(monkeypatch: pytest.MonkeyPatch) -> None:
    point = EntryPoint("exact", "their_package:GRADER", "bon.graders")
    monkeypatch.setattr("bon.core.registry.entry_points", lambda group: [point])
    monkeypatch.delitem(vars(GRADERS), "_installed", raising=False)
    with pytest.raises(BonError, match="'exact' of their_package:GRADER: there is one in bon"):
        GRADERS.added  # noqa: B018


def test_an_experiment_names_parts_of_a_package(site: Path, tmp_path: Path) -> None:
    (tmp_path / "q.jsonl").write_text('{"id": "q", "question": "Which?", "answer": "red"}\n')
    echo = {"engine": "theirs", "placement": {"cpus": 0.1}}
    experiment = {
        "questions": {"benchmark": "theirs", "path": "q.jsonl", "grader": "theirs"},
        "policies": [{"name": "p", "prompt": "theirs", "n": 2, **echo}],
        "rewarders": [{"name": "r", "kind": "python", "python": "theirs", **echo}],
        "analysis": {"rules": ["theirs"]},
    }
    (tmp_path / "study.yaml").write_text(yaml.safe_dump(experiment))

    def bon(*words: str) -> str:
        environment = {**os.environ, "PYTHONPATH": str(site)}
        command = [sys.executable, "-m", "bon", *words]
        done = subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert "2" in bon("plan", "study.yaml")
    for kind in ("benchmarks", "rules", "formats"):
        assert "theirs" in bon("list", kind)
