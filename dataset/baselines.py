"""What simple models reach on the two tasks: the marks beside which a result should be read.

    python dataset/build_tasks.py --output_dir outputs/quickstart/data
    python dataset/baselines.py --data_dir outputs/quickstart/data

Logistic regression on bags of words (English) and on bags of characters and pairs of neighbouring
characters (Chinese). The Chinese task is also tried with one text of the two hidden, to see how
much of it needs both.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

from scipy.sparse import spmatrix
from sklearn.feature_extraction.text import CountVectorizer, TfidfTransformer
from sklearn.linear_model import LogisticRegression

Row = list[str]
Features = Callable[[Row], list[str]]


def words(row: Row) -> list[str]:
    return "".join(c if c.isalnum() else " " for c in row[0].lower()).split()


def characters(text: str, mark: str) -> list[str]:
    return [mark + text[i:i + n] for n in (1, 2) for i in range(len(text) - n + 1)]


BASELINES: dict[str, dict[str, Features]] = {
    "english": {
        "length": lambda row: [str(len(words(row)) // 5)],
        "bag of words": words,
    },
    "chinese": {
        "lengths": lambda row: [f"{len(row[0])} {len(row[1])}"],
        "text_a alone": lambda row: characters(row[0], "a"),
        "text_b alone": lambda row: characters(row[1], "b"),
        "both texts": lambda row: characters(row[0], "a") + characters(row[1], "b"),
    },
}


def read(path: Path) -> list[Row]:
    lines = path.read_text(encoding="utf-8").removesuffix("\n").split("\n")
    return [line.split("\t") for line in lines[1:]]


def accuracy(splits: Sequence[list[Row]], features: Features) -> list[float]:
    """Train on the first split; the accuracies on the others."""
    counter = CountVectorizer(analyzer=features)
    scale = TfidfTransformer(sublinear_tf=True)
    train: spmatrix = scale.fit_transform(counter.fit_transform(splits[0]))
    model = LogisticRegression(C=10.0, max_iter=1000).fit(train, [row[-1] for row in splits[0]])
    return [model.score(scale.transform(counter.transform(split)), [row[-1] for row in split])
            for split in splits[1:]]


def main() -> None:
    parser = argparse.ArgumentParser(description="What simple models reach on the two tasks.")
    parser.add_argument("--data_dir", type=Path, required=True, help="what build_tasks.py wrote")
    args = parser.parse_args()
    print(f"{'':32}{'dev':>8}{'test':>8}")
    for task, baselines in BASELINES.items():
        splits = [read(args.data_dir / task / f"{s}.tsv") for s in ("train", "dev", "test")]
        majority = [Counter(row[-1] for row in split).most_common(1)[0][1] / len(split)
                    for split in splits[1:]]
        results = {"most frequent label": majority}
        results |= {name: accuracy(splits, features) for name, features in baselines.items()}
        for name, values in results.items():
            print(f"{f'{task}: {name}':32}" + "".join(f"{value:8.1%}" for value in values))


if __name__ == "__main__":
    main()
