"""Which tests a change concerns: those that reach a changed file through imports, over any number of files.

`sponge.NoseHoover` in a test leads through the stub of the package to the file that defines it, as it does in an
editor. A package that discovers its modules leads to all of them.
"""

import ast
import re
import subprocess
from functools import cache
from pathlib import Path

from tests.docs.pages import Page

ROOT = Path(__file__).parents[1]
PACKAGES = ("core", "sponge", "quantum", "reinforce", "command")


@cache
def path_of(module):
    """Return the file of a dotted name below `triskele` or `tests`, or None."""
    head, *rest = module.split(".")
    if head == "triskele" and rest and rest[0] in PACKAGES or head == "tests":
        place = ROOT.joinpath(*(rest if head == "triskele" else [head, *rest]))
        for path in (place.with_suffix(".py"), place / "__init__.py"):
            if path.is_file():
                return path
    return None


@cache
def stub(path):
    """Return the names of a package's stub file with their homes: (module, name)."""
    homes, module = {}, name_of(path)
    if path.with_suffix(".pyi").is_file():
        for node in ast.parse(path.with_suffix(".pyi").read_text()).body:
            if isinstance(node, ast.ImportFrom):
                home = absolute(module, path, node)
                homes.update({alias.asname or alias.name: (home, alias.name) for alias in node.names})
    return homes


def name_of(path):
    """Return the dotted name of a file."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join((*(["triskele"] if parts[0] in PACKAGES else []), *parts)).removesuffix(".__init__")


def absolute(module, path, node):
    """Return the module that an import statement of a file names."""
    parts = module.split(".") if path.name == "__init__.py" else module.split(".")[:-1]
    above = parts[: len(parts) + 1 - node.level] if node.level else []
    return ".".join([*above, *([node.module] if node.module else [])])


@cache
def home(module, name):
    """Return the file in which a name of a module is defined, and the dotted name of a package that it may be."""
    if path_of(f"{module}.{name}"):
        return path_of(f"{module}.{name}"), f"{module}.{name}"
    path = path_of(module)
    if path and name in stub(path):
        return home(*stub(path)[name])
    return path, None


def imports(code, path):
    """Return the files that some code uses: those it imports, and those behind attributes of imported packages."""
    module, found, aliases = name_of(path), set(), {}
    nodes = list(ast.walk(ast.parse(code)))
    for node in nodes:
        if isinstance(node, ast.Import):
            for alias in node.names:
                found.add(path_of(alias.name))
                aliases[alias.asname or alias.name] = alias.name
        elif isinstance(node, ast.ImportFrom):
            source = absolute(module, path, node) if node.level else node.module
            for alias in node.names:
                file, package = home(source, alias.name)
                found.add(file)
                if package:
                    aliases[alias.asname or alias.name] = package
    known = {}  # package by node: breadth first meets the longest chains first
    for node in reversed(nodes):
        if isinstance(node, ast.Name):
            known[node] = aliases.get(node.id)
        elif isinstance(node, ast.Attribute) and known.get(node.value):
            file, known[node] = home(known[node.value], node.attr)
            found.add(file)
    if path.name == "__init__.py" and re.search(r"discover|iter_modules|walk_packages", code):
        found.update(path.parent.rglob("*.py"))
    return found - {None, path}


def graph():
    """Return, for each file of the packages, tests, examples and pages, the files that it uses."""
    files = [
        file
        for folder in (*PACKAGES, "tests", "examples")
        for file in (ROOT / folder).rglob("*.py")
        if "data" not in file.relative_to(ROOT).parts[1:2]
    ]
    edges = {file: imports(file.read_text(), file) for file in files}
    for file in [*(ROOT / "docs" / "pages").rglob("*.md"), *ROOT.glob("*/README.md"), ROOT / "README.md"]:
        blocks = [block.code for blocks in Page.read(file).scripts.values() for block in blocks]
        edges[file] = imports("\n".join(blocks), file.with_suffix(".py"))
    return edges


def changed(base):
    """Return the files that differ from a commit, and those that git does not know yet."""
    commands = (["diff", "--name-only", base], ["ls-files", "--others", "--exclude-standard"])
    return {
        ROOT / name
        for command in commands
        for name in subprocess.run(
            ["git", *command], cwd=ROOT, capture_output=True, text=True, check=True
        ).stdout.splitlines()
    }


def affected(base):
    """Return the test files, and the tests of examples, pages and docstrings, that changes since a commit reach."""
    edges, seen = graph(), set()
    # a stub, a list of kernels or a data file stands for its folder's __init__.py
    new = {file if file in edges else file.parent / "__init__.py" for file in changed(base)}
    users = {}
    for file, uses in edges.items():
        for used in uses:
            users.setdefault(used, set()).add(file)
    while new:
        seen |= new
        new = {user for file in new for user in users.get(file, ())} - seen
    names = {file: str(file.relative_to(ROOT)) for file in seen if file.is_relative_to(ROOT)}
    tests = [name for file, name in names.items() if name.startswith("tests/") and file.name.startswith("test_")]
    examples = [
        f"tests/examples/test_examples.py::test_example[{file.name}]"
        for file, name in names.items()
        if name.startswith("examples/") and file.suffix == ".py"
    ]
    pages = [
        f"tests/docs/test_snippets.py::test_blocks_run_in_an_empty_folder[{name}-{peer}]"
        for file, name in names.items()
        if file.suffix == ".md"
        for peer in Page.read(file).scripts
    ]
    modules = [
        f"tests/style/test_docstrings.py::test_examples_run[{name_of(file)}]"
        for file, name in names.items()
        if name.split("/")[0] in PACKAGES and file.suffix == ".py" and ">>> " in file.read_text()
    ]
    return sorted({*tests, *examples, *pages, *modules, "tests/style"})
