"""Who may import whom (docs/architecture.md), held by reading the tree."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
ROOMS = ("model", "metrics", "tools", "callback", "processors")
MAY_IMPORT = {
    "model": (),
    "metrics": (),
    "tools": (),
    "callback": ("tools",),
    "processors": ("model.tokenization_albert", "metrics"),
}
MAX_LINES = 500  # a file that does not fit into a head; most have under 300


@cache
def modules() -> dict[str, Path]:
    """Every module of the project but its tests, by dotted name."""
    paths = [*ROOT.glob("*.py"), *(p for room in ROOMS for p in (ROOT / room).rglob("*.py"))]
    return {dotted_name(path): path for path in paths}


def dotted_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def imported(path: Path, for_types: bool = True) -> frozenset[str]:
    """Modules of the project that a file imports, anywhere in it, by dotted name.

    for_types: with those under `if TYPE_CHECKING:`, which do not happen when the program runs.
    """
    package = dotted_name(path).split(".")
    if path.name != "__init__.py":
        package = package[:-1]
    found = set()
    tree = ast.parse(path.read_text(encoding="utf-8"))
    if not for_types:
        tree = WithoutTypeChecking().visit(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {known(alias.name) for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            found |= {known(f"{base}.{alias.name}") for alias in node.names}
    return frozenset(found - {None, dotted_name(path)})


class WithoutTypeChecking(ast.NodeTransformer):
    def visit_If(self, node: ast.If) -> ast.AST | None:
        return None if ast.unparse(node.test) == "TYPE_CHECKING" else self.generic_visit(node)


def known(name: str) -> str | None:
    """The longest beginning of a dotted name that is a module of the project."""
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        if ".".join(parts[:length]) in modules():
            return ".".join(parts[:length])
    return None


def within(module: str, places: tuple[str, ...]) -> bool:
    return any(module == place or module.startswith(f"{place}.") for place in places)


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_imports_only_what_it_may(room: str) -> None:
    for path in sorted((ROOT / room).rglob("*.py")):
        for module in imported(path):
            assert within(module, (room, *MAY_IMPORT[room])), (
                f"{path.relative_to(ROOT)} imports {module}; {room} may import "
                f"{', '.join(MAY_IMPORT[room]) or 'no other room'}")


def test_front_doors_import_no_front_door() -> None:
    """What two of them share belongs into a recipe, a file beside them, or into a room."""
    doors = {path.stem for path in ROOT.glob("*.py") if "__main__" in path.read_text("utf-8")}
    assert {"run_classifier", "run_pretraining"} <= doors
    for name in modules():
        assert not imported(modules()[name]) & doors, name


def test_no_cycle() -> None:
    graph = {name: imported(path, for_types=False) for name, path in modules().items()}
    done: set[str] = set()

    def visit(name: str, trail: tuple[str, ...]) -> None:
        assert name not in trail, " -> ".join([*trail[trail.index(name):], name])
        if name not in done:
            for other in sorted(graph[name]):
                visit(other, (*trail, name))
            done.add(name)

    for name in graph:
        visit(name, ())


def test_files_fit_into_a_head() -> None:
    for name, path in modules().items():
        lines = len(path.read_text(encoding="utf-8").splitlines())
        assert lines <= MAX_LINES, f"{name} has {lines} lines"


def test_no_drawer_called_utils_or_common() -> None:
    for name in modules():
        assert not {"utils", "util", "common", "helpers", "misc"} & set(name.split(".")), name


def test_pickles_are_read_with_weights_only() -> None:
    """`torch.load` without it runs what a file says."""
    for name, path in modules().items():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "torch.load":
                safe = {k.arg: ast.unparse(k.value) for k in node.keywords}.get("weights_only")
                assert safe == "True", f"{name}, line {node.lineno}"


def test_no_bare_except() -> None:
    for name, path in modules().items():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ExceptHandler):
                assert node.type is not None, f"{name}, line {node.lineno}"
