import sys
import types
from dataclasses import replace

import pytest

from bon.core.errors import BonError
from bon.engines import ENGINES, build


def test_missing_package_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "bon.engines.endpoints.openai", raising=False)
    monkeypatch.setitem(sys.modules, "httpx", None)
    with pytest.raises(
        BonError, match=r"needs the package 'httpx' -> pip install -U 'bon\[openai\]'"
    ):
        build("openai", {"base_url": "http://x", "model": "m"})


def test_a_package_that_is_too_old_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")
    monkeypatch.delitem(sys.modules, "bon.engines.hf.engine", raising=False)
    monkeypatch.setitem(sys.modules, "transformers", types.ModuleType("transformers"))
    old = r"cannot use the installed transformers .*cannot import name"
    with pytest.raises(BonError, match=old):
        build("transformers", {"model": "m"})


def test_a_package_that_does_not_say_what_it_lacks(monkeypatch, tmp_path) -> None:
    """transformers raises so where something that it needs cannot be imported."""
    raises = "raise ModuleNotFoundError('Could not import module')"
    (tmp_path / "torn_engine.py").write_text(raises)
    monkeypatch.syspath_prepend(tmp_path)
    torn = replace(ENGINES["echo"], path="torn_engine:TornEngine")
    monkeypatch.setitem(ENGINES.shipped, "echo", torn)
    with pytest.raises(BonError, match=r"cannot use the installed packages \(Could not import"):
        build("echo", {})
