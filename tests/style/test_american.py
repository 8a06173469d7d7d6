"""Names and texts have one spelling: the American one, as the field's interfaces have it."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDERS = ("core", "sponge", "quantum", "reinforce", "command", "tests", "examples", "docs")
_VERBS = (
    "author categor character custom diagonal discret emphas factor final general initial linear local material "
    "maxim memor minim neutral normal optim organ orthogonal parallel parametr penal polar random real recogn "
    "regular serial special stabil standard summar symmetr synchron thermal token util vector visual"
)
_BRITISH = re.compile(
    r"(?:" + _VERBS.replace(" ", "|") + r")is(?:e|ed|es|er|ers|ing|ation|ations|able)(?![a-z])"
    r"|colour|neighbour|behaviour|favour|honour|centre|centring|licence|fibre|artefact|catalogue|judgement"
    r"|(?:label|travel|signal|duel)l(?:ed|ing)(?![a-z])|(?<![a-z])(?:analys(?:e|ed|er|ing)|fulfils?|learnt|spelt|metres?)"
    r"(?![a-z])",
    re.IGNORECASE,
)
_SUFFIXES = (".py", ".pyi", ".md", ".toml", ".yml")
_OF_OTHERS = ("tests/data/", "tests/conformance/", "tests/style/test_american.py", "quantum/data/")


def british(text):
    """The British words of a text, each with its line.

    >>> british("one neighbour")
    ['1: neighbour']
    """
    if not any(_BRITISH.search(word) for word in set(re.findall("[a-z]+", text.lower()))):
        return []
    return [f"{number}: {word}" for number, line in enumerate(text.splitlines(), 1) for word in _BRITISH.findall(line)]


def test_spelling_is_american():
    files = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*") if path.suffix in _SUFFIXES]
    files += [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "Makefile", ROOT / "pyproject.toml"]
    names = [name for path in files if not (name := path.relative_to(ROOT).as_posix()).startswith(_OF_OTHERS)]
    offenders = [f"{name}:{word}" for name in names for word in british((ROOT / name).read_text(encoding="utf-8"))]
    assert len(names) > 500 and not offenders, "\n".join(offenders)


def test_the_words_are_found():
    assert british("fine\nNormaliser colour_map CENTRES\nwise, analysis, centers") == [
        "2: Normaliser",
        "2: colour",
        "2: CENTRE",
    ]
