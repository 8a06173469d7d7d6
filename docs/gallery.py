"""Write the gallery: each example with its description, its code, and its picture where `make gallery` has drawn it."""

import ast
from pathlib import Path

import mkdocs_gen_files

ROOT = Path(__file__).parents[1]
PICTURES = ROOT / "docs" / "pictures"

for package in ("core", "sponge", "quantum", "reinforce", "hybrid"):
    with mkdocs_gen_files.open(f"gallery/{package}.md", "w") as page:
        page.write(f"# {package}\n\n")
        for path in sorted((ROOT / "examples" / package).glob("*.py")):
            source = path.read_text()
            title, _, text = ast.get_docstring(ast.parse(source)).partition("\n")
            page.write(f"## {title.rstrip('.')}\n\n{text.strip()}\n\n")
            picture = PICTURES / f"{path.stem}.png"
            if picture.exists():
                with mkdocs_gen_files.open(f"gallery/{picture.name}", "wb") as copy:
                    copy.write(picture.read_bytes())
                page.write(f"![{title}]({picture.name})\n\n")
            page.write(f'??? example "examples/{package}/{path.name}"\n\n    ```python\n')
            page.writelines(f"    {line}\n" if line else "\n" for line in source.splitlines())
            page.write("    ```\n\n")
