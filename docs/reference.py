"""Write a page of the reference for each public module: what its face lists is what the page shows."""

import importlib
import types

import mkdocs_gen_files

PACKAGES = ("core", "sponge", "quantum", "reinforce")
MIRRORS = ("triskele.core.numpy", "triskele.core.scipy")  # names of NumPy and SciPy, which document them


def public_names(module):
    """Names that a module lists, or those that it defines itself."""
    listed = getattr(module, "__all__", None)
    if listed is None:
        listed = [n for n, v in vars(module).items() if getattr(v, "__module__", None) == module.__name__]
    return sorted((n for n in listed if not n.startswith("_")), key=str.lower)


def walk(name, found):
    """Collect the public modules that are reached from a package, with their other public names."""
    module = importlib.import_module(name)
    names = found[name] = []
    for n in public_names(module):
        value = getattr(module, n)
        if not isinstance(value, types.ModuleType):
            names.append(n)
        elif value.__name__.startswith("triskele") and value.__name__ not in found and value.__doc__:
            walk(value.__name__, found)
    return found


def page(name, names):
    """The Markdown of one module."""
    lines = [f"# {name}", "", importlib.import_module(name).__doc__ or "", ""]
    if name.startswith(MIRRORS):
        lines += ["The following functions are those of the same name in NumPy and SciPy, for traced values too.", ""]
        return [*lines, ", ".join(f"`{n}`" for n in names)]
    for n in names:
        lines += [f"::: {name}.{n}", ""]
    return lines


for package in PACKAGES:
    modules = walk(f"triskele.{package}", {})
    for name, names in modules.items():
        if names:
            with mkdocs_gen_files.open(f"reference/{name.removeprefix('triskele.')}.md", "w") as file:
                file.write("\n".join(page(name, names)))
