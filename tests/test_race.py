"""Multiple choice: readers of every format, sequences, scores, choices that exclude one another."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from model.configuration_albert import AlbertConfig
from model.modeling_albert import AlbertForMultipleChoice
from model.tokenization_albert import AlbertTokenizer, WordPieceTokenizer
from processors import race
from processors.choices import ChoiceData, assign_once, ending
from processors.race import find_sources, find_split_sources, get_task, load_choices
from processors.readers import DataError

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "[unused1]", "a", "b", "c", "d", "who",
         "is", "it", "_", "?", ".", *"天地人山水火"]
PASSAGE = {"article": "a b c .", "questions": ["who is it ?", "it is _ ."],
           "options": [["a", "b", "c", "d"], ["b", "c", "d", "a"]], "answers": ["B", "D"],
           "id": "middle7.txt"}
DIALOGUE = [["a : who ?", "b : it is c ."],
            [{"question": "who is it ?", "choice": ["a", "b", "c"], "answer": "c"}], "5-36"]
SWAG = (",video-id,fold-ind,startphrase,sent1,sent2,gold-source,ending0,ending1,ending2,ending3,"
        "label\n0,x,1,it is a . who,it is a .,who,gold,\"is it, b\",is c,is d,is a,2\n")
CHID = {"groupId": 0, "candidates": ["天地", "人山", "水火"],
        "content": ["天#idiom000001#地#idiom000002#人", "山#idiom000003#"]}


def write(path: Path, content: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content), "utf-8")
    return path


@pytest.fixture
def tokenizer(tmp_path) -> WordPieceTokenizer:
    return WordPieceTokenizer(write(tmp_path / "vocab.txt", "\n".join(WORDS)))


def load(task: str, *paths: Path, labels: str = "required"):
    return load_choices(get_task(task), paths, labels=labels)


def refused(task: str, path: Path, **how: str) -> str:
    with pytest.raises(DataError) as error:
        load(task, path, **how)
    return str(error.value)


# ---- readers -------------------------------------------------------------------------------------


def race_folder(folder: Path) -> Path:
    for level, number in (("middle", 7), ("high", 12)):
        write(folder / level / f"{number}.txt", PASSAGE | {"id": f"{level}{number}.txt"})
    return folder


def test_row_45_race_in_nested_folders_and_in_one_list(tmp_path):
    nested = load("race", race_folder(tmp_path / "train"))
    files = sorted((tmp_path / "train").rglob("*.txt"))
    items = [json.loads(path.read_text()) for path in files]
    listed = load("race", write(tmp_path / "train.json", json.dumps(items, indent=2)))
    lines = load("race", write(tmp_path / "train.jsonl", "\n".join(map(json.dumps, items))))
    assert nested.examples == listed.examples == lines.examples and len(nested) == 4
    assert [e.guid for e in nested.examples] == ["high12.txt-0", "high12.txt-1", "middle7.txt-0",
                                                 "middle7.txt-1"]
    first = nested.examples[0]
    assert (first.passage, first.question, first.choices, first.label, first.part) == (
        "a b c .", "who is it ?", ("a", "b", "c", "d"), 1, "high")


def test_middle_and_high_are_parts_of_race(tmp_path, caplog):
    folder = race_folder(tmp_path / "train")
    caplog.set_level("INFO")
    middle, high = load("race-middle", folder), load("RACE_high", folder)
    assert {e.guid[:6] for e in middle.examples} == {"middle"} and len(middle) == len(high) == 2
    assert "left out 2 questions that are not of the middle part" in caplog.text
    nameless = write(tmp_path / "x" / "high" / "3.txt", PASSAGE | {"id": "3"})
    assert [e.part for e in load("race", nameless.parent).examples] == ["high"] * 2
    message = refused("race-middle", write(tmp_path / "one.json", [PASSAGE | {"id": "3"}]))
    assert "the id does not tell middle from high" in message and "--task_name race" in message
    message = refused("race-high", write(tmp_path / "two.json", [PASSAGE]))
    assert "no question, expected at least one of the high part; found 2 of others" in message


def test_real_race(shared):
    split = load("race", shared("data/race_middle/test.json"))
    assert len(split) == 1436 and len({e.guid for e in split.examples}) == 1436
    assert {e.part for e in split.examples} == {"middle"}
    counts = np.bincount([e.label for e in split.examples], minlength=4)
    assert counts.max() == 388 and {len(e.choices) for e in split.examples} == {4}


@pytest.mark.parametrize(("change", "message"), [
    ({"answers": ["B", "E"]}, "item 2, question 2: the answer is 'E', expected one of A, B, C, D"),
    ({"answers": ["B", 1]}, "item 2, question 2: the answer is 1, expected one of A"),
    ({"answers": ["B"]}, "item 2: found 2 questions, 2 lists of options and 1 answers"),
    ({"options": [["a", "b"], "bcda"]}, "item 2, question 2: its options is the JSON str"),
    ({"options": [["a", 3], ["b", "c", "d", "a"]]}, "an option is the JSON int 3, expected a str"),
    ({"options": [["a"] * 5, ["b"] * 4]}, "found 5 choices, expected 2 to 4"),
    ({"questions": "who ?"}, "item 2: 'questions' is the JSON str \"who ?\", expected a list"),
    ({"article": None}, "item 2: 'article' is the JSON NoneType null, expected a str"),
])
def test_broken_race(change, message, tmp_path):
    path = write(tmp_path / "train.json", [PASSAGE, PASSAGE | {"id": "middle8.txt"} | change])
    found = refused("race", path)
    assert str(path) in found and message in found


@pytest.mark.parametrize(("content", "message"), [
    ('[{"article": "a",', "line 1: broken JSON"),
    ('{"article": "a"}\n{"article"', "line 2: broken JSON"),
    ('{"article": "a"}', "no 'questions', found the keys 'article'"),
    ("[3]", "item 1: found a JSON int, expected an object with 'article'"),
    ("[]", "no question, expected at least one"),
])
def test_files_that_are_no_race(content, message, tmp_path):
    path = write(tmp_path / "train.json", content)
    assert message in refused("race", path) and str(path) in refused("race", path)


def test_a_folder_without_passages(tmp_path):
    write(tmp_path / "train" / "readme.md", "x")
    assert "no .txt file in this folder" in refused("race", tmp_path / "train")


def test_race_without_answers_is_only_predicted(tmp_path):
    hidden = {name: value for name, value in PASSAGE.items() if name != "answers"}
    path = write(tmp_path / "test.json", [hidden])
    assert not load("race", path, labels="optional").labelled
    assert "question middle7.txt-0: found no answer" in refused("race", path)
    twice = write(tmp_path / "test2.json", [hidden, hidden])
    assert "2 questions have the id middle7.txt-0" in refused("race", twice, labels="optional")


def test_dream_and_c3(tmp_path):
    [example] = load("dream", write(tmp_path / "train.json", [DIALOGUE])).examples
    assert (example.guid, example.passage, example.choices, example.label, example.part) == (
        "5-36-0", "a : who ?\nb : it is c .", ("a", "b", "c"), 2, None)
    capital = [DIALOGUE[0], [DIALOGUE[1][0] | {"answer": " C"}], "5-37"]
    assert load("dream", write(tmp_path / "capital.json", [capital])).examples[0].label == 2
    two = [["a"], [{"question": "who", "choice": ["a", "b"], "answer": "b"}], "9"]
    m, d = write(tmp_path / "c3-m-dev.json", [two]), write(tmp_path / "c3-d-dev.json", [DIALOGUE])
    sources = find_sources(tmp_path, get_task("c3").dev["c3"], "dev")
    assert sources == (d, m)
    split = load("c3", *sources)
    assert [(e.part, len(e.choices)) for e in split.examples] == [("d", 3), ("m", 2)]
    hidden = [["a"], [{"question": "who", "choice": ["a", "b"], "id": 0}]]
    split = load("c3", write(tmp_path / "test1.0.json", [hidden]), labels="optional")
    assert split.examples[0].guid == "0" and not split.labelled


@pytest.mark.parametrize(("item", "message"), [
    ({"a": 1}, 'item 1: found {"a": 1}, expected a list of turns, questions and id'),
    ([["a"]], "item 1: found [["),
    (["a", []], 'item 1: the first part is the JSON str "a", expected a list'),
    ([["a"], [{"question": "who"}]], "item 1, question 1: no 'choice', found the keys 'question'"),
    ([["a"], [{"question": "q", "choice": ["a", "b"], "answer": "z"}]],
     "item 1, question 1: the answer is 'z', expected one of its choices: 'a', 'b'"),
])
def test_broken_dialogues(item, message, tmp_path):
    path = write(tmp_path / "train.json", [item])
    assert message in refused("dream", path) and str(path) in refused("dream", path)


def test_swag(tmp_path):
    [example] = load("swag", write(tmp_path / "train.csv", SWAG)).examples
    assert (example.guid, example.passage, example.question, example.label) == (
        "0", "it is a .", "who", 2)
    assert example.choices == ("is it, b", "is c", "is d", "is a")
    without = SWAG.replace(",label", "").replace(",2\n", "\n")
    assert not load("swag", write(tmp_path / "test.csv", without), labels="optional").labelled
    assert "line 2: the label is '4', expected 0, 1, 2 or 3" in refused(
        "swag", write(tmp_path / "val.csv", SWAG.replace(",2\n", ",4\n")))
    assert "line 2: found 11 columns, expected 12" in refused(
        "swag", write(tmp_path / "val.csv", SWAG.replace(",2\n", "\n")))
    assert "no column sent2, ending3, found" in refused(
        "swag", write(tmp_path / "val.csv", SWAG.replace("sent2", "x").replace("ending3", "y")))


def chid(folder: Path, answers: object = None) -> Path:
    if answers is not None:
        write(folder / "train_answer.json", answers)
    second = CHID | {"content": ["#idiom000004#火"]}
    return write(folder / "train.json", json.dumps(CHID) + "\n" + json.dumps(second) + "\n")


RIGHT = {f"#idiom00000{i}#": i % 3 for i in (1, 2, 3, 4)}


def test_chid(tmp_path):
    split = load("chid", chid(tmp_path, RIGHT))
    assert [(e.guid, e.label, e.group) for e in split.examples] == [
        ("#idiom000001#", 1, "0"), ("#idiom000002#", 2, "0"), ("#idiom000003#", 0, "0"),
        ("#idiom000004#", 1, "1")]
    (tmp_path / "train_answer.json").unlink()
    assert not load("chid", tmp_path / "train.json", labels="optional").labelled
    assert "such as train_answer.json" in refused("chid", tmp_path / "train.json")


@pytest.mark.parametrize(("answers", "message"), [
    (RIGHT | {"#idiom000004#": 3}, "line 2: the answer of #idiom000004# in"),
    ({"#idiom000001#": 1}, "train_answer.json is None, expected a number from 0 to 2"),
    ([1], "train_answer.json: found 1 items, expected one JSON object"),
])
def test_broken_chid_answers(answers, message, tmp_path):
    assert message in refused("chid", chid(tmp_path, answers))


def test_chid_without_a_blank(tmp_path):
    path = write(tmp_path / "train.json", CHID | {"content": ["天地"]})
    assert "a passage without a blank such as #idiom000001#" in refused("chid", path)


def test_files_are_found_by_their_names(tmp_path):
    race_folder(tmp_path / "RACE" / "train")
    assert find_sources(tmp_path, race.TASKS["race"].train, "train") == (tmp_path / "RACE/train",)
    with pytest.raises(DataError, match="found RACE; expected for dev dev or RACE/dev or dev.json"):
        find_split_sources(tmp_path, race.TASKS["race"].dev, "dev")
    with pytest.raises(DataError, match="no such folder; expected for train train.csv"):
        find_sources(tmp_path / "x", race.TASKS["swag"].train, "train")
    one = write(tmp_path / "c3" / "c3-d-train.json", [])
    with pytest.raises(DataError, match=re.escape("c3-d-train.json + c3-m-train.json")):
        find_sources(one.parent, race.TASKS["c3"].train, "train")
    tests = [write(tmp_path / "c3" / f"test1.{i}.json", []) for i in (0, 1)]
    assert find_split_sources(one.parent, race.TASKS["c3"].test, "test") == {
        "c3-1.0": (tests[0],), "c3-1.1": (tests[1],)}


def test_names_of_tasks():
    assert get_task("RACE-Middle").name == "race-middle" and get_task("C3_d").name == "c3-d"
    with pytest.raises(DataError, match=r"--task_name dreams: no such task \(did you mean dream"):
        get_task("dreams")
    assert all(set(task.test) == set(task.submission) for task in race.TASKS.values())


# ---- sequences -----------------------------------------------------------------------------------


def test_question_and_choice_are_one_text():
    assert ending(" Who\n is it ?", " a  b ", cloze=True) == "Who is it ? a b"
    assert ending("it is _ , _ .", " a\n", cloze=True) == "it is a , a ."
    assert ending("it is _ .", "a", cloze=False) == "it is _ . a"
    assert ending("", "a", cloze=True) == "a"


def official_features(tokenizer, item: dict, i: int, max_length: int, max_qa: int) -> list:
    """ALBERT's race_utils.py restated: tokens of the whole, cut, a choice at a time."""
    rows = []
    context = tokenizer.convert_tokens_to_ids(tokenizer.tokenize(item["article"]))
    question = " ".join(item["questions"][i].split())
    for option in item["options"][i]:
        option = " ".join(option.split())
        text = question.replace("_", option) if "_" in question else question + " " + option
        end = tokenizer.convert_tokens_to_ids(tokenizer.tokenize(text))[-max_qa:]
        kept = list(context)
        while len(kept) + len(end) > max_length - 3:
            kept.pop()
        cls, sep = tokenizer.cls_token_id, tokenizer.sep_token_id
        rows.append(([cls, *kept, sep, *end, sep], [0] * (len(kept) + 2) + [1] * (len(end) + 1)))
    return rows


@pytest.mark.parametrize(("max_length", "max_qa", "some"), [(512, 128, 60), (160, 12, 60)])
def test_real_race_gives_the_sequences_of_the_official_code(shared, max_length, max_qa, some):
    path = shared("data/race_middle/test.json")
    tokenizer = AlbertTokenizer.from_pretrained(
        None, spm_model_file=shared("data/vocab/spiece.model"))
    task = get_task("race")
    split = load_choices(task, (path,))
    # Those with the longest passages, which are cut, and some others.
    wanted = [(item, i) for item in json.loads(path.read_text("utf-8"))
              for i in range(len(item["questions"]))]
    order = np.argsort([-len(item["article"]) for item, _ in wanted], kind="stable")
    chosen = [*order[:some // 2], *order[-some // 2:]]
    split.examples = [split.examples[i] for i in chosen]
    data = ChoiceData(task, split, tokenizer, max_length, max_qa)
    assert data.truncated and (data.cut_endings > 0) == (max_qa == 12)
    for row, i in enumerate(chosen):
        features, rows = data[row], official_features(tokenizer, *wanted[i], max_length, max_qa)
        assert [list(ids) for ids in features["input_ids"]] == [ids for ids, _ in rows]
        assert features["token_type_ids"] == [types for _, types in rows]
        assert data.lengths[row] == max(len(ids) for ids, _ in rows) <= max_length
        assert features["labels"] == ord(wanted[i][0]["answers"][wanted[i][1]]) - ord("A")


def decoded(tokenizer, ids) -> str:
    return " ".join(tokenizer.convert_ids_to_tokens([int(i) for i in ids]))


def race_data(tokenizer, tmp_path, max_length=32, **how) -> ChoiceData:
    path = write(tmp_path / "train.json", [PASSAGE | {"options": [["a", "b", "c d", "d"],
                                                                  ["b", "a"]], "answers": "CB"}])
    path.write_text(path.read_text().replace('"CB"', '["C", "B"]'))
    task = get_task("race")
    return ChoiceData(task, load_choices(task, (path,)), tokenizer, max_length, **how)


def test_the_passage_gives_way_and_that_is_told(tokenizer, tmp_path, caplog):
    data = race_data(tokenizer, tmp_path, 12, max_qa_length=5)
    assert [decoded(tokenizer, ids) for ids in data[0]["input_ids"]] == [
        "[CLS] a b c . [SEP] who is it ? a [SEP]", "[CLS] a b c . [SEP] who is it ? b [SEP]",
        "[CLS] a b c . [SEP] is it ? c d [SEP]", "[CLS] a b c . [SEP] who is it ? d [SEP]"]
    assert data.truncated == 0 and data.cut_endings == 1
    assert "more than 5 tokens in 1 of 2 questions; their beginning was cut" in caplog.text
    short = race_data(tokenizer, tmp_path, 10)
    assert decoded(tokenizer, short[0, 1]["input_ids"][0]) == (
        "[CLS] a b c [SEP] it is b . [SEP]")
    assert decoded(tokenizer, short[0]["input_ids"][2]) == (
        "[CLS] a [SEP] who is it ? c d [SEP]")
    assert short.truncated == 2 and list(short.lengths) == [10, 10]
    assert "the passages of 2 of 2 questions are too long for 10 tokens" in caplog.text
    assert decoded(tokenizer, race_data(tokenizer, tmp_path, 6)[0]["input_ids"][2]) == (
        "[CLS] [SEP] ? c d [SEP]")


def test_a_passage_is_tokenised_once(tokenizer, tmp_path, monkeypatch):
    seen = []
    encode = WordPieceTokenizer.encode_batch
    monkeypatch.setattr(WordPieceTokenizer, "encode_batch",
                        lambda self, texts: seen.extend(texts) or encode(self, texts))
    race_data(tokenizer, tmp_path)
    assert seen.count("a b c .") == 1 and len(seen) == 7


def test_a_batch_has_no_more_than_it_needs(tokenizer, tmp_path):
    data = race_data(tokenizer, tmp_path)
    batch = data.collate([data[0], data[1]])
    assert {name: tuple(value.shape) for name, value in batch.items()} == {
        "input_ids": (2, 4, 13), "attention_mask": (2, 4, 13), "token_type_ids": (2, 4, 13),
        "labels": (2,)}
    assert batch["attention_mask"].sum(-1).tolist() == [[12, 12, 13, 12], [11, 11, 0, 0]]
    assert batch["labels"].tolist() == [2, 1]
    assert tuple(data.collate([data[1]])["input_ids"].shape) == (1, 2, 11)
    assert data.lengths.tolist() == [13, 11]


def test_a_choice_that_is_not_there_changes_nothing(tokenizer, tmp_path):
    torch.manual_seed(0)
    model = AlbertForMultipleChoice(AlbertConfig(
        vocab_size=len(WORDS), embedding_size=8, hidden_size=12, num_hidden_layers=1,
        num_attention_heads=3, intermediate_size=20, max_position_embeddings=32,
        initializer_range=0.5)).eval()
    data = race_data(tokenizer, tmp_path)
    alone = model(**data.collate([data[1]]))
    both = data.collate([data[0], data[1]])
    both["labels"][0] = -100
    together = model(**both)
    torch.testing.assert_close(together.logits[1, :2], alone.logits[0])
    torch.testing.assert_close(together.loss, alone.loss)
    together.loss.backward()
    assert all(torch.isfinite(p.grad).all() for p in model.parameters() if p.grad is not None)
    kept = data.keep(SimpleNamespace(logits=alone.logits.detach()))
    assert kept.shape == (1, 4) and kept.argmax() < 2
    assert together.logits[1].argmax() < 2


def test_the_official_head_on_sequences_of_ours(shared):
    """Three choices of the reference model in one batch with room for a fourth."""
    inputs = np.load(shared("reference/inputs.npz"))
    wanted = np.load(shared("reference/finetuned_race/expected.npz"))
    model = AlbertForMultipleChoice.from_pretrained(shared("reference/finetuned_race"))
    real = [int(mask.sum()) for mask in inputs["input_mask"]]
    assert all(mask[:n].all() for mask, n in zip(inputs["input_mask"], real, strict=True))
    one = {"input_ids": [ids[:n] for ids, n in zip(inputs["input_ids"], real, strict=True)],
           "token_type_ids": [t[:n] for t, n in zip(inputs["token_type_ids"], real, strict=True)],
           "labels": 1}
    four = {**one, "input_ids": [*one["input_ids"], [2, 3]],
            "token_type_ids": [*one["token_type_ids"], [0, 0]]}
    data = SimpleNamespace(special=(2, 3, 0), choices=4)
    with torch.no_grad():
        output = model(**ChoiceData.collate(data, [one, four]))
    np.testing.assert_allclose(output.logits[0, :3].numpy(), wanted["logits"][0], atol=2e-5)
    probabilities = torch.softmax(output.logits[0], 0).numpy()
    np.testing.assert_allclose(probabilities, [*wanted["probabilities"][0], 0], atol=2e-5)


def test_a_blank_is_in_the_middle_of_what_is_kept(tokenizer, tmp_path):
    text = "天地人山#idiom000001#水火天#idiom000002#地人"
    write(tmp_path / "train_answer.json", {"#idiom000001#": 0, "#idiom000002#": 1})
    path = write(tmp_path / "train.json", CHID | {"content": [text]})
    task = get_task("chid")

    def sequences(max_length, tokenizer=tokenizer):
        data = ChoiceData(task, load_choices(task, (path,)), tokenizer, max_length)
        return data, [decoded(tokenizer, data[i]["input_ids"][1]) for i in range(2)]

    data, whole = sequences(32)
    masks = "[MASK] [MASK] [MASK] [MASK]"
    assert whole == [f"[CLS] 天 地 人 山 [unused1] 水 火 天 {masks} 地 人 [SEP] 人 山 [SEP]",
                     f"[CLS] 天 地 人 山 {masks} 水 火 天 [unused1] 地 人 [SEP] 人 山 [SEP]"]
    assert data.truncated == 0 and data.lengths.tolist() == [19, 19]
    data, cut = sequences(10)
    assert cut == ["[CLS] 人 山 [unused1] 水 火 [SEP] 人 山 [SEP]",
                   "[CLS] 火 天 [unused1] 地 人 [SEP] 人 山 [SEP]"]
    assert data.truncated == 2 and data.lengths.tolist() == [10, 10]
    without = [word for word in WORDS if word != "[unused1]"]
    plain = WordPieceTokenizer(write(tmp_path / "plain.txt", "\n".join(without)))
    assert sequences(10, plain)[1][0] == "[CLS] 人 山 [MASK] 水 火 [SEP] 人 山 [SEP]"


# ---- scores and predictions ----------------------------------------------------------------------


def test_scores_of_all_and_of_every_part(tokenizer, tmp_path):
    task = get_task("race")
    split = load_choices(task, (race_folder(tmp_path / "dev"),))  # high B, D; middle B, D
    data = ChoiceData(task, split, tokenizer, 32)
    logits = np.zeros((4, 4), np.float32)
    logits[[0, 1, 2, 3], [1, 0, 1, 3]] = 2.0
    scores = data.score(logits)
    assert scores.values == {"accuracy": 0.75, "accuracy_high": 0.5, "accuracy_middle": 1.0}
    assert scores.baseline == {"accuracy": 0.5, "accuracy_high": 0.5, "accuracy_middle": 0.5}
    assert scores.main == "accuracy" and scores.baseline_guess == 'always "B"'
    assert "a choice at random is right in 0.2500" in scores.notes
    right, wrong = (-math.log(math.exp(x) / (math.exp(2) + 3)) for x in (2, 0))
    assert data.loss(logits) == pytest.approx((3 * right + wrong) / 4)


def test_a_choice_that_is_not_there_is_never_chosen(tokenizer, tmp_path):
    data = race_data(tokenizer, tmp_path)
    logits = np.array([[0, 1, 2, 9], [0, 1, 8, 9]], np.float32)
    assert data.chosen(logits).tolist() == [3, 1]
    scores = data.score(logits)
    assert "a choice at random is right in 0.3750" in scores.notes
    assert set(scores.values) == {"accuracy"} and scores.values["accuracy"] == 0.5
    assert data.loss(logits) == pytest.approx(
        np.mean([np.log(np.exp([0, 1, 2, 9]).sum()) - 2, np.log(np.exp([0, 1]).sum()) - 1]))


def test_predictions_are_written_as_every_benchmark_wants_them(tokenizer, tmp_path):
    def written(task, path):
        row = get_task(task)
        data = ChoiceData(row, load_choices(row, (path,), labels="optional"), tokenizer, 32)
        logits = np.eye(data.choices, dtype=np.float32)[[1, 0, 1, 1][:len(data)]]
        data.write(logits, tmp_path / "out" / "x.json")
        return (tmp_path / "out" / "x.json").read_text("utf-8")

    assert json.loads(written("race", write(tmp_path / "test.json", [PASSAGE]))) == {
        "middle7.txt-0": "B", "middle7.txt-1": "A"}
    hidden = [["a"], [{"question": "who", "choice": ["a", "b"], "id": i} for i in (4, 5)]]
    assert written("c3", write(tmp_path / "test.json", [hidden])) == (
        '{"id": 4, "label": 1}\n{"id": 5, "label": 0}\n')
    assert json.loads(written("chid", chid(tmp_path))) == {
        "#idiom000001#": 1, "#idiom000002#": 0, "#idiom000003#": 1, "#idiom000004#": 1}
    assert json.loads(written("swag", write(tmp_path / "t.csv", SWAG))) == {"0": 1}


def test_blanks_that_share_candidates_may_exclude_one_another(tokenizer, tmp_path):
    task = get_task("chid")
    split = load_choices(task, (chid(tmp_path, RIGHT),))
    logits = np.array([[3, 2, 1], [5, 4, 0], [1, 0, 0], [9, 0, 0]], np.float32)
    free = ChoiceData(task, split, tokenizer, 32)
    once = ChoiceData(task, split, tokenizer, 32, once=True)
    assert free.chosen(logits).tolist() == [0, 0, 0, 0]
    assert once.chosen(logits).tolist() == [1, 0, 2, 0]  # the last is a group of its own
    assert once.score(logits).values["accuracy"] == 0.25
    assert assign_once(np.array([[1.0, 0], [2, 1], [3, 0]])).tolist() == [0, 1, 0]
