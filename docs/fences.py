"""Hide from the builder the words behind `python` that tell the tests how to run a block (`notest`, `peer=jax`)."""

import re


def on_page_markdown(markdown, **_):
    """Reduce each opening fence of Python to the name of the language."""
    return re.sub(r"^( *```+python)(?: +(?:notest|peer=\w+))+ *$", r"\1", markdown, flags=re.M)
