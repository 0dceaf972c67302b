"""Entities: their scores against seqeval, their files, the pieces of words, windows, plain text."""

from __future__ import annotations

import json
import random
import warnings
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from metrics.classification import MetricError
from metrics.ner import (
    count_entities,
    entities,
    score_entities,
    split_tag,
    strict_entities,
    total,
    type_table,
)
from model.configuration_albert import AlbertConfig
from model.modeling_albert import AlbertForTokenClassification
from model.tokenization_albert import SentencePieceTokenizer, WordPieceTokenizer
from processors.ner import IGNORED, TASKS, EntityData, entity_task
from processors.ner_files import load_entities, write_cluener, write_conll
from processors.ner_prediction import find_entities
from processors.ner_tags import (
    labels_from_flag,
    labels_of_types,
    markup_of_labels,
    plain_tag,
    tag_of_label,
    tags_of,
)
from processors.ner_windows import make_windows, plan, seen_spans, shares, spread_tags
from processors.readers import DataError

BIO = labels_of_types(["LOC", "PER"], "bio")
LINES = ["Anna B-PER", "Smith I-PER", "in O", "York B-LOC", ". O"]
WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "anna", "smith", "##s", "in", "york", ".",
         "叶", "老", "桂", "在", "北", "京", "x", "##y", "##z"]


def write(path: Path, lines: list[str]) -> Path:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def read_lines(tmp_path: Path, lines: list[str], name: str = "a.conll", **options):
    return load_entities(write(tmp_path / name, lines), "a", **options)


def tags_in(tmp_path: Path, tags: str, markup: str = "bio") -> str:
    """Tags of one file, read and written in a scheme."""
    [sentence] = read_lines(tmp_path, [f"w {tag}" for tag in tags.split()]).sentences
    return " ".join(tags_of(sentence.spans, len(sentence.words), markup))


def cluener(text: str, label: dict | None, **more) -> str:
    return json.dumps({**more, "text": text} | ({} if label is None else {"label": label}))


@pytest.fixture
def tokenizer(tmp_path) -> WordPieceTokenizer:
    return WordPieceTokenizer(write(tmp_path / "vocab.txt", WORDS))


def data_of(tmp_path: Path, tokenizer, lines: list[str], max_length: int = 32, labels=BIO,
            name: str = "a.conll", **options) -> EntityData:
    split = read_lines(tmp_path, lines, name, **options)
    task = entity_task("custom", labels, (), (), ())
    return EntityData(task, split, tokenizer, max_length)


def certain(data: EntityData, tags: list[list[str]]) -> np.ndarray:
    """(N, W, L) log-probabilities of a model that is sure of these tags of all words."""
    rows = np.full((len(data), int(data.lengths.max()), len(data.task.labels)), -5.0, np.float32)
    for row, window in zip(rows, data.windows, strict=True):
        for word, place in zip(window.words, window.places, strict=True):
            row[place, data.task.labels.index(tags[window.sentence][word])] = -0.1
    return rows


# ---- scores ------------------------------------------------------------------------------------


def random_sequences(draw: random.Random, tags: list[str], number: int):
    """Gold and predicted sequences of any tags, legal or not; most tags are right."""
    gold = [[draw.choice(tags) for _ in range(draw.randint(1, 10))] for _ in range(number)]
    said = [[draw.choice(tags) if draw.random() < 0.3 else tag for tag in row] for row in gold]
    return gold, said


@pytest.mark.parametrize("scheme, tags", [
    ("bio", ["O", "O", "B-a", "I-a", "B-b-c", "I-b-c"]),
    ("bioes", ["O", *(f"{letter}-{kind}" for letter in "BIES" for kind in "ab")]),
    (None, ["O", "B", "I", "B-a", "I-a", "E", "S"]),
])
def test_scores_are_those_of_seqeval(scheme, tags):
    """Default mode and strict mode, in total and by type, on 3 x 700 sets of 3 sentences."""
    pytest.importorskip("seqeval")
    from seqeval.metrics import accuracy_score
    from seqeval.metrics.sequence_labeling import precision_recall_fscore_support as default
    from seqeval.metrics.v1 import precision_recall_fscore_support as by_scheme
    from seqeval.scheme import IOB2, IOBES
    warnings.simplefilter("ignore")
    modes = [(None, default, {})]
    if scheme is not None:
        modes.append((scheme, by_scheme, {"scheme": IOB2 if scheme == "bio" else IOBES}))
    draw = random.Random(5)
    for _ in range(700):
        gold, said = random_sequences(draw, tags, 3)
        for strict, reference, options in modes:
            found = count_entities(gold, said, strict)
            whole = total(found)
            wanted = reference(gold, said, average="micro", **options)
            assert (whole.precision, whole.recall, whole.f1) == pytest.approx(wanted[:3], abs=1e-12)
            assert whole.wanted == wanted[3]
            by_type = reference(gold, said, average=None, **options)
            got = np.array([(f.precision, f.recall, f.f1, f.wanted) for f in found.values()])
            assert np.allclose(got.reshape(-1, 4).T, np.array(by_type), atol=1e-12)
        scores = score_entities(gold, said)
        assert scores.values["token_accuracy"] == pytest.approx(accuracy_score(gold, said))


def test_entities_of_legal_and_illegal_sequences():
    assert entities(["B-a", "I-a", "O", "B-a"]) == [("a", 0, 2), ("a", 3, 4)]
    assert entities(["I-a", "I-b", "B-b"]) == [("a", 0, 1), ("b", 1, 2), ("b", 2, 3)]
    assert entities(["B-a", "E-a", "I-a", "S-a"]) == [("a", 0, 2), ("a", 2, 3), ("a", 3, 4)]
    assert strict_entities(["I-a", "B-a", "I-a", "I-b"], "bio") == [("a", 1, 3)]
    assert strict_entities(["B-a", "I-a", "S-b", "B-b", "E-b"], "bioes") == [("b", 2, 3),
                                                                           ("b", 3, 5)]


@pytest.mark.parametrize("tag", ["", "o", "M-a", "B-", "Ba", "-a", "b-a"])
def test_what_is_no_tag_is_told(tag):
    with pytest.raises(MetricError, match="expected O, or one of B, I, E, S with a type"):
        split_tag(tag)


def test_strict_mode_is_told_what_it_cannot_do():
    with pytest.raises(MetricError, match="found the prefixes E, expected those of bio"):
        strict_entities(["E-a"], "bio")
    with pytest.raises(MetricError, match="there are: bio, bioes"):
        strict_entities(["O"], "iob1")


def test_scores_stand_beside_those_of_no_entity_at_all():
    scores = score_entities([["B-a", "O", "O", "O"]], [["O"] * 4])
    assert scores.main == "f1" and scores.value == 0 and scores.collapsed
    assert scores.baseline == {"f1": 0, "precision": 0, "recall": 0, "token_accuracy": 0.75}
    assert 'all 4 words are predicted "O"' in scores.notes[0]
    assert not score_entities([["B-a", "O"]], [["B-a", "O"]]).collapsed
    assert "no entity to find" in score_entities([["O"]], [["O"]]).notes[0]


def test_sequences_that_do_not_belong_together_are_told():
    with pytest.raises(MetricError, match="found 1 predicted sequences for 2"):
        count_entities([["O"], ["O"]], [["O"]])
    with pytest.raises(MetricError, match="sequence 1: found 1 predicted tags for 2 words"):
        count_entities([["O"], ["O", "O"]], [["O"], ["O"]])
    with pytest.raises(MetricError, match="no words"):
        score_entities([], [])


def test_the_table_has_a_line_for_each_type():
    lines = type_table(count_entities([["B-a", "B-bb"]], [["B-a", "O"]]))
    assert lines == [
        "a   precision 1.0000  recall 1.0000  f1 1.0000  (1 right, 1 predicted, 1 there)",
        "bb  precision 0.0000  recall 0.0000  f1 0.0000  (0 right, 0 predicted, 1 there)"]


# ---- schemes of tags ---------------------------------------------------------------------------


@pytest.mark.parametrize("tags, expected", [
    ("B-a I-a B-a O", "B-a I-a B-a O"),  # BIO
    ("I-a I-a B-a O I-b", "B-a I-a B-a O B-b"),  # IOB1
    ("B-a I-a E-a S-a O", "B-a I-a I-a B-a O"),  # BIOES
    ("B-a M-a E-a S-a O", "B-a I-a I-a B-a O"),  # BMES
    ("B-a M-a E-a W-a O", "B-a I-a I-a B-a O"),  # BMEWO
    ("B-a W-a W-a O", "B-a B-a B-a O"),
    ("B-a I-a L-a U-a O", "B-a I-a I-a B-a O"),  # BILOU
    ("B_a I_a O", "B-a I-a O"),
    ("B M E S", "B I I B"),  # segmentation, without types
])
def test_every_scheme_is_read_to_one(tmp_path, tags, expected):
    assert tags_in(tmp_path, tags) == expected


@pytest.mark.parametrize("markup, expected", [
    ("bio", "B-a I-a I-a B-b B-a I-a O"), ("bios", "B-a I-a I-a S-b B-a I-a O"),
    ("bioes", "B-a I-a E-a S-b B-a E-a O"),
])
def test_a_scheme_is_written_and_read_back(tmp_path, markup, expected):
    assert tags_in(tmp_path, "B-a I-a I-a B-b B-a I-a O", markup) == expected
    assert tags_in(tmp_path, expected) == "B-a I-a I-a B-b B-a I-a O"
    assert set(expected.split()) <= set(labels_of_types(["a", "b"], markup))
    assert markup_of_labels(labels_of_types(["a", "b"], markup), "x") == markup


def test_an_entity_that_begins_with_i_is_counted(tmp_path, caplog):
    caplog.set_level("INFO")
    tags_in(tmp_path, "B-a I-a O I-a I-b")
    assert "2 entities begin with I- or E-" in caplog.text


def test_labels_come_as_types_or_as_tags_in_their_order():
    assert labels_from_flag(["LOC", "PER"], "bio") == ("O", "B-LOC", "I-LOC", "B-PER", "I-PER")
    assert labels_from_flag(["I-LOC", "O", "B-LOC"], "bio") == ("I-LOC", "O", "B-LOC")
    with pytest.raises(DataError, match="found the tag B-LOC and no O"):
        labels_from_flag(["B-LOC", "I-LOC"], "bio")
    with pytest.raises(DataError, match="--labels: found the labels O, LOC, expected O and tags"):
        labels_from_flag(["O", "LOC"], "bio")


def test_labels_of_the_predecessor_that_are_no_tags_stand_for_no_entity():
    assert markup_of_labels(["X", "B-a", "I-a", "S-a", "O", "[START]", "[END]"], "x") == "bios"
    assert [tag_of_label(label) for label in ("X", "[END]", "S-a")] == ["O", "O", "S-a"]
    with pytest.raises(DataError, match="m: found the labels 0, 1, expected O and tags"):
        markup_of_labels(["0", "1"], "m")


def test_what_is_a_tag():
    assert plain_tag("M-creative-work") == "I-creative-work" and plain_tag("O") == "O"
    assert [plain_tag(word) for word in ("NN", "", "B-", "o", "b-x", "BX")] == [None] * 6


# ---- CoNLL -------------------------------------------------------------------------------------


def test_columns_between_tabs_and_spaces_documents_comments_and_blank_lines(tmp_path, caplog):
    spaces = ["-DOCSTART- -X- -X- O", "", "# id 12 domain=en", "U.N. NNP I-NP I-ORG",
              "official NN I-NP O", "  ", "", "-DOCSTART- -X- O O", "# NN I-NP O",
              "Ekeus  NNP I-NP I-PER "]
    split = read_lines(tmp_path, spaces)
    assert [s.words for s in split.sentences] == [["U.N.", "official"], ["#", "Ekeus"]]
    assert [s.spans for s in split.sentences] == [[("ORG", 0, 1)], [("PER", 1, 2)]]
    assert split.sentences[1].place.endswith("line 9") and split.types == ["ORG", "PER"]
    assert split.notes == [f"{tmp_path / 'a.conll'}: left out 1 comment lines (\"# …\")"]
    assert split.notes[0] in caplog.text
    tabs = ["New York\tB-LOC\r", "\t\r", "\u2028x\u3000\tO", "\ufeff"]
    assert [s.words for s in read_lines(tmp_path, tabs).sentences] == [["New York"],
                                                                       ["\u2028x\u3000"]]


def test_a_file_to_predict_needs_no_tags(tmp_path):
    split = read_lines(tmp_path, ["#tag", "Anna", "", "Smith"], labels="optional")
    assert [s.words for s in split.sentences] == [["#tag", "Anna"], ["Smith"]]
    assert not split.labelled
    assert read_lines(tmp_path, LINES, labels="optional").labelled


@pytest.mark.parametrize("lines, message", [
    (["Anna"], "line 1: found 'Anna' alone, expected a word and its tag between tabs or spaces"),
    ([*LINES, "", "Anna PER"], "line 7: found 'PER' in the last column, expected a tag such as O"),
    ([*LINES, "Anna NNP B-PER"], "line 6: found 3 columns, expected 2 as on the first line"),
    (["# a comment", ""], "no sentence, expected at least one"),
    ([], "no sentence, expected at least one"),
])
def test_a_malformed_conll_file_is_refused(tmp_path, lines, message):
    with pytest.raises(DataError) as error:
        read_lines(tmp_path, lines)
    assert message in str(error.value) and str(tmp_path / "a.conll") in str(error.value)


def test_a_file_to_predict_without_tags_but_with_columns_is_refused(tmp_path):
    with pytest.raises(DataError, match="no tags has the word alone on each line"):
        read_lines(tmp_path, ["Anna NNP", "in IN"], labels="optional")


def test_a_few_bad_sentences_are_left_out_where_asked(tmp_path):
    good = [*LINES, ""] * 150
    with pytest.raises(DataError, match=r"1 of 151 sentences cannot be read.*--skip_bad_lines"):
        read_lines(tmp_path, [*good, "Anna", "in O"])
    split = read_lines(tmp_path, [*good, "Anna", "in O"], skip_bad_lines=True)
    assert len(split) == 150 and "left out 1 of 151 sentences" in split.notes[0]
    with pytest.raises(DataError, match="2 of 4 sentences are like this, too many"):
        read_lines(tmp_path, ["Anna", "", "Anna", "", *LINES, "", *LINES], skip_bad_lines=True)


def test_not_utf_8_and_no_file_are_told(tmp_path):
    (tmp_path / "a.conll").write_bytes("北京 B-PER\n".encode("gb18030"))
    with pytest.raises(DataError, match="line 1: byte 0x.* is not UTF-8"):
        load_entities(tmp_path / "a.conll", "a")
    with pytest.raises(DataError, match="no such file"):
        load_entities(tmp_path / "b.conll", "a")


@pytest.mark.parametrize("name, sentences, words, spans", [
    ("wnut17train.conll", 3394, 62730, 1975), ("emerging.dev.conll", 1009, 15733, 836),
    ("emerging.test.annotated", 1287, 23394, 1079),
])
def test_wnut17_has_the_published_numbers(shared, name, sentences, words, spans):
    split = load_entities(shared("data/wnut17") / name, "wnut17")
    assert len(split) == sentences and sum(len(s.words) for s in split.sentences) == words
    assert sum(len(s.spans) for s in split.sentences) == spans
    assert split.types == list(TASKS["wnut17"].labels) and not split.notes


# ---- CLUENER -----------------------------------------------------------------------------------


def test_cluener_is_read_by_character(tmp_path):
    lines = [cluener("叶老桂在北京", {"name": {"叶老桂": [[0, 2]]}, "address": {"北京": [[4, 5]]}}),
             cluener("a b", {}, id=7)]
    split = read_lines(tmp_path, lines, "a.json")
    assert split.sentences[0].words == list("叶老桂在北京")
    assert split.sentences[0].spans == [("name", 0, 3), ("address", 4, 6)]
    assert [s.guid for s in split.sentences] == ["0", "7"] and split.labelled
    unlabelled = read_lines(tmp_path, [cluener("北京", None, id=3)], "a.json", labels="optional")
    assert not unlabelled.labelled and unlabelled.sentences[0].guid == "3"


@pytest.mark.parametrize("line, message", [
    (cluener("北京", {"address": {"北京": [[0, 2]]}}),
     "line 1: found '' at characters 0 to 2 of the text (it has 2), expected '北京' (address)"),
    (cluener("在北京", {"address": {"北京": [[0, 1]]}}), "found '在北' at characters 0 to 1"),
    (cluener("北京", {"address": {"北京": [[0]]}}), "found [0] as the place of '北京'"),
    (cluener("北京", {"address": {"北京": 3}}), "found 3 as the place of '北京'"),
    (cluener("北京", {"address": ["北京"]}), 'found ["北京"] for address, expected an object'),
    (cluener("北京", None), 'found null as "label", expected an object'),
    ('{"sentence": "北京"}', "found the keys sentence, expected \"text\""),
    ('{"text": 3, "label": {}}', "found the text 3"),
    ('{"text": ', "line 1: broken JSON"),
])
def test_a_malformed_cluener_file_is_refused(tmp_path, line, message):
    with pytest.raises(DataError) as error:
        read_lines(tmp_path, [line], "a.json")
    assert message in str(error.value) and str(tmp_path / "a.json") in str(error.value)


def test_of_entities_that_overlap_the_longest_stays_and_the_rest_is_counted(tmp_path):
    label = {"address": {"北京": [[0, 1]]}, "organization": {"北京叶": [[0, 2]]},
             "name": {"叶老": [[2, 3]], "桂": [[4, 4]]}}
    split = read_lines(tmp_path, [cluener("北京叶老桂", label)], "a.json")
    assert split.sentences[0].spans == [("organization", 0, 3), ("name", 4, 5)]
    [note] = split.notes
    assert "left out 2 entities that overlap with a longer one (1 address, 1 name)" in note


# ---- pieces and windows ------------------------------------------------------------------------


def test_row_46_the_label_stands_on_the_first_piece_and_f1_is_of_entities(shared, tmp_path):
    """Words split into pieces by "▁": one label a word, and a word's other pieces carry none."""
    tokenizer = SentencePieceTokenizer(shared("data/vocab/spiece.model"))
    lines = ["Sonmarg\tB-LOC", "Kashmirvalley\tI-LOC", "is\tO", "Zuckerbergs\tB-PER", "home\tO"]
    data = data_of(tmp_path, tokenizer, lines)
    pieces = tokenizer.convert_ids_to_tokens(data[0]["input_ids"])
    labels = data[0]["labels"]
    assert len(pieces) > 5 + 2 and len(labels) == len(pieces)
    assert pieces[0] == "[CLS]" and pieces[-1] == "[SEP]"
    carries = [(piece, BIO[label]) for piece, label in zip(pieces, labels, strict=True)
               if label != IGNORED]
    assert [piece[0] for piece, _ in carries] == ["▁"] * 5
    assert [tag for _, tag in carries] == ["B-LOC", "I-LOC", "O", "B-PER", "O"]
    assert sum(piece.startswith("▁") for piece in pieces) == 5
    # Half of an entity is not found: 4 of 5 tags are right, 1 of 2 entities.
    tags = [["B-LOC", "O", "O", "B-PER", "O"]]
    scores = data.score(certain(data, tags))
    assert scores.values == {"f1": 0.5, "precision": 0.5, "recall": 0.5, "token_accuracy": 0.8}
    assert data.main == scores.main == "f1" and data.higher_is_better
    # What the model says of the other pieces does not matter.
    noise = certain(data, tags)
    noise[0, [place for place, label in enumerate(labels) if label == IGNORED], 1] = 9
    assert data.predict(noise) == tags and data.score(noise).values == scores.values


def test_words_of_which_nothing_is_left_go_with_those_around_them(tmp_path, tokenizer, caplog):
    caplog.set_level("INFO")
    lines = ["anna B-PER", "\u200b I-PER", "smith I-PER", "\x07 O", "in O", "\u200d B-LOC", "",
             "\u200b O"]
    data = data_of(tmp_path, tokenizer, [line.replace(" ", "\t") for line in lines])
    assert data.seen == [[0, 2, 4], []] and len(data) == 1
    assert [BIO[x] for x in data[0]["labels"] if x != IGNORED] == ["B-PER", "I-PER", "O"]
    assert "nothing of 4 of 7 words" in caplog.text
    predicted = data.predict(certain(data, [["B-PER", "-", "I-PER", "-", "O", "-"], ["-"]]))
    assert predicted == [["B-PER", "I-PER", "I-PER", "O", "O", "O"], ["O"]]
    scores = data.score(certain(data, [["B-PER", "-", "I-PER", "-", "O", "-"], ["-"]]))
    assert scores.values["precision"] == 1 and scores.values["recall"] == 0.5
    with pytest.raises(DataError, match="the tokenizer finds nothing in all 1 sentences"):
        data_of(tmp_path, tokenizer, ["\u200b\tO"])


def test_an_entity_begins_at_its_first_word_that_is_seen():
    assert seen_spans([("a", 0, 3), ("b", 3, 4)], [1, 2, 4]) == [("a", 0, 2)]
    assert spread_tags(["B-a", "B-a", "I-b"], [0, 2, 4], 6) == ["B-a", "O", "B-a", "O", "I-b", "O"]
    assert spread_tags(["B-a", "E-a"], [0, 3], 4) == ["B-a", "I-a", "I-a", "E-a"]


def test_chinese_is_labelled_by_character(tmp_path, tokenizer):
    line = cluener("叶老桂 在北京", {"name": {"叶老桂": [[0, 2]]}, "address": {"北京": [[5, 6]]}})
    labels = labels_of_types(["address", "name"], "bioes")
    data = data_of(tmp_path, tokenizer, [line], labels=labels, name="a.json")
    assert [labels[x] for x in data[0]["labels"][1:-1]] == ["B-name", "I-name", "E-name", "O",
                                                           "B-address", "E-address"]


def test_every_word_of_a_long_sentence_has_one_window_and_no_window_is_too_long():
    draw = random.Random(3)
    for _ in range(1000):
        budget = draw.randint(1, 20)
        widest = draw.choice([1, 3, 20])
        counts = [draw.randint(1, min(budget, widest)) for _ in range(draw.randint(1, 60))]
        runs = plan(counts, budget)
        own = shares(counts, runs)
        assert all(sum(counts[first:stop]) <= budget for first, stop in runs)
        assert [word for first, stop in own for word in range(first, stop)] == [*range(len(counts))]
        for (first, stop), (begin, end) in zip(runs, own, strict=True):
            for word in range(begin, end):
                contexts = [min(sum(counts[a:word]), sum(counts[word + 1:b]))
                            for a, b in runs if a <= word < b]
                assert min(sum(counts[first:word]), sum(counts[word + 1:stop])) == max(contexts)
    assert plan([], 5) == shares([], []) == [] and plan([2, 2], 4) == [(0, 2)]
    assert plan([1] * 10, 4) == [(0, 4), (2, 6), (4, 8), (6, 10)]
    assert plan([1] * 9, 4)[-1] == (5, 9)  # filled up to the left
    assert shares([1] * 7, [(0, 5), (2, 7)]) == [(0, 4), (4, 7)]  # of equals the earlier


def test_a_long_sentence_is_windowed_and_told(tmp_path, tokenizer, caplog):
    caplog.set_level("INFO")
    lines = LINES * 6
    data = data_of(tmp_path, tokenizer, lines, max_length=12)
    assert len(data) > 2 and len(data.split) == 1 and max(data.lengths) == 12
    assert "1 of 1 sentences are longer than 12 tokens" in caplog.text and data.truncated == 0
    labelled = sum(label != IGNORED for row in data.labels for label in row)
    assert labelled == len(lines)  # once each, though windows overlap
    gold = ["B-PER", "I-PER", "O", "B-LOC", "O"] * 6
    assert data.gold == [gold]
    assert data.score(certain(data, [gold])).value == 1
    wrong = [*gold[:-2], "O", "O"]
    assert data.predict(certain(data, [wrong])) == [wrong]


def test_a_word_longer_than_a_window_is_cut_and_counted(tmp_path, tokenizer, caplog):
    data = data_of(tmp_path, tokenizer, ["anna B-PER", "xyzyzyzyz O", "york B-LOC"], max_length=6)
    assert data.truncated == 1 and max(data.lengths) == 6
    assert "1 of 3 words are longer than 4 tokens" in caplog.text
    assert data.score(certain(data, data.gold)).value == 1


def test_windows_keep_whole_words_and_all_of_them_predict_some(tokenizer):
    made = make_windows([["anna", "xyz", "in", "xyz", "york"]], tokenizer, 6)
    # A word of 1, 3, 1, 2, 1, 1, 4 pieces each: the second of three windows has no word of its own.
    sizes = [["in"], ["xyz"], ["in"], ["xy"], ["in"], ["in"], ["xyzy"]]
    made.windows += make_windows([[word for [word] in sizes]], tokenizer, 10).windows
    assert len(made.windows) == 5 and all(window.words for window in made.windows)
    for window in made.windows:
        for place in window.places:
            assert tokenizer.tokens[window.input_ids[place]] in ("anna", "x", "in", "york")


# ---- batches and outputs -----------------------------------------------------------------------


def test_batches_are_padded_and_outputs_have_one_shape(tmp_path, tokenizer):
    data = data_of(tmp_path, tokenizer, [*LINES, "", "smiths B-PER", "", "in O"])
    assert data.lengths.tolist() == [7, 4, 3]
    batch = data.collate([data[(4, 1)], data[2]])
    assert batch["input_ids"].tolist() == [[2, 6, 7, 3], [2, 8, 3, 0]]
    assert batch["attention_mask"].tolist() == [[1, 1, 1, 1], [1, 1, 1, 0]]
    assert batch["labels"].tolist() == [[-100, BIO.index("B-PER"), -100, -100],
                                        [-100, 0, -100, -100]]
    assert batch["token_type_ids"].sum() == 0
    logits = torch.randn(2, 4, len(BIO))
    kept = data.keep(SimpleNamespace(logits=logits))
    assert kept.shape == (2, 7, len(BIO)) and kept.dtype == np.float32
    assert torch.allclose(torch.from_numpy(kept[:, :4]), logits.log_softmax(-1))


def test_the_loss_is_that_of_the_model_over_all_words(tmp_path, tokenizer):
    data = data_of(tmp_path, tokenizer, [*LINES, "", "smiths B-PER", "", "in O"])
    torch.manual_seed(0)
    model = tiny_model().eval()
    with torch.no_grad():
        whole = model(**data.collate([data[i] for i in range(3)]))
        kept = np.concatenate([data.keep(model(**data.collate([data[i]]))) for i in range(3)])
    assert data.loss(kept) == pytest.approx(float(whole.loss), abs=1e-5)


def test_a_type_that_the_labels_do_not_have_is_told(tmp_path, tokenizer):
    with pytest.raises(DataError, match=r"a.conll, line 3: .*needs the tag B-ORG, expected one of"):
        data_of(tmp_path, tokenizer, ["in O", "", "in O", "york B-ORG"])


def test_without_tags_there_is_no_score(tmp_path, tokenizer):
    split = read_lines(tmp_path, ["anna", "smith"], labels="optional")
    data = EntityData(entity_task("custom", BIO, (), (), ()), split, tokenizer, 16)
    assert "labels" not in data[0]
    with pytest.raises(MetricError, match="has no tags"):
        data.score(certain(data, [["O", "O"]]))


def test_the_log_has_a_line_for_each_type(tmp_path, tokenizer, caplog):
    caplog.set_level("INFO")
    data = data_of(tmp_path, tokenizer, LINES)
    data.score(certain(data, [["B-PER", "I-PER", "O", "O", "O"]]))
    assert "a: LOC  precision 0.0000" in caplog.text and "a: PER  precision 1.0000" in caplog.text


# ---- prediction files --------------------------------------------------------------------------


def test_predictions_in_columns(tmp_path, tokenizer):
    data = data_of(tmp_path, tokenizer, [*LINES, "", "in O"])
    data.write(certain(data, [["B-PER", "I-PER", "O", "O", "O"], ["O"]]), tmp_path / "p" / "x")
    text = (tmp_path / "p" / "x").read_text(encoding="utf-8")
    assert text == ("Anna\tB-PER\tB-PER\nSmith\tI-PER\tI-PER\nin\tO\tO\nYork\tB-LOC\tO\n"
                    ".\tO\tO\n\nin\tO\tO\n")
    write_conll(tmp_path / "y", data.split.sentences[1:], [["O"]], None)
    assert (tmp_path / "y").read_text(encoding="utf-8") == "in\tO\n"
    back = load_entities(tmp_path / "p" / "x", "a")  # the last column: what was predicted
    assert [s.spans for s in back.sentences] == [[("PER", 0, 2)], []]


def test_predictions_for_clue_read_back_as_they_were(tmp_path):
    label = {"name": {"叶老桂": [[0, 2]]}, "address": {"北京": [[4, 5], [6, 7]]}}
    split = read_lines(tmp_path, [cluener("叶老桂在北京北京", label, id=12)], "a.json")
    tags = [tags_of(s.spans, len(s.words), "bio") for s in split.sentences]
    write_cluener(tmp_path / "out.json", split.sentences, tags)
    written = (tmp_path / "out.json").read_text(encoding="utf-8")
    assert json.loads(written) == {"id": 12, "label": label} and "北京" in written


# ---- entities in plain text --------------------------------------------------------------------


def tiny_model(labels=BIO) -> AlbertForTokenClassification:
    return AlbertForTokenClassification(AlbertConfig(
        vocab_size=len(WORDS), embedding_size=8, hidden_size=12, num_hidden_layers=1,
        num_attention_heads=2, intermediate_size=16, max_position_embeddings=16,
        id2label=list(labels), num_labels=len(labels)))


class Knows(torch.nn.Module):
    """A model that has a tag for each id, whatever stands around it."""

    def __init__(self, tag_of: dict[str, str]) -> None:
        super().__init__()
        self.config = SimpleNamespace(id2label=list(BIO), max_position_embeddings=12)
        self.scores = torch.nn.Parameter(torch.zeros(len(WORDS), len(BIO)))
        for word, tag in tag_of.items():
            self.scores.data[WORDS.index(word), BIO.index(tag)] = 4.0

    def forward(self, input_ids, attention_mask, token_type_ids):
        assert not self.training
        return SimpleNamespace(logits=self.scores[input_ids])


def test_entities_of_plain_text_have_characters_and_probabilities(tokenizer):
    model = Knows({"anna": "B-PER", "smith": "I-PER", "york": "B-LOC"}).train()
    text = "  Anna Smith, in York."
    [found, nothing, long] = find_entities(model, tokenizer, [text, "", "in " * 40 + "York."],
                                           split="words", batch_size=2)
    sure = float(torch.tensor([4.0, 0, 0, 0, 0]).softmax(-1)[0])
    assert [(e["text"], e["type"]) for e in found] == [("Anna Smith", "PER"), ("York", "LOC")]
    assert all(text[e["start"]:e["end"]] == e["text"] for e in found)
    assert [e["probability"] for e in found] == pytest.approx([sure, sure])
    assert nothing == [] and [(e["text"], e["start"]) for e in long] == [("York", 120)]
    assert model.training  # as it was


def test_chinese_text_is_split_by_character(tokenizer):
    model = Knows({"叶": "B-PER", "老": "I-PER", "桂": "I-PER", "北": "B-LOC", "京": "I-LOC",
                   "x": "I-LOC"})
    [found] = find_entities(model.eval(), tokenizer, ["叶老 桂在北京xy"])
    assert [(e["text"], e["type"], e["start"], e["end"]) for e in found] == [
        ("叶老 桂", "PER", 0, 4), ("北京x", "LOC", 5, 8)]


def test_a_model_of_this_library_finds_entities(tokenizer):
    torch.manual_seed(0)
    [found] = find_entities(tiny_model(), tokenizer, ["anna smith in york " * 9], split="words")
    assert all(set(e) == {"text", "type", "start", "end", "probability"} for e in found)


def test_what_cannot_be_searched_is_told(tokenizer):
    with pytest.raises(DataError, match="the model's config: found the labels"):
        find_entities(tiny_model(["no", "yes"]), tokenizer, ["anna"])
    with pytest.raises(ValueError, match="expected one of words, characters"):
        find_entities(tiny_model(), tokenizer, ["anna"], split="pieces")
    with pytest.raises(TypeError, match="expected a sequence"):
        find_entities(tiny_model(), tokenizer, "anna")
