"""Hide from the builder the words in fences that are for the tests (`notest`, `peer=jax`, `sampled`)."""

import re


def on_page_markdown(markdown, **_):
    """Leave the language and a title of each opening fence of Python or text."""
    def clean(fence):
        return re.sub(r" +(?:notest|sampled|peer=\w+)\b", "", fence[0])

    return re.sub(r"^ *```+(?:python|text) .*$", clean, markdown, flags=re.M)
