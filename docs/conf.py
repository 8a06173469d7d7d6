"""Configuration of Sphinx: `make docs` builds the pages that `sources.py` collects into site/, warnings as errors."""

import inspect
import re
import sys
import tomllib
import types
from pathlib import Path

from docutils import nodes
from docutils.parsers.rst.states import Inliner
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from jinja2 import FileSystemLoader
from jinja2.sandbox import SandboxedEnvironment
from numpydoc import docscrape_sphinx
from sphinx.errors import PycodeError
from sphinx.ext import autosummary
from sphinx.pycode import ModuleAnalyzer
from sphinx.transforms.post_transforms import SphinxPostTransform
from sphinx.util import logging
from sphinx.util.nodes import make_refnode

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1] / ".src")]
import sources  # noqa: E402

import triskele  # noqa: E402

project, author, copyright = "Triskele", "the Triskele developers", "the Triskele developers"
version = release = triskele.__version__
extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
    "myst_parser",
    "sphinx_design",
    "sphinx_copybutton",
]
nitpicky = True

myst_enable_extensions = ["colon_fence", "dollarmath"]
myst_heading_anchors = 3

default_role = "py:obj"
add_module_names = False
toc_object_entries_show_parents = "hide"
maximum_signature_line_length = 88
autosummary.WELL_KNOWN_ABBREVIATIONS += ("eq.", "eqs.", "fig.", "sec.", " .")  # which end no sentence
autosummary_generate = False  # `reference.py` writes these pages
autodoc_typehints = "none"  # docstrings give types
autodoc_preserve_defaults = True
numpydoc_show_class_members = False

html_theme = "pydata_sphinx_theme"
html_title = "Triskele"
templates_path = ["theme"]
html_static_path = ["theme/style.css"]
html_css_files = ["style.css"]
html_context = {"default_mode": "auto"}
html_math_renderer = "mathml"
html_sidebars = {"**": ["nav.html"]}
html_show_sourcelink = html_copy_source = False
links = tomllib.loads((sources.ROOT / "pyproject.toml").read_text())["project"].get("urls", {})
html_theme_options = {
    "navbar_center": [],
    "collapse_navigation": True,
    "primary_sidebar_end": [],
    "footer_start": [],
    "footer_end": [],
    "secondary_sidebar_items": ["page-toc"],
    "article_header_start": [],
    "icon_links": [{"name": name, "url": url, "icon": "fa-solid fa-code-branch"} for name, url in links.items()],
}
# numpydoc would compile its template again for each docstring
TEMPLATES = SandboxedEnvironment(loader=FileSystemLoader(Path(docscrape_sphinx.__file__).with_name("templates")))
copybutton_prompt_text = ">>> |\\.\\.\\. |\\$ "
copybutton_prompt_is_regexp = True


def mathml(self, node):
    """Write a formula as MathML, which browsers draw without scripts and fonts of their own."""
    formula = re.sub(r"\\[bB]igg?(?=[(\[])", r"\\left", node.astext()).replace(r"\dots", r"\ldots")
    formula = re.sub(r"\\[bB]igg?(?=[)\]])", r"\\right", formula)
    block = isinstance(node, nodes.math_block)
    try:
        self.body.append(tex2mathml(formula, as_block=block))
    except MathError as error:
        logging.getLogger(__name__).warning("formula %r: %s", formula, error, location=node)
    raise nodes.SkipNode


def resolve(app, env, node, contnode):
    """Link names in single backticks that are public, in full or from their package on; show others as code."""
    if node.get("reftype") != "obj":
        return None
    target, domain = node["reftarget"].removesuffix("()"), env.domains["py"]
    package = ".".join((node.get("py:module") or "triskele.core").split(".")[:2])
    for name in (f"triskele.{target}", f"{package}.{target}"):
        if found := domain.objects.get(name):
            return make_refnode(app.builder, node["refdoc"], found.docname, found.node_id, contnode, name)
    return nodes.literal(text=contnode.astext())


class Names(SphinxPostTransform):
    """Link public names in the text of pages, such as `core.grad`, to the reference."""

    default_priority = 900

    def run(self):
        for node in list(self.document.findall(nodes.literal)):
            name = "triskele." + re.sub(r"^rl\b", "reinforce", node.astext().partition("(")[0])
            found = self.env.domains["py"].objects.get(name)
            if found and isinstance(node.parent, nodes.paragraph):
                node.replace_self(
                    make_refnode(
                        self.app.builder, self.env.docname, found.docname, found.node_id, node.deepcopy(), name
                    )
                )


def skip(app, kind, name, member, skipped, options):
    """Leave out members that a class inherits from outside of Triskele."""
    function = getattr(member, "fget", None) or getattr(member, "__func__", member)
    foreign = callable(function) and not (getattr(function, "__module__", None) or "").startswith("triskele")
    return True if foreign else None


def docstring(app, kind, name, thing, options, lines):
    """Document modules that are called like functions as these, and end markup before the s of a plural."""
    if kind == "function" and isinstance(thing, types.ModuleType):
        lines[:] = inspect.getdoc(type(thing).__call__).splitlines()
    lines[:] = [re.sub(r"(?<!`)(`[^`]+`)(?=s\b)", r"\1\\ ", line) for line in lines]


def plain(parse):
    """Let a character that begins no markup stand for itself: kets `|0>` and shapes `(n, *axes)`."""

    def parse_or_copy(self, match, line):
        start = match.end("start")
        if parse and self.patterns.emphasis.search(match.string, start):
            return parse(self, match, line)
        return match.string[:start], [], match.string[start:], []

    return parse_or_copy


def summary(lines, settings, extract=autosummary.extract_summary):
    """Leave citations out of tables of one-liners."""
    return re.sub(r",? *\[[\w-]+\]_", "", extract(lines, settings))


def no_source(cls, name):
    """Keep autodoc from parsing each module: attributes are in docstrings, and signatures in the objects."""
    raise PycodeError(name)


def setup(app):
    ModuleAnalyzer.for_module = classmethod(no_source)
    autosummary.extract_summary = summary
    docscrape_sphinx.SandboxedEnvironment = lambda loader: TEMPLATES
    Inliner.dispatch |= {"|": plain(None), "*": plain(Inliner.emphasis)}
    app.add_post_transform(Names)
    app.add_html_math_renderer("mathml", (mathml, None), (mathml, None))
    app.connect("missing-reference", resolve)
    app.connect("autodoc-skip-member", skip)
    app.connect("autodoc-process-docstring", docstring, priority=1)  # before numpydoc
    sources.write(Path(app.srcdir))
