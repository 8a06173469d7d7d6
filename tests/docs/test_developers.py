"""The pages for developers name what is there: paths, and the floors that the contracts of imports hold."""

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = ROOT / "docs" / "pages" / "developers"
CONTRACTS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
PACKAGES = ("core", "sponge", "quantum", "reinforce")


def layers(package):
    """The folders and files that a contract orders, without their packages."""
    found = {
        name
        for contract in CONTRACTS
        for entry in contract.get("layers", ())
        for name in re.findall(rf"triskele\.{package}\.([\w.]+)", entry)
    }
    if package == "quantum":  # whose contract names its container once
        found |= {
            name
            for contract in CONTRACTS
            if "containers" in contract
            for entry in contract["layers"]
            for name in re.findall(r"\w+", entry)
        }
    return {name.rpartition(".")[2] for name in found}


@pytest.mark.parametrize("package", PACKAGES)
def test_floors_are_those_of_the_contracts(package):
    picture = re.search(r"```\n(.*?)```", (PAGES / f"{package}.md").read_text(), re.S)[1]
    missing = layers(package) - set(re.findall(r"\w+", picture))
    assert layers(package) and not missing


def test_paths_exist():
    """Paths from the root that a page or CONTRIBUTING names."""
    absent = []
    for page in [*PAGES.rglob("*.md"), ROOT / "CONTRIBUTING.md"]:
        for path in set(
            re.findall(
                r"`((?:core|sponge|quantum|reinforce|command|tests|docs)/[\w./-]+)`",
                re.sub(r"\(then `[^`]*`\)", "", page.read_text()),
            )
        ):
            if not (ROOT / path).exists() and path != "tests/durations.txt":  # which a run writes
                absent.append(f"{page.name}: {path}")
    assert not absent


@pytest.mark.parametrize("package", PACKAGES)
def test_files_to_read_first_exist(package):
    section = (PAGES / f"{package}.md").read_text().split("## Five files to read first")[1].split("##")[0]
    files = re.findall(r"`([\w/]+\.py)`", section)
    assert len(files) == 5 and not [file for file in files if not (ROOT / package / file).exists()]
