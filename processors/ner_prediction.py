"""Entities in plain text, for people: text in, entities with their characters out."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

from metrics.ner import entities
from model.tokenization_albert import CJK, AlbertTokenizer, SentencePieceTokenizer
from processors.ner import collate
from processors.ner_tags import markup_of_labels, tag_of_label
from processors.ner_windows import make_windows, spread_tags

# What CoNLL files count as a word: a run of letters and digits (with accents that stand alone), a
# single other mark; a Chinese character by itself.
_WORD = re.compile(f"[{CJK}]|(?:(?![{CJK}])[\\w\u0300-\u036f])+|[^\\w\\s]")
SPLITS = {"words": _WORD, "characters": re.compile(r"\S")}


@torch.inference_mode()
def find_entities(model: nn.Module, tokenizer: AlbertTokenizer, texts: Sequence[str],
                  batch_size: int = 32, max_length: int | None = None, split: str | None = None,
                  ) -> list[list[dict[str, Any]]]:
    """The entities of each text, in the order of the text.

    model: an `AlbertForTokenClassification` whose config names its labels; it runs where it lies,
    in evaluation mode. split: "words" or "characters", as the model was trained on; left out:
    words for SentencePiece (English), characters for WordPiece (Chinese). Long texts are read in
    windows, nothing is cut off but the end of single words longer than a window.

    An entity is a dict: text, type, start and end (characters, `text[start:end]`), probability
    (of its tags, the lowest among its words).
    Raises `DataError` where the model's labels are no tags, `ValueError` for an unknown split.
    """
    if isinstance(texts, str):
        raise TypeError("texts is a str, expected a sequence of them: [text]")
    labels = model.config.id2label or []
    markup_of_labels(labels, "the model's config")
    tags = [tag_of_label(label) for label in labels]
    if split is None:
        split = "words" if isinstance(tokenizer, SentencePieceTokenizer) else "characters"
    if split not in SPLITS:
        raise ValueError(f"split is {split!r}, expected one of {', '.join(SPLITS)}")
    places = [[match.span() for match in SPLITS[split].finditer(text)] for text in texts]
    words = [[text[start:end] for start, end in spans]
             for text, spans in zip(texts, places, strict=True)]
    made = make_windows(words, tokenizer, max_length or min(512,
                                                            model.config.max_position_embeddings))
    best = _run(model, made.windows, tokenizer.pad_token_id, batch_size)
    chosen: list[list[str]] = [[] for _ in texts]
    sure: list[dict[int, float]] = [{} for _ in texts]  # probability by word
    for window, (label_ids, probabilities) in zip(made.windows, best, strict=True):
        chosen[window.sentence] += [tags[label_ids[place]] for place in window.places]
        sure[window.sentence] |= {word: probabilities[place] for word, place in
                                  zip(window.words, window.places, strict=True)}
    results = []
    for text, spans, found, seen, known in zip(texts, places, chosen, made.seen, sure,
                                               strict=True):
        rows = []
        for kind, first, stop in entities(spread_tags(found, seen, len(spans))):
            start, end = spans[first][0], spans[stop - 1][1]
            rows.append({"text": text[start:end], "type": kind, "start": start, "end": end,
                         "probability": min(known[word] for word in range(first, stop)
                                            if word in known)})
        results.append(rows)
    return results


def _run(model: nn.Module, windows: Sequence[Any], pad_token_id: int, batch_size: int,
         ) -> list[tuple[list[int], list[float]]]:
    """The best label of each token and its probability, by window."""
    device = next(model.parameters()).device
    was_training = model.training
    model.eval()
    result: list[Any] = [None] * len(windows)
    order = sorted(range(len(windows)), key=lambda i: -len(windows[i].input_ids))
    for at in range(0, len(order), batch_size):
        indices = order[at:at + batch_size]
        batch = collate([{"input_ids": windows[i].input_ids} for i in indices], pad_token_id)
        logits = model(**{name: value.to(device) for name, value in batch.items()}).logits
        top = logits.float().softmax(-1).max(-1)  # (B, T, L) -> (B, T) twice
        for i, label_ids, values in zip(indices, top.indices.tolist(), top.values.tolist(),
                                        strict=True):
            result[i] = (label_ids, values)
    model.train(was_training)
    return result
