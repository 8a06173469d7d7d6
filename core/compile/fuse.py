"""Fusion: which values are stored, which are recomputed where they are read, and which equations share a loop nest.

Every value that is a formula of single elements of its inputs (`map`: elementwise, reshapes, reads through index
expressions, reductions of a few elements) can be computed anywhere. It is stored when a product, a host call or the
caller needs it as an array, or when it is costly and several places read it; else its formula goes into its readers.
Stored values and reductions over one iteration space then form a group, one loop nest.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from ..dtypes import widened
from ..graph.graph import Equation, Graph, Var
from .builder import Builder
from .formulas import REDUCERS, align, cost_of, has_native_form, index_key, pull_element
from .scalars import NotEmittable, Value, real_of, supported

__all__ = ["Fusion", "Group", "Root", "Step", "UNROLL", "depends"]

SMALL = 8  # elements of a reduction that is written out where it is read
UNROLL = 8  # a last axis this short is written out
KEEP_COST = 8.0  # operations per further evaluation above which a value is stored (a store and a load from cache)
KEEP_COST_LARGE = 12.0  # ... when it does not fit into the second-level cache
# operations above which a value that an inner loop only reads gets a loop, and vectors, of its own
KEEP_COST_OUTER = 6.0
LARGE = 1 << 20  # bytes
MANY = 12  # contexts
AGAIN = 3  # arrays that are read again for want of their combination, from which on that is stored
SEVERAL = 8  # stages and arrays that are counted
FAR = 1 << 16  # bytes of an array that first-level caches do not hold
LONGEST = 400.0  # operations of a formula
FULL = 800.0  # operations of a loop nest
NEAREST = 16  # loop nests that are tried for a further equation, the latest first


class Root(NamedTuple):
    """A stored value of a loop nest: its equation, iteration space, and reduced axes (None: computed per element)."""

    eqn: Equation
    var: Var
    space: tuple[int, ...]
    axes: tuple[int, ...] | None


class Group:
    """Equations that share one loop nest."""

    __slots__ = ("key", "roots", "reads", "formulas", "deps", "cost", "again")

    def __init__(self, key):
        self.key = key
        self.roots: list[Root] = []
        self.reads: dict[Var, set] = {}
        self.formulas: dict[Equation, None] = {}
        self.deps: set[Any] = set()
        self.cost = 0.0
        self.again = False  # it may be computed a second time, and must leave what it reads


class Step:
    """An equation that is not part of a loop nest: a matrix product, an update, control flow, a host call."""

    __slots__ = ("eqn", "deps")

    def __init__(self, eqn):
        self.eqn = eqn
        self.deps: set[Any] = set()


def depends(step, others) -> bool:
    """Return True if `step` is one of `others` or depends on one of their results."""
    others, seen, stack = set(others), set(), [step]
    while stack:
        n = stack.pop()
        if n in others:
            return True
        if n not in seen:
            seen.add(n)
            stack += n.deps
    return False


def _ancestors(steps) -> set[Any]:
    """All that one of `steps` depends on."""
    seen, stack = set(), [d for s in steps for d in s.deps]
    while stack:
        n = stack.pop()
        if n not in seen:
            seen.add(n)
            stack += n.deps
    return seen


class Fusion:
    """Decisions about one graph: which values are stored, and the groups and steps in the order of execution."""

    def __init__(self, graph: Graph, native):
        """`native(eqn)`: how to run equations that are not loop nests: "gemm", "update", "control" or "call"."""
        self.graph, self.native = graph, native
        self.producer: dict[Var, Equation] = {o: e for e in graph.equations for o in e.outputs}
        self.kinds: dict[Equation, str] = {e: self._classify(e) for e in graph.equations}
        self.in_memory: set[Var] = set(graph.inputs)  # values that live in memory
        self._needed_as_arrays()
        self.b = Builder()
        self._spaces: dict[tuple[int, ...], list[Value]] = {}
        self._expansions: dict[Any, list] = {}
        self._bases: dict[Var, Var] = {}
        self._reads: dict[Var, frozenset[Var]] = {}  # by stored value of a nest: the stored values it is made from
        self._store_sums()
        self._costs = self._formula_costs()
        self._choose_stored()
        self.steps = self._group()  # Groups and Steps

    # -- classes -------------------------------------------------------------------------------------------------------

    def _classify(self, eqn) -> str:
        p = eqn.primitive
        atoms = [*eqn.inputs, *eqn.outputs]
        if len(eqn.outputs) == 1 and all(supported(a.spec.dtype) for a in atoms) and all(a.spec.size for a in atoms):
            if p.kind == "elementwise":
                if has_native_form(eqn):
                    return "map"
            elif p.kind == "reshape" or p.name == "broadcast_to":
                return "map"
            elif p.kind == "pull":
                if p.pull is not None and has_native_form(eqn):
                    return "map"
            elif p.kind == "update":
                # a large part of a small array: rebuilt by a formula, which fuses
                x, u = eqn.inputs[0].spec, eqn.inputs[1].spec
                if p.pull is not None and (x.size <= 64 or (u.shape and 4 * u.size >= x.size)) and has_native_form(eqn):
                    return "map"
            elif p.kind == "reduce" and p.name in REDUCERS and set(eqn.params) <= {"axes", "dtype"}:
                spec = eqn.inputs[0].spec
                if spec.dtype.kind == "c" and REDUCERS[p.name] in ("max", "min"):
                    return "call"
                return "map" if math.prod([spec.shape[a] for a in eqn.params["axes"]]) <= SMALL else "reduce"
        return self.native(eqn)

    def _needed_as_arrays(self):
        for eqn in self.graph.equations:
            if self.kinds[eqn] == "map":
                continue
            self.in_memory.update(eqn.outputs)
            if self.kinds[eqn] != "reduce":
                self.in_memory.update(a for a in eqn.inputs if isinstance(a, Var))
        self.in_memory.update(o for o in self.graph.outputs if isinstance(o, Var))
        # The derivative of a maximum looks for it among the elements. Were they computed twice, rounding might differ.
        compared = {e.inputs[0] for e in self.graph.equations if e.primitive.name in ("max", "min")}
        self.in_memory.update(
            a
            for e in self.graph.equations
            if e.primitive.name == "equal"
            for a in e.inputs
            if isinstance(a, Var) and a in compared
        )
        # A reshaped array is the same memory: what is reshaped is stored in its place.
        for eqn in reversed(self.graph.equations):
            if eqn.primitive.kind == "reshape" and eqn.outputs[0] in self.in_memory and isinstance(eqn.inputs[0], Var):
                self.in_memory.add(eqn.inputs[0])

    def is_view(self, var: Var) -> Var | None:
        """The array that `var` is another shape of."""
        eqn = self.producer.get(var)
        if (
            eqn is not None
            and eqn.primitive.kind == "reshape"
            and isinstance(eqn.inputs[0], Var)
            and eqn.inputs[0] in self.in_memory
            and self.kinds[eqn] == "map"
        ):
            return eqn.inputs[0]
        return None

    def _store_sums(self):
        """Store what combines several large arrays for several nests, such as the sums of residual networks.

        Reductions and native steps divide a program into stages, and what is evaluated in two of them reads its arrays
        twice: nests of one stage can be one nest.
        """
        stage: dict[Any, int] = {}
        arrays: dict[Any, frozenset[Var]] = {}  # that a formula reads, of its own size
        for eqn in self.graph.equations:
            before = max([stage.get(a, 0) for a in eqn.inputs], default=0)
            for o in eqn.outputs:
                stage[o] = before + (self.kinds[eqn] != "map")
                read = [
                    frozenset([a]) if a in self.in_memory else arrays.get(a, frozenset())
                    for a in eqn.inputs
                    if isinstance(a, Var) and a.spec.size == o.spec.size
                ]
                union = frozenset().union(*read)
                arrays[o] = union if len(union) <= SEVERAL else max(read, key=len)
        stages: dict[Var, set[int]] = {}  # in which a value is evaluated
        for eqn in reversed(self.graph.equations):
            if self.kinds[eqn] not in ("map", "reduce"):
                continue
            out = eqn.outputs[0]
            own = stages.get(out, set())
            if out in self.in_memory:
                own = {stage[out] - (self.kinds[eqn] != "map")}
            elif (
                out.spec.nbytes >= FAR
                and eqn.primitive.kind != "reshape"
                and (len(own) - 1) * (len(arrays[out]) - 1) >= AGAIN
            ):
                self.in_memory.add(out)
                own = {stage[out]}
            for a in eqn.inputs:
                if isinstance(a, Var) and a not in self.in_memory:
                    seen = stages.setdefault(a, set())
                    if len(seen) < SEVERAL:
                        seen |= own

    def _formula_costs(self):
        """Operations to compute an element with all formulas written out."""
        costs: dict[Any, float] = {}
        for eqn in self.graph.equations:
            if self.kinds[eqn] != "map" or eqn.outputs[0] in self.in_memory:
                continue
            c = cost_of(eqn) + sum(costs.get(a, 0.5) for a in eqn.inputs if isinstance(a, Var))
            if eqn.primitive.kind == "reduce":
                c *= eqn.inputs[0].spec.size / eqn.outputs[0].spec.size
            if c > LONGEST and len(eqn.outputs[0].spec.shape) == len(max([a.spec.shape for a in eqn.inputs], key=len)):
                # a long chain is cut: the time LLVM takes grows faster than the code
                self.in_memory.add(eqn.outputs[0])
            else:
                costs[eqn.outputs[0]] = min(4 * LONGEST, c)
        return costs

    # -- spaces and expansion of formulas
    # --------------------------------------------------------------------------------

    @staticmethod
    def space_key(space: tuple[int, ...]) -> tuple[int, ...]:
        """Spaces that differ by a short last axis share a loop nest (that axis is written out)."""
        return space[:-1] if len(space) > 1 and space[-1] <= UNROLL else space

    def _loops(self, space):
        """Canonical loop variables of a space."""
        key = self.space_key(space)
        loops = self._spaces.setdefault(key, [])
        while len(loops) < len(space):
            k = len(loops)
            loops.append(self.b.atom(f"%L{len(self._spaces)}.{k}", k + 1, 0, max(space[k] - 1, 0)))
        if len(space) > len(key):  # the short axis: a variable per length
            n = space[-1]
            return [*loops[: len(key)], self.b.atom(f"%S{n}.{len(key)}", len(key) + 1, 0, n - 1)]
        return loops[: len(space)]

    def _expand(self, eqn, index):
        """(input, its index) pairs that the element `index` of a map equation reads."""
        key = (eqn, index_key(index))
        found = self._expansions.get(key)
        if found is None:
            found = self._expansions[key] = []
            if eqn.primitive.kind == "elementwise":
                shape = eqn.outputs[0].spec.shape
                for a in eqn.inputs:
                    if isinstance(a, Var):
                        found.append((a, align(self.b, index, shape, a.spec.shape)))
            else:

                def load(k, at):
                    a = eqn.inputs[k]
                    if isinstance(a, Var):
                        found.append((a, at))
                    level = max([i.level for i in at], default=0)
                    name = self.b.ins(f"element {k} {id(a)} {index_key(at)}", 0)
                    if a.spec.dtype.kind == "c":
                        r = real_of(a.spec.dtype)
                        return Value(None, a.spec.dtype, level, (Value(name, r, level), Value(name, r, level)))
                    return Value(name, widened(a.spec.dtype), level)

                depth = max([i.level for i in index], default=0)
                while len(self.b.scopes) <= depth + 1:
                    self.b.scopes.append(self.b.scopes[0])
                try:
                    pull_element(self.b, eqn, index, load)
                except NotEmittable:
                    pass
        return found

    def _root_of(self, eqn) -> Root:
        if self.kinds[eqn] == "reduce":
            return Root(eqn, eqn.outputs[0], eqn.inputs[0].spec.shape, eqn.params["axes"])
        return Root(eqn, eqn.outputs[0], eqn.outputs[0].spec.shape, None)

    def _root_reads(self, root):
        """(input, index) pairs read directly by a root."""
        loops = self._loops(root.space)
        if root.axes is not None:
            a = root.eqn.inputs[0]
            return [(a, loops)] if isinstance(a, Var) else []
        return self._expand(root.eqn, loops)

    def _choose_stored(self):
        """Backwards: in how many contexts is a formula evaluated? Costly ones with several are stored."""
        contexts: dict[Var, dict[Any, tuple[list[Value], float, int]]] = {}

        def reach(var, index, key, total):
            level = max([i.level for i in index], default=0)
            # a formula is evaluated inside the deepest loop its index depends on
            weight = math.prod((*key, UNROLL)[:level]) if level <= len(key) else total
            contexts.setdefault(var, {}).setdefault((key, index_key(index)), (index, weight, total))

        for eqn in reversed(self.graph.equations):
            kind = self.kinds[eqn]
            if kind not in ("map", "reduce"):
                continue
            var = eqn.outputs[0]
            if var not in self.in_memory:
                reads = contexts.get(var, {})
                size = var.spec.size
                evaluations = sum(w for _, w, _ in reads.values()) / size
                cost = self._costs.get(var, 0.0)
                limit = KEEP_COST_LARGE if var.spec.nbytes > LARGE else KEEP_COST
                outer = any(
                    0 < max([i.level for i in index], default=0) < len(key) for (key, _), (index, _, _) in reads.items()
                )
                worth = (
                    (outer and cost > KEEP_COST_OUTER)
                    or cost * (evaluations - 1) > limit
                    or (len(reads) > MANY and cost >= 1)
                )
                if worth and eqn.primitive.kind != "reshape":
                    self.in_memory.add(var)
                else:
                    for (key, _), (index, _, total) in reads.items():
                        for a, at in self._expand(eqn, index):
                            if a not in self.in_memory:
                                reach(a, at, key, total)
                    continue
            if self.is_view(var) is not None:
                continue
            root = self._root_of(eqn)
            key = self.space_key(root.space)
            for a, at in self._root_reads(root):
                if a not in self.in_memory:
                    reach(a, at, key, math.prod(root.space))

    # -- groups --------------------------------------------------------------------------------------------------------

    def _formula(self, root):
        """Stored values a root reads (with their indices) and the equations written out in it."""
        reads: dict[Var, set] = {}
        formulas: dict[Equation, None] = {}
        seen = set()
        stack = list(self._root_reads(root))
        while stack:
            var, index = stack.pop()
            key = (var, index_key(index))
            if key in seen:
                continue
            seen.add(key)
            if var in self.in_memory:
                reads.setdefault(var, set()).add(key[1])
            else:
                eqn = self.producer[var]
                formulas[eqn] = None
                stack += self._expand(eqn, index)
        return reads, formulas

    def merges(self, group: Group, lead: int) -> bool:
        """Return True if the first `lead` axes of a nest can be one loop: each operand has all of them or none."""
        roots = group.roots
        rank = len(roots[0].space)
        reducing = {r.eqn for r in roots if r.axes is not None}
        if any(r.space != roots[0].space for r in roots):
            return False
        if not all(
            e in reducing or e.primitive.kind == "elementwise" or e.primitive.name == "broadcast_to"
            for e in group.formulas
        ):
            return False
        shapes = {
            a.spec.shape for e in group.formulas for a in ((*e.inputs, *e.outputs) if e not in reducing else e.inputs)
        }
        padded = [(1,) * (rank - len(s)) + s for s in shapes]
        return all(len({n != 1 for n, m in zip(s[:lead], roots[0].space, strict=False) if m != 1}) <= 1 for s in padded)

    def reads_in_place(self, group: Group, new: Var, old: Var) -> bool:
        """Return True if `group` may compute its root `new` in the buffer of `old`: each element of `old` is read only
        to compute that very element of `new`.

        Buffers of a nest are promised not to overlap, so that LLVM may move another root's load of `old` beyond the
        store.
        """
        root = next(r for r in group.roots if r.var is new)
        if (
            root.axes is not None
            or new.spec != old.spec
            or any(v is not old and self.base(v) is old for v in group.reads)
        ):
            return False
        own = index_key(self._loops(root.space))
        return (
            group.reads[old] == {own}
            and all(r.space == root.space for r in group.roots)
            and all((old in self._reads[r.var]) == (r is root) for r in group.roots)
        )

    def base(self, var: Var) -> Var:
        """The array whose memory `var` is."""
        found = self._bases.get(var)
        if found is None:
            found = var
            while (view := self.is_view(found)) is not None:
                found = view
            self._bases[var] = found
        return found

    def _group(self):
        node_of: dict[Var, Any] = {}
        nodes: list[Any] = []
        by_key: dict[Any, list[Group]] = {}

        for eqn in self.graph.equations:
            kind = self.kinds[eqn]
            if kind == "map" and (eqn.outputs[0] not in self.in_memory or self.is_view(eqn.outputs[0]) is not None):
                continue
            if kind not in ("map", "reduce"):
                step = Step(eqn)
                step.deps = {node_of[v] for a in eqn.inputs if isinstance(a, Var) and (v := self.base(a)) in node_of}
                nodes.append(step)
                for o in eqn.outputs:
                    node_of[o] = step
                continue
            root = self._root_of(eqn)
            reads, formulas = self._formula(root)
            deps = {node_of[v] for r in reads if (v := self.base(r)) in node_of}
            key = self.space_key(root.space)
            group, earlier = None, None
            for g in by_key.get(key, [])[: -NEAREST - 1 : -1]:
                if self._may_join(root, reads, formulas, g, node_of):
                    earlier = _ancestors(deps) if earlier is None else earlier
                    if g not in earlier:
                        group = g
                        break
            if group is None:
                group = Group(key)
                nodes.append(group)
                by_key.setdefault(key, []).append(group)
            group.roots.append(root)
            self._reads[root.var] = frozenset(reads)
            group.deps |= deps - {group}
            group.cost += sum(cost_of(e) for e in formulas if e not in group.formulas) + cost_of(eqn)
            group.formulas.update(formulas)
            group.formulas[eqn] = None
            for v, keys in reads.items():
                group.reads.setdefault(v, set()).update(keys)
            node_of[root.var] = group
        return self._sorted(nodes)

    def _may_join(self, root, reads, formulas, group, node_of):
        own = None
        related = math.prod(root.space) <= 4096
        for v, keys in reads.items():
            base = self.base(v)
            if node_of.get(base) is group:
                source = next(r for r in group.roots if r.var is base)
                own = own or index_key(self._loops(root.space))
                if source.axes is not None or v is not base or source.space != root.space or keys != {own}:
                    return False
                related = True
            related = related or v in group.reads
        if (
            len(group.roots) >= 64
            or group.cost > FULL
            or (len(group.reads) + len(group.roots) > 24 and math.prod(root.space) > 4096)
        ):
            return False
        if not related and group.formulas.keys().isdisjoint(formulas):
            return False
        return group.cost + sum([cost_of(f) for f in formulas if f not in group.formulas]) + cost_of(root.eqn) <= FULL

    @staticmethod
    def _sorted(nodes):
        out, done = [], set()
        order = {n: k for k, n in enumerate(nodes)}

        def visit(n):
            if n in done:
                return
            done.add(n)
            for d in sorted(n.deps, key=order.__getitem__):
                visit(d)
            out.append(n)

        for n in nodes:
            visit(n)
        return out
