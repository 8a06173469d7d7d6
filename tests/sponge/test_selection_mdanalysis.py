"""Selections of atoms against MDAnalysis, on real structures: fixed texts, and random expressions of common words."""

import functools
import warnings
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from triskele import sponge
from triskele.sponge.exchange import to_mdanalysis

pytest.importorskip("MDAnalysis")

pytestmark = [
    pytest.mark.peer,
    pytest.mark.filterwarnings("ignore::DeprecationWarning:MDAnalysis", "ignore::UserWarning:MDAnalysis"),
]
DATA = Path(__file__).parents[1] / "data" / "sponge"
FILES = ("bpti_ff14sb_vacuum/bpti.pdb", "dhfr_pme/5dfr_solv-cube_equil.pdb.gz", "ala2_vacuum/ala2_vacuum.pdb")


@functools.cache
def both(file):
    """A structure, and MDAnalysis's universe of it with the single-precision positions that both compare."""
    structure = sponge.read_pdb(DATA / file)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        system = sponge.System(structure.topology, np.ones(structure.topology.n), structure.box, structure.positions)
        universe = to_mdanalysis(system)
        universe.add_TopologyAttr("resnums", universe.residues.resids)
    return system, universe


def check_same(file, text):
    system, universe = both(file)
    ours = text.replace("around 3.3", "around 0.33").replace("around 6.1", "around 0.61")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = universe.select_atoms(text).indices
    np.testing.assert_array_equal(system.select(ours), theirs, err_msg=f"{file}: {text}")


@pytest.mark.parametrize("file", FILES)
@pytest.mark.parametrize(
    "text",
    [
        "protein",
        "backbone",
        "nucleic",
        "water",
        "not protein and not water",
        "name CA CB or resname LYS",
        "name H* and resid 5:10",
        "resid 1 3 10-12 20 to 22",
        "protein or water and name O",
        "byres (protein and around 3.3 resname ARG)",
        "same residue as name SG",
        "same resname as resid 7",
        "same fragment as index 3",
        "bonded name CA",
        "index 0:9 or bynum 100:110",
        "element C N and not backbone",
        "around 6.1 (protein and name CA) and name O",
    ],
)
def test_texts(file, text):
    check_same(file, text)


TERMS = st.one_of(
    st.sampled_from(
        ["protein", "backbone", "water", "nucleic", "all", "name CA", "name C* N", "name ?A", "name [HO]*"]
    ),
    st.lists(st.sampled_from("ALA LYS GLY HOH ARG A* ??P CYS PHE".split()), min_size=1, max_size=3).map(
        lambda names: "resname " + " ".join(names)
    ),
    st.tuples(
        st.sampled_from(["resid", "resnum", "index", "bynum"]),
        st.integers(-3, 200),
        st.integers(0, 60),
        st.sampled_from([":", "-", " to "]),
    ).map(lambda t: f"{t[0]} {t[1]}{t[3]}{t[1] + t[2]}"),
    st.lists(st.integers(0, 60), min_size=1, max_size=4).map(lambda n: "resid " + " ".join(map(str, n))),
    st.sampled_from(["element C", "element O N", "segid A", "segid B *"]),
)
EXPRESSIONS = st.recursive(
    TERMS,
    lambda inner: st.one_of(
        inner.map(lambda a: f"not {a}"),
        inner.map(lambda a: f"({a})"),
        st.tuples(inner, st.sampled_from(["and", "or"]), inner).map(" ".join),
        inner.map(lambda a: f"byres {a}"),
        inner.map(lambda a: f"bonded ({a})"),
        inner.map(lambda a: f"around 3.3 {a}"),
        inner.map(lambda a: f"same residue as {a}"),
        inner.map(lambda a: f"same name as ({a})"),
    ),
    max_leaves=6,
)


@settings(max_examples=300, deadline=None)
@given(text=EXPRESSIONS, file=st.sampled_from([FILES[0], FILES[2]]))
def test_random_expressions(text, file):
    check_same(file, text)
