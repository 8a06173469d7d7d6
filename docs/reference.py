"""Write a page of the reference for each public module: what its face lists is what the page shows."""

import importlib
import inspect
import textwrap
import types

ROOTS = ("core", "core.extend", "sponge", "quantum", "reinforce")
MIRRORS = ("triskele.core.numpy", "triskele.core.scipy")  # names of NumPy and SciPy, which document them


def public_names(module):
    """Names that a module lists, finds in its folder (games, environments), or defines itself."""
    listed = getattr(module, "__all__", None)
    if listed is None and hasattr(module, "__dir__") and "__getattr__" in vars(module):
        listed = dir(module)
    if listed is None:
        listed = [n for n, v in vars(module).items() if getattr(v, "__module__", None) == module.__name__]
    return sorted((n for n in listed if not n.startswith("_")), key=str.lower)


def walk(name, root, found):
    """Collect the public modules inside `root` that are reached from a module, with their other public names."""
    module = importlib.import_module(name)
    names = found[name] = []
    for n in public_names(module):
        value = getattr(module, n)
        if callable(value) or not isinstance(value, types.ModuleType):  # a module that is called is a function, too
            names.append(n)
        elif value.__name__.startswith(f"{root}.") and value.__name__ not in found and value.__doc__:
            walk(value.__name__, root, found)
    return found


def public_modules():
    """The public modules of all packages, by name, with the sorted list of their public names."""
    found = {}
    for root in ROOTS:
        walk(f"triskele.{root}", f"triskele.{root}", found)
    return found


def source(module, name):
    """The path by which the static reader of sources finds a public name."""
    value = getattr(importlib.import_module(module), name)
    if isinstance(value, types.ModuleType):
        return f"{value.__name__}.{name}"
    found_in_folder = not hasattr(importlib.import_module(module), "__all__") and inspect.isclass(value)
    return f"{value.__module__}.{value.__qualname__}" if found_in_folder else f"{module}.{name}"


def page(name, names):
    """The Markdown of one module."""
    lines = [f"# {name}", "", f"::: {name}", "    options: {members: false, show_root_heading: false}", ""]
    if name.startswith(MIRRORS):
        lines += ["The following functions are those of the same name in NumPy and SciPy, for traced values too.", ""]
        return [*lines, ", ".join(f"`{n}`" for n in names)]
    for n in names:
        lines += [f"::: {source(name, n)}", f"    options: {{heading: {n}}}", ""]
    return lines


def gates_page():
    """The Markdown of the gates that circuits have as methods, with their matrices."""
    from triskele.quantum import Circuit, gates
    from triskele.quantum.gates.standard import CONTROLLED

    lines = ["# Gates of circuits", "",
             "Methods of [Circuit](index.md#triskele.quantum.Circuit). `c`, `cc`, `c3`, ... or `mc` in front of the "
             "name of a gate adds controls.", ""]
    for name in [*gates.names(), *CONTROLLED, "mcx", "mcp", "mcrx"]:
        method = getattr(Circuit, name)
        text = inspect.getdoc(method)
        matrix = textwrap.dedent(text.partition("::\n\n")[2].partition("\n\n")[0])
        signature = str(inspect.signature(method)).replace("(self, ", "(").replace(", /)", ")").replace("self, ", "")
        lines += [f"## {name}", "", f"`Circuit.{name}{signature}`", "", text.partition("\n")[0], ""]
        lines += ["```text", matrix, "```", ""] if matrix else []
    return lines


if __name__ == "<run_path>":  # by mkdocs-gen-files
    import mkdocs_gen_files

    for name, names in public_modules().items():
        package, _, rest = name.removeprefix("triskele.").partition(".")
        if names:
            with mkdocs_gen_files.open(f"reference/{package}/{rest.replace('.', '-') or 'index'}.md", "w") as file:
                file.write("\n".join(page(name, names)))
    with mkdocs_gen_files.open("reference/quantum/gates-of-circuits.md", "w") as file:
        file.write("\n".join(gates_page()))
