"""Train a transformer that writes Shakespeare, character by character.

A network in the style of GPT-2 (4 layers, 4 heads, 128 wide, 64 characters of context) takes 2,000 steps of 12 windows,
as in nanoGPT's recipe for laptops, with which it reaches a validation loss of 1.88. It prints the loss on the last
tenth of the text, which it has not seen, and continues the first words of that tenth. The picture shows the losses.

    python examples/core/shakespeare.py [--text FILE] [--steps 2000] [--output shakespeare.png]
"""

import argparse
import lzma
import time
from pathlib import Path

import numpy as np

from triskele.core import data, models, nn, optim, random, train

CONTEXT, BATCH, EVERY = 64, 12, 250  # characters, windows, steps between two evaluations


def main(text, steps, output):
    letters = data.text.vocabulary(text)
    tokens = letters.encode(text)
    seen, unseen = np.split(tokens, [len(tokens) * 9 // 10])
    print(f"{len(tokens):,} characters, {len(letters)} different ones")

    every = min(EVERY, steps)
    source = data.text.windows(seen, CONTEXT, stride=1).shuffle(seed=0).batch(BATCH).take(every)
    sample, held_out = (data.text.windows(unseen, CONTEXT, stride=n * CONTEXT).batch(64) for n in (4, 1))
    net = models.Transformer.gpt2(random.key(0), len(letters), context=CONTEXT, width=128, layers=4, heads=4)
    rates = optim.warmup(100, optim.cosine_decay(2e-3, steps, 1e-4))
    model = train.Model(net, nn.cross_entropy, optim.AdamW(rates, b2=0.99, weight_decay=0.1), clip=1.0)
    started = time.perf_counter()
    history = model.fit(source, steps // every, validation=sample)
    seconds = time.perf_counter() - started
    loss = model.evaluate(held_out)["loss"]
    print(f"{int(model.state.count)} steps in {seconds:.1f} s, compilation and evaluations included")
    print(f"validation loss: {loss:.3f} nats per character\n")
    text = unseen[: CONTEXT // 2]  # continued by half a context at a time
    for part in random.split(random.key(1), 8):
        drawn = model.net.generate(text[-CONTEXT // 2 :], CONTEXT // 2, temperature=0.8, key=part)
        text = np.concatenate([text, drawn])
    print(letters.decode(text))

    import matplotlib.pyplot

    matplotlib.use("Agg")
    from triskele.core.show import plots

    with plots.style():
        figure, ax = matplotlib.pyplot.subplots(layout="constrained")
        history.plot(ax)
        ax.set_xlabel(f"{every} steps")
        ax.set_title(f"validation loss {loss:.2f}")
        figure.savefig(output, dpi=150)
    print(f"\npicture: {output}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--text", type=Path, help="a text file; by default, tinyshakespeare")
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--output", default="shakespeare.png", help="where the picture goes")
    options = parser.parse_args()
    packed = Path(__file__).parent / "data" / "shakespeare.txt.xz"
    text = lzma.decompress(packed.read_bytes()) if options.text is None else options.text.read_bytes()
    main(text.decode(), options.steps, options.output)
