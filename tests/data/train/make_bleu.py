"""Record BLEU of sacrebleu for random and nasty sentences: ``pip install sacrebleu; python make_bleu.py``."""

import json
from importlib.metadata import version
from pathlib import Path

import numpy as np
from sacrebleu.metrics import BLEU

CASES = {
    "one reference": (
        ["the cat sat on the mat", "a dog ran in the park today"],
        [["the cat is on the mat"], ["a dog ran through the park today"]],
    ),
    "several references": (
        ["it is a guide to action which ensures that the military always obeys the commands of the party"],
        [
            [
                "it is a guide to action that ensures that the military will forever heed party commands",
                "it is the guiding principle which guarantees the military forces always being under the "
                "command of the party",
                "it is the practical guide for the army always to heed the directions of the party",
            ]
        ],
    ),
    "clipped": (["the the the the the the the"], [["the cat is on the mat", "there is a cat on the mat"]]),
    "short": (["a cat"], [["a cat on the mat"]]),
    "two lengths as near": (["a b c d e"], [["a b c d e f g", "a b c"]]),
    "long": (["a b c d e f g h i j"], [["a b c d e"]]),
}


def random_case(seed):
    rng = np.random.default_rng(seed)
    words = np.array(list("abcdef"))
    sentence = lambda: " ".join(rng.choice(words, rng.integers(3, 20)))
    return [sentence() for _ in range(5)], [[sentence(), sentence()] for _ in range(5)]


if __name__ == "__main__":
    cases = CASES | {f"random {seed}": random_case(seed) for seed in range(4)}
    found = []
    for name, (predictions, references) in cases.items():
        streams = list(map(list, zip(*references)))
        values = {
            smoothing: BLEU(tokenize="none", smooth_method=smoothing, effective_order=False, force=True)
            .corpus_score(predictions, streams)
            .score
            / 100
            for smoothing in ("none", "floor", "add-k", "exp")
        }
        found.append({"name": name, "predictions": predictions, "references": references, "bleu": values})
    out = {"sacrebleu": version("sacrebleu"), "cases": found}
    Path(__file__).with_name("bleu.json").write_text(json.dumps(out, indent=1) + "\n")
