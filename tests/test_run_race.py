"""Multiple choice end to end on tiny models and files: what comes out, what is refused, scripts."""

from __future__ import annotations

import json
import logging
import random
import subprocess
from pathlib import Path

import pytest
import torch
from test_scripts import called_with

from model.configuration_albert import AlbertConfig
from model.modeling_albert import AlbertForMultipleChoice, AlbertForPreTraining
from model.tokenization_albert import WordPieceTokenizer
from processors.race import TASKS, get_task
from run_race import RaceSettings, main
from tools.arguments import read as read_flags

ROOT = Path(__file__).resolve().parent.parent
SCRIPTS = [ROOT / "scripts" / f"run_{name}.sh" for name in ("race", "dream", "swag", "c3", "chid")]
WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "who", *"abcdefgh", *"天地人山水火"]


@pytest.fixture(autouse=True)
def quiet(monkeypatch):
    """Runs in this process leave handlers on the root logger: take them off. No curves."""
    before = list(logging.getLogger().handlers)
    monkeypatch.setattr("callback.trainingmonitor.draw_curves", lambda lines, path: None)
    yield
    for handler in [h for h in logging.getLogger().handlers if h not in before]:
        logging.getLogger().removeHandler(handler)
        handler.close()


@pytest.fixture
def model(tmp_path) -> Path:
    """A model directory without a head, which learns within a few steps."""
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "vocab.txt").write_text("\n".join(WORDS) + "\n", encoding="utf-8")
    torch.manual_seed(0)
    AlbertForPreTraining(AlbertConfig(
        vocab_size=len(WORDS), embedding_size=8, hidden_size=12, num_hidden_layers=1,
        num_attention_heads=3, intermediate_size=20, max_position_embeddings=32,
        classifier_dropout_prob=0.0, initializer_range=0.2,
        )).save_pretrained(folder, WordPieceTokenizer(folder / "vocab.txt"))
    return folder


def write(path: Path, content: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, ensure_ascii=False), encoding="utf-8")
    return path


def choices(rng: random.Random, count: int) -> tuple[list[str], int]:
    """Letters; the right choice is the one with an h, wherever it stands."""
    right = rng.randrange(count)
    return ["h" if i == right else rng.choice("abcd") for i in range(count)], right


def race(folder: Path, counts: dict[str, int], levels: tuple[str, ...] = ("middle", "high"),
         ) -> Path:
    rng = random.Random(0)
    for split, count in counts.items():
        for number in range(count):
            level = levels[number % len(levels)]
            options, rights = zip(*(choices(rng, 4) for _ in range(2)), strict=True)
            write(folder / split / level / f"{number}.txt", {
                "id": f"{level}{number}.txt", "article": " ".join(rng.choices("abcdefg", k=9)),
                "questions": ["who", "a _ b"], "options": options,
                "answers": ["ABCD"[right] for right in rights]})
    return folder


def dialogues(path: Path, count: int, part: str, answers: bool = True) -> Path:
    rng, items = random.Random(part), []
    for number in range(count):
        options, right = choices(rng, 2 + number % 3)
        question = {"question": "who", "choice": options}
        question |= {"answer": options[right]} if answers else {"id": number}
        items.append([["a b", "c"], [question], f"{part}{number}"])
    return write(path, items)


def flags(task: str, data: Path, model: Path, out: Path, *more: str) -> list[str]:
    return ["--task_name", task, "--data_dir", str(data), "--model_name_or_path", str(model),
            "--output_dir", str(out), "--no_cuda", "--per_gpu_train_batch_size", "4",
            "--learning_rate", "2e-2", "--max_seq_length", "20", *more]


def run(*arguments: str) -> dict:
    assert main(arguments) == 0
    out = Path(arguments[arguments.index("--output_dir") + 1])
    return json.loads((out / "eval_results.json").read_text(encoding="utf-8"))


def refused(capsys, *arguments: str) -> str:
    """The one message of a run that does not start."""
    capsys.readouterr()
    try:
        code = main(arguments)
    except SystemExit as stopped:
        code = stopped.code
    message = capsys.readouterr().err
    assert code in (1, 2) and "error: " in message and "Traceback" not in message
    return message[message.index("error: "):]


# ---- what comes out ----------------------------------------------------------------------------


def test_race_is_learnt_scored_by_level_and_predicted(model, tmp_path, capsys):
    data = race(tmp_path / "RACE", {"train": 20, "dev": 6, "test": 6})
    out = tmp_path / "out"
    results = run(*flags("race", data, model, out, "--do_train", "--do_eval", "--do_predict",
                         "--num_train_epochs", "4"))
    for part in ("dev", "test"):
        scores = results[part]["race"]
        assert scores["main"] == "accuracy" and scores["examples"] == 12
        assert scores["accuracy"] == scores["accuracy_middle"] == scores["accuracy_high"] == 1
        assert scores["baseline"]["accuracy"] < 1
    assert "a choice at random is right in 0.2500" in capsys.readouterr().out
    predicted = json.loads((out / "predictions" / "race.json").read_text())
    wanted = {}
    for path in (data / "test").rglob("*.txt"):
        item = json.loads(path.read_text())
        wanted |= {f"{item['id']}-{i}": answer for i, answer in enumerate(item["answers"])}
    assert predicted == wanted
    assert AlbertConfig.from_pretrained(out).id2label is None
    assert AlbertForMultipleChoice.from_pretrained(out).load_report.new == []

    again = run(*flags("race-high", data, out, tmp_path / "high", "--do_eval"))
    assert again["dev"]["race-high"]["accuracy"] == 1
    assert again["dev"]["race-high"]["examples"] == 6


def test_c3_with_two_to_four_choices(model, tmp_path):
    for split, count in (("train", 30), ("dev", 9)):
        for part in "dm":
            dialogues(tmp_path / "c3" / f"{part}-{split}.json", count, part)
    dialogues(tmp_path / "c3" / "test1.1.json", 5, "t", answers=False)
    out = tmp_path / "out"
    results = run(*flags("c3", tmp_path / "c3", model, out, "--do_train", "--do_eval",
                         "--do_predict", "--num_train_epochs", "5"))
    scores = results["dev"]["c3"]
    assert scores["accuracy"] == scores["accuracy_d"] == scores["accuracy_m"] == 1
    assert "test" not in results  # no answers
    rng = random.Random("t")
    rights = [choices(rng, 2 + number % 3)[1] for number in range(5)]
    lines = (out / "predictions" / "c311_predict.json").read_text().splitlines()
    assert [json.loads(line) for line in lines] == [
        {"id": i, "label": right} for i, right in enumerate(rights)]


def test_chid_with_every_idiom_once(model, tmp_path):
    content = {"groupId": 1, "candidates": ["天地", "人山", "水火"],
               "content": ["天#idiom000001#地#idiom000002#人", "山#idiom000003#水"]}
    for split in ("train", "dev", "test"):
        write(tmp_path / "chid" / f"{split}.json", content)
    for split in ("train", "dev"):
        write(tmp_path / "chid" / f"{split}_answer.json",
              {"#idiom000001#": 0, "#idiom000002#": 1, "#idiom000003#": 2})
    out = tmp_path / "out"
    results = run(*flags("chid", tmp_path / "chid", model, out, "--do_train", "--do_eval",
                         "--do_predict", "--each_choice_once", "--max_steps", "1"))
    assert results["dev"]["chid"]["examples"] == 3
    predicted = json.loads((out / "predictions" / "chid_predict.json").read_text())
    assert sorted(predicted) == [f"#idiom00000{i}#" for i in (1, 2, 3)]
    assert sorted(predicted.values()) == [0, 1, 2]


def test_files_instead_of_a_folder(model, tmp_path):
    data = race(tmp_path / "RACE", {"train": 4, "dev": 2}, ("middle",))
    one = write(tmp_path / "one.json", [
        json.loads(path.read_text()) for path in (data / "dev").rglob("*.txt")])
    out = tmp_path / "out"
    results = run(*flags("race-middle", data, model, out, "--train_file", "dev", "--dev_file",
                         str(data / "train"), "--test_file", str(one), "--do_train", "--do_eval",
                         "--do_predict", "--max_steps", "1", "--max_qa_length", "3"))
    assert results["dev"]["race-middle"]["examples"] == 8
    assert results["test"]["race-middle"]["examples"] == 4
    assert len(json.loads((out / "predictions" / "race-middle.json").read_text())) == 4
    assert json.loads((out / "settings.json").read_text())["max_qa_length"] == 3


# ---- what is refused ---------------------------------------------------------------------------


def test_flags_that_do_not_fit(model, tmp_path, capsys):
    out = tmp_path / "out"
    data = race(tmp_path / "RACE", {"dev": 1})
    assert "--data_dir is missing" in refused(
        capsys, "--task_name", "race", "--model_name_or_path", str(model), "--output_dir",
        str(out), "--do_eval", "--do_predict", "--test_file", "x")
    message = refused(capsys, *flags("rase", data, model, out, "--do_eval", "--max_qa_length",
                                     "0"))
    assert "--task_name rase: no such task (did you mean race?)" in message
    assert "--max_qa_length 0: expected at least 1" in message
    assert "--each_choice_once: questions of race do not share" in refused(
        capsys, *flags("race", data, model, out, "--do_eval", "--each_choice_once"))
    assert "found dev; expected for train train or RACE/train or train.json" in refused(
        capsys, *flags("race", data, model, out, "--do_train"))
    assert not out.exists()


def test_a_model_without_this_head_predicts_nothing(model, tmp_path, capsys):
    data = race(tmp_path / "RACE", {"dev": 1})
    out = tmp_path / "out"
    assert "no head for race in it" in refused(
        capsys, *flags("race", data, model, out, "--do_eval"))
    assert not out.exists()


def test_a_broken_file_is_told_before_the_run(model, tmp_path, capsys):
    data = race(tmp_path / "RACE", {"train": 1})
    path = data / "train" / "middle" / "0.txt"
    write(path, json.loads(path.read_text()) | {"answers": ["A", "F"]})
    message = refused(capsys, *flags("race", data, model, tmp_path / "out", "--do_train"))
    assert message == (f"error: {path}, question 2: the answer is 'F', expected one of "
                       "A, B, C, D\n")


# ---- scripts -----------------------------------------------------------------------------------


def settings_of(script: Path, folder: Path, *more: str) -> RaceSettings:
    door, *given = called_with(script, folder, *more)
    assert door == "run_race.py"
    return read_flags(RaceSettings, "", given)


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_the_real_parser_takes_the_flags_of_a_script(script, tmp_path):
    settings = settings_of(script, tmp_path)
    assert script.stem == f"run_{get_task(settings.task_name).name}"
    assert settings.do_train and settings.do_eval and settings.do_predict
    paths = (settings.output_dir, settings.data_dir, settings.model_name_or_path)
    assert not any(Path(path).is_absolute() for path in paths)
    assert settings.max_qa_length <= settings.max_seq_length - 3
    assert settings_of(script, tmp_path, "--learning_rate", "3e-3").learning_rate == 3e-3


def test_race_is_as_in_the_paper(tmp_path):
    """Rate and dropout of the v2 models; steps, warm-up, batch and length of all."""
    settings = settings_of(SCRIPTS[0], tmp_path)
    assert (settings.learning_rate, settings.batch_size) == (1e-5, 32)
    assert (settings.max_steps, settings.warmup_steps) == (12000, 1000)
    assert settings.hidden_dropout_prob == settings.attention_probs_dropout_prob == 0
    assert (settings.classifier_dropout_prob, settings.max_seq_length) == (0.1, 512)


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_a_script_stops_at_the_first_error(script, tmp_path):
    assert "set -euo pipefail" in script.read_text(encoding="utf-8")
    failing = subprocess.run(["bash", str(script)], cwd=tmp_path, capture_output=True,
                             env={"PATH": "/usr/bin:/bin", "PYTHON": "false"})
    assert failing.returncode == 1


def test_every_data_set_has_a_script():
    assert {path.stem.removeprefix("run_") for path in SCRIPTS} == {
        name.split("-")[0] for name in TASKS}
