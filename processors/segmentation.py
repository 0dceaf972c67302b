"""Whole Chinese words: which tokens begin one, by jieba's segmentation.

Chinese is tokenised by character, and its vocabulary does not tell where words are; a model that
is to predict whole words needs them marked in the shards.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

import numpy as np

from model.tokenization_albert import AlbertTokenizer, TokenizerError

SEGMENTERS = ("none", "zh")


def require_jieba() -> None:
    """Raises `TokenizerError` where the package is missing."""
    try:
        import jieba
    except ImportError:
        raise TokenizerError("--whole_words zh needs the package jieba: pip install jieba"
                             ) from None
    jieba.setLogLevel(logging.WARNING)


def segmented(tokenizer: AlbertTokenizer, texts: Sequence[str],
              ) -> tuple[list[list[int]], list[np.ndarray]]:
    """Ids of each text without special tokens, and whether each begins a word (bool).

    A token belongs to the word in which it starts; the first token of each word begins it.
    """
    import jieba

    require_jieba()
    encoding = tokenizer(list(texts), return_offsets=True)
    ids, begins = [], []
    for text, row, offsets in zip(texts, encoding.input_ids, encoding.offsets, strict=True):
        starts = np.array([start for start, _ in offsets[1:-1]], np.int64)
        sizes = [len(word) for word in jieba.cut(text)]
        word_of_character = np.repeat(np.arange(len(sizes)), sizes)
        words = word_of_character[starts]
        ids.append(row[1:-1])
        begins.append(np.diff(words, prepend=-1) != 0)
    return ids, begins
