"""Hide from the builder the words behind `python` that tell the tests how to run a block (`notest`, `peer=jax`)."""

import re


def on_page_markdown(markdown, **_):
    """Leave the language and a title of each opening fence of Python."""
    def clean(fence):
        return re.sub(r" +(?:notest|peer=\w+)\b", "", fence[0])

    return re.sub(r"^ *```+python .*$", clean, markdown, flags=re.M)
