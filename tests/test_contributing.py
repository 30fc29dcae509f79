"""The pages for contributors: every example is run, with the test that follows it."""

import re
import runpy
from pathlib import Path

import pytest

from bon.benchmarks import BENCHMARKS
from bon.choosing.rules import RULES
from bon.engines import ENGINES

PAGES = sorted((Path(__file__).parents[1] / "docs" / "contributing").glob("*.md"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_example_of_a_page_passes_its_test(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = page.read_text(encoding="utf-8")
    example, test = re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    assert len(text.splitlines()) <= 60, "a page is short"
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    for registry in (BENCHMARKS, ENGINES, RULES):
        monkeypatch.setitem(vars(registry), "_added", {})
    (tmp_path / "added_part.py").write_text(f"{example}\n\n{test}", encoding="utf-8")
    runpy.run_module("added_part", run_name="added_part", alter_sys=True)
