"""The code blocks of a Markdown page, and what the page says that they print.

Blocks of Python run in the order of the page as one script. The words behind `python` of a fence change that:

- `notest`: the block does not run;
- `peer=jax`: the block belongs to a second script, of another library, which runs where that is installed. Both scripts
  must print the numbers that the page shows.

A `text` block that follows directly is the output, of the blocks of all peers where several stand above it. Numbers
agree within a tolerance, and `...` stands for anything. In blocks with the fence `text sampled`, for simulations and
trainings whose numbers depend on the processor, any number stands for any other.
"""

import re
import textwrap
from dataclasses import dataclass, field
from pathlib import Path

FENCE = re.compile(r"^(?P<indent> *)(?P<ticks>```+)(?P<info>.*)$")
NUMBER = re.compile(r"[-+−]?(?:\d[\d,]*\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")
MARK = "#### block at line "


@dataclass
class Block:
    """A block of code: its first line in the page (from 1), and the output that the page shows, if any."""

    line: int
    code: str
    output: str | None = None
    tolerance: float = 0.05


@dataclass
class Page:
    """Scripts of a page, by peer; the script of Triskele has the name "triskele"."""

    path: Path
    scripts: dict[str, list[Block]] = field(default_factory=dict)

    @classmethod
    def read(cls, path):
        """Read the fenced blocks of a Markdown file."""
        page, open_blocks, lines = cls(path), {}, path.read_text().splitlines()  # blocks without output, by peer
        i = 0
        while i < len(lines):
            fence = FENCE.match(lines[i])
            if not fence:
                if lines[i].strip() and not lines[i].lstrip().startswith(":::"):
                    open_blocks = {}
                i += 1
                continue
            end = next((j for j in range(i + 1, len(lines)) if lines[j].strip() == fence["ticks"]), None)
            if end is None:
                raise ValueError(f"{path}:{i + 1}: the block that begins here has no end")
            text = textwrap.dedent("\n".join(lines[i + 1 : end]))
            language, *words = fence["info"].split() or [""]
            if language == "python" and "notest" not in words:
                peer = next((w.removeprefix("peer=") for w in words if w.startswith("peer=")), "triskele")
                block = Block(i + 2, text)
                page.scripts.setdefault(peer, []).append(block)
                open_blocks = {peer: block} if peer in open_blocks else open_blocks | {peer: block}
            else:
                for block in open_blocks.values():
                    block.output = text if language == "text" else None
                    block.tolerance = float("inf") if "sampled" in words else block.tolerance
                open_blocks = {}
            i = end + 1
        return page

    def script(self, peer):
        """The script of a peer as text: each block stands on the lines that it has in the page."""
        text = []
        for block in self.scripts[peer]:
            text += [""] * (block.line - 2 - len(text))
            text.append(f'print("{MARK}{block.line}", flush=True)')
            text += block.code.splitlines()
        return "\n".join(text) + "\n"


def split_output(printed):
    """What each block printed, by its line."""
    parts = re.split(rf"^{MARK}(\d+)\n", printed, flags=re.M)
    return {int(line): text for line, text in zip(parts[1::2], parts[2::2], strict=True)}


def assert_output(shown, printed, tolerance=0.05):
    """Check that `printed` reads as `shown`: the same words and layout of lines, numbers within a relative tolerance.

    Numbers shown with few digits may differ by one unit of the last digit, and what is below 1e-9 is zero. `...`
    matches any text. NumPy pads the numbers of an array to one width, so blanks beside its brackets do not count.
    """
    shown, printed = (re.sub(r"(?<=\[)\s+|\s+(?=\])", "", text) for text in (shown, printed))
    pattern, numbers = "", []
    for part in re.split(rf"(\.\.\.|{NUMBER.pattern}|\s+)", shown.strip()):
        if part == "...":
            pattern += r"[\s\S]*?"
        elif NUMBER.fullmatch(part):
            pattern += rf"({NUMBER.pattern}|nan|inf)"
            numbers.append(part)
        elif part.isspace():
            pattern += r"\s+"
        else:
            pattern += re.escape(part)
    match = re.fullmatch(pattern, printed.strip())
    assert match, f"the page shows\n{shown}\nand the code prints\n{printed}"
    for one, other in zip(numbers, match.groups(), strict=True):
        expected, found = (float(n.replace(",", "").replace("−", "-")) for n in (one, other))
        digits = re.search(r"\.(\d*)", one)
        unit = 10.0 ** -len(digits[1]) if digits and "e" not in one.lower() else 0.0
        allowed = max(tolerance * abs(expected), 1.001 * unit, 1e-9) if tolerance < float("inf") else tolerance
        assert abs(expected - found) <= allowed, f"the page shows {one} where the code prints {other}, in\n{printed}"
