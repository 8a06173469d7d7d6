"""The text of GROMACS topologies: comments, continued lines, ``#include``, ``#define`` and ``#ifdef``."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from ..errors import FileFormatError
from .amber_files import read_bytes

__all__ = ["Line", "read_lines"]

_FOLDERS = ("/usr/share/gromacs/top", "/usr/local/share/gromacs/top", "/usr/local/gromacs/share/gromacs/top")
_DEEPEST = 32  # files that include each other, and macros that stand for each other
_HEADER = re.compile(r"\[\s*([\w-]+)\s*\]$")
_FILE = re.compile(r'(["<])(.+)[">]$')


class Line(NamedTuple):
    """One line of a section, macros replaced."""

    section: str
    words: list[str]
    where: str  # file and line, for errors


def read_lines(path: str | Path, include: str | Path | None, defines: dict[str, str]) -> Iterator[Line]:
    """Return the lines of a topology and of the files it includes, under the names of their sections.

    Included files are looked for in the folders of the including file and of `path`, in `include`, and in those of
    GROMACS (the environment's GMXLIB, and where it is usually installed). `defines` are macros in addition to those of
    the file.
    """
    folders = [Path(path).parent, *([Path(include)] if include is not None else [])]
    folders += [Path(p) for p in (*os.environ.get("GMXLIB", "").split(os.pathsep), *_FOLDERS) if p]
    return _Preprocessor(folders, defines).run(Path(path))


class _Preprocessor:
    def __init__(self, folders: list[Path], defines: dict[str, str]):
        self.folders = folders
        self.macros = {name: str(text).split() for name, text in defines.items()}
        self.section = ""

    def run(self, path: Path, depth: int = 0) -> Iterator[Line]:
        if depth > _DEEPEST:
            raise FileFormatError(
                f"{path}: files must not include each other in a circle, got {depth} levels of #include"
            )
        conditions: list[bool] = []  # of the #ifdefs that are open here
        for where, text in _joined(path):
            if text.startswith("#"):
                directive, _, rest = text[1:].strip().partition(" ")
                active = all(conditions)
                if self._condition(directive, rest.strip(), conditions, where) or not active:
                    continue
                if directive == "include":
                    yield from self.run(self._find(rest.strip(), path, where), depth + 1)
                else:
                    self._define(directive, rest.split(), where)
            elif not all(conditions):
                continue
            elif text.startswith("["):
                header = _HEADER.match(text)
                if header is None:
                    raise FileFormatError(f"{where}: the name of a section must look like [ atoms ], got {text[:40]!r}")
                self.section = header[1]
                yield Line(self.section, [], where)
            elif not self.section:
                continue  # GROMACS takes no notice of what stands before the first section
            elif words := [w for word in text.split() for w in self._replaced(word, where)]:
                yield Line(self.section, words, where)
        if conditions:
            raise FileFormatError(f"{path}: every #ifdef must have an #endif, got {len(conditions)} without")

    def _condition(self, directive: str, name: str, conditions: list[bool], where: str) -> bool:
        """Take account of #ifdef, #ifndef, #else and #endif; False for any other directive."""
        if directive in ("ifdef", "ifndef"):
            conditions.append((name in self.macros) == (directive == "ifdef"))
        elif directive in ("else", "endif"):
            if not conditions:
                raise FileFormatError(f"{where}: #{directive} must follow an #ifdef, got none")
            last = conditions.pop()
            if directive == "else":
                conditions.append(not last)
        else:
            return False
        return True

    def _define(self, directive: str, words: list[str], where: str) -> None:
        if directive == "define" and words:
            self.macros[words[0]] = words[1:]
        elif directive == "undef" and len(words) == 1:
            self.macros.pop(words[0], None)
        elif directive == "error":
            raise FileFormatError(f"{where}: the file says #error {' '.join(words)}")
        else:
            raise FileFormatError(
                f"{where}: directives must be #include, #define, #undef, #ifdef, #ifndef, #else or #endif, got "
                f"#{directive} {' '.join(words)}"
            )

    def _replaced(self, word: str, where: str, depth: int = 0) -> list[str]:
        if word not in self.macros:
            return [word]
        if depth > _DEEPEST:
            raise FileFormatError(f"{where}: macros must not stand for each other in a circle, got {word}")
        return [w for part in self.macros[word] for w in self._replaced(part, where, depth + 1)]

    def _find(self, text: str, path: Path, where: str) -> Path:
        quoted = _FILE.match(text)
        if quoted is None:
            raise FileFormatError(f"{where}: #include must name a file in quotes, got {text!r}")
        for folder in (path.parent, *self.folders):
            if (folder / quoted[2]).is_file():
                return folder / quoted[2]
        looked = ", ".join(dict.fromkeys(str(f) for f in (path.parent, *self.folders) if f.is_dir()))
        raise FileFormatError(
            f"{where}: {quoted[2]} must be a file in one of {looked} (pass include= with the folder of the force field)"
        )


def _joined(path: Path) -> Iterator[tuple[str, str]]:
    """Place and text of each line that is not empty, without comments; a line that ends in a backslash takes in the
    next.
    """
    text, first = "", 0
    for k, line in enumerate(read_bytes(path).decode("latin-1").split("\n"), 1):
        part = line.partition(";")[0].strip()
        first = first or k
        if part.endswith("\\"):
            text += part[:-1] + " "
            continue
        text += part
        if text.strip():
            yield f"{path}, line {first}", text.strip()
        text, first = "", 0
    if text.strip():
        raise FileFormatError(
            f"{path}, line {first}: a line that ends in a backslash must be continued, got the file's end"
        )
