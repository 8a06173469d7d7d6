"""The page of the demo: one HTML file that holds its pictures and loads nothing."""

from __future__ import annotations

import base64
import os
from collections.abc import Sequence
from datetime import datetime
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from .info import facts

if TYPE_CHECKING:
    from .demo import Result

__all__ = ["write_page"]

_STYLE = """
:root { color-scheme: light dark; --ink: #1d232b; --soft: #5b6673; --line: #dfe3e8; --paper: #fff; --card: #f6f7f9;
        --accent: #24618e; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e4e8ed; --soft: #9aa6b2; --line: #333b45; --paper: #15191e; --card: #1e242b; --accent: #7db8e3; }
}
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 60rem; padding: 3rem 1.5rem 5rem; background: var(--paper); color: var(--ink);
       font: 1.0625rem/1.6 system-ui, -apple-system, "Segoe UI", "Helvetica Neue", sans-serif; }
h1 { margin: 0; font-size: 2.25rem; line-height: 1.2; letter-spacing: -0.02em; }
h2 { margin: 0 0 .5rem; font-size: 1.5rem; line-height: 1.3; letter-spacing: -0.01em; }
p { margin: .5rem 0 0; max-width: 42rem; }
.soft, .package, dt, th, summary { color: var(--soft); }
.package { margin: 0 0 .25rem; font-size: .875rem; }
section { margin-top: 3.5rem; padding-top: 2rem; border-top: 1px solid var(--line); }
dl { display: flex; flex-wrap: wrap; gap: 1rem 2.5rem; margin: 1.5rem 0; }
dl div { display: flex; flex-direction: column-reverse; }
dt { font-size: .875rem; }
dd { margin: 0; font-size: 1.5rem; font-weight: 600; font-variant-numeric: tabular-nums; color: var(--accent); }
img { display: block; width: 100%; height: auto; padding: .75rem; border: 1px solid var(--line); border-radius: .5rem;
      background: #fff; }
details { margin-top: 1rem; }
summary { cursor: pointer; font-size: .9375rem; }
pre { overflow-x: auto; margin: .75rem 0 0; padding: 1rem; border-radius: .5rem; background: var(--card);
      font: .8125rem/1.5 ui-monospace, "SF Mono", Menlo, Consolas, monospace; }
table { border-collapse: collapse; width: 100%; font-size: .9375rem; }
th, td { padding: .4rem 0; border-bottom: 1px solid var(--line); text-align: left; vertical-align: top;
         overflow-wrap: anywhere; }
th { width: 9rem; font-weight: 400; }
@media (max-width: 36rem) { body { padding: 1.5rem 1rem 3rem; } h1 { font-size: 1.75rem; } dl { gap: 1rem 1.5rem; } }
"""


def write_page(path: str | os.PathLike, results: Sequence[Result]) -> Path:
    """Write the page of a demo and return its path."""
    known = facts()
    seconds = sum(result.seconds for result in results)
    rows = "".join(f"<tr><th>{escape(name)}</th><td>{escape(value)}</td></tr>\n" for name, value in known.items())
    text = f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Triskele demo</title>
<style>{_STYLE}</style>
</head>
<body>
<h1>Triskele demo</h1>
<p class="soft">{len(results)} examples in {seconds:.0f} s on {datetime.now():%d %B %Y}, with Triskele
{escape(known["triskele"].split()[0])} on {escape(known["processor"])}, {escape(known["threads"])} threads.</p>
{"".join(map(_section, results))}<section>
<h2>This machine</h2>
<table>
{rows}</table>
</section>
</body>
</html>
"""
    path = Path(path)
    path.write_text(text, encoding="utf-8")
    return path


def _section(result: Result) -> str:
    part = result.part
    numbers = [*result.numbers, ("seconds, with compilation", f"{result.seconds:.1f}")]
    items = "\n".join(f"<div><dt>{escape(label)}</dt><dd>{escape(value)}</dd></div>" for label, value in numbers)
    picture = base64.b64encode(result.picture.read_bytes()).decode()
    return f"""<section>
<p class="package">triskele.{part.package}, examples/{part.package}/{part.script}.py</p>
<h2>{escape(part.title)}</h2>
<p>{escape(part.text)}</p>
<dl>
{items}
</dl>
<img alt="{escape(part.title)}" src="data:image/png;base64,{picture}">
<details><summary>What the script printed</summary><pre>{escape(result.output.strip())}</pre></details>
</section>
"""
