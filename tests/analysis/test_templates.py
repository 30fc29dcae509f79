"""Compiled templates are kept: the next process renders without compiling, whatever is there."""

from pathlib import Path

import pytest

from bon.analysis.report.templates import environment


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache folder of the user."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "bon" / "templates"


def render(folder: Path, source: str) -> str:
    """What a new process makes of a template."""
    folder.mkdir(exist_ok=True)
    (folder / "one.html.jinja").write_text(source)
    return environment(folder).get_template("one.html.jinja").render(value=0.5)


def test_the_second_process_compiles_nothing(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = "{{ value|percent(0) }} <b>"
    first = render(tmp_path / "pages", source)
    assert len(list(cache.iterdir())) == 1

    def compiled(*_args: object, **_options: object) -> None:
        raise AssertionError("compiled again")

    monkeypatch.setattr("jinja2.Environment.compile", compiled)
    assert render(tmp_path / "pages", source) == first == "50\u202f% <b>"


def test_a_changed_template_is_compiled_again(tmp_path: Path, cache: Path) -> None:
    assert render(tmp_path / "pages", "one") == "one"
    assert render(tmp_path / "pages", "two") == "two"
    assert len(list(cache.iterdir())) == 1


@pytest.mark.parametrize("keep", [0, 5, 12, 40, 10**6])
def test_what_is_damaged_does_no_harm(tmp_path: Path, cache: Path, keep: int) -> None:
    render(tmp_path / "pages", "{{ value }}")
    (kept,) = cache.iterdir()
    kept.write_bytes(kept.read_bytes()[:keep])
    assert render(tmp_path / "pages", "{{ value }}") == "0.5"


def test_without_a_folder_to_write_to(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "cache").write_text("a file where the folder should be")
    assert render(tmp_path / "pages", "{{ value }}") == "0.5"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setattr(Path, "home", _nobody)
    assert render(tmp_path / "pages", "{{ value }}") == "0.5"


def _nobody() -> Path:
    raise RuntimeError("Could not determine home directory.")
