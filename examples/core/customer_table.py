"""Predict which customers leave from a table of numbers and categories, with a network in scikit-learn's pipelines.

The script writes a CSV file of 5,000 customers whose probability to leave is known, so that it also prints the best
score that any model could have. A network, gradient boosting and logistic regression are compared by the area under
the ROC curve in the same five-fold cross-validation, and by whether their probabilities can be believed.

    python examples/core/customer_table.py [--output customer_table.png]
"""

import argparse
import csv
import tempfile
import time
from pathlib import Path

import numpy as np
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import GradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss, roc_auc_score
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from triskele.core import data, nn, optim, random, train
from triskele.core.show import plots

CUSTOMERS, EPOCHS, BATCH = 5000, 15, 64
NUMBERS = ["months", "monthly_fee", "support_calls", "late_payments"]
CATEGORIES = ["contract", "payment", "region"]


def write(path):
    """Write the table, and return the probabilities that the answers were drawn with."""
    rng = np.random.default_rng(7)
    months, fee = rng.integers(1, 72, CUSTOMERS), rng.gamma(6.0, 10.0, CUSTOMERS).round(2)
    calls, late = rng.poisson(1.5, CUSTOMERS), rng.poisson(0.4, CUSTOMERS)
    contract = rng.choice(["monthly", "yearly", "two years"], CUSTOMERS, p=[0.55, 0.25, 0.2])
    payment = rng.choice(["card", "transfer", "check"], CUSTOMERS)
    region = rng.choice(["north", "east", "south", "west"], CUSTOMERS)
    monthly = contract == "monthly"
    score = (
        -2.4
        + 3.0 * monthly * np.exp(-months / 12)
        + 0.035 * (fee - 60) * monthly
        + 0.8 * np.maximum(calls - 2, 0)
        + 1.5 * (late > 0) * (payment == "check")
        - 1.2 * (contract == "two years")
        + 0.3 * (region == "west")
    )
    probability = 1 / (1 + np.exp(-score))
    left = rng.random(CUSTOMERS) < probability
    with open(path, "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow([*NUMBERS, *CATEGORIES, "left"])
        writer.writerows(zip(months, fee, calls, late, contract, payment, region, left.astype(int), strict=True))
    return probability


def network(features, classes):
    k1, k2, k3 = random.split(random.key(0), 3)
    return nn.Sequential(
        [
            nn.Linear.init(k1, features, 32),
            nn.silu,
            nn.Dropout(0.2),
            nn.Linear.init(k2, 32, 32),
            nn.silu,
            nn.Dropout(0.2),
            nn.Linear.init(k3, 32, classes),
        ]
    )


def models():
    columns = ColumnTransformer(
        [
            ("numbers", StandardScaler(), slice(0, len(NUMBERS))),
            ("categories", OneHotEncoder(), slice(len(NUMBERS), None)),
        ]
    )
    steps = EPOCHS * -(-4 * CUSTOMERS // 5 // BATCH)
    estimator = train.Estimator(
        network, optimizer=optim.AdamW(optim.one_cycle(5e-3, steps)), epochs=EPOCHS, batch=BATCH
    )
    return {
        "network": make_pipeline(columns, estimator),
        "gradient boosting": make_pipeline(
            columns, GradientBoostingClassifier(learning_rate=0.05, n_estimators=120, subsample=0.8, random_state=0)
        ),
        "logistic regression": make_pipeline(columns, LogisticRegression()),
    }


def calibration(answers, guess, bins=10):
    """Mean probability and share of customers who left, in bins of as many customers each."""
    parts = np.array_split(np.argsort(guess), bins)
    return [guess[p].mean() for p in parts], [answers[p].mean() for p in parts]


def main(output):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "customers.csv"
        probability = write(path)
        table = next(iter(data.csv(path).batch(CUSTOMERS)))
    x = np.column_stack([table[name].astype(object) for name in NUMBERS + CATEGORIES])
    answers = table["left"]
    best, folds = roc_auc_score(answers, probability), StratifiedKFold(5, shuffle=True, random_state=0)
    print(
        f"{CUSTOMERS} customers, {answers.mean():.0%} of whom left; with the true probabilities: ROC area "
        f"{best:.3f}, log loss {log_loss(answers, probability):.3f}"
    )
    areas, guesses = {}, {}
    for name, model in models().items():
        started = time.perf_counter()
        guess = guesses[name] = cross_val_predict(model, x, answers, cv=folds, method="predict_proba")[:, 1]
        areas[name] = [roc_auc_score(answers[k], guess[k]) for _, k in folds.split(x, answers)]
        print(
            f"{name:20} ROC area {np.mean(areas[name]):.3f} +- {np.std(areas[name]) / np.sqrt(5):.3f}, log loss "
            f"{log_loss(answers, guess):.3f}, {time.perf_counter() - started:.1f} s"
        )

    import matplotlib.pyplot

    matplotlib.use("Agg")
    with plots.style():
        figure, (left, right) = matplotlib.pyplot.subplots(1, 2, figsize=(7.0, 3.0), layout="constrained")
        for k, (name, guess) in enumerate(guesses.items()):
            left.plot(areas[name], np.full(5, k), "o", alpha=0.6, color=f"C{k}")
            left.plot(np.mean(areas[name]), k, "|", ms=22, color=f"C{k}")
            right.plot(*calibration(answers, guess), "o-", ms=3, color=f"C{k}", label=name)
        left.axvline(best, color="0.5", lw=0.8, ls="--")
        left.annotate("best possible ", (best, 2.4), ha="right", va="bottom", color="0.4")
        left.set(yticks=range(3), yticklabels=list(guesses), ylim=(2.6, -0.6), xlabel="ROC area, folds and their mean")
        right.plot([0, 1], [0, 1], color="0.5", lw=0.8, ls="--")
        right.set(xlabel="predicted probability to leave", ylabel="share that left", xlim=(0, 1), ylim=(0, 1))
        right.legend(frameon=False)
        figure.savefig(output, dpi=150)
    print(output)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", default="customer_table.png")
    main(**vars(parser.parse_args()))
