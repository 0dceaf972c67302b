"""Both tokenizers against the official references and against slow, literal rules written here."""

from __future__ import annotations

import json
import pickle
import random
import re
import string
import unicodedata
from pathlib import Path

import numpy as np
import pytest
import sentencepiece

from model import tokenization_sentencepiece, tokenization_wordpiece
from model.tokenization_albert import (
    AlbertTokenizer,
    SentencePieceTokenizer,
    TokenizerError,
    WordPieceTokenizer,
)
from model.tokenization_encoding import kept_lengths

FIXTURES = Path(__file__).parent / "fixtures"
ENGLISH = FIXTURES / "tokenizer_english" / "spiece.model"  # trained on Jane Austen and on numbers
CHINESE = FIXTURES / "tokenizer_chinese" / "vocab.txt"
BOTH = [SentencePieceTokenizer(ENGLISH), WordPieceTokenizer(CHINESE)]

POOLS = [
    *string.ascii_lowercase * 2, *"ABCXYZ", *string.digits * 2, *",,,,..''``\"-()[]{}#_",
    *"           ", *"\t\n\r\v\f\x1c\x85\u00a0\u2009\u2028\u2029\u3000\u1680",
    *"\x00\x01\x07\x1b\x7f\u200b\u200c\u200d\u2060\ufeff\u00ad\ufffd\u061c",
    *"éèüßñøåÅçĄŐǅﬁﬀŉǰẛΐ", *"\u0301\u0308\u0327\u0338\u0345\u05b0\u0e38\u302e\u0903",
    *"ΑΣΣσςΟ΄·ſKÅİıẞ", *"我们的一是不了人在有他这中大来上国，。！？：；「」『』（）《》、…—",
    *"\u3400\u9fa6豈﨎\U00020000\U0002a6d6\U0002b740\U0002b820\U0002b919\U0002f800\U0003134a",
    *"のテキスト漢ゔが゙", *"한국어\u1112\u1161\u11ab", *"ＡＢｃ１２，．％", *"½²℃㎏ⅣŒ™①㍿",
    *"\u2260\u037e\u1fef",
    *"😀👍🏽👨\ufe0f❤🇨🇳", *"العربية٣٤، עברית हिन्दी ไทย", *"\ue000\ue001\U000f0000\u0378\U000e0001",
    "▁", "[MASK]", "[SEP]", "<unk>", "<pad>", "##", "2010,", " 9,", " 7,", "x7,", "the ", " model",
]


def random_texts(seed: int, count: int) -> list[str]:
    rng = random.Random(seed)
    texts = ["", " ", "\u200b", "\u0301", "a" * 199, "a" * 200, "a" * 201, "é" * 201, "的" * 300]
    while len(texts) < count:
        pool = rng.choices(POOLS, k=rng.randint(1, 12)) + list("ab ,9")  # a few at a time, often
        texts.append("".join(rng.choices(pool, k=rng.choice([1, 2, 3, 8, 30]))))
    return texts


# The official rules, one character at a time.


def slow_preprocess(text: str, lower: bool, strip: bool) -> str:
    text = " ".join(text.strip().split())
    if strip:
        decomposed = unicodedata.normalize("NFKD", text)
        text = "".join(c for c in decomposed if not unicodedata.combining(c))
    return text.lower() if lower else text


def slow_sentencepieces(model: sentencepiece.SentencePieceProcessor, text: str) -> list[str]:
    result = []
    for piece in model.encode(text, out_type=str):
        if len(piece) > 1 and piece[-1] == "," and piece[-2].isdigit():
            parts = model.encode(piece[:-1].replace("▁", ""), out_type=str)
            if piece[0] != "▁" and parts[0][0] == "▁":
                parts[0] = parts[0][1:]
                if not parts[0]:
                    del parts[0]
            result += [*parts, ","]
        else:
            result.append(piece)
    return result


def is_official_control(c: str) -> bool:
    return c not in "\t\n\r" and unicodedata.category(c) in ("Cc", "Cf")


def is_official_space(c: str) -> bool:
    return c in " \t\n\r" or unicodedata.category(c) == "Zs"


def is_official_punctuation(c: str) -> bool:
    code = ord(c)
    ascii_mark = 33 <= code <= 47 or 58 <= code <= 64 or 91 <= code <= 96 or 123 <= code <= 126
    return ascii_mark or unicodedata.category(c)[0] == "P"


def is_official_chinese(c: str) -> bool:
    blocks = [(0x4E00, 0x9FFF), (0x3400, 0x4DBF), (0x20000, 0x2A6DF), (0x2A700, 0x2B73F),
              (0x2B740, 0x2B81F), (0x2B820, 0x2CEAF), (0xF900, 0xFAFF), (0x2F800, 0x2FA1F)]
    return any(first <= ord(c) <= last for first, last in blocks)


def slow_words(text: str, lower: bool, strip: bool) -> list[str]:
    cleaned = ""
    for c in text:
        if c in "\0\ufffd" or is_official_control(c):
            continue
        if is_official_space(c):
            c = " "
        cleaned += f" {c} " if is_official_chinese(c) else c
    words = []
    for token in cleaned.split():
        if lower:
            token = token.lower()
        if strip:
            decomposed = unicodedata.normalize("NFD", token)
            token = "".join(c for c in decomposed if unicodedata.category(c) != "Mn")
        words += "".join(f" {c} " if is_official_punctuation(c) else c for c in token).split()
    return words


def slow_wordpieces(vocabulary: set[str], word: str) -> list[str]:
    if len(word) > 200:
        return ["[UNK]"]
    pieces: list[str] = []
    while word:
        for length in range(len(word), 0, -1):
            piece = ("##" if pieces else "") + word[:length]
            if piece in vocabulary:
                break
        else:
            return ["[UNK]"]
        pieces.append(piece)
        word = word[length:]
    return pieces


def check_sentencepiece(file: Path, texts: list[str], lower: bool, strip: bool) -> None:
    tokenizer = SentencePieceTokenizer(file, lower, strip)
    model = sentencepiece.SentencePieceProcessor(model_file=str(file))
    rows = tokenizer.encode_batch(texts)
    for text, ids in zip(texts, rows, strict=True):
        pieces = slow_sentencepieces(model, slow_preprocess(text, lower, strip))
        assert tokenizer.tokenize(text) == pieces, ascii(text)
        # One difference, meant: an unknown piece that is spelled like "[MASK]" stays unknown.
        slow_ids = [model.unk_id() if model.is_control(i) else i for i in model.piece_to_id(pieces)]
        assert ids == slow_ids, ascii(text)


def check_wordpiece(file: Path, texts: list[str], lower: bool, strip: bool) -> None:
    tokenizer = WordPieceTokenizer(file, lower, strip)
    vocabulary = set(tokenizer.tokens)
    for text, ids in zip(texts, tokenizer.encode_batch(texts), strict=True):
        words = slow_words(text, lower, strip)
        pieces = [piece for word in words for piece in slow_wordpieces(vocabulary, word)]
        assert tokenizer.convert_ids_to_tokens(ids) == pieces, ascii(text)


SETTINGS = [(True, True), (False, False), (True, False), (False, True)]


def test_sentencepiece_equals_the_official_tokenizer(shared):
    # The official class splits only; cleaning is another function there, so it is off here.
    file = shared("data/vocab/spiece.model")
    tokenizer = SentencePieceTokenizer(file, do_lower_case=False, strip_accents=False)
    cases = json.loads(shared("reference/tokenizer_sentencepiece.json").read_text("utf-8"))["cases"]
    for case in cases:
        assert tokenizer.tokenize(case["text"]) == case["tokens"]
    assert tokenizer.encode_batch([c["text"] for c in cases]) == [c["ids"] for c in cases]


def test_wordpiece_equals_the_official_tokenizer(shared):
    file = shared("data/vocab/zh_vocab_21128.txt")
    cases = json.loads(shared("reference/tokenizer_wordpiece.json").read_text("utf-8"))["cases"]
    for lower in (True, False):
        tokenizer = WordPieceTokenizer(file, do_lower_case=lower)
        chosen = [case for case in cases if case["do_lower_case"] == lower]
        assert tokenizer.encode_batch([c["text"] for c in chosen]) == [c["ids"] for c in chosen]
        assert [tokenizer.tokenize(c["text"]) for c in chosen] == [c["tokens"] for c in chosen]


@pytest.mark.parametrize(("lower", "strip"), SETTINGS)
def test_sentencepiece_equals_the_slow_rules(lower, strip):
    check_sentencepiece(ENGLISH, random_texts(seed=1, count=1500), lower, strip)


@pytest.mark.parametrize(("lower", "strip"), SETTINGS)
def test_wordpiece_equals_the_slow_rules(lower, strip):
    check_wordpiece(CHINESE, random_texts(seed=2, count=1500), lower, strip)


def test_the_public_vocabularies_equal_the_slow_rules(shared):
    texts = random_texts(seed=3, count=1500)
    check_sentencepiece(shared("data/vocab/spiece.model"), texts, lower=True, strip=True)
    check_wordpiece(shared("data/vocab/zh_vocab_21128.txt"), texts, lower=True, strip=True)


def test_what_wordpiece_cuts_off_before_cleaning_is_a_word_of_its_own():
    """The classes of the fast pattern, checked for every character that Python knows."""
    single = re.compile(f"[{tokenization_wordpiece.CJK}{tokenization_wordpiece.MARKS}]")
    white = re.compile(f"[{tokenization_wordpiece.WHITE}]")
    for c in map(chr, range(0x110000)):
        if single.match(c):
            lowered = unicodedata.normalize("NFD", c.lower())
            alone = is_official_chinese(c) or all(map(is_official_punctuation, lowered))
            assert alone and is_official_punctuation(c) != is_official_chinese(c), ascii(c)
        separates = (is_official_space(c) or c.isspace()) and not is_official_control(c)
        assert bool(white.match(c)) == separates, ascii(c)


@pytest.mark.slow
@pytest.mark.parametrize(("lower", "strip"), SETTINGS)
def test_every_character_equals_the_slow_rules(lower, strip):
    nameless = ("Cn", "Co", "Cs")  # unassigned, private, surrogate: a few stand for all
    named = [c for c in map(chr, range(0x110000)) if unicodedata.category(c) not in nameless]
    texts = [f"a{c}b {c}" for c in [*named, "\u0378", "\ue123", "\U00100000"]]
    check_wordpiece(CHINESE, texts, lower, strip)
    tokenizer = SentencePieceTokenizer(ENGLISH, lower, strip)
    for text in texts:
        assert tokenizer.model._clean(text) == slow_preprocess(text, lower, strip), ascii(text)


def test_the_memory_of_words_is_bounded(monkeypatch):
    monkeypatch.setattr(tokenization_wordpiece, "MAX_CACHED_WORDS", 5)
    tokenizer = WordPieceTokenizer(CHINESE)
    texts = [f"{first}{second} " + "z" * 300 for first in "abcd" for second in "abcd"]
    again = WordPieceTokenizer(CHINESE)
    assert tokenizer.encode_batch(texts) == [again.encode_batch([text])[0] for text in texts]
    remembered = tokenizer.model._ids_of_word
    assert len(remembered) <= 5 and max(map(len, remembered)) <= 200


def test_few_texts_and_many_take_different_ways_to_the_same_ids():
    tokenizer = SentencePieceTokenizer(ENGLISH)
    texts = random_texts(seed=4, count=100)
    assert tokenizer.encode_batch(texts) == [tokenizer.encode_batch([text])[0] for text in texts]


def test_halves_of_surrogate_pairs_do_not_stop_a_corpus():
    texts = ["broken \ud83d emoji"] * 40  # what JSON with a cut-off escape holds
    for tokenizer in BOTH:
        assert len(tokenizer.encode_batch(texts)) == 40
        encoding = tokenizer(texts[0], return_offsets=True)
        slices = [texts[0][start:end] for start, end in encoding.offsets[0]]
        assert "\ud83d" in slices or isinstance(tokenizer, SentencePieceTokenizer)
        assert "".join(slices).startswith("broken") and "".join(slices).endswith("emoji")


# Numbers, case and accents


def test_row_12_a_comma_after_digits_is_a_piece_of_its_own():
    tokenizer = SentencePieceTokenizer(ENGLISH)
    assert {"▁12,", "7,"} <= set(tokenizer.tokens)  # pieces that the rule must take apart
    assert tokenizer.tokenize("on 12, x7,") == ["▁on", "▁", "1", "2", ",", "▁", "x", "7", ","]
    ids = tokenizer.encode_batch(["on 12, x7,"])[0]
    assert not {"▁12,", "7,"} & set(tokenizer.convert_ids_to_tokens(ids))


def test_public_model_splits_commas(shared):
    tokenizer = SentencePieceTokenizer(shared("data/vocab/spiece.model"))
    assert tokenizer.tokenize("3.0, and 9,") == ["▁3", ".", "0", ",", "▁and", "▁9", ","]


@pytest.mark.parametrize("tokenizer_class, file", [
    (SentencePieceTokenizer, ENGLISH), (WordPieceTokenizer, CHINESE),
])
def test_rows_13_and_14_case_and_accents_as_told_and_saved(tokenizer_class, file, tmp_path):
    for lower, strip in SETTINGS:
        tokenizer = tokenizer_class(file, do_lower_case=lower, strip_accents=strip)
        folder = tmp_path / f"{lower}{strip}"
        tokenizer.save_pretrained(folder)
        again = AlbertTokenizer.from_pretrained(folder)
        assert type(again) is tokenizer_class
        assert (again.do_lower_case, again.strip_accents) == (lower, strip)
        assert again.fingerprint() == tokenizer.fingerprint()
        for text, changes in (("Model", lower), ("café", strip)):
            plain = text.lower().replace("é", "e")
            same = again.encode_batch([text]) == again.encode_batch([plain])
            assert same == changes, (text, lower, strip)


def test_defaults_are_the_official_ones():
    assert SentencePieceTokenizer(ENGLISH, do_lower_case=False).strip_accents
    assert not WordPieceTokenizer(CHINESE, do_lower_case=False).strip_accents
    assert WordPieceTokenizer(CHINESE).strip_accents and WordPieceTokenizer(CHINESE).do_lower_case


def test_an_argument_beats_the_saved_setting_and_says_so(tmp_path, caplog):
    SentencePieceTokenizer(ENGLISH, do_lower_case=False).save_pretrained(tmp_path)
    assert not AlbertTokenizer.from_pretrained(tmp_path).do_lower_case
    assert not caplog.records
    assert AlbertTokenizer.from_pretrained(tmp_path, do_lower_case=True).do_lower_case
    assert "do_lower_case" in caplog.text


def test_settings_of_the_hugging_face_layout_are_understood(tmp_path):
    (tmp_path / "spiece.model").write_bytes(ENGLISH.read_bytes())
    settings = tmp_path / "tokenizer_config.json"
    settings.write_text('{"keep_accents": true, "do_lower_case": null, "model_max_length": 512}')
    tokenizer = AlbertTokenizer.from_pretrained(tmp_path)
    assert tokenizer.do_lower_case and not tokenizer.strip_accents
    for text, complaint in [
        ("{", "not a JSON"), ("[]", "braces"), ('{"do_lower_case": "yes"}', "'yes'"),
        ('{"keep_accents": true, "strip_accents": true}', "both"),
    ]:
        settings.write_text(text)
        with pytest.raises(TokenizerError, match=complaint) as error:
            AlbertTokenizer.from_pretrained(tmp_path)
        assert "tokenizer_config.json" in str(error.value)


# Offsets


def visible(text: str) -> str:
    return text.replace("ς", "σ")  # a slice has lost what decided the form of its last sigma


def check_offsets(tokenizer: AlbertTokenizer, texts: list[str]) -> None:
    """Each slice holds the text of its piece, in order, and nothing that counts is left out."""
    encoding = tokenizer(texts, return_offsets=True)
    assert [ids[1:-1] for ids in encoding.input_ids] == tokenizer.encode_batch(texts)
    for text, ids, offsets in zip(texts, encoding.input_ids, encoding.offsets, strict=True):
        assert len(ids) == len(offsets) and offsets[0] == offsets[-1] == (0, 0)
        covered = [False] * len(text)
        before = (0, 0)
        for index, (start, end) in zip(ids[1:-1], offsets[1:-1], strict=True):
            assert 0 <= start <= end <= len(text), ascii(text)
            assert before[0] <= start and before[1] <= max(end, before[1]), ascii(text)
            before = (start, end)
            covered[start:end] = [True] * (end - start)
            piece = tokenizer.tokens[index].removeprefix("##").lstrip("▁")
            if index != tokenizer.unk_token_id:
                found = visible("".join(normalised_pieces(tokenizer, text[start:end])))
                assert visible(piece) in found, (ascii(text), piece, start, end)
            else:
                assert start < end
        left_out = "".join(c for c, seen in zip(text, covered, strict=True) if not seen)
        assert not "".join(normalised_pieces(tokenizer, left_out)), ascii(text)


def normalised_pieces(tokenizer: AlbertTokenizer, text: str) -> list[str]:
    settings = (tokenizer.do_lower_case, tokenizer.strip_accents)
    if isinstance(tokenizer, WordPieceTokenizer):
        return slow_words(text, *settings)
    text = tokenizer.model._processor.normalize(slow_preprocess(text, *settings))
    return [text.replace("▁", "")]


@pytest.mark.parametrize(("lower", "strip"), SETTINGS)
def test_offsets_of_random_texts(lower, strip):
    texts = random_texts(seed=5, count=700)
    check_offsets(WordPieceTokenizer(CHINESE, lower, strip), texts)
    check_offsets(SentencePieceTokenizer(ENGLISH, lower, strip), texts)


def test_offsets_count_the_callers_characters():
    text = "  The ﬁrst\tcafe\u0301,  ＡＢ ½ İ e\u0301\u0327nd 12, "
    tokenizer = SentencePieceTokenizer(ENGLISH)
    encoding = tokenizer(text, return_offsets=True)
    slices = [text[start:end] for start, end in encoding.offsets[0]]
    assert "".join(slices) == "Theﬁrstcafe\u0301,ＡＢ½½½İe\u0301\u0327nd12,".replace(
        "½½½", "½" * slices.count("½"))
    word_piece = WordPieceTokenizer(CHINESE)
    text = "我ALBERT\u200b 模型２é豈cafe\u0301…"
    encoding = word_piece(text, return_offsets=True)
    pairs = [(word_piece.tokens[i], text[a:b])
             for i, (a, b) in zip(encoding.input_ids[0], encoding.offsets[0], strict=True)]
    assert pairs == [
        ("[CLS]", ""), ("我", "我"), ("al", "AL"), ("##bert", "BERT\u200b"), ("模", "模"),
        ("型", "型"), ("[UNK]", "２é"), ("[UNK]", "豈"), ("cafe", "cafe\u0301"), ("…", "…"),
        ("[SEP]", ""),
    ]


def test_a_lone_space_piece_covers_nothing():
    tokenizer = SentencePieceTokenizer(ENGLISH)
    text = "the 我 of"
    encoding = tokenizer(text, return_offsets=True)
    assert tokenizer.tokens[encoding.input_ids[0][2]] == "▁"
    assert encoding.offsets[0][1:4] == [(0, 3), (4, 4), (4, 5)]


def answers(file: Path) -> list[tuple[str, int, int]]:
    rows = []
    for article in json.loads(file.read_text("utf-8"))["data"]:
        for paragraph in article["paragraphs"]:
            for question in paragraph["qas"]:
                for answer in question["answers"]:
                    start = answer["answer_start"]
                    rows.append((paragraph["context"], start, start + len(answer["text"])))
    return rows


@pytest.mark.parametrize("data, vocabulary", [
    ("xquad/xquad.en.json", "spiece.model"),
    ("xquad/xquad.zh.json", "zh_vocab_21128.txt"),
    ("cmrc2018/cmrc2018_trial.json", "zh_vocab_21128.txt"),
    ("cmrc2018/cmrc2018_dev.json", "zh_vocab_21128.txt"),
])
def test_gold_answers_lie_inside_their_tokens(shared, data, vocabulary):
    file = shared(f"data/vocab/{vocabulary}")
    known = SentencePieceTokenizer if vocabulary == "spiece.model" else WordPieceTokenizer
    rows = answers(shared(f"data/{data}"))
    contexts = sorted({context for context, _, _ in rows})
    encoding = known(file)(contexts, return_offsets=True)
    offsets_of = dict(zip(contexts, encoding.offsets, strict=True))
    assert len(rows) > 1000
    for context, start, end in rows:
        touched = [(a, b) for a, b in offsets_of[context] if a < end and start < b]
        covered = context[touched[0][0] : touched[-1][1]]
        assert context[start:end].strip() in covered
        # Tight: without its first or its last token the answer is not covered any more.
        assert touched[0][1] > start and touched[-1][0] < end


# Sequences and lengths


def test_layout_of_single_texts_and_pairs():
    tokenizer = WordPieceTokenizer(CHINESE)
    cls, sep = tokenizer.cls_token_id, tokenizer.sep_token_id
    encoding = tokenizer(["我们", ""], ["的", "一是"])
    [[a, b], [], [c], [d, e]] = tokenizer.encode_batch(["我们", "", "的", "一是"])
    assert encoding.input_ids == [[cls, a, b, sep, c, sep], [cls, sep, d, e, sep]]
    assert encoding.token_type_ids == [[0, 0, 0, 0, 1, 1], [0, 0, 1, 1, 1]]
    assert encoding.lengths == [(2, 1), (0, 2)] and encoding.truncated == 0
    assert encoding.offsets is None and len(encoding) == 2
    single = tokenizer("我们")
    assert single.input_ids == [[cls, a, b, sep]] and single.token_type_ids == [[0, 0, 0, 0]]
    assert len(tokenizer([])) == 0 and tokenizer([], []).input_ids == []


def test_truncation_is_counted_and_equals_popping_from_the_longer():
    for first in range(9):
        for second in range(9):
            for budget in range(12):
                a, b = list(range(first)), list(range(second))
                while len(a) + len(b) > budget:
                    (a if len(a) > len(b) else b).pop()
                [kept] = kept_lengths([(first, second)], budget, "longest_first")
                assert kept == (len(a), len(b))
    tokenizer = WordPieceTokenizer(CHINESE)
    encoding = tokenizer(["我" * 600, "我", "我" * 509], ["的" * 4, "的", ""], max_length=512,
                         return_offsets=True)
    assert encoding.truncated == 1 and [len(ids) for ids in encoding.input_ids] == [512, 5, 512]
    assert encoding.lengths == [(505, 4), (1, 1), (509, 0)]
    assert [len(row) for row in encoding.offsets] == [512, 5, 512]
    assert [len(row) for row in encoding.token_type_ids] == [512, 5, 512]
    assert encoding.offsets[0][-5:] == [(0, 1), (1, 2), (2, 3), (3, 4), (0, 0)]


def test_truncation_of_one_side_or_none():
    tokenizer = WordPieceTokenizer(CHINESE)
    texts, pairs = ["我" * 10], ["的" * 10]
    assert tokenizer(texts, pairs, 15, "only_first").lengths == [(2, 10)]
    assert tokenizer(texts, pairs, 15, "only_second").lengths == [(10, 2)]
    assert tokenizer(texts, max_length=5, truncation="only_first").lengths == [(3, 0)]
    assert tokenizer(texts, pairs, 23, False).truncated == 0
    for wrong in [("only_second", 10), ("only_first", 12), (False, 22)]:
        with pytest.raises(ValueError, match="10 \\+ 10 tokens"):
            tokenizer(texts, pairs, wrong[1], wrong[0])


def test_wrong_calls_are_refused_before_work():
    tokenizer = WordPieceTokenizer(CHINESE)
    with pytest.raises(ValueError, match="2 texts but 1 pairs"):
        tokenizer(["a", "b"], ["c"])
    with pytest.raises(ValueError, match="max_length is 2"):
        tokenizer("a", max_length=2)
    with pytest.raises(ValueError, match="'longest'"):
        tokenizer("a", truncation="longest")
    with pytest.raises(ValueError, match="needs pairs"):
        tokenizer("a", truncation="only_second")
    with pytest.raises(TypeError, match=r"pairs\[1\] is nan"):
        tokenizer(["a", "b"], ["c", float("nan")])
    with pytest.raises(TypeError, match=r"texts\[0\] is None"):
        tokenizer.encode_batch([None])


# Special tokens, word starts, ordinary tokens


@pytest.mark.parametrize("tokenizer", BOTH)
def test_special_tokens_in_text_are_characters_unless_asked_for(tokenizer):
    text = f"the {tokenizer.mask_token}, of {tokenizer.sep_token}"
    [plain] = tokenizer.encode_batch([text])
    assert not set(plain) & (set(tokenizer.special_ids.tolist()) - {tokenizer.unk_token_id})
    encoding = tokenizer(text, special_in_text=True, return_offsets=True)
    the, comma, of = (tokenizer.encode_batch([t])[0] for t in ("the", "x,", "of"))
    assert encoding.input_ids[0] == [
        tokenizer.cls_token_id, *the, tokenizer.mask_token_id, comma[-1], *of,
        tokenizer.sep_token_id, tokenizer.sep_token_id,
    ]
    slices = [text[start:end] for start, end in encoding.offsets[0]]
    assert "".join(slices) == text.replace(" ", "") and tokenizer.mask_token in slices
    assert tokenizer(text, special_in_text=True).input_ids == encoding.input_ids


def test_sentencepiece_word_starts_by_the_official_rule():
    marks = set('!"#$%&()*+,-./:;?@[\\]^_`{|}~')
    tokenizer = SentencePieceTokenizer(ENGLISH)
    made_up = ["it's", "a=b", "<s", "x<y", "Ab", "a,b", "--", "é", "aé", "1", "a1", "!", "₤"]
    for piece in tokenizer.tokens + made_up:
        continues = all(c.lower() in string.ascii_lowercase or c in marks for c in piece)
        expected = piece[0] in "▁<" or piece in marks or not continues
        assert tokenization_sentencepiece._starts_word(piece) == expected, piece


def test_word_starts_of_the_public_model(shared):
    tokenizer = SentencePieceTokenizer(shared("data/vocab/spiece.model"))
    starts = dict(zip(tokenizer.tokens, tokenizer.starts_word.tolist(), strict=True))
    for piece in ("▁the", "▁", ".", ",", "(", "£", "€", "'", "345", "5%", "[CLS]", "<unk>"):
        assert starts[piece], piece
    for piece in ("s", "ing", "ed", "ello", "++"):
        assert not starts[piece], piece
    assert tokenizer.starts_word.shape == (30000,) and tokenizer.starts_word.dtype == bool


def test_wordpiece_word_starts():
    tokenizer = WordPieceTokenizer(CHINESE)
    for token, starts in zip(tokenizer.tokens, tokenizer.starts_word.tolist(), strict=True):
        assert starts != token.startswith("##")


@pytest.mark.parametrize("tokenizer", BOTH)
def test_ordinary_tokens_are_neither_special_nor_unused(tokenizer):
    ordinary = {tokenizer.tokens[i] for i in tokenizer.ordinary_ids.tolist()}
    special = {tokenizer.tokens[i] for i in tokenizer.special_ids.tolist()}
    assert len(special) == 5 and special == set(tokenizer.special_tokens.values())
    assert not ordinary & (special | {"[unused1]", "[unused2]", "<S>", "<T>"})
    assert {"the", "▁the"} & ordinary and {"[", "▁"} & ordinary
    assert len(ordinary) >= len(tokenizer) - 10
    assert tokenizer.ordinary_ids.dtype == tokenizer.special_ids.dtype == np.int64


def test_ids_tokens_and_text_convert_back():
    tokenizer = WordPieceTokenizer(CHINESE)
    ids = tokenizer("我们的ALBERT model，大国。").input_ids[0]
    assert tokenizer.decode(ids) == "我们的 albert model，大国。"
    assert tokenizer.decode(ids, skip_special_tokens=False).startswith("[CLS] 我们")
    assert tokenizer.convert_tokens_to_ids(tokenizer.convert_ids_to_tokens(ids)) == ids
    assert tokenizer.convert_tokens_to_ids(["[MASK]", "nosuchtoken"]) == [
        tokenizer.mask_token_id, tokenizer.unk_token_id]
    english = SentencePieceTokenizer(ENGLISH)
    assert english.decode(english("The  most, of Emma").input_ids[0]) == "the most, of emma"


def test_fingerprint_follows_file_and_settings(tmp_path):
    prints = {
        SentencePieceTokenizer(ENGLISH, lower, strip).fingerprint() for lower, strip in SETTINGS
    } | {WordPieceTokenizer(CHINESE, lower, strip).fingerprint() for lower, strip in SETTINGS}
    other = tmp_path / "vocab.txt"
    other.write_bytes(CHINESE.read_bytes() + "龘\n".encode())
    assert len(prints | {WordPieceTokenizer(other).fingerprint()}) == 9
    copy = tmp_path / "vocab_copy.txt"
    copy.write_bytes(CHINESE.read_bytes())
    assert WordPieceTokenizer(copy).fingerprint() in prints


@pytest.mark.parametrize("tokenizer", BOTH)
def test_a_worker_process_gets_the_same_tokenizer(tokenizer):
    texts = random_texts(seed=6, count=60)
    again = pickle.loads(pickle.dumps(tokenizer))
    assert again.encode_batch(texts) == tokenizer.encode_batch(texts)
    assert again.fingerprint() == tokenizer.fingerprint() and again.file == tokenizer.file


# Which file is taken


def test_row_10_the_class_is_chosen_by_what_is_there(tmp_path):
    english, chinese = ENGLISH.read_bytes(), CHINESE.read_bytes()
    for name, data, known in [
        ("spiece.model", english, SentencePieceTokenizer),
        ("30k-clean.model", english, SentencePieceTokenizer),
        ("assets/30k-clean.model", english, SentencePieceTokenizer),
        ("vocab.txt", chinese, WordPieceTokenizer),
        ("vocab_chinese.txt", chinese, WordPieceTokenizer),
        ("vocab_small.txt", chinese, WordPieceTokenizer),
    ]:
        folder = tmp_path / name.replace("/", "_")
        (folder / name).parent.mkdir(parents=True)
        (folder / name).write_bytes(data)
        (folder / "30k-clean.vocab").write_text("the listing beside a model is no vocabulary")
        tokenizer = AlbertTokenizer.from_pretrained(folder)
        assert type(tokenizer) is known and tokenizer.file == folder / name


def test_an_argument_names_the_file(tmp_path):
    named = AlbertTokenizer.from_pretrained(tmp_path, vocab_file=CHINESE)
    assert type(named) is WordPieceTokenizer
    # As in the official scripts, where the listing is named beside the model.
    named = AlbertTokenizer.from_pretrained(
        None, vocab_file="30k-clean.vocab", spm_model_file=ENGLISH)
    assert type(named) is SentencePieceTokenizer
    SentencePieceTokenizer(ENGLISH).save_pretrained(tmp_path)
    named = AlbertTokenizer.from_pretrained(tmp_path, vocab_file=CHINESE, spm_model_file="")
    assert type(named) is WordPieceTokenizer


def test_two_tokenizers_in_a_folder_are_not_guessed_between(tmp_path):
    (tmp_path / "spiece.model").write_bytes(ENGLISH.read_bytes())
    (tmp_path / "vocab.txt").write_bytes(CHINESE.read_bytes())
    with pytest.raises(TokenizerError, match="spiece.model and vocab.txt"):
        AlbertTokenizer.from_pretrained(tmp_path)
    assert type(WordPieceTokenizer.from_pretrained(tmp_path)) is WordPieceTokenizer
    (tmp_path / "tokenizer_config.json").write_text('{"tokenizer_class": "BertTokenizer"}')
    assert type(AlbertTokenizer.from_pretrained(tmp_path)) is WordPieceTokenizer
    (tmp_path / "vocab.txt").unlink()
    (tmp_path / "other.model").write_bytes(b"")
    assert type(AlbertTokenizer.from_pretrained(tmp_path)) is SentencePieceTokenizer  # its own name
    (tmp_path / "spiece.model").rename(tmp_path / "a.model")
    with pytest.raises(TokenizerError, match="a.model, other.model"):
        AlbertTokenizer.from_pretrained(tmp_path)


@pytest.mark.parametrize("files, message", [
    ([], "found an empty folder"),
    (["config.json", "model.safetensors"], "found config.json, model.safetensors"),
    (["30k-clean.vocab"], "30k-clean.vocab only lists the pieces; SentencePiece needs the .model"),
    (["tokenizer.json", "config.json"], "put the spiece.model .* or the vocab.txt"),
])
def test_row_10_a_folder_without_a_tokenizer_is_an_error_that_lists_it(tmp_path, files, message):
    for name in files:
        (tmp_path / name).write_text("{}")
    with pytest.raises(TokenizerError, match=message):
        AlbertTokenizer.from_pretrained(tmp_path)


@pytest.mark.parametrize("arguments, message", [
    ({"folder": "missing"}, "no folder missing"),
    ({"folder": None}, "spm_model_file or vocab_file"),
    ({"folder": None, "vocab_file": "missing.txt"}, "vocab_file: there is no file missing.txt"),
    ({"folder": None, "spm_model_file": "missing.model"}, "spm_model_file: there is no file"),
    ({"folder": None, "vocab_file": ENGLISH}, "as spm_model_file"),
])
def test_wrong_arguments_name_themselves(arguments, message):
    with pytest.raises(TokenizerError, match=message):
        AlbertTokenizer.from_pretrained(**arguments)


@pytest.mark.parametrize("data, message", [
    (b"[PAD]\n[UNK]\n\xff\xfe\n", "vocab.txt, line 3: not UTF-8"),
    (CHINESE.read_bytes() + "的\n".encode(), r"'的' stands on lines \d+ and 1065"),
    (b"[PAD]\n[UNK]\n[CLS]\nthe\n", r"4 lines without \[SEP\], \[MASK\]"),
    (b"", r"without \[PAD\]"),
])
def test_damaged_vocabularies_are_refused(tmp_path, data, message):
    file = tmp_path / "vocab.txt"
    file.write_bytes(data)
    with pytest.raises(TokenizerError, match=message):
        AlbertTokenizer.from_pretrained(tmp_path)


@pytest.mark.parametrize("change", [
    lambda data: data.replace(b"\n", b"\r\n"),
    lambda data: b"\xef\xbb\xbf" + data,
    lambda data: data.rstrip(b"\n"),
    lambda data: data + b"\n\n",
])
def test_line_ends_and_marks_of_editors_do_not_move_ids(tmp_path, change):
    file = tmp_path / "vocab.txt"
    file.write_bytes(change(CHINESE.read_bytes()))
    lines = CHINESE.read_bytes().decode().split("\n")[:-1]  # one of them is U+2028
    tokenizer = WordPieceTokenizer(file)
    assert tokenizer.tokens == lines and lines.index("的") == tokenizer.encode_batch(["的"])[0][0]


def test_damaged_or_foreign_sentencepiece_models_are_refused(tmp_path):
    file = tmp_path / "spiece.model"
    for data in (b"", b"version https://git-lfs", ENGLISH.read_bytes()[:100_000]):
        file.write_bytes(data)
        with pytest.raises(TokenizerError, match="spiece.model: not a SentencePiece model"):
            AlbertTokenizer.from_pretrained(tmp_path)
    text = tmp_path / "text"
    text.write_text("the cat sat on the mat\n" * 50)
    sentencepiece.SentencePieceTrainer.train(
        input=str(text), model_prefix=str(tmp_path / "spiece"), vocab_size=15,
        hard_vocab_limit=False, minloglevel=2)
    with pytest.raises(TokenizerError, match=r"has no piece <pad>, \[CLS\], \[SEP\], \[MASK\]"):
        AlbertTokenizer.from_pretrained(tmp_path)


def test_row_11_vocabulary_and_config_must_agree():
    tokenizer = WordPieceTokenizer(CHINESE)
    tokenizer.check_config(len(tokenizer), 0)
    assert tokenizer.vocab_size == len(tokenizer) == 1064
    for size in (30000, 1072):
        with pytest.raises(TokenizerError) as error:
            tokenizer.check_config(size, 0, "some/config.json")
        for part in (str(size), "1064", "some/config.json", "vocab.txt"):
            assert part in str(error.value)
    with pytest.raises(TokenizerError, match="pad_token_id 3"):
        tokenizer.check_config(1064, 3)


def test_a_saved_folder_opens_in_transformers(tmp_path):
    transformers = pytest.importorskip("transformers")
    ours = WordPieceTokenizer(CHINESE)
    ours.save_pretrained(tmp_path)
    theirs = transformers.BertTokenizer.from_pretrained(tmp_path)
    texts = ["我们的ALBERT model，大国。", "café 2018"]
    assert theirs(texts)["input_ids"] == ours(texts).input_ids
