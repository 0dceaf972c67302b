"""Answers to questions on plain text, for people."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import nn

from model.tokenization_albert import AlbertTokenizer
from processors.span_decoding import SpanOptions, decode, null_odds, pack
from processors.span_windows import make_windows
from processors.spans import collate


@torch.inference_mode()
def answer(model: nn.Module, tokenizer: AlbertTokenizer, questions: Sequence[str],
           contexts: Sequence[str], batch_size: int = 32, max_length: int | None = None,
           doc_stride: int = 128, max_query_length: int = 64, max_answer_length: int = 30,
           n_best_size: int = 20, null_threshold: float = 0.0) -> list[dict[str, Any]]:
    """The best answer to each question, a part of its context.

    model: an `AlbertForQuestionAnswering`; it runs where it lies, in evaluation mode. Long
    contexts are read in windows; `max_answer_length` counts tokens (Chinese: about characters, so
    give more). null_threshold: of a v2 model, as in its eval_results.json.

    An answer is a dict: text, start and end (characters, `context[start:end]`), probability (among
    the `n_best_size` best spans). Models with the v2 head add null_odds, the log odds that there
    is no answer; the probability allows for them. No answer is the text "" at 0.
    Raises `TypeError` for a str instead of a sequence, `ValueError` where the lengths differ,
    `DataError` where the windows have no room for a context.
    """
    for name, texts in (("questions", questions), ("contexts", contexts)):
        if isinstance(texts, str):
            raise TypeError(f"{name} is a str, expected a sequence of them: [text]")
    if len(questions) != len(contexts):
        raise ValueError(f"{len(questions)} questions, but {len(contexts)} contexts; each question "
                         "needs one")
    if not len(questions):
        return []
    config = model.config
    options = SpanOptions(version_2=config.squad_head == "v2", start_n_top=config.start_n_top,
                          end_n_top=config.end_n_top, max_answer_length=max_answer_length)
    place = {context: number for number, context in enumerate(dict.fromkeys(contexts))}
    windows = make_windows(questions, [place[context] for context in contexts], list(place),
                           tokenizer, max_length or min(512, config.max_position_embeddings),
                           doc_stride, max_query_length)
    device, was_training = next(model.parameters()).device, model.training
    model.eval()
    width = int(windows.lengths.max())
    rows: list[Any] = [None] * len(windows)
    order = np.argsort(-windows.lengths, kind="stable").tolist()
    for at in range(0, len(order), batch_size):
        indices = order[at:at + batch_size]
        batch = collate([windows.features(i) for i in indices], tokenizer.pad_token_id)
        output = model(**{name: value.to(device) for name, value in batch.items()})
        for i, row in zip(indices, pack(output, width, options), strict=True):
            rows[i] = row
    model.train(was_training)
    outputs = np.stack(rows)
    results = []
    for best in decode(outputs, windows, list(place), options, n_best_size):
        top = {"text": "", "start": 0, "end": 0, "probability": 0.0} if not best else {
            "text": best[0].text, "start": best[0].start, "end": best[0].end,
            "probability": best[0].probability}
        results.append(top)
    if options.version_2:
        for result, odds in zip(results, null_odds(outputs, windows, options).tolist(),
                                strict=True):
            none = float(1 / (1 + np.exp(-odds)))  # the probability that there is no answer
            result["null_odds"] = odds
            if odds > null_threshold or not result["text"]:
                result |= {"text": "", "start": 0, "end": 0, "probability": none}
            else:
                result["probability"] *= 1 - none
    return results
