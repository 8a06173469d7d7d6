"""The reader of code blocks finds what it should, and notices what is wrong."""

import subprocess
import sys

import pytest

from tests.docs.pages import Page, assert_output, split_output

PAGE = """\
# A page

```python
x = 2.0
print("x is", x)
```

```text
x is 2.0
```

::::{tab-set}
:::{tab-item} Triskele
```python
print(f"{x / 3:.4f}")
```
:::

:::{tab-item} JAX
```python peer=jax
print(1)
```
:::
::::

```python notest
raise SystemExit
```

```text
belongs to no block that runs
```

```python
print("drawn:", 3)
```

```text sampled
drawn: 7
```
"""


@pytest.fixture
def page(tmp_path):
    (tmp_path / "page.md").write_text(PAGE)
    return Page.read(tmp_path / "page.md")


def test_blocks_are_found_with_their_peers_and_outputs(page):
    assert {peer: len(blocks) for peer, blocks in page.scripts.items()} == {"triskele": 3, "jax": 1}
    first, second, third = page.scripts["triskele"]
    assert (first.output, second.output, third.output) == ("x is 2.0", None, "drawn: 7")
    assert_output(third.output, "drawn: 3", third.tolerance)


def test_one_output_serves_the_blocks_of_several_peers(tmp_path):
    path, block, text = tmp_path / "page.md", "```python{}\nprint(1)\n```\n\n", "```text\n1\n```\n"
    path.write_text(block.format(" peer=jax title='JAX'") + block.format("") + text)
    assert {peer: b.output for peer, (b,) in Page.read(path).scripts.items()} == {"jax": "1", "triskele": "1"}
    path.write_text(block.format("") + block.format(" peer=jax") + block.format("") + text)
    scripts = Page.read(path).scripts
    assert [b.output for b in scripts["triskele"]] == [None, "1"] and [b.output for b in scripts["jax"]] == [None]


def test_blocks_share_names_and_keep_their_lines(page, tmp_path):
    script = tmp_path / "page.py"
    script.write_text(page.script("triskele"))
    printed = subprocess.run([sys.executable, script], capture_output=True, text=True, check=True).stdout
    assert split_output(printed) == {4: "x is 2.0\n", 15: "0.6667\n", 35: "drawn: 3\n"}
    assert script.read_text().splitlines()[14] == 'print(f"{x / 3:.4f}")'


def test_a_block_without_end_is_reported(tmp_path):
    (tmp_path / "page.md").write_text("```python\nprint(1)\n")
    with pytest.raises(ValueError, match=r"page.md:1: the block that begins here has no end"):
        Page.read(tmp_path / "page.md")


@pytest.mark.parametrize(
    "shown, printed",
    [
        ("loss 0.0101", "loss 0.0102"),
        ("E = -7.882353 hartree", "E = -7.882355 hartree"),
        ("1,024 steps in ... s", "1,024 steps in 3.2 s"),
        ("a   b\nc", "a b\nc"),
        ("100 of 100", "100 of 99"),
        ("rates: [0.6  0.81]", "rates: [0.61 0.8 ]"),
        ("[ 0.3 -0.2]", "[0.3 -0.2]"),
    ],
)
def test_output_agrees(shown, printed):
    assert_output(shown, printed)


@pytest.mark.parametrize(
    "shown, printed",
    [
        ("loss 0.0101", "loss 0.0201"),
        ("loss 0.0101", "loss nan"),
        ("E = 7.88", "E = -7.88"),
        ("two words", "two words more"),
        ("100 of 100", "100 of 80"),
        ("1 2 3", "1 2"),
        ("[1 2]", "[12]"),
    ],
)
def test_output_differs(shown, printed):
    with pytest.raises(AssertionError):
        assert_output(shown, printed)
