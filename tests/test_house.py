"""The house: which room imports which, who may import Ray and torch, how large a folder grows.

CONTRIBUTING.md's table of rooms is the rule; the imports are read from the source, without
running it.
"""

import ast
import importlib
import inspect
import re
import tomllib
import typing
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from graphlib import TopologicalSorter
from pathlib import Path
from typing import Any

import pytest

from bon.analysis.results import Estimate, Record, Results
from bon.benchmarks import BENCHMARKS
from bon.choosing.rules import RULES
from bon.core.registry import Registry
from bon.engines import ENGINES
from bon.exports import EXPORTS
from bon.formats import FORMATS
from bon.graders import GRADERS
from tests import test_graders
from tests.benchmarks import test_every_benchmark
from tests.choosing import test_rules
from tests.engines import test_every_engine
from tests.exports import test_every_export
from tests.formats_made import MADE

ROOT = Path(__file__).parents[1]
TOP = ("bon", "policies", "rewarders", "analysis")

RAY = (
    *(f"bon/dispatch/{name}.py" for name in ("cluster", "connection", "local_ray", "tasks")),
    "bon/service/",
)
TORCH = ("bon/engines/",)

MODULES_PER_FOLDER = 15


@dataclass(frozen=True)
class Import:
    """An import of `module`; `lazy` if it is made when a function is called."""

    file: str
    line: int
    module: str
    lazy: bool

    def __str__(self) -> str:
        return f"{self.file}:{self.line} imports {self.module}"


def sources() -> list[Path]:
    """Every file of the package, where it really lies."""
    return sorted(path for top in TOP for path in (ROOT / top).rglob("*.py"))


TREES = {path.relative_to(ROOT).as_posix(): ast.parse(path.read_text()) for path in sources()}


def imports(file: str) -> Iterator[Import]:
    """Every import of a file; a name taken from `bon` itself is the module `bon.NAME`."""
    functions = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
    todo: list[tuple[ast.AST, bool]] = [(TREES[file], False)]
    while todo:
        node, lazy = todo.pop()
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}:{node.lineno}: a relative import"
            module = node.module or ""
            whole = [f"bon.{alias.name}" for alias in node.names]
            names = whole if module == "bon" else [module]
        for name in names:
            yield Import(file, node.lineno, name, lazy)
        inside = lazy or isinstance(node, functions)
        todo += [(child, inside) for child in ast.iter_child_nodes(node)]


IMPORTS = [one for file in TREES for one in imports(file)]


def room_of(file: str) -> str:
    """The room of a file; empty for bon/ itself."""
    parts = file.removeprefix("bon/").split("/")
    return parts[0] if len(parts) > 1 else ""


def may_import() -> dict[str, set[str]]:
    """The table of CONTRIBUTING.md: room -> rooms that it may import."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    table = text.split("## The rooms")[1].split("\n\n")[1]
    rows = re.findall(r"^\| `(\w+)` \|.*\| ([\w, ]+) \|$", table, re.MULTILINE)
    return {room: set() if named == "nothing" else set(named.split(", ")) for room, named in rows}


def test_the_table_names_every_room_and_no_other():
    folders = {room_of(file) for file in TREES} - {""}
    assert set(may_import()) == folders


def test_the_table_of_inner_rooms_names_every_folder_of_analysis():
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    table = text.split("### The inner rooms")[1].split("\n\n")[1]
    folders = {path.parent.name for path in (ROOT / "analysis").glob("*/__init__.py")}
    assert set(re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)) == folders


def test_the_table_points_one_way():
    """Each row names only rooms above it, so there is no circle."""
    seen: set[str] = set()
    for room, allowed in may_import().items():
        assert allowed <= seen, f"{room}: {', '.join(allowed - seen)} is no row above it"
        seen.add(room)


def test_every_room_imports_only_what_its_row_names():
    table = may_import()
    wrong = [
        str(one)
        for one in IMPORTS
        if (room := room_of(one.file))
        and one.module.startswith("bon.")
        and (other := one.module.split(".")[1]) != room
        and other not in table[room]
    ]
    assert wrong == []


def test_the_root_holds_the_public_functions_and_nothing_else():
    assert {file for file in TREES if room_of(file) == ""} == {
        "bon/__init__.py",
        "bon/__main__.py",
        "bon/api.py",
    }


def test_who_imports_ray():
    wrong = [
        str(one)
        for one in IMPORTS
        if one.module.split(".")[0] == "ray" and not one.file.startswith(RAY)
    ]
    assert wrong == []


def test_who_imports_torch():
    wrong = [
        str(one)
        for one in IMPORTS
        if one.module.split(".")[0] in ("torch", "transformers", "vllm")
        and not one.file.startswith(TORCH)
    ]
    assert wrong == []


def module_of(file: str) -> str:
    """The dotted name of a file."""
    name = file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    return name if name.split(".")[0] == "bon" else f"bon.{name}"


def test_no_modules_import_each_other_in_a_circle():
    """Imports within functions count as well."""
    modules = {module_of(file) for file in TREES}
    imported: dict[str, set[str]] = defaultdict(set)
    for file, tree in TREES.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module and node.module != "bon":
                names = {f"{node.module}.{alias.name}" for alias in node.names} & modules
                imported[module_of(file)] |= names or {node.module} & modules
    graph = TopologicalSorter(imported)
    graph.prepare()  # raises CycleError, which names the circle


def test_every_module_is_used():
    """One that nothing imports or names, such as an export without its entry, was forgotten."""
    cards = text_of("rewarders/cards/*.yaml")
    used = {one.module for one in IMPORTS} | set(re.findall(r"python: ([\w.]+):", cards))
    used |= set(re.findall(r' = "([\w.]+):', (ROOT / "pyproject.toml").read_text()))
    for node in (node for tree in TREES.values() for node in ast.walk(tree)):
        if isinstance(node, ast.ImportFrom):
            used |= {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            used.add(node.value.partition(":")[0])  # module:Class
    unused = [file for file in TREES if not file.endswith("__.py") if module_of(file) not in used]
    assert not unused, f"nothing imports or registers {unused}"


def test_no_folder_holds_too_many_modules():
    modules = Counter(
        Path(file).parent.as_posix() for file in TREES if not file.endswith("__init__.py")
    )
    crowded = {folder for folder, count in modules.items() if count > MODULES_PER_FOLDER}
    assert crowded == set()


def test_test_files_can_be_collected_together():
    """Outside packages pytest imports them by name, so a name in two folders stops every run."""
    found = defaultdict(list)
    for path in (ROOT / "tests").rglob("test_*.py"):
        if not (path.parent / "__init__.py").exists():
            found[path.name].append(str(path.relative_to(ROOT)))
    assert [paths for paths in found.values() if len(paths) > 1] == []


@pytest.mark.parametrize("name", ENGINES)
def test_an_engine_is_registered_completely(name: str):
    """Its packages are an extra of the same name; docs/engines.md has its row and its section."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extra = " ".join(project["optional-dependencies"].get(name, ()))
    missing = [names[0] for names in ENGINES[name].packages if names[0] not in extra]
    assert missing == [], f"pyproject.toml: extra {name!r} does not install {missing}"
    docs = (ROOT / "docs" / "engines.md").read_text(encoding="utf-8")
    assert f"\n## {name}\n" in docs, f"docs/engines.md has no section '## {name}'"
    listed = f"\n| `{name}` |" in docs or f"(`{name}` " in docs
    assert listed, f"docs/engines.md does not list {name!r} among the engines"
    both = bool(ENGINES[name].packages) == bool(ENGINES[name].unavailable)
    assert both, f"ENGINES[{name!r}]: `packages` and `unavailable`, or neither"


def text_of(*patterns: str) -> str:
    """The text of all files of these patterns, except this one."""
    files = {path for pattern in patterns for path in ROOT.glob(pattern)} - {Path(__file__)}
    return "\n".join(path.read_text(encoding="utf-8") for path in sorted(files))


TESTS = {
    path: ast.parse(path.read_text(encoding="utf-8"))
    for path in sorted((ROOT / "tests").rglob("*.py"))
    if path != Path(__file__)
}
ACTIONS = """
    client,curate freeze,export,prompts pull,serve,show,
    token add,token revoke,view,init
"""
"""Commands that print no results."""
LISTED: dict[str, tuple[Registry[Any], str, str, Iterable[str]]] = {
    # the registry, the page with their rows, the test that runs each entry, its cases
    "benchmark": (
        BENCHMARKS, "docs/benchmarks.md",
        "CASES of tests/benchmarks/test_every_benchmark.py", test_every_benchmark.CASES,
    ),
    "engine": (
        ENGINES, "docs/engines.md",
        "ANSWERING of tests/engines/test_every_engine.py", test_every_engine.ANSWERING,
    ),
    "export": (
        EXPORTS, "docs/exporting.md",
        "ROWS of tests/exports/test_every_export.py", test_every_export.ROWS,
    ),
    "format": (
        FORMATS, "docs/importing.md",
        "MADE of tests/formats_made.py", [name.partition(" ")[0] for name in MADE],
    ),
    "grader": (GRADERS, "docs/graders.md", "WORTH of tests/test_graders.py", test_graders.WORTH),
    "selection rule": (
        RULES, "docs/service.md",
        "CHOSEN of tests/choosing/test_rules.py", test_rules.CHOSEN,
    ),
}  # fmt: skip


@pytest.mark.parametrize("part", LISTED)
def test_what_is_registered_is_on_its_page_and_in_a_test(part: str):
    """In a table of the page, and with a case of the test that runs every entry."""
    registry, page, where, cases = LISTED[part]
    names = registry.shipped
    rows = re.findall(r"^\|.*", text_of(page), re.MULTILINE)
    missing = [
        f"{page}: no row of the {part} `{name}`"
        for name in names
        if not any(f"`{name}`" in row for row in rows)
    ]
    missing += [f"{where}: no case of the {part} {n!r}" for n in names if n not in cases]
    missing += [f"{where}: no {part} {case!r} is registered" for case in cases if case not in names]
    assert not missing, "\n".join(missing)


def test_every_published_benchmark_is_cited():
    missing = [
        f"bon/benchmarks: {name} has no citation (an entry of citations.bib)"
        for name in BENCHMARKS
        if BENCHMARKS[name].hub and not BENCHMARKS[name].citation
    ]
    assert not missing, "\n".join(missing)


def records(kind: Any) -> Iterator[type[Record]]:
    """The records inside a type."""
    if isinstance(kind, type) and issubclass(kind, Record):
        yield kind
        for field in kind.model_fields.values():
            yield from records(field.annotation)
    for inner in typing.get_args(kind):
        yield from records(inner)


def lists_of(record: type[Record]) -> Iterator[str]:
    """The fields that are lists of records."""
    for name, field in record.model_fields.items():
        if typing.get_origin(field.annotation) is tuple and any(records(field.annotation)):
            yield name


def field_read(node: ast.AST) -> str | None:
    """The name after the dot, or the constant in brackets."""
    if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
        return node.attr
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
        return str(node.slice.value)
    return None


def reads_results(node: ast.AST) -> bool:
    """Whether a test module that holds this has results: from the analysis, or from their file."""
    if isinstance(node, ast.ImportFrom):
        return (node.module or "").startswith(("bon.analysis", "bon.running.reporting"))
    return isinstance(node, ast.Constant) and node.value == "results.json"


def test_every_field_of_the_results_is_complete():
    """Fields within records may have names that say enough; then something reads them."""
    page = text_of("docs/results.md")
    read = set(re.findall(r"\w+", page)) | set(
        re.findall(r"\.(\w+)", text_of("analysis/report/*.jinja"))
    )
    read |= set(re.findall(r"`(\w+)`", text_of("docs/statistics.md", "docs/panels.md")))
    for file, tree in TREES.items():
        if not file.startswith("analysis/results/"):
            read |= {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    tested = {
        name
        for tree in TESTS.values()
        if any(map(reads_results, ast.walk(tree)))
        for node in ast.walk(tree)
        if (name := field_read(node))
    }
    wrong = []
    for name in Results.model_fields:
        wrong += [] if f"`{name}`" in page else [f"docs/results.md: no row of {name}"]
        wrong += [] if name in tested else [f"tests/: no test reads {name} of results"]
    report = text_of(
        "analysis/report/*.jinja", "analysis/report/*.py", "analysis/plots/*.py",
        "analysis/finding/first_page.py",
    )  # fmt: skip
    for name in lists_of(Results):
        read_there = re.search(rf"\.{name}\b", report)
        wrong += [] if read_there else [f"analysis/report: no section reads {name}"]
    for record in dict.fromkeys(records(Results)):
        wrong += [
            f"{record.__name__}.{name}: neither in docs/results.md nor read by report or exports"
            for name in record.model_fields
            if name not in read
        ]
    assert not wrong, "\n".join(wrong)


def test_every_statistic_of_the_results_is_defined():
    """By the name of its field; `*_without_leaks` is that of the field without the suffix.

    docs/results.md is enough for a number without an interval.
    """
    defined = text_of("docs/statistics.md", "docs/panels.md", "docs/uplift.md").lower()
    pages = {Estimate: defined, float: defined + text_of("docs/results.md").lower()}
    missing = [
        f"docs/statistics.md: no definition of {record.__name__}.{name}"
        for record in dict.fromkeys(records(Results))
        for name, field in record.model_fields.items()
        for kind, text in pages.items()
        if kind in (field.annotation, *typing.get_args(field.annotation))
        and not re.search(name.removesuffix("_without_leaks").replace("_", "[ _-]"), text)
    ]
    assert not missing, "\n".join(missing)


def registered(group: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """The functions of a group of commands, each with the words that call it."""
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from registered(command, f"{path}{name} ")
        else:
            yield f"{path}{name}", inspect.unwrap(command.callback)


STARTS = ("invoke", "run", "Popen", "bon", "run_bon", "call", "decide", "Terminal", "setattr")
"""Functions of tests that start `bon`, among them `sys.argv` set by monkeypatch."""


def command_lines() -> Iterator[list[str]]:
    """The constant words with which tests start `bon`, after its name and its options."""
    for tree in TESTS.values():
        for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
            if ast.unparse(call.func).split(".")[-1] not in STARTS:
                continue
            for given in (call.args, *(a.elts for a in call.args if isinstance(a, ast.List))):
                words = [
                    part.value if isinstance(part, ast.Constant) else None
                    for node in given
                    for part in (node.values[:1] if isinstance(node, ast.JoinedStr) else [node])
                ]
                while words and words[0] in (None, "-m", "bon"):
                    del words[0]
                first, *rest = words or [""]
                yield [*str(first).split(), *map(str, rest)]


def test_every_command_is_registered_documented_and_tested():
    from typer.main import get_command

    from bon.commands.main import app

    commands, calls = dict(registered(get_command(app))), list(command_lines())
    known, docs = set(commands.values()), text_of("README.md", "docs/*.md")
    missing = []
    for path in (ROOT / "bon" / "commands").glob("*.py"):
        module = importlib.import_module(f"bon.commands.{path.stem}")
        for name, function in inspect.getmembers(module, inspect.isfunction):
            if function.__module__ != module.__name__ or name.startswith("_"):
                continue
            hints = inspect.signature(function, eval_str=False).parameters.values()
            if any("Option" in str(p.annotation) or "Argument" in str(p.annotation) for p in hints):
                missing += [] if function in known else [f"{path.name}: {name} is not in _COMMANDS"]
    for words, command in commands.items():
        if not re.search(rf"bon {words}(?![\w-])", docs):
            missing.append(f"docs: no page mentions `bon {words}`")
        if not any(call[: len(words.split())] == words.split() for call in calls):
            missing.append(f"tests/: no test calls `bon {words}`")
        if (
            words not in re.split(r",\s*", ACTIONS.strip())
            and "as_json" not in inspect.signature(command).parameters
        ):
            missing.append(f"bon/commands: `bon {words}` has no as_json: Json")
    assert not missing, "\n".join(missing)


def test_every_engine_is_in_the_registry():
    paths = {entry.path for entry in ENGINES.values()}
    missing = [
        f"ENGINES of bon/engines/__init__.py: no entry of {path}"
        for file, tree in TREES.items()
        if file.startswith("bon/engines/")
        for node in tree.body
        if isinstance(node, ast.ClassDef)
        and "Engine" in {ast.unparse(base).split(".")[-1] for base in node.bases}
        if (path := f"{module_of(file)}:{node.name}") not in paths
    ]
    assert not missing, "\n".join(missing)
