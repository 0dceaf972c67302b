"""Training a tokenizer on sentences of a corpus, with the official settings."""

from __future__ import annotations

import tempfile
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path

import sentencepiece

from model.tokenization_albert import (
    AlbertTokenizer,
    SentencePieceTokenizer,
    TokenizerError,
    WordPieceTokenizer,
)

USER_SYMBOLS = '(,),",-,.,–,£,€'


def train_sentencepiece(texts: Iterable[str], vocab_size: int, do_lower_case: bool = True,
                        ) -> AlbertTokenizer:
    """A unigram model as Google trained theirs (google-research/albert README).

    texts are cleaned as the tokenizer does before it is trained. Raises `TokenizerError` where
    there is too little text for the vocabulary.
    """
    with tempfile.TemporaryDirectory() as folder:
        source, prefix = Path(folder) / "text.txt", Path(folder) / "spiece"
        with source.open("w", encoding="utf-8") as file:
            for text in texts:
                text = unicodedata.normalize("NFKD", " ".join(text.split()))
                text = "".join(c for c in text if not unicodedata.combining(c))
                file.write((text.lower() if do_lower_case else text) + "\n")
        try:
            sentencepiece.SentencePieceTrainer.train(
                input=str(source), model_prefix=str(prefix), vocab_size=vocab_size,
                model_type="unigram", pad_id=0, unk_id=1, bos_id=-1, eos_id=-1,
                control_symbols="[CLS],[SEP],[MASK]", user_defined_symbols=USER_SYMBOLS,
                character_coverage=0.99995, max_sentence_length=16384, minloglevel=2)
        except RuntimeError as error:
            raise TokenizerError(f"--vocab_size {vocab_size}: SentencePiece cannot train it on "
                                 f"this text ({error}); give more text or a smaller vocabulary"
                                 ) from None
        return SentencePieceTokenizer(prefix.with_suffix(".model"), do_lower_case)


def train_characters(texts: Iterable[str], vocab_size: int, do_lower_case: bool = True,
                     ) -> AlbertTokenizer:
    """A WordPiece vocabulary of the commonest characters, alone and as the rest of a word.

    What published Chinese vocabularies mostly are: Chinese is masked and read by character.
    """
    counts: Counter[str] = Counter()
    for text in texts:
        counts.update((text.lower() if do_lower_case else text).replace(" ", ""))
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    tokens: list[str] = []
    for character, _ in counts.most_common():
        if character.isspace() or unicodedata.category(character).startswith("C"):
            continue
        tokens.append(character)
        if character.isascii() and character.isalnum():
            tokens.append(f"##{character}")
    tokens = tokens[:vocab_size - len(special)]
    if not tokens:
        raise TokenizerError("no character to make a vocabulary of: the text is empty")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "vocab.txt"
        path.write_text("\n".join(special + tokens) + "\n", encoding="utf-8")
        return WordPieceTokenizer(path, do_lower_case)


TRAINERS: dict[str, Callable[[Iterable[str], int, bool], AlbertTokenizer]] = {
    "sentencepiece": train_sentencepiece,
    "wordpiece": train_characters,
}
