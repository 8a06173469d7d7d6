"""Write CL&P, the force field of Canongia Lopes and Padua for ionic liquids, in OpenMM's format.

``python make_il_xml.py CLANDP OUTPUT.xml``, where CLANDP is a checkout of github.com/paduagroup/clandp (MIT license):
parameters from ``il.ff``, residues from its z-matrices. Pairs mix geometrically, which the format has no word for, so
that every pair of types is an NBFixPair. The order of atoms in an improper is OpenMM's, which differs from fftool's
where the outer atoms are of different elements: the energy is the same to first order in the distance from the plane.
"""

import math
import re
import sys
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree as ET

SECTIONS = {"ATOMS": 2, "BONDS": 2, "ANGLES": 3, "DIHEDRALS": 4, "IMPROPER": 4}
WEIGHTS = {1.008: "H", 6.941: "Li", 10.811: "B", 12.011: "C", 14.0: "N", 14.001: "N", 14.007: "N", 15.999: "O",
           18.998: "F", 22.99: "Na", 30.974: "P", 32.066: "S", 35.453: "Cl", 79.904: "Br"}  # fmt: skip


def read_parameters(path):
    found, section = {name: [] for name in SECTIONS}, None
    for line in path.read_text(encoding="utf-8").splitlines():
        words = line.partition("#")[0].split()
        if words and words[0] in SECTIONS:
            section = words[0]
        elif words:
            found[section].append(words)
    return found


def read_zmat(path, kinds):
    """Types and bonds of a molecule: each atom is bound to the first that its line names, and where `connect` says."""
    types, bonds = [], []
    for line in path.read_text(encoding="utf-8").splitlines()[1:]:
        words = line.partition("#")[0].split()
        if words and words[0].isdigit():
            del words[0]
        if words and words[0] == "connect":
            bonds.append((int(words[1]) - 1, int(words[2]) - 1))
        elif words and words[0] in kinds:
            types.append(words[0])
            if len(words) > 1:
                bonds.append((len(types) - 1, int(words[1]) - 1))
        elif words and words[0] != "improper" and "=" not in words and not words[0].endswith(".ff"):
            return None, words[0]
    return types, bonds


def main(folder, output):
    version = re.search(r"version (\S+)", (folder / "il.ff").read_text(encoding="utf-8"))[1]
    parameters = read_parameters(folder / "il.ff")
    root = ET.Element("ForceField")
    info = ET.SubElement(root, "Info")
    ET.SubElement(info, "Source", Source=f"il.ff, version {version}, of github.com/paduagroup/clandp (MIT license)")
    ET.SubElement(info, "Reference").text = (
        "Canongia Lopes, Deschamps, Padua, J. Phys. Chem. B 108 (2004) 2038, doi:10.1021/jp0362133; later ions: see "
        "il.ff"
    )
    kinds = {}
    section = ET.SubElement(root, "AtomTypes")
    for name, cls, mass, charge, _, sigma, epsilon in parameters["ATOMS"]:
        kinds[name] = cls, float(charge), float(sigma) / 10, float(epsilon)
        ET.SubElement(section, "Type", {"name": name, "class": cls, "element": WEIGHTS[float(mass)], "mass": mass})
    residues = ET.SubElement(root, "Residues")
    for path in sorted(folder.glob("*.zmat")):
        types, bonds = read_zmat(path, kinds)
        if types is None:
            print(f"{path.name}: left out, no type {bonds}", file=sys.stderr)
            continue
        if path.stem == "PF6":  # one angle of 90 degrees is given for F-P-F, which cannot hold for opposite bonds
            continue
        total = sum(kinds[t][1] for t in types)
        if abs(total - round(total)) > 1e-6:
            print(f"{path.name}: left out, total charge {total:.3f}", file=sys.stderr)
            continue
        residue, count = ET.SubElement(residues, "Residue", name=path.stem), Counter()
        element = {t.get("name"): t.get("element") for t in section}
        for t in types:
            count[element[t]] += 1
            ET.SubElement(residue, "Atom", name=f"{element[t]}{count[element[t]]}", type=t)
        for i, j in bonds:
            ET.SubElement(residue, "Bond", {"from": str(i), "to": str(j)})
    number = "{:.12g}".format
    section = ET.SubElement(root, "HarmonicBondForce")
    for a, b, _, length, k in parameters["BONDS"]:
        ET.SubElement(section, "Bond", class1=a, class2=b, length=number(float(length) / 10), k=number(float(k) * 100))
    section = ET.SubElement(root, "HarmonicAngleForce")
    for a, b, c, _, angle, k in parameters["ANGLES"]:
        ET.SubElement(section, "Angle", class1=a, class2=b, class3=c, angle=repr(math.radians(float(angle))), k=k)
    section = ET.SubElement(root, "PeriodicTorsionForce")
    for name, order in (("DIHEDRALS", (0, 1, 2, 3)), ("IMPROPER", (2, 0, 1, 3))):
        for *atoms, _, v1, v2, v3, v4 in parameters[name]:
            entry = {f"class{k + 1}": atoms[at] for k, at in enumerate(order)}
            terms = [(n + 1, v) for n, v in enumerate(map(float, (v1, v2, v3, v4))) if v] or [(1, 0.0)]
            for k, (n, v) in enumerate(terms, 1):  # V/2 (1 + cos n phi) for odd n, V/2 (1 - cos n phi) for even n
                phase = 0.0 if n % 2 else math.pi
                entry |= {f"periodicity{k}": str(n), f"phase{k}": repr(phase), f"k{k}": number(v / 2)}
            ET.SubElement(section, "Proper" if name == "DIHEDRALS" else "Improper", entry)
    section = ET.SubElement(root, "NonbondedForce", coulomb14scale="0.5", lj14scale="0.5")
    for name, (_, charge, _, _) in kinds.items():
        ET.SubElement(section, "Atom", type=name, charge=number(charge), sigma="1", epsilon="0")
    section = ET.SubElement(root, "LennardJonesForce", lj14scale="0.5")
    for name, (_, _, sigma, epsilon) in kinds.items():
        ET.SubElement(section, "Atom", type=name, sigma=number(sigma), epsilon=number(epsilon))
    names = list(kinds)
    for i, a in enumerate(names):
        for b in names[i + 1 :]:
            (_, _, s, e), (_, _, t, f) = kinds[a], kinds[b]
            ET.SubElement(
                section, "NBFixPair", type1=a, type2=b, sigma=number(math.sqrt(s * t)), epsilon=number(math.sqrt(e * f))
            )
    ET.indent(root, " ")
    ET.ElementTree(root).write(output, encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
