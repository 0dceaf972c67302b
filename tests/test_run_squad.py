"""Span reading end to end on tiny models and files: what comes out, what is refused, scripts."""

from __future__ import annotations

import json
import logging
import random
import subprocess
from pathlib import Path

import pytest
import torch
from test_scripts import called_with

from metrics.squad import score_answers
from model.configuration_albert import AlbertConfig
from model.modeling_albert import AlbertForPreTraining, AlbertForQuestionAnswering
from model.tokenization_albert import AlbertTokenizer, WordPieceTokenizer
from processors.span_prediction import answer
from processors.squad import TASKS
from run_squad import SquadSettings, main, options_of, task_of
from tools.arguments import read as read_flags

ROOT = Path(__file__).resolve().parent.parent
SCRIPTS = sorted([*ROOT.glob("scripts/run_squad_*.sh"), ROOT / "scripts" / "run_cmrc2018.sh",
                  ROOT / "scripts" / "run_drcd.sh"])
WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "who", *"abcdefgh", *"三国志"]


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


def squad_file(path: Path, count: int, impossible: bool = False, seed: int = 0) -> Path:
    """Passages of letters in which 三国 is the answer; with impossible, every third has none."""
    rng = random.Random(seed)
    paragraphs = []
    for number in range(count):
        before, after = (rng.choices("abcdefgh", k=rng.randint(1, 8)) for _ in range(2))
        none = impossible and number % 3 == 0
        context = " ".join(["志", *before, *(["志"] if none else ["三国"]), *after])
        question = {"id": f"q{number}", "question": "Who a", "answers": [] if none else [
            {"text": "三国", "answer_start": context.index("三国")}]}
        if impossible:
            question["is_impossible"] = none
        paragraphs.append({"context": context, "qas": [question]})
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"data": [{"paragraphs": paragraphs}]}, ensure_ascii=False),
                    encoding="utf-8")
    return path


def flags(model: Path, out: Path, *more: str) -> list[str]:
    return ["--model_name_or_path", str(model), "--output_dir", str(out), "--no_cuda",
            "--per_gpu_train_batch_size", "4", "--learning_rate", "2e-2", "--num_train_epochs",
            "5", "--max_seq_length", "16", "--doc_stride", "4", *more]


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


def content(path: Path) -> dict:
    return json.loads(path.read_text(encoding="utf-8"))


# ---- what comes out ----------------------------------------------------------------------------


def test_spans_are_learnt_scored_and_predicted(model, tmp_path, capsys):
    train = squad_file(tmp_path / "d" / "train-v1.1.json", 60)
    dev = squad_file(tmp_path / "d" / "dev-v1.1.json", 9, seed=1)
    out = tmp_path / "out"
    results = run(*flags(model, out, "--data_dir", str(train.parent), "--do_train", "--do_eval",
                         "--do_predict"))
    for part in ("dev", "test"):  # SQuAD has no test file: the dev file is predicted
        scores = results[part]["squad"]
        assert scores["main"] == "f1" and scores["f1"] == scores["exact"] == 1
        assert scores["examples"] == 9 and scores["baseline"]["f1"] == 0
    shown = capsys.readouterr()
    assert "9 predictions in" in shown.out
    assert f"{train}: 60 questions on 60 passages in" in shown.err and "9 questions on" in shown.err
    assert content(out / "predictions" / "predictions.json") == {f"q{i}": "三国" for i in range(9)}
    best = content(out / "predictions" / "nbest_predictions.json")["q0"]
    context = content(dev)["data"][0]["paragraphs"][0]["context"]
    assert len(best) > 3 and context[best[0]["start"]:best[0]["end"]] == "三国"
    assert not (out / "predictions" / "null_odds.json").exists()

    # The folder predicts files without answers, and plain text.
    bare = content(dev)
    for paragraph in bare["data"][0]["paragraphs"]:
        del paragraph["qas"][0]["answers"]
    (tmp_path / "bare.json").write_text(json.dumps(bare), encoding="utf-8")
    again = tmp_path / "again"
    results = run(*flags(out, again, "--test_file", str(tmp_path / "bare.json"), "--do_predict"))
    assert "test" not in results
    assert content(again / "predictions" / "predictions.json")["q8"] == "三国"
    [found] = answer(AlbertForQuestionAnswering.from_pretrained(out),
                     AlbertTokenizer.from_pretrained(out), ["who a"],
                     ["a b a c d e f g h a b 三国 c d e f g h a"], max_length=16, doc_stride=4)
    assert (found["text"], found["start"], found["end"]) == ("三国", 22, 24)
    assert 0.3 < found["probability"] <= 1


def test_unanswerable_questions_are_told_by_the_v2_head(model, tmp_path):
    train = squad_file(tmp_path / "train.json", 90, impossible=True)
    dev = squad_file(tmp_path / "dev.json", 12, impossible=True, seed=1)
    out = tmp_path / "out"
    results = run(*flags(model, out, "--task_name", "squad", "--version_2_with_negative",
                         "--train_file", str(train), "--predict_file", str(dev), "--do_train",
                         "--do_eval", "--do_predict", "--start_n_top", "4",
                         "--num_train_epochs", "8"))
    scores = results["dev"]["squad-v2"]
    assert scores["f1"] == scores["HasAns_exact"] == scores["NoAns_exact"] == 1
    assert scores["best_f1"] == 1 and scores["threshold"] == scores["best_f1_threshold"]
    assert scores["baseline"]["f1"] == pytest.approx(4 / 12)
    assert results["test"]["squad-v2"]["threshold"] == scores["threshold"]
    config = AlbertConfig.from_pretrained(out)
    assert (config.squad_head, config.start_n_top, config.end_n_top) == ("v2", 4, 5)
    predicted = content(out / "predictions" / "predictions.json")
    assert predicted == {f"q{i}": "三国" if i % 3 else "" for i in range(12)}
    odds = content(out / "predictions" / "null_odds.json")
    assert all((odds[guid] > scores["threshold"]) == (not text)
               for guid, text in predicted.items())

    # Predicting alone goes by the threshold of the model, or by the flag's.
    only = ["--version_2_with_negative", "--test_file", str(dev), "--do_predict"]
    again = run(*flags(out, tmp_path / "again", *only))["test"]["squad-v2"]
    assert again["threshold"] == scores["threshold"] and again["f1"] == 1
    never = run(*flags(out, tmp_path / "never", *only, "--null_score_diff_threshold", "-999"))
    assert never["test"]["squad-v2"]["HasAns_f1"] == 0
    assert set(content(tmp_path / "never" / "predictions" / "predictions.json").values()) == {""}


def test_cmrc_has_its_own_files_metric_and_submission(model, tmp_path):
    data = tmp_path / "cmrc"
    squad_file(data / "cmrc2018_train.json", 40)
    squad_file(data / "cmrc2018_dev.json", 20, seed=1)
    squad_file(data / "cmrc2018_trial.json", 7, seed=2)
    out = tmp_path / "out"
    results = run(*flags(model, out, "--task_name", "CMRC2018", "--data_dir", str(data),
                         "--do_train", "--do_eval", "--do_predict"))
    predicted = content(out / "predictions" / "cmrc2018_predict.json")
    assert results["dev"]["cmrc2018"]["f1"] > 0.9 and len(predicted) == 7
    again = score_answers("cmrc2018", list(predicted.values()), [["三国"]] * 7)
    assert results["test"]["cmrc2018"]["f1"] == again.value > 0.9


def test_a_head_of_the_other_kind_starts_anew(model, tmp_path, capsys):
    train = squad_file(tmp_path / "train.json", 8, impossible=True)
    dev = squad_file(tmp_path / "dev.json", 3)
    plain = squad_file(tmp_path / "plain.json", 8)
    first, second = tmp_path / "first", tmp_path / "second"
    run(*flags(model, first, "--train_file", str(plain), "--do_train", "--max_steps", "1"))
    assert AlbertConfig.from_pretrained(first).squad_head == "v1"
    run(*flags(first, second, "--version_2_with_negative", "--train_file", str(train),
               "--predict_file", str(dev), "--do_train", "--do_predict", "--max_steps", "1",
               "--precision", "bf16"))
    assert AlbertConfig.from_pretrained(second).squad_head == "v2"
    assert "the null threshold is 0, as there is no dev score" in capsys.readouterr().err
    assert len(content(second / "predictions" / "null_odds.json")) == 3


# ---- what is refused ---------------------------------------------------------------------------


def test_a_malformed_file_is_refused_before_anything_is_written(model, tmp_path, capsys):
    bad = tmp_path / "bad.json"
    bad.write_text('{"data": [{"paragraphs": [{"context": "a"}]}]}')
    out = tmp_path / "out"
    message = refused(capsys, *flags(model, out, "--train_file", str(bad), "--do_train"))
    assert f"{bad}, article 1, paragraph 1: no \"qas\"" in message and not out.exists()
    impossible = squad_file(tmp_path / "v2.json", 3, impossible=True)
    message = refused(capsys, *flags(model, out, "--train_file", str(impossible), "--do_train"))
    assert "give --version_2_with_negative" in message and not out.exists()


def test_flags_that_cannot_go_together_are_told(model, tmp_path, capsys):
    out = tmp_path / "out"
    message = refused(capsys, *flags(model, out, "--do_train", "--do_eval", "--doc_stride", "0",
                                     "--start_n_top", "3", "--max_answer_length", "-1"))
    assert "--data_dir is missing" in message
    assert "--train_file and --predict_file" in message
    assert "--doc_stride 0: expected at least 1" in message
    assert "--max_answer_length -1" in message
    assert "--start_n_top: only with --version_2_with_negative" in message
    message = refused(capsys, *flags(model, out, "--task_name", "newsqa", "--do_train"))
    assert "no such task; there are: squad, squad-v2, cmrc2018, drcd" in message
    message = refused(capsys, *flags(model, out, "--task_name", "drcd", "--do_train",
                                     "--version_2_with_negative", "--data_dir", str(tmp_path)))
    assert "drcd has an answer to every question" in message
    message = refused(capsys, *flags(model, out, "--do_train", "--data_dir", str(tmp_path)))
    assert "no train file, expected train-v1.1.json" in message and not out.exists()


def test_a_model_without_the_head_predicts_nothing(model, tmp_path, capsys):
    dev = squad_file(tmp_path / "dev.json", 3)
    message = refused(capsys, *flags(model, tmp_path / "out", "--predict_file", str(dev),
                                     "--do_predict"))
    assert "no head for squad in it" in message
    first = tmp_path / "first"
    run(*flags(model, first, "--train_file", str(dev), "--do_train", "--max_steps", "1"))
    message = refused(capsys, *flags(first, tmp_path / "out", "--predict_file", str(dev),
                                     "--do_predict", "--version_2_with_negative"))
    assert "no head for squad-v2 in it" in message


def test_windows_without_room_are_refused(model, tmp_path, capsys):
    dev = squad_file(tmp_path / "dev.json", 3)
    message = refused(capsys, *flags(model, tmp_path / "out", "--train_file", str(dev),
                                     "--do_train", "--max_seq_length", "5"))
    assert "--max_seq_length 5: no room for a passage" in message


# ---- scripts -----------------------------------------------------------------------------------

# Rate, windows a step, dropout, steps, warm-up, tokens: the paper's table.
PAPER = {"run_squad_v1": (5e-5, 48, 0.0, 3649, 365, 384),
         "run_squad_v2": (3e-5, 48, 0.0, 8144, 814, 512)}


def settings_of(script: Path, folder: Path, *arguments: str) -> SquadSettings:
    door, *given = called_with(script, folder, *arguments)
    assert door == "run_squad.py"
    return read_flags(SquadSettings, "", given)


def test_there_is_a_script_for_every_data_set(tmp_path):
    assert sorted(task_of(settings_of(s, tmp_path)).name for s in SCRIPTS) == sorted(TASKS)


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_the_real_parser_takes_the_flags_of_a_script(script, tmp_path):
    settings = settings_of(script, tmp_path, "--seed", "7", "--max_answer_length", "9")
    assert settings.do_train and settings.do_eval and settings.do_predict
    assert settings.seed == 7 and settings.max_answer_length == 9  # further flags are passed on
    paths = (settings.output_dir, settings.data_dir, settings.model_name_or_path)
    assert not any(Path(path).is_absolute() for path in paths)
    if script.stem in PAPER:
        assert PAPER[script.stem] == (
            settings.learning_rate, settings.batch_size, settings.hidden_dropout_prob,
            settings.max_steps, settings.warmup_steps, settings.max_seq_length)
        assert settings.attention_probs_dropout_prob == 0
        assert settings.classifier_dropout_prob == 0.1


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_a_script_stops_at_the_first_error_and_runs_from_anywhere(script, tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHON", "false")
    assert "set -euo pipefail" in script.read_text(encoding="utf-8")
    assert subprocess.run(["bash", str(script)], cwd=tmp_path, check=False).returncode == 1


def test_scripts_of_the_predecessor_keep_their_meaning(tmp_path):
    given = ["--model_type=albert", f"--model_name_or_path={tmp_path}", "--do_train", "--do_eval",
             "--do_lower_case", f"--train_file={tmp_path}/train.json",
             f"--predict_file={tmp_path}/dev.json", "--version_2_with_negative",
             "--null_score_diff_threshold=0.5", "--max_seq_length=384", "--doc_stride=100",
             "--max_query_length=50", "--n_best_size=10", "--max_answer_length=25",
             "--per_gpu_train_batch_size=8", "--learning_rate=3e-5", "--num_train_epochs=2.0",
             f"--output_dir={tmp_path}/out", "--overwrite_output_dir", "--fp16"]
    settings = read_flags(SquadSettings, "", given)
    task = task_of(settings)
    options = options_of(settings, task, AlbertConfig(vocab_size=10, start_n_top=7))
    assert task.name == "squad-v2" and task.train == (f"{tmp_path}/train.json",)
    assert options.version_2 and options.start_n_top == 7
    assert (options.doc_stride, options.max_query_length) == (100, 50)
    assert (options.n_best_size, options.max_answer_length) == (10, 25)
    assert options.threshold.value == 0.5 and not options.threshold.tune


@pytest.mark.parametrize(("task", "tokens"), [("squad", 30), ("cmrc2018", 100), ("drcd", 50)])
def test_chinese_answers_may_have_more_tokens(task, tokens, tmp_path):
    settings = SquadSettings(output_dir=tmp_path, task_name=task, do_train=True)
    options = options_of(settings, task_of(settings), AlbertConfig(vocab_size=10))
    assert options.max_answer_length == tokens
    assert (options.doc_stride, options.max_query_length, options.n_best_size) == (128, 64, 20)


# ---- real text ---------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(("language", "task"), [("en", "squad"), ("zh", "cmrc2018")])
def test_a_small_model_learns_a_slice_of_xquad_by_heart(language, task, shared, tmp_path):
    """Random weights, long passages in windows that overlap: exact match above 95%."""
    articles = content(shared(f"data/xquad/xquad.{language}.json"))["data"]
    paragraphs = [p for article in articles for p in article["paragraphs"]][:8]
    file = tmp_path / "slice.json"
    file.write_text(json.dumps({"data": [{"paragraphs": paragraphs}]}), encoding="utf-8")
    vocabulary = shared("data/vocab")
    tokenizer = (["--spm_model_file", str(vocabulary / "spiece.model")] if language == "en" else
                 ["--vocab_file", str(vocabulary / "zh_vocab_21128.txt")])
    AlbertConfig(
        vocab_size=30000 if language == "en" else 21128, embedding_size=64, hidden_size=64,
        num_hidden_layers=2, num_attention_heads=4, intermediate_size=128,
        hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, initializer_range=0.1,
        ).save_pretrained(tmp_path)
    results = run("--task_name", task, "--train_file", str(file), "--predict_file", str(file),
                  "--from_scratch", "--config_name", str(tmp_path / "config.json"), *tokenizer,
                  "--do_train", "--do_eval", "--do_predict", "--output_dir",
                  str(tmp_path / "out"), "--no_cuda", "--max_seq_length", "160", "--doc_stride",
                  "64", "--learning_rate", "2e-3", "--max_steps", "500", "--save_steps", "0")
    scores = results["dev"][task]
    assert scores["examples"] > 80 and scores["exact"] > 0.95
    predicted = content(tmp_path / "out" / "predictions" / next(iter(
        TASKS[task].submission.values())))
    right = [predicted[q["id"]] == q["answers"][0]["text"] for p in paragraphs for q in p["qas"]]
    assert sum(right) / len(right) > 0.95
