"""Random GROMACS topologies: every section and function type that is read, against GROMACS in double precision."""

from __future__ import annotations

import gzip
import json
import tempfile
from pathlib import Path

import numpy as np

from tests.sponge.differential import gmx
from tests.sponge.differential.compare import Refused, spread
from triskele import sponge
from triskele.sponge.errors import FileFormatError
from triskele.sponge.load.gromacs import load_gromacs
from triskele.sponge.virtual_sites import place_all

BONDS = {
    "1": (0.15, 2e4),
    "2": (0.15, 1e6),
    "3": (0.15, 300.0, 15.0),
    "4": (0.15, 1e4, 2.0),
    "5": (),
    "6": (0.15, 1e4),
    "7": (0.9, 500.0),
    "10": (0.1, 0.14, 0.2, 1e3),
}
ANGLES = {
    "1": (110.0, 300.0),
    "2": (110.0, 300.0),
    "5": (110.0, 200.0, 0.25, 3e3),
    "6": (110.0, 1.0, 3.0, 50.0, 4.0, 5.0),
    "10": (110.0, 10.0),
}
DIHEDRALS = {
    "1": (60.0, 5.0, 3),
    "2": (20.0, 30.0),
    "3": (1.0, 2.0, -3.0, 1.5, 0.5, -0.7),
    "4": (180.0, 4.0, 2),
    "5": (1.0, -2.0, 3.0, 0.5),
    "9": (30.0, 3.0, 2),
    "10": (60.0, 1.0),
}


class _Writer:
    """The text of one random topology."""

    def __init__(self, rng: np.random.Generator):
        self.rng = rng
        self.rule = int(rng.integers(1, 4))
        self.generate = bool(rng.random() < 0.6)
        self.types = [f"T{k}" for k in range(int(rng.integers(2, 5)))]
        self.bonded = [f"B{k}" if rng.random() < 0.5 else t for k, t in enumerate(self.types)]
        self.masses = rng.choice([12.011, 1.008, 15.999, 72.0, 32.06, 3.024], len(self.types))
        self.charges = rng.normal(0, 0.2, len(self.types)).round(4)
        self.head: dict[str, dict] = {
            "bondtypes": {},
            "constrainttypes": {},
            "angletypes": {},
            "dihedraltypes": {},
            "pairtypes": {},
        }
        self.macros: list[str] = []
        self.positions: list[np.ndarray] = []

    def chance(self, p: float) -> bool:
        return bool(self.rng.random() < p)

    def jitter(self, values: tuple) -> list[str]:
        return [f"{v:d}" if isinstance(v, int) else f"{v * self.rng.uniform(0.9, 1.1):.7g}" for v in values]

    def lj(self) -> list[str]:
        sigma, epsilon = self.rng.uniform(0.1, 0.2), self.rng.uniform(0.05, 1.0)
        if self.chance(0.1):
            epsilon = 0.0
        if self.rule == 1:
            repulsion = 4 * epsilon * sigma**12
            return [f"{4 * epsilon * sigma**6 * (not self.chance(0.1)):.8e}", f"{repulsion:.8e}"]
        return [f"{sigma * (-1 if self.rule == 2 and self.chance(0.05) else 1):.7g}", f"{epsilon:.7g}"]

    def parameters(self, section: str, types: tuple[str, ...], function: str, values: tuple) -> str:
        """Parameters on the line, behind a macro, or listed by types."""
        texts = self.jitter(values)
        how = self.rng.random()
        # which grompp does not list
        if how < 0.5 or not values or section == "dihedraltypes" and function in ("5", "10"):
            return " ".join(texts)
        if how < 0.65:
            self.macros.append(f"#define par_{len(self.macros)} {' '.join(texts)}")
            return f"par_{len(self.macros) - 1}"
        table = self.head[section]
        if (types, function) not in table and (types[::-1], function) not in table:
            lines = [texts]
            if function == "9":
                lines += [self.jitter((*values[:2], n)) for n in range(3, 3 + int(self.rng.integers(0, 3)))]
            name = types
            if section == "dihedraltypes" and function != "9" and self.chance(0.3):
                name = ("X", *types[1:3], "X") if function != "2" else (types[0], "X", "X", types[3])
                if any(key[0] in (name, name[::-1]) and key[1] == function for key in table):
                    return " ".join(texts)
            table[name, function] = lines
        return ""

    def molecule(self, name: str) -> str:
        rng = self.rng
        n = int(rng.integers(4, 10))
        positions = spread(rng, n)
        kind = rng.integers(len(self.types), size=n)
        bonded = [self.bonded[k] for k in kind]
        # a tree of neighbors in space, and now and then a ring
        pairs = [(i, int(np.argmin(np.linalg.norm(positions[:i] - positions[i], axis=1)))) for i in range(1, n)]
        pairs = [tuple(sorted(p)) for p in pairs]
        if self.chance(0.3) and (0, n - 1) not in pairs:
            pairs.append((0, n - 1))
        lines = [f"[ moleculetype ]\n{name} {rng.integers(0, 5)}\n[ atoms ]"]
        for i, k in enumerate(kind):
            line = f"{i + 1} {self.types[k]} {i // 4 + 1} RES A{i} {i + 1}"
            if self.chance(0.8):
                line += f" {rng.normal(0, 0.3):.4f}" + (f" {rng.uniform(5, 40):.4f}" if self.chance(0.5) else "")
            lines.append(line)
        sites = self.sites(n) if self.chance(0.5) else []
        for i in range(len(sites)):
            lines.append(f"{n + i + 1} VS {n // 4 + 1} RES V{i} {n + i + 1} {rng.normal(0, 0.2):.4f} 0.0")
        lines.append("[ bonds ]")
        joined: dict[int, set[int]] = {i: set() for i in range(n)}
        constraints = []
        for i, j in pairs:
            function = str(rng.choice([*BONDS]))
            joined[i].add(j)
            joined[j].add(i)
            if self.chance(0.15):
                length = np.linalg.norm(positions[i] - positions[j])
                constraints.append(f"{i + 1} {j + 1} {rng.integers(1, 3)} {length:.6f}")
                continue
            text = self.parameters("bondtypes", (bonded[i], bonded[j]), function, BONDS[function])
            a, b = (i, j) if self.chance(0.5) else (j, i)
            lines.append(f"{a + 1} {b + 1} {function} {text}" + (" ; a remark" if self.chance(0.1) else ""))
        if constraints:
            lines += ["[ constraints ]", *constraints]
        lines.append("[ angles ]")
        for j in range(n):
            for i in joined[j]:
                for k in joined[j]:
                    if i < k and self.chance(0.8):
                        function = str(rng.choice([*ANGLES]))
                        text = self.parameters(
                            "angletypes", (bonded[i], bonded[j], bonded[k]), function, ANGLES[function]
                        )
                        lines.append(f"{i + 1} {j + 1} {k + 1} {function} {text}")
        lines.append("[ dihedrals ]")
        chains = [
            (i, j, k, m)
            for j in range(n)
            for k in joined[j]
            for i in joined[j] - {k}
            for m in joined[k] - {j, i}
            if j < k
        ]
        for chain in chains:
            function = str(rng.choice([*DIHEDRALS]))
            text = self.parameters("dihedraltypes", tuple(bonded[i] for i in chain), function, DIHEDRALS[function])
            lines.append(" ".join(str(i + 1) for i in chain) + f" {function} {text}")
        lines += self.pairs(chains, kind, n)
        if self.chance(0.4):
            lines.append("[ exclusions ]")
            for _ in range(int(rng.integers(1, 4))):
                lines.append(" ".join(str(i + 1) for i in rng.choice(n, 3, replace=False)))
        if sites:  # which may stand on an atom
            lines.append("[ exclusions ]")
            lines += [" ".join(str(i + 1) for i in (n + k, *range(n + k))) for k in range(len(sites))]
        if self.chance(0.3):
            constant = f"{rng.uniform(100, 2000):.4f}"
            inner = "\n".join(f"{i + 1} 1 {constant} {constant} {constant}" for i in range(0, n, 2))
            lines.append(f"#ifdef POSRES\n[ position_restraints ]\n{inner}\n#endif")
        lines += ["#ifndef NOWHERE\n#else\n[ nonsense ]\n1 2 3\n#endif", *sites]
        whole = np.concatenate([positions, np.zeros((len(sites), 3))])
        self.positions.append(whole)
        return "\n".join(lines) + "\n"

    def pairs(self, chains: list, kind: np.ndarray, n: int) -> list[str]:
        lines = ["[ pairs ]"]
        ends = sorted({tuple(sorted((c[0], c[3]))) for c in chains})
        for i, j in ends:
            if self.chance(0.2):
                continue
            a, b = sorted((self.types[kind[i]], self.types[kind[j]]))
            how = self.rng.random()
            if how < 0.2:
                text = "1 " + " ".join(self.lj())
            elif how < 0.35:
                text = (
                    f"2 {self.rng.uniform(0.5, 1):.4f} {self.rng.normal():.4f} {self.rng.normal():.4f} "
                    f"{' '.join(self.lj())}"
                )
            else:
                if not self.generate or self.chance(0.2):
                    self.head["pairtypes"].setdefault((a, b), self.lj())
                text = "1"
            lines += [f"{i + 1} {j + 1} {text}"] * (2 if self.chance(0.1) else 1)
        if self.chance(0.2):
            i, j = self.rng.choice(n, 2, replace=False)
            lines += [
                "[ pairs_nb ]",
                f"{i + 1} {j + 1} 1 {self.rng.normal():.4f} {self.rng.normal():.4f} {' '.join(self.lj())}",
            ]
        return lines

    def sites(self, n: int) -> list[str]:
        lines = []
        for k in range(int(self.rng.integers(1, 3))):
            at = n + k + 1
            i, j, m, o = self.rng.choice(n, 4, replace=False) + 1
            a, b, c = self.rng.uniform(0.1, 0.5, 3).round(4)
            lines.append(
                str(
                    self.rng.choice(
                        [
                            f"[ virtual_sites1 ]\n{at} {i} 1",
                            f"[ virtual_sites2 ]\n{at} {i} {j} 1 {a}",
                            f"[ virtual_sites3 ]\n{at} {i} {j} {m} 1 {a} {b}",
                            f"[ virtual_sites3 ]\n{at} {i} {j} {m} 2 {c} {-a if self.chance(0.5) else a}",
                            f"[ virtual_sites3 ]\n{at} {i} {j} {m} 3 {100 * b + 30} {a}",
                            f"[ virtual_sites3 ]\n{at} {i} {j} {m} 4 {a} {b} {10 * c}",
                            f"[ virtual_sites4 ]\n{at} {i} {j} {m} {o} 2 {a} {b} {c}",
                            f"[ virtual_sitesn ]\n{at} 1 {i} {j} {m} {o}",
                            f"[ virtual_sitesn ]\n{at} 2 {i} {j} {m}",
                            f"[ virtual_sitesn ]\n{at} 3 {i} {a} {j} {b} {m} {c}",
                        ]
                    )
                )
            )
        return lines

    def text(self) -> str:
        rng = self.rng
        names = [f"MOL{k}" for k in range(int(rng.integers(1, 3)))]
        bodies = [self.molecule(name) for name in names]
        where, order, center = {}, [], np.array([10.0, 10.0, 10.0])
        listed = [str(rng.choice(names)) for _ in range(int(rng.integers(1, 4)))]
        for k, name in enumerate(listed):
            where[name] = where.get(name, 0) + 1
            order.append(self.positions[names.index(name)] + center + [0.9 * k, 0.1 * rng.random(), 0.1 * rng.random()])
        lines = [
            f"; random\n[ defaults ]\n1 {self.rule} {'yes' if self.generate else 'no'} {rng.uniform(0.4, 1):.3f} "
            f"{rng.uniform(0.4, 1):.3f}"
        ]
        lines.append("[ atomtypes ]")
        numbers = self.chance(0.5)
        for t, b, mass, charge in zip(self.types, self.bonded, self.masses, self.charges):
            number = f"{rng.choice([0, -1, 6, 8])} " if numbers else ""
            lines.append(f"{t} {b} {number}{mass} {charge} A {' '.join(self.lj())}")
        lines.append(f"VS VS {'0 ' if numbers else ''}0.0 0.0 D {' '.join(self.lj())}")
        if self.chance(0.4):
            lines.append("[ nonbond_params ]")
            for i in range(len(self.types)):
                lines += [
                    f"{self.types[i]} {self.types[j]} 1 {' '.join(self.lj())}" for j in range(i + 1) if self.chance(0.4)
                ]
        for section, table in self.head.items():
            lines.append(f"[ {section} ]")
            for key, values in table.items():
                if section == "pairtypes":
                    lines.append(f"{' '.join(key)} 1 {' '.join(values)}")
                else:
                    if self.chance(0.15) and key[1] != "9":  # a definition that the next one takes the place of
                        lines.append(
                            f"{' '.join(key[0][::-1])} {key[1]} "
                            f"{' '.join(str(2 * float(v)) if '.' in v else v for v in values[0])}"
                        )
                    lines += [f"{' '.join(key[0])} {key[1]} {' '.join(v)}" for v in values]
        lines += [*self.macros, *bodies, "[ system ]\nrandom\n[ molecules ]", *(f"{name} 1" for name in listed)]
        self.all = np.concatenate(order)
        return "\n".join(lines) + "\n"


def random_topology(seed: int) -> tuple[str, np.ndarray]:
    """The text of a random topology, and positions of its atoms."""
    rng = np.random.default_rng([seed, 71])
    writer = _Writer(rng)
    text = writer.text()
    return ("#define POSRES\n" if rng.random() < 0.5 else "") + text, writer.all.round(9)


def read(top: Path, positions: np.ndarray) -> tuple[sponge.System, np.ndarray]:
    """The system of a topology without cut-off, and the positions with its virtual sites placed."""
    system = load_gromacs(top, positions, method="none", rigid_water=False)
    return system, np.asarray(place_all(system.virtual_sites, system.positions))


available = gmx.GMX is not None


def case(seed: int, folder: Path) -> list[str]:
    """One random topology, against GROMACS."""
    text, positions = random_topology(seed)
    top = folder / "random.top"
    top.write_text(text)
    try:
        system, positions = read(top, positions)
    except FileFormatError as error:  # definitions of one torsion that contradict each other
        if "must follow each other" in str(error):
            raise Refused(str(error)) from None
        raise
    # the forces of GROMACS 2022 leave out those of sites that stand on one atom; they are not its energy's gradient
    return gmx.compare_with_gromacs(system, folder, top, positions, forces="virtual_sites1" not in text)


STORED = Path(__file__).resolve().parents[2] / "data" / "sponge" / "gromacs" / "random.json.gz"


def store(count: int = 24) -> None:
    """Write random topologies with GROMACS's energies and forces, for machines without it."""
    found = []
    for seed in range(count):
        text, positions = random_topology(seed)
        with tempfile.TemporaryDirectory() as folder:
            top = Path(folder) / "random.top"
            top.write_text(text)
            energies, forces = gmx.evaluate(Path(folder), top, read(top, positions)[1])
        found.append(
            {
                "text": text,
                "positions": positions.round(9).tolist(),
                "energies": {name: value for name, value in energies.items() if name in gmx.GROUPS},
                "forces": None if "virtual_sites1" in text else [[float(f"{v:.9g}") for v in row] for row in forces],
            }
        )
    STORED.parent.mkdir(exist_ok=True)
    STORED.write_bytes(gzip.compress(json.dumps(found).encode(), 9, mtime=0))


if __name__ == "__main__":
    store()
