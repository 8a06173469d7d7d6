"""Show the READMEs as pages: the start page, one page for each package, and their sections on speed as one page."""

import re
from pathlib import Path

import mkdocs_gen_files

ROOT = Path(__file__).parents[1]


def page(readme, target, links):
    """Copy a README, with links that fit where the page stands."""
    text = readme.read_text()
    for pattern, replacement in links:
        text = re.sub(rf"\]\({pattern}\)", f"]({replacement})", text)
    with mkdocs_gen_files.open(target, "w") as file:
        file.write(text)


top = [("docs/pages/(.*?)", r"\1"), (r"(\w+)/README\.md(#.*?)?", r"packages/\1.md\2"), ("CHANGELOG.md", "changes.md"),
       ("CONTRIBUTING.md", "contributing.md")]
page(ROOT / "README.md", "index.md", top)
page(ROOT / "CHANGELOG.md", "changes.md", top)
page(ROOT / "CONTRIBUTING.md", "contributing.md", top)
for package in ("core", "sponge", "quantum", "reinforce"):
    page(ROOT / package / "README.md", f"packages/{package}.md", [(r"\.\./(\w+)/README\.md", r"\1.md")])

with mkdocs_gen_files.open("benchmarks.md", "w") as file:
    file.write("# Benchmarks\n\n`make bench` installs the peers and prints all tables.\n")
    for package in ("core", "sponge", "quantum", "reinforce"):
        speed = re.search(r"^## Speed\n(.*?)(?=^## |\Z)", (ROOT / package / "README.md").read_text(), re.M | re.S)
        file.write(f"\n## {package}\n{speed[1]}")
