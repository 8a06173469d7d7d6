"""Templates are found by their graphs: other orders and names of atoms, protonation states, ions."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from triskele.sponge.errors import MissingTemplateError
from triskele.sponge.forcefield import ForceField, create_system
from triskele.sponge.forcefield.templates import Graph, Template, match
from triskele.sponge.topology import Topology

PROTEIN = "amber14/protein.ff14SB"


def chain_of(field, names, head="N", tail="C"):
    """A topology of templates joined head to tail, cysteines CYX in pairs."""
    templates = [field.templates[n] for n in names]
    starts = np.cumsum([0, *(len(t.names) for t in templates)])
    bonds = [(t.bonds + s).tolist() for t, s in zip(templates, starts)]
    at = [{n: s + k for k, n in enumerate(t.names)} for t, s in zip(templates, starts)]
    links = [[a[tail], b[head]] for a, b in zip(at, at[1:])]
    sulfurs = [a["SG"] for a, n in zip(at, names) if n.endswith("CYX")]
    bridges = [sulfurs[k : k + 2] for k in range(0, len(sulfurs), 2)]
    return Topology(
        [n for t in templates for n in t.names],
        np.concatenate([t.elements for t in templates]),
        np.repeat(np.arange(len(names)), np.diff(starts)),
        names,
        np.arange(1, len(names) + 1).astype(str),
        np.zeros(len(names), int),
        ["A"],
        sum(bonds, []) + links + bridges,
    )


@given(st.randoms(use_true_random=False), st.sampled_from(["TRP", "HIP", "CYX", "NPRO", "CARG", "GLH"]), st.booleans())
@settings(max_examples=40, deadline=None)
def test_a_template_is_found_whatever_the_order_and_names_of_atoms(random, name, named):
    template = ForceField(PROTEIN).templates[name]
    order = list(range(len(template.names)))
    random.shuffle(order)
    place = np.argsort(order)
    graph = Graph(
        "X",
        tuple(template.names[k] if named else f"A{k}" for k in order),
        template.elements[order],
        place[template.bonds],
        template.external[order],
    )
    found = match(template, graph)
    if named:
        assert found.tolist() == order
    assert sorted(found) == list(range(len(order)))
    assert template.elements[found].tolist() == graph.elements.tolist()
    assert {frozenset(b) for b in found[graph.bonds].tolist()} == {frozenset(b) for b in template.bonds.tolist()}


def test_large_templates_with_other_names():
    """A chain of 1,200 atoms, in reverse: the search must not recurse."""
    n = 1200
    elements = np.full(n, 6)
    elements[0] = 8
    bonds = np.stack([np.arange(n - 1), np.arange(1, n)], 1)
    names = tuple(f"T{k}" for k in range(n))
    template = Template("P", names, elements, bonds, np.zeros(n, int))
    graph = Graph("P", tuple(f"G{k}" for k in range(n)), elements[::-1].copy(), bonds, np.zeros(n, int))
    assert match(template, graph).tolist() == list(range(n))[::-1]


def test_search_goes_back_where_colors_do_not_decide():
    """Two regular graphs with all atoms alike: a six-ring, and two three-rings."""
    ring = np.array([[k, (k + 1) % 6] for k in range(6)])
    triangles = np.array([[0, 1], [1, 2], [0, 2], [3, 4], [4, 5], [3, 5]])
    make = [
        Template("R", tuple(f"{c}{k}" for k in range(6)), np.full(6, 6), bonds, np.zeros(6, int))
        for c, bonds in (("A", ring), ("B", triangles), ("C", np.random.default_rng(0).permutation(6)[ring]))
    ]
    assert match(make[0], make[1]) is None and match(make[1], make[0]) is None
    found = match(make[0], make[2])
    assert {frozenset(b) for b in found[make[2].bonds].tolist()} == {frozenset(b) for b in ring.tolist()}


def test_beads_without_an_element_match_by_name():
    beads = Template("B", ("BB", "SC"), np.zeros(2, int), np.array([[0, 1]]), np.zeros(2, int))
    assert match(beads, Graph("B", ("SC", "BB"), beads.elements, beads.bonds, beads.external)).tolist() == [1, 0]
    assert match(beads, Graph("B", ("S1", "BB"), beads.elements, beads.bonds, beads.external)) is None


def test_no_match_with_a_bond_moved():
    template = ForceField(PROTEIN).templates["ALA"]
    where = {n: k for k, n in enumerate(template.names)}
    bonds = template.bonds.copy()
    moved = [set(b) == {where["CB"], where["HB1"]} for b in bonds.tolist()].index(True)
    bonds[moved] = [where["CA"], where["HB1"]]
    assert match(template, Graph("ALA", template.names, template.elements, bonds, template.external)) is None


@pytest.mark.parametrize(
    ("names", "charge"),
    [
        (["HID"], 0),
        (["HIE"], 0),
        (["HIP"], 1),
        (["ASP"], -1),
        (["ASH"], 0),
        (["GLU"], -1),
        (["GLH"], 0),
        (["LYS"], 1),
        (["LYN"], 0),
        (["CYS"], 0),
        (["CYM"], -1),
        (["CYX", "GLY", "CYX"], 0),
    ],
)
def test_protonation_states_are_found_without_names(names, charge):
    """Every residue is called ZZZ; the graph alone decides, and the charge shows what was found."""
    field = ForceField(PROTEIN)
    t = chain_of(field, ["ACE", *names, "NME"])
    t = Topology(
        t.names,
        t.elements,
        t.residue_index,
        ["ZZZ"] * len(t.residue_names),
        t.residue_ids,
        t.chain_index,
        t.chain_ids,
        t.bonds,
    )
    assert create_system(t, forcefield=field).nonbonded.params["charges"].sum() == pytest.approx(charge, abs=1e-9)


def test_names_decide_between_ions_of_one_element():
    def system(name):
        return create_system(Topology([name], [26], [0], [name], ["1"], [0], ["A"]), forcefield="amber14/tip3p")

    assert system("FE2").nonbonded.params["charges"] == 2
    assert system("FE").nonbonded.params["charges"] == 3
    with pytest.raises(
        MissingTemplateError, match=r"must fit one template, got .*FE2.* for residue 1 IRON \(chain A\)"
    ):
        system("IRON")
