"""Span reading: files in the form of SQuAD, characters and tokens, windows, the best spans."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from metrics.classification import MetricError
from model.configuration_albert import AlbertConfig
from model.modeling_albert import AlbertForQuestionAnswering
from model.tokenization_albert import (
    AlbertTokenizer,
    SentencePieceTokenizer,
    WordPieceTokenizer,
)
from processors.readers import DataError
from processors.span_decoding import (
    NullThreshold,
    SpanOptions,
    beam_pairs,
    best_pairs,
    columns,
    pack,
    top,
)
from processors.span_prediction import answer
from processors.span_windows import make_windows, richest_window
from processors.spans import SpanData
from processors.squad import TASKS, load_squad

ROOT = Path(__file__).resolve().parent.parent
WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefghijklmnop", "who", "where", "##s",
         "cafe", ",", ".", *"光荣三国志"]


@pytest.fixture
def tokenizer(tmp_path) -> WordPieceTokenizer:
    (tmp_path / "vocab.txt").write_text("\n".join(WORDS) + "\n", encoding="utf-8")
    return WordPieceTokenizer(tmp_path / "vocab.txt")


def item(guid, question, *answers, **more) -> dict:
    return {"id": guid, "question": question,
            "answers": [{"text": t, "answer_start": s} for t, s in answers], **more}


def write(path: Path, *paragraphs: tuple[str, list]) -> Path:
    content = {"data": [{"paragraphs": [{"context": c, "qas": q}]} for c, q in paragraphs]}
    path.write_text(json.dumps(content, ensure_ascii=False), encoding="utf-8")
    return path


def data_of(path: Path, tokenizer: AlbertTokenizer, part: str = "dev", max_length: int = 32,
            task: str = "squad", **options) -> SpanData:
    options = SpanOptions(**options)
    split = load_squad(path, "s", part, options.version_2)
    return SpanData(TASKS[task], split, tokenizer, max_length, options)


# ---- files -------------------------------------------------------------------------------------


def test_row_44_a_misplaced_answer_is_counted_and_skipped(tmp_path, tokenizer, caplog):
    """Row 44: an answer that is not at its offset, or that ends after the passage."""
    context = "a b c d e"
    path = write(tmp_path / "x.json", (context, [
        item("good", "who", ("c d", 4)), item("shifted", "who", ("c d", 5)),
        item("minus", "who", ("b", -1)), item("after", "who", ("e f g", 8)),
        item("beyond", "who", ("e", 900)), item("second is good", "who", ("x", 0), ("e", 8))]))
    data = data_of(path, tokenizer, "train")
    assert [q.guid for q in data.split.questions] == ["good", "second is good"]
    [line] = [r.getMessage() for r in caplog.records if "left out" in r.getMessage()]
    assert line.startswith(f"{path}: 4 of 6 questions are left out") and "'c d' at 5" in line
    assert [(f["start_positions"], f["end_positions"]) for f in map(data.__getitem__, (0, 1))] == [
        (5, 6), (7, 7)]
    # Where scores are made, all questions stay, with the texts to compare with.
    dev = data_of(path, tokenizer, "dev")
    assert len(dev.split) == 6 and [q.answers[0].text for q in dev.split.questions][3] == "e f g"
    outputs = np.zeros((6, 2, int(dev.lengths.max())), np.float32)
    assert dev.score(outputs).examples == 6 and np.isfinite(dev.loss(outputs))


def test_a_training_file_of_misplaced_answers_is_an_error(tmp_path):
    path = write(tmp_path / "x.json", ("a b", [item(1, "who", ("b", 1))]))
    with pytest.raises(DataError, match="none of 1 answers stands in its passage"):
        load_squad(path, "t", "train")


GOOD = {"context": "a b", "qas": [item("1", "who", ("b", 2))]}


@pytest.mark.parametrize(("content", "message"), [
    ("{", "line 1: broken JSON"),
    ([], "found [], expected an object with \"data\""),
    ({"questions": []}, "no \"data\", only questions; expected a list"),
    ({"data": []}, "no question in it"),
    ({"data": ["x"]}, "article 1: found \"x\", expected an object with \"paragraphs\""),
    ({"data": [{"title": "t"}]}, "article 1: no \"paragraphs\", only title"),
    ({"data": [{"paragraphs": [GOOD, {"qas": []}]}]}, "article 1, paragraph 2: no \"context\""),
    ({"data": [{"paragraphs": [{"context": 3, "qas": []}]}]}, "\"context\" is 3; expected a text"),
    ({"data": [{"paragraphs": [{"context": "a", "qas": [{"id": "1"}]}]}]},
     "paragraph 1, question 1: no \"question\""),
    ({"data": [{"paragraphs": [GOOD]}, {"paragraphs": [GOOD]}]},
     "article 2, paragraph 1, question 1: the id '1' is also that of article 1, paragraph 1, "
     "question 1"),
    ({"data": [{"paragraphs": [{"context": "a", "qas": [
        {"id": 1, "question": "q", "answers": [{"text": "a", "answer_start": "0"}]}]}]}]},
     "question 1, answer 1: \"answer_start\" is \"0\"; expected a whole number"),
    ({"data": [{"paragraphs": [{"context": "a", "qas": [item(1, "q", (" ", 0))]}]}]},
     "answer 1: the text is ' ', expected words"),
    ({"data": [{"paragraphs": [{"context": "a", "qas": [item(1, "q", ("a", 0)), item(2, "q")]}]}]},
     "question 2: no answer, as 1 of 2 questions have none"),
    ({"data": [{"paragraphs": [{"context": "a", "qas": [item(1, "q"), item(2, "q")]}]}]},
     "question 1: no answer, as 2 of 2 questions have none"),
    ({"data": [{"paragraphs": [{"context": "a", "qas": [item(1, "q", is_impossible=True)]}]}]},
     "question 1: is_impossible, a question without an answer as in SQuAD 2.0; give "
     "--version_2_with_negative"),
    ({"data": [{"paragraphs": [{"context": "a", "qas": [
        item(1, "q", ("a", 0), is_impossible=True)]}]}]}, "is_impossible, and has the answer 'a'")])
def test_a_malformed_file_is_named_with_the_item(tmp_path, content, message):
    path = tmp_path / "x.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    with pytest.raises(DataError, match=re.escape(message)) as caught:
        load_squad(path, "d")
    assert str(caught.value).startswith(str(path))


def test_files_to_predict_need_no_answers(tmp_path, tokenizer):
    path = write(tmp_path / "x.json", ("a b", [
        {"id": "1", "question": "who"}, {"id": "2", "question": "where", "answers": []}]))
    split = load_squad(path, "t", "test")
    assert not split.labelled and len(split) == 2
    data = SpanData(TASKS["squad"], split, tokenizer, 32, SpanOptions())
    with pytest.raises(MetricError, match="has no answers"):
        data.score(np.zeros((2, 2, 6), np.float32))
    fakes = write(tmp_path / "f.json", ("a b", [item("1", "who", ("FAKE_1", -1))]))
    assert not load_squad(fakes, "t", "test").labelled  # hidden test sets look like this
    assert load_squad(fakes, "t", "dev").labelled


# ---- characters and tokens ---------------------------------------------------------------------


def test_answers_with_accents_case_and_composed_characters(tmp_path, tokenizer):
    context = "A  Cafe\u0301s,\tÀ\u200b b。三国志 c"
    cases = ["Cafe\u0301s", "Cafe\u0301", "À", "b", "三国", "国志", "c", "A  Cafe\u0301s"]
    path = write(tmp_path / "x.json", (context, [
        item(i, "who", (text, context.index(text))) for i, text in enumerate(cases)]))
    data = data_of(path, tokenizer)
    got = [context[slice(*data.windows.characters_of(i, data.starts[i], data.ends[i], context))]
           for i in range(len(cases))]
    assert got == ["Cafe\u0301s", "Cafe\u0301", "À\u200b", *cases[3:]]  # what is dropped stays by


@pytest.mark.parametrize("piece", ["½", "ﬁ", "①", "Å", "…", "e\u0301", "㎏", "\u3000", "İ", "𝒳"])
def test_sentencepiece_answers_around_characters_that_become_several(tmp_path, piece):
    tokenizer = AlbertTokenizer.from_pretrained(ROOT / "dataset" / "tiny_en")
    context = f"we saw {piece} first, then 6{piece} sacks and {piece}s in town"
    texts = [t for t in ("saw", "first", "sacks", "town", "in town", f"6{piece} sacks",
                         f"saw {piece} first") if t in context]
    path = write(tmp_path / "x.json", (context, [
        item(i, "who", (text, context.index(text))) for i, text in enumerate(texts)]))
    data = data_of(path, tokenizer, max_length=64)
    for i, text in enumerate(texts):
        begin, end = data.windows.characters_of(i, data.starts[i], data.ends[i], context)
        assert context[begin:end] == text


def test_a_lone_space_piece_is_no_part_of_an_answer():
    tokenizer = AlbertTokenizer.from_pretrained(ROOT / "dataset" / "tiny_en")
    context = "we saw \u4e09 first"
    windows = make_windows(["who"], [0], [context], tokenizer, 32, 16, 8)
    spans = windows.spans[0].tolist()
    lone = spans.index([7, 7])  # the "▁" before the Chinese character
    at = lone + int(windows.prefix[0])
    assert windows.characters_of(0, at - 1, at, context) == (3, 6)  # "saw"
    assert windows.characters_of(0, at, at, context) == (7, 7)
    assert windows.characters_of(0, at, at + 1, context) == (7, 8)


ROUND_TRIPS = [  # file, vocabulary, answers, misplaced, answers that begin or end within a token
    ("xquad/xquad.en.json", "en", 1190, 0, 1), ("xquad/xquad.en.json", "zh", 1190, 0, 1),
    ("xquad/xquad.zh.json", "zh", 1190, 0, 0), ("cmrc2018/cmrc2018_dev.json", "zh", 9657, 200, 3),
    ("cmrc2018/cmrc2018_trial.json", "zh", 1002, 5, 0)]


@pytest.mark.parametrize(("file", "language", "count", "misplaced", "within"), ROUND_TRIPS)
def test_every_gold_answer_survives_text_window_text(file, language, count, misplaced, within,
                                                     shared, tmp_path):
    """Each answer as the gold of a model that is sure of it, through windows and decoding.

    A few offsets are wrong in a way that a file does not show ("4个" at the end of "34个"): there
    the answer is the number or word that holds it.
    """
    path, vocabulary = shared(f"data/{file}"), shared("data/vocab")
    tokenizer = (SentencePieceTokenizer(vocabulary / "spiece.model") if language == "en" else
                 WordPieceTokenizer(vocabulary / "zh_vocab_21128.txt"))
    split = load_squad(path, "all")
    golds = [(q, a) for q in split.questions for a in q.answers]
    assert len(golds) == count
    placed = [(q, a) for q, a in golds if a.stands_in(split.passages[q.passage])]
    assert count - len(placed) == misplaced
    split.questions = [type(q)(str(i), q.text, q.passage, [a]) for i, (q, a) in enumerate(placed)]
    options = SpanOptions(max_answer_length=450)
    data = SpanData(TASKS["squad"], split, tokenizer, 512, options)
    outputs = np.full((len(data), 2, int(data.lengths.max())), -9, np.float32)
    labelled = np.flatnonzero(data.starts > 0)
    # A sure model, that is a little surer in windows with more context.
    outputs[labelled, 0, data.starts[labelled]] = outputs[labelled, 1, data.ends[labelled]] = 9
    broader = []
    for (question, gold), found in zip(placed, data.decode(outputs, 1), strict=True):
        [best] = found
        passage = split.passages[question.passage]
        assert passage[best.start:best.end] == best.text
        if best.text != gold.text.strip() or (best.start, best.end) != (
                gold.start + len(gold.text) - len(gold.text.lstrip()),
                gold.start + len(gold.text.rstrip())):
            broader.append((gold.text, best.text))
            assert best.start <= gold.start and gold.start + len(gold.text) <= best.end
            assert len(best.text) <= len(gold.text) + 5
    assert len(broader) == within, broader


# ---- windows -----------------------------------------------------------------------------------


def test_a_window_by_hand(tmp_path, tokenizer):
    path = write(tmp_path / "x.json", ("a b c d e f", [item(1, "who", ("d e", 6))]))
    data = data_of(path, tokenizer, "train", max_length=8, doc_stride=2)
    ids = {word: i for i, word in enumerate(WORDS)}
    assert len(data) == 2 and data.lengths.tolist() == [8, 8]
    assert data[0] == {
        "input_ids": [2, ids["who"], 3, *(ids[c] for c in "abcd"), 3],
        "token_type_ids": [0, 0, 0, 1, 1, 1, 1, 1], "p_mask": [0, 1, 1, 0, 0, 0, 0, 1],
        "start_positions": 0, "end_positions": 0}  # the answer is not whole in this one
    assert data[7, 1]["input_ids"][3:7] == [ids[c] for c in "cdef"]
    assert (data[1]["start_positions"], data[1]["end_positions"]) == (4, 5)
    batch = data.collate([data[0], data[1]])
    assert batch["p_mask"].shape == (2, 8) and batch["start_positions"].tolist() == [0, 4]
    assert "is_impossible" not in batch


def test_padding_may_not_be_an_answer(tmp_path, tokenizer):
    path = write(tmp_path / "x.json", ("a b c", [item(1, "who", ("b", 2))]),
                 ("a", [item(2, "who", ("a", 0))]))
    data = data_of(path, tokenizer)
    batch = data.collate([data[0], data[1]])
    assert batch["p_mask"].tolist() == [[0, 1, 1, 0, 0, 0, 1], [0, 1, 1, 0, 1, 1, 1]]
    assert batch["attention_mask"][1].tolist() == [1, 1, 1, 1, 1, 0, 0]
    assert "start_positions" not in batch  # the v2 head would not search


@pytest.mark.parametrize("stride", [1, 3, 7, 50])
def test_windows_cover_every_token_and_one_counts(tokenizer, stride):
    for total in range(0, 30):
        windows = make_windows(["who", "who where a b"], [0, 0], [" ".join("a" * total)],
                               tokenizer, 14, stride, 3)
        starts, inside = windows.allowed(14)
        assert (windows.lengths <= 14).all() and windows.cut_questions == 1
        for question in (0, 1):
            rows, counted, covered = windows.rows_of(question), [], []
            for row in range(rows.start, rows.stop):
                shift = windows.first[row] - windows.prefix[question]
                covered += (np.flatnonzero(inside[row]) + shift).tolist()
                counted += (np.flatnonzero(starts[row]) + shift).tolist()
                assert not starts[row, :windows.prefix[question]].any()
                assert not inside[row, windows.lengths[row] - 1:].any()
            assert sorted(counted) == list(range(total)) == sorted(set(covered))


def test_the_window_with_the_most_context_counts():
    """By the official loop, token by token."""
    rng = random.Random(0)
    for _ in range(100):
        room, stride, total = rng.randint(3, 9), rng.randint(1, 6), rng.randint(10, 40)
        first, size = [], []
        while not first or first[-1] + size[-1] < total:
            first.append(first[-1] + min(stride, room) if first else 0)
            size.append(min(room, total - first[-1]))
        wanted = []
        for token in range(total):
            best, best_score = None, None
            for i, (begin, length) in enumerate(zip(first, size, strict=True)):
                if begin <= token < begin + length:
                    score = min(token - begin, begin + length - 1 - token) + 0.01 * length
                    if best_score is None or score > best_score:
                        best, best_score = i, score
            wanted.append(best)
        assert richest_window(np.array(first), np.array(size)).tolist() == wanted


def test_there_must_be_room_for_a_passage(tokenizer):
    with pytest.raises(DataError, match="--max_seq_length 8: no room for a passage beside a "
                                        "question of 5 tokens"):
        make_windows(["a b c d e f"], [0], ["a"], tokenizer, 8, 4, 5)


def test_an_answer_that_fits_into_no_window_is_told(tmp_path, tokenizer, caplog):
    path = write(tmp_path / "x.json", ("a b c d e f g h", [item(1, "who", ("b c d e f g", 2))]))
    data = data_of(path, tokenizer, "train", max_length=8, doc_stride=2)
    assert "1 answers fit whole into no window" in caplog.text and not data.starts.any()


def test_an_answer_that_the_tokenizer_does_not_see_is_left_out(tmp_path, tokenizer, caplog):
    context = "a \u200b b"
    path = write(tmp_path / "x.json", (context, [item(1, "who", ("\u200b", 2)),
                                                 item(2, "who", ("b", 4))]))
    data = data_of(path, tokenizer, "train")
    # A dropped character belongs to the token before it where they touch; here none does.
    assert len(data) == 1 and data[0]["start_positions"] == 4
    assert "1 questions are left out: the tokenizer sees nothing of their answer" in caplog.text
    dev = data_of(path, tokenizer, "dev")
    assert len(dev) == 2 and dev.starts.tolist() == [-1, 4]


# ---- the best spans ----------------------------------------------------------------------------


def slow_pairs(start, end, starts, ends, longest):
    """Every span that may be an answer, by the definition, best first."""
    found = [(start[i] + end[j], i, j) for i in range(len(start)) for j in range(i, len(end))
             if starts[i] and ends[j] and j - i + 1 <= longest]
    return sorted(found, key=lambda x: -x[0])


def test_the_best_spans_are_those_of_the_definition():
    rng = np.random.default_rng(0)
    for longest, count in ((1, 1), (4, 1), (4, 6), (20, 10), (3, 500)):
        start, end = rng.normal(size=(2, 7, 12)).astype(np.float32)
        starts, ends = rng.random((2, 7, 12)) < 0.7
        starts[0] = False  # a window without an answer
        pairs = best_pairs(start, end, starts, ends, longest, count)
        for row in range(7):
            wanted = slow_pairs(start[row], end[row], starts[row], ends[row], longest)[:count]
            real = np.isfinite(pairs.score[row])
            assert real.sum() == len(wanted)
            got = zip(pairs.score[row, real], pairs.start[row, real], pairs.end[row, real],
                      strict=True)
            assert [tuple(x) for x in got] == wanted


def test_the_beam_gives_only_what_may_be_an_answer():
    rng = np.random.default_rng(1)
    start_index, end_index = rng.integers(0, 12, (9, 3)), rng.integers(0, 12, (9, 3, 2))
    start, end = rng.normal(size=(9, 3)), rng.normal(size=(9, 3, 2))
    starts, ends = rng.random((2, 9, 12)) < 0.6
    pairs = beam_pairs(start, start_index, end, end_index, starts, ends, 5)
    some = 0
    for row in range(9):
        wanted = {}
        for s in range(3):
            for e in range(2):
                i, j = start_index[row, s], end_index[row, s, e]
                if starts[row, i] and ends[row, j] and i <= j and j - i + 1 <= 5:
                    wanted[s * 2 + e] = (start[row, s] + end[row, s, e], i, j)
        some += len(wanted)
        got = {k: (pairs.score[row, k], pairs.start[row, k], pairs.end[row, k])
               for k in np.flatnonzero(np.isfinite(pairs.score[row]))}
        assert got == wanted
    assert some > 5


def test_top_is_sorted():
    values = np.random.default_rng(2).normal(size=(5, 9))
    assert (np.take_along_axis(values, top(values, 4), 1) == -np.sort(-values, 1)[:, :4]).all()
    assert top(values, 99).shape == (5, 9)


def test_answers_are_never_questions_or_special_tokens_and_are_parts_of_the_passage(tmp_path,
                                                                                  tokenizer):
    """Random scores, of which those outside the passage are far the highest."""
    contexts = ["a b c d e f g h", "光荣 三国志 a", "Caf\u00e9s ,  b"]
    path = write(tmp_path / "x.json", *((c, [item(f"{i}-{k}", "where who", (c[:1], 0))
                                            for k in range(3)])
                                       for i, c in enumerate(contexts)))
    data = data_of(path, tokenizer, max_length=10, doc_stride=3, max_answer_length=3,
                   n_best_size=4)
    rng = np.random.default_rng(0)
    outputs = rng.normal(size=(len(data), 2, int(data.lengths.max()))).astype(np.float32)
    for row in range(len(data)):
        outside = np.array(data[row]["p_mask"])
        outside[0] = 1
        outputs[row, :, :len(outside)] += 100 * outside
        outputs[row, :, len(outside):] = 100
    for question, found in zip(data.split.questions, data.decode(outputs, 4), strict=True):
        passage = data.split.passages[question.passage]
        assert 1 <= len(found) <= 4 and len({f.text for f in found}) == len(found)
        assert [f.score for f in found] == sorted((f.score for f in found), reverse=True)
        assert sum(f.probability for f in found) == pytest.approx(1)
        for f in found:
            assert f.text == passage[f.start:f.end] == f.text.strip() != ""
            assert len(tokenizer.tokenize(f.text)) <= 3 and f.score < 50


def test_a_text_that_stands_twice_counts_once_where_it_scores_best(tmp_path, tokenizer):
    path = write(tmp_path / "x.json", ("b a b", [item("1", "who", ("b", 0))]))
    data = data_of(path, tokenizer, max_answer_length=1)
    outputs = np.zeros((1, 2, int(data.lengths.max())), np.float32)
    outputs[0, 0, 3:6] = [1, 0, 2]  # [CLS] who [SEP] b a b
    [found] = data.decode(outputs, 5)
    assert [(f.text, f.start, f.score) for f in found] == [("b", 4, 2), ("a", 2, 0)]


def test_a_span_without_text_is_no_answer(tmp_path):
    tokenizer = AlbertTokenizer.from_pretrained(ROOT / "dataset" / "tiny_en")
    path = write(tmp_path / "x.json", ("saw \u4e09", [item("1", "who", ("\u4e09", 4))]))
    data = data_of(path, tokenizer, max_answer_length=1)
    spans = data.windows.spans[0].tolist()
    outputs = np.zeros((1, 2, int(data.lengths.max())), np.float32)
    outputs[0, :, spans.index([4, 4]) + int(data.windows.prefix[0])] = 9  # a "\u2581" alone
    assert all(f.text for f in data.decode(outputs, 20)[0])


def test_an_empty_passage_has_no_answer(tmp_path, tokenizer):
    path = write(tmp_path / "x.json", (" \u200b", [{"id": "1", "question": "who"}]),
                 ("a", [{"id": "2", "question": "who"}]))
    data = data_of(path, tokenizer, "test")
    outputs = np.zeros((2, 2, int(data.lengths.max())), np.float32)
    data.write(outputs, tmp_path / "p" / "predictions.json")
    assert json.loads((tmp_path / "p" / "predictions.json").read_text()) == {"1": "", "2": "a"}


def small(squad_head: str, vocab: int, **more) -> AlbertForQuestionAnswering:
    torch.manual_seed(0)
    return AlbertForQuestionAnswering(AlbertConfig(
        vocab_size=vocab, embedding_size=8, hidden_size=12, num_hidden_layers=1,
        num_attention_heads=3, intermediate_size=20, max_position_embeddings=40,
        initializer_range=0.5, squad_head=squad_head, **more)).eval()


@pytest.mark.parametrize(("version_2", "n_top"), [(False, 5), (True, 3), (True, 30)])
def test_what_is_kept_does_not_depend_on_the_batch(tmp_path, tokenizer, version_2, n_top):
    """Also where the beam is wider than the window has tokens."""
    path = write(tmp_path / "x.json", ("a b c d e f g", [item(1, "who", ("b", 2))]),
                 ("a c", [item(2, "where", ("c", 2))]))
    options = {"version_2": version_2, "start_n_top": n_top, "end_n_top": n_top + 1}
    data = data_of(path, tokenizer, **options)
    model = small("v2" if version_2 else "v1", len(WORDS), start_n_top=n_top, end_n_top=n_top + 1)
    with torch.inference_mode():
        together = data.keep(model(**data.collate([data[0], data[1]])))
        alone = np.concatenate([data.keep(model(**data.collate([data[i]]))) for i in (0, 1)])
    assert together.shape == alone.shape
    for a, b in zip(data.decode(together, 5), data.decode(alone, 5), strict=True):
        assert [f.text for f in a] == [f.text for f in b] and a
        assert [f.score for f in a] == pytest.approx([f.score for f in b], abs=1e-4)
    assert data.loss(together) == pytest.approx(data.loss(alone), abs=1e-5)
    if version_2:
        assert data.null_odds(together) == pytest.approx(data.null_odds(alone), abs=1e-5)


def test_losses_of_scores_are_those_of_the_model(tmp_path, tokenizer):
    path = write(tmp_path / "x.json", ("a b c d e f g", [
        item(1, "who", ("b", 2)), item(2, "where", ("f g", 10))]))
    train, dev = (data_of(path, tokenizer, part, max_length=8, doc_stride=2)
                  for part in ("train", "dev"))
    model = small("v1", len(WORDS))
    with torch.inference_mode():
        output = model(**train.collate([train[i] for i in range(len(train))]))
        kept = dev.keep(model(**dev.collate([dev[i] for i in range(len(dev))])))
    assert dev.loss(kept) == pytest.approx(float(output.loss), abs=1e-5)


def test_the_v2_loss_of_scores_is_that_of_start_and_of_being_answerable(tmp_path, tokenizer):
    path = write(tmp_path / "x.json", ("a b c d", [
        item(1, "who", ("b", 2)), item(2, "where", is_impossible=True)]))
    train, dev = (data_of(path, tokenizer, part, version_2=True) for part in ("train", "dev"))
    assert [train[i]["is_impossible"] for i in (0, 1)] == [0, 1]
    model = small("v2", len(WORDS))
    with torch.inference_mode():
        batch = train.collate([train[0], train[1]])
        output = model(**batch)
        kept = dev.keep(model(**dev.collate([dev[0], dev[1]])))
    start = torch.nn.functional.cross_entropy(output.start_logits, batch["start_positions"])
    assert dev.loss(kept) == pytest.approx(float(start + output.losses["answerable"]), abs=1e-5)


def test_pack_and_columns_are_inverse():
    torch.manual_seed(0)
    output = SimpleNamespace(
        cls_logits=torch.randn(2), start_logits=torch.randn(2, 6),
        start_top_log_probs=torch.randn(2, 3), start_top_index=torch.randint(6, (2, 3)),
        end_top_log_probs=torch.randn(2, 6), end_top_index=torch.randint(6, (2, 6)))
    options = SpanOptions(version_2=True, start_n_top=4, end_n_top=3)  # more than there are
    parts = columns(pack(output, 8, options), options)
    assert parts.null_odds == pytest.approx(output.cls_logits.numpy())
    assert (parts.start_index[:, :3] == output.start_top_index.numpy()).all()
    assert (parts.end_index[:, :3, :2] == output.end_top_index.reshape(2, 3, 2).numpy()).all()
    assert parts.end_log_probs[:, :3, :2] == pytest.approx(
        output.end_top_log_probs.reshape(2, 3, 2).numpy())
    assert np.isneginf(parts.start_log_probs[:, 3]).all()
    assert np.isneginf(parts.end_log_probs[:, :, 2]).all()
    assert parts.start_logits.shape == (2, 8)


def test_the_threshold_of_dev_is_that_of_test(tmp_path, tokenizer):
    paragraph = ("a b c", [item(1, "who", ("b", 2)), item(2, "where", is_impossible=True)])
    dev_path = write(tmp_path / "dev.json", paragraph)
    threshold = NullThreshold()
    options = {"version_2": True, "start_n_top": 1, "end_n_top": 1, "threshold": threshold,
               "task": "squad-v2"}
    dev, test = (data_of(dev_path, tokenizer, part, **options) for part in ("dev", "test"))
    outputs = np.zeros((2, 1 + 2 + 2 + 7), np.float32)
    outputs[:, 0] = [3.0, 5.0]  # null odds: the answerable question has lower ones, above 0 too
    outputs[:, [2, 4]] = 4  # the beam: "b" (its position) both times
    assert test.score(outputs).values["exact"] == 0.5 and threshold.value == 0
    assert dev.score(outputs).values["exact"] == 1 and threshold.value == 3.0
    assert test.score(outputs).values["exact"] == 1
    test.write(outputs, tmp_path / "predictions.json")
    read = {name: json.loads((tmp_path / f"{name}.json").read_text())
            for name in ("predictions", "null_odds", "nbest_predictions")}
    assert read["predictions"] == {"1": "b", "2": ""} and read["null_odds"] == {"1": 3, "2": 5}
    assert read["nbest_predictions"]["2"] == [
        {"text": "b", "probability": 1.0, "score": 0.0, "start": 2, "end": 3}]
    threshold.tune, threshold.value = False, 9.0
    assert dev.score(outputs).values["NoAns_exact"] == 0 and threshold.value == 9


# ---- answers for people ------------------------------------------------------------------------


def test_answers_to_plain_text(tokenizer):
    model = small("v1", len(WORDS)).train()
    contexts = ["a Caf\u00e9s b c d e f g h i j k l m", "光荣三国志", " "]
    found = answer(model, tokenizer, ["who", "where who", "who"], contexts, batch_size=2,
                   max_length=12, doc_stride=4)
    assert model.training  # left as it was
    for result, context in zip(found, contexts, strict=True):
        assert result["text"] == context[result["start"]:result["end"]]
        assert set(result) == {"text", "start", "end", "probability"}
    assert found[0]["text"] and 0 < found[0]["probability"] <= 1
    assert found[2] == {"text": "", "start": 0, "end": 0, "probability": 0.0}
    assert found[1] == pytest.approx(answer(model, tokenizer, ["where who"], [contexts[1]],
                                            max_length=12, doc_stride=4)[0])
    assert answer(model, tokenizer, [], []) == []


def test_answers_of_the_v2_head_may_be_none(tokenizer):
    model = small("v2", len(WORDS))
    [found] = answer(model, tokenizer, ["who"], ["a b c"], null_threshold=99.0)
    [none] = answer(model, tokenizer, ["who"], ["a b c"], null_threshold=-99.0)
    assert found["text"] and none["text"] == "" and found["null_odds"] == none["null_odds"]
    assert none["probability"] == pytest.approx(1 / (1 + np.exp(-none["null_odds"])))
    [sure] = answer(model, tokenizer, ["who"], ["a b c"], null_threshold=99.0, n_best_size=1)
    assert sure["text"] == found["text"] and found["probability"] < sure["probability"]
    assert sure["probability"] == pytest.approx(1 - none["probability"])


def test_answers_need_a_context_each(tokenizer):
    model = small("v1", len(WORDS))
    with pytest.raises(ValueError, match="2 questions, but 1 contexts"):
        answer(model, tokenizer, ["a", "b"], ["c"])
    with pytest.raises(TypeError, match="questions is a str"):
        answer(model, tokenizer, "a", ["c"])
