"""What the project says it needs is what it imports, and the README's path is importable."""

from __future__ import annotations

import ast
import importlib
import importlib.metadata
import re
import sys
from functools import cache
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

ROOT = Path(__file__).resolve().parent.parent
REQUIREMENT_FILES = ("requirements.txt", "requirements-dev.txt")
NOT_SOURCE = {".venv", "venv", "outputs", "runs", ".git"}
IMPORT_NAMES = {"scikit-learn": "sklearn"}  # of those packages whose two names differ


@cache
def requirements(name: str) -> dict[str, Requirement]:
    """The packages one file lists itself, without those of a file it includes."""
    lines = [line.split("#")[0].strip() for line in (ROOT / name).read_text().splitlines()]
    parsed = [Requirement(line) for line in lines if line and not line.startswith("-r")]
    return {IMPORT_NAMES.get(r.name, r.name.replace("-", "_")): r for r in parsed}


@cache
def sources() -> list[Path]:
    return [path for path in sorted(ROOT.rglob("*.py"))
            if NOT_SOURCE.isdisjoint(path.relative_to(ROOT).parts)]


@cache
def imports(path: Path) -> tuple[set[str], set[str]]:
    """Third-party packages that a file imports: at once (top level), and later (in a function)."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    at_once, later = set(), set()

    def visit(node: ast.AST, inside: bool) -> None:
        for child in ast.iter_child_nodes(node):
            names = []
            if isinstance(child, ast.Import):
                names = [alias.name for alias in child.names]
            elif isinstance(child, ast.ImportFrom) and not child.level:
                names = [child.module]
            (later if inside else at_once).update(name.split(".")[0] for name in names)
            visit(child, inside or isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef))

    visit(tree, False)
    ours = {p.stem for p in ROOT.glob("*.py")} | {p.name for p in ROOT.iterdir() if p.is_dir()}
    ours |= {p.stem for p in path.parent.glob("*.py")}  # a script finds what lies beside it
    known = ours | set(sys.stdlib_module_names)
    return at_once - known, later - known


def test_row_52_ranges_are_closed_and_admit_what_is_installed() -> None:
    for name in REQUIREMENT_FILES:
        for module, requirement in requirements(name).items():
            operators = {specifier.operator for specifier in requirement.specifier}
            assert operators == {">=", "<"}, f"{name}: {requirement} needs a floor and a ceiling"
            version = Version(importlib.metadata.version(requirement.name))
            assert requirement.specifier.contains(version, prereleases=True), (
                f"{name}: {requirement} leaves out {version}, which {module} is tested with here")


def test_newest_torch_is_the_one_that_is_tested() -> None:
    """pip takes the newest that a range admits, so the range ends behind the tested release."""
    torch = requirements("requirements.txt")["torch"].specifier
    assert torch.contains("2.13.0")
    assert not torch.contains("2.14.0") and not torch.contains("2.14.1")


def test_dev_requirements_include_the_plain_ones_and_repeat_none() -> None:
    lines = (ROOT / "requirements-dev.txt").read_text().splitlines()
    assert "-r requirements.txt" in lines
    both = requirements("requirements.txt").keys() & requirements("requirements-dev.txt").keys()
    assert not both


@pytest.mark.parametrize("path", sources(), ids=lambda path: str(path.relative_to(ROOT)))
def test_row_52_every_import_is_required(path: Path) -> None:
    """At the top of a file only requirements.txt counts; inside a function an optional package of
    requirements-dev.txt may be asked for. Tests and benchmarks may use all of them."""
    plain = set(requirements("requirements.txt"))
    everything = plain | set(requirements("requirements-dev.txt"))
    at_once, later = imports(path)
    for_developers = path.relative_to(ROOT).parts[0] in ("tests", "benchmarks")
    assert at_once <= (everything if for_developers else plain)
    assert later <= everything


def test_every_requirement_is_imported() -> None:
    """A package that nobody imports is not asked for (tools that are run are named here)."""
    run = {"ruff", "tensorboard", "onnxscript"}  # torch imports the last two itself
    used = set().union(*(at_once | later for at_once, later in map(imports, sources())))
    for name in REQUIREMENT_FILES:
        assert set(requirements(name)) - used - run == set(), name


def readme_imports() -> list[tuple[str, str | None]]:
    """(module, name) of every import statement in the Python blocks of the READMEs."""
    found = []
    for readme in sorted(ROOT.glob("README*.md")):
        for block in re.findall(r"```python\n(.*?)```", readme.read_text("utf-8"), re.DOTALL):
            for node in ast.walk(ast.parse(block)):
                if isinstance(node, ast.Import):
                    found += [(alias.name, None) for alias in node.names]
                elif isinstance(node, ast.ImportFrom):
                    found += [(node.module, alias.name) for alias in node.names]
    return sorted(set(found), key=str)


def test_row_52_what_the_readme_imports_is_there() -> None:
    for module, name in readme_imports():
        imported = importlib.import_module(module)
        assert name is None or hasattr(imported, name), f"README: from {module} import {name}"


def test_what_the_readme_runs_is_there() -> None:
    for readme in sorted(ROOT.glob("README*.md")):
        for block in re.findall(r"```(?:bash|sh)\n(.*?)```", readme.read_text("utf-8"), re.DOTALL):
            for file in re.findall(r"(?:python|bash|sh) ([\w./]+\.(?:py|sh))", block):
                assert (ROOT / file).is_file(), f"{readme.name} runs {file}, which is missing"
