"""The house: which room imports which, who may import Ray and torch, one name for one thing.

CONTRIBUTING.md's table of rooms is the rule; the imports are read from the source, without
running it.
"""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
TOP = ("policies", "rewarders", "analysis")  # linked into bon/

RAY = (
    *(f"bon/running/{name}.py" for name in ("cluster", "connection", "local_ray")),
    "bon/service/",
)
TORCH = ("bon/engines/", "bon/miniature/training/")
TORCH_WITHIN_FUNCTIONS = ("rewarders/ixc.py", "rewarders/mm_rlhf.py")  # the models' own code runs

SAME_MODULE_NAME = {
    "__init__": "Python's",
    "base": "the abstract base of its room",
    "mm_rlhf": "one published project: its benchmark and its reward model",
    "online": "Best-of-N online: what it does, and its routes",
    "openai": "one protocol: the client of an endpoint, and the service's own endpoint",
    "prompts": "prompts, and `bon prompts`, named as every command's file is",
    "settings": "those of each engine, and those of the service",
    "views": "what a page of the service and a page of the report show",
}
SAME_CLASS_NAME = {
    "Run": "a run directory for a user (bon.api), its tables as arrays within analysis",
    "ScoreRequest": "one request: what an engine is asked, and its body over HTTP",
}


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
    linked = [path for top in TOP for path in (ROOT / top).rglob("*.py")]
    real = [p for p in (ROOT / "bon").rglob("*.py") if p.relative_to(ROOT).parts[1] not in TOP]
    return sorted(real + linked)


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
    assert {file for file in TREES if room_of(file) == ""} == {"bon/__init__.py", "bon/api.py"}


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
        and not (one.lazy and one.file in TORCH_WITHIN_FUNCTIONS)
    ]
    assert wrong == []


def test_no_two_modules_share_a_name():
    places = defaultdict(list)
    for file in TREES:
        places[Path(file).stem].append(file)
    check_names(places, SAME_MODULE_NAME)


def test_no_two_classes_share_a_name():
    places = defaultdict(list)
    for file, tree in TREES.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(f"{file}:{node.lineno}")
    check_names(places, SAME_CLASS_NAME)


def check_names(places: dict[str, list[str]], allowed: dict[str, str]) -> None:
    """A name stands in one place, or is listed with its reason; and the list has no others."""
    twice = {name: found for name, found in places.items() if len(found) > 1}
    assert {name: found for name, found in twice.items() if name not in allowed} == {}
    assert [name for name in allowed if name not in twice] == [], "listed, but stands once"


def test_test_files_can_be_collected_together():
    """Outside packages pytest imports them by name, so a name in two folders stops every run."""
    found = defaultdict(list)
    for path in (ROOT / "tests").rglob("test_*.py"):
        if not (path.parent / "__init__.py").exists():
            found[path.name].append(str(path.relative_to(ROOT)))
    assert [paths for paths in found.values() if len(paths) > 1] == []
