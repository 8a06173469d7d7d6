"""Collect the sources of the site in one folder: pages, READMEs, notebooks, the gallery and the reference."""

import itertools
import re
import shutil
from pathlib import Path

import gallery
import notebooks
import reference
import rules

ROOT = Path(__file__).parents[1]
PACKAGES = ("core", "sponge", "quantum", "reinforce")


def fences(markdown):
    """Hide the words of fences that are for the tests (`notest`, `peer=jax`, `sampled`); make titles captions."""

    def clean(fence):
        indent, ticks, language, words = fence.groups()
        title = re.search(r'title="(.*?)"', words)
        if title is None:
            return f"{indent}{ticks}{language}"
        return f"{indent}{ticks}{{code-block}} {language}\n{indent}:caption: {title[1]}\n"

    return re.sub(r"^( *)(```+)(python|text)\b(.*)$", clean, markdown, flags=re.M)


def pages():
    """Return the text of each page by its path in the site."""
    found = {
        str(path.relative_to(ROOT / "docs" / "pages")): path.read_text()
        for path in (ROOT / "docs" / "pages").rglob("*.md")
    }
    found["developers/rules.md"] = rules.page()
    contributing = (ROOT / "CONTRIBUTING.md").read_text()
    found["developers/contributing.md"] = contributing.replace("](docs/pages/developers/", "](")
    top = {name: (ROOT / name).read_text() for name in ("README.md", "CHANGELOG.md")}
    links = [
        ("docs/pages", "index.md"),
        (r"docs/pages/(.*?)", r"\1"),
        (r"(\w+)/README\.md(#.*?)?", r"packages/\1.md\2"),
        (r"tests/(.*?)\.md", "how-we-know.md"),
        ("CHANGELOG.md", "changes.md"),
        ("CONTRIBUTING.md", "developers/contributing.md"),
    ]
    for name, (pattern, target) in itertools.product(top, links):
        top[name] = re.sub(rf"\]\({pattern}\)", f"]({target})", top[name])
    readme = top["README.md"].replace("# Triskele\n", "# Overview\n", 1)
    found["changes.md"] = top["CHANGELOG.md"] + "\n```{toctree}\n:hidden:\n\nchanges-old\n```\n"
    start = ["packages/*", "how-we-know", "benchmarks", "figures"]
    found["overview.md"] = "\n".join([readme, "```{toctree}", ":hidden:", ":glob:", "", *start, "```", ""])
    found["benchmarks.md"] = "# Benchmarks\n\n`make bench` installs the peers and prints all tables.\n"
    for package in PACKAGES:
        text = (ROOT / package / "README.md").read_text()
        text = re.sub(r"\]\(\.\./(\w+)/README\.md\)", r"](\1.md)", text)
        found[f"packages/{package}.md"] = text.replace("# ", "# Guide to ", 1)
        speed = re.search(r"^## Speed\n(.*?)(?=^## |\Z)", text, re.M | re.S)
        found["benchmarks.md"] += f"\n## {package}\n{speed[1]}"

    for path, text in notebooks.all_notebooks():
        found[f"tutorials/{path.stem}.ipynb"] = text
        title, _, rest = found[f"tutorials/{path.name}"].partition("\n")
        found[f"tutorials/{path.name}"] = f"{title}\n\n{{download}}`Download as a notebook <{path.stem}.ipynb>`\n{rest}"
    return {name: fences(text) if name.endswith(".md") else text for name, text in found.items()}


def write(folder):
    """Write all sources into a folder. Files that have not changed keep their time, so that Sphinx reads them once."""
    found = pages() | gallery.pages(folder) | reference.pages()
    for path in folder.rglob("*.*"):
        if str(path.relative_to(folder)) not in found and "images" not in path.parts:
            path.unlink()
    for name, text in found.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists() or path.read_text() != text:
            path.write_text(text)
    shutil.copytree(ROOT / "docs" / "pages" / "images", folder / "images", dirs_exist_ok=True)
