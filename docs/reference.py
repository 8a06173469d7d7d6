"""The reference: a page for each public module, with what its face lists, and one for each class."""

import importlib
import inspect
import itertools
import types

ROOTS = ("core", "core.extend", "sponge", "quantum", "reinforce")
# Contracts of parts of sponge with its engine: users do not call these methods
INTERNAL = {
    "Barostat",
    "EnvironmentPotential",
    "FileReporter",
    "Integrator",
    "PairPotential",
    "Sampling",
    "TermPotential",
}
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


def docname(module):
    """The page of a module below reference/."""
    return f"{module.removeprefix('triskele.').replace('.', '/')}/index"


def heading(title):
    return [title, "=" * len(title), ""]


def block(directive, argument="", content=(), **options):
    options = [f"   :{name.replace('_', '-')}: {value}" for name, value in options.items()]
    return [f".. {directive}:: {argument}", *options, "", *(f"   {line}" for line in content), ""]


def table(names):
    return block("autosummary", content=names, nosignatures="") if names else []


def toctree(entries):
    return block("toctree", content=entries, hidden="") if entries else []


def sort_names(module, names, seen):
    """Divide the names of a module into classes, errors, functions and constants that it is the first to list, and all
    that its table shows; `seen` has the full name of each thing by its identity.
    """
    kinds = {"class": [], "exception": [], "function": [], "constant": [], "table": []}
    for name in names:
        value = getattr(importlib.import_module(module), name)
        if not callable(value) or isinstance(value, types.GenericAlias):
            kinds["constant"].append(name)
            continue
        first = seen.setdefault(id(value), f"{module}.{name}")
        kinds["table"].append(f"~{first}".replace(f"~{module}.", ""))
        if first == f"{module}.{name}":
            error = inspect.isclass(value) and issubclass(value, BaseException)
            kinds["exception" if error else "class" if inspect.isclass(value) else "function"].append(name)
    return kinds


def inherited(cls, seen):
    """Public members that bases define first: those of public classes by the name of the class, internal ones by ""."""
    found = {}
    for name in (n for n in dir(cls) if not n.startswith("_")):
        first = [base for base in cls.__mro__ if name in vars(base) and base.__module__.startswith("triskele")][-1:]
        if first and first[0] is not cls and (first[0].__name__ in INTERNAL or id(first[0]) in seen):
            found.setdefault(seen.get(id(first[0]), ""), []).append(name)
    return found


def class_page(module, name, seen):
    cls = getattr(importlib.import_module(module), name)
    bases = inherited(cls, seen)
    hidden = [*itertools.chain(*bases.values()), *(gate_names() if name == "Circuit" else [])]
    lines = [
        *heading(f"{module.removeprefix('triskele.')}.{name}"),
        *block("currentmodule", module),
        *block("autoclass", f"{module}.{name}", members="", inherited_members="", exclude_members=", ".join(hidden)),
    ]
    for base, names in bases.items():
        if methods := [n for n in names if base and callable(getattr(cls, n)) and getattr(cls, n).__doc__]:
            lines += [f"Methods of `~{base}`: " + ", ".join(f"`~{base}.{n}`" for n in methods), ""]
    return lines


def module_page(module, names, kinds, children, seen):
    """The page of a module, and those of its classes, by path."""
    short, found = module.removeprefix("triskele."), {}
    lines = [*heading(f"{short} reference"), *block("automodule", module), *block("currentmodule", module)]
    if module.startswith(MIRRORS) and names:
        lines += [
            "The following functions are those of the same name in NumPy and SciPy, for traced values too.",
            "",
            ", ".join(f"``{n}``" for n in names),
            "",
        ]
    lines += table(kinds["table"])
    if kinds["constant"]:
        lines += ["Constants and types: " + ", ".join(f"``{n}``" for n in kinds["constant"]), ""]
    for kind in ("function", "exception"):
        for name in kinds[kind]:
            lines += block(f"auto{kind}", f"{module}.{name}")
    for name in kinds["class"]:
        found[docname(module).removesuffix("index") + name] = class_page(module, name, seen)
    entries = [f"{n} <{n}>" for n in kinds["class"]] + ["gates-of-circuits"] * (short == "quantum")
    lines += toctree(entries + [entry(child) for child in children])
    return found | {docname(module): lines}


def entry(module):
    return f"{module.removeprefix('triskele.')} </reference/{docname(module)}>"


def gate_names():
    from triskele.quantum import gates
    from triskele.quantum.gates.standard import CONTROLLED

    return [*gates.names(), *CONTROLLED, "mcx", "mcp", "mcrx"]


def pages():
    """The text of each page of the reference, by its path."""
    modules, seen, found = public_modules(), {}, {}
    modules = {m: names for m, names in modules.items() if names or any(other.startswith(f"{m}.") for other in modules)}
    parents = {m: max((o for o in modules if m.startswith(f"{o}.")), key=len, default=None) for m in modules}
    kinds = {m: sort_names(m, [] if m.startswith(MIRRORS) else names, seen) for m, names in modules.items()}
    for module, names in modules.items():
        found |= module_page(module, names, kinds[module], [m for m in modules if parents[m] == module], seen)
    found["quantum/gates-of-circuits"] = [
        *heading("Gates of circuits"),
        "Methods of `triskele.quantum.Circuit`. ``c``, ``cc``, ``c3``, ... or ``mc`` before the name adds controls.",
        "",
        *(line for name in gate_names() for line in block("automethod", f"triskele.quantum.Circuit.{name}")),
    ]
    found["index"] = [*heading("Reference"), *table(modules), *toctree(entry(m) for m in modules if parents[m] is None)]
    return {f"reference/{name}.rst": "\n".join(lines) + "\n" for name, lines in found.items()}
