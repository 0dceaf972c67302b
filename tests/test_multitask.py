"""Several tasks, one encoder: the plan that mixes them, the model, whole runs."""

from __future__ import annotations

import json
import logging
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from callback.checkpoint import checkpoints, load_state
from callback.mixed_plan import MixedPlan
from callback.plan import LengthGroupedPlan
from finetuning import finetune
from metrics.classification import METRICS
from model.configuration_albert import AlbertConfig, ConfigError
from model.conversion import infer_architecture, open_checkpoint
from model.modeling_albert import AlbertForPreTraining, AlbertForSequenceClassification
from model.modeling_utils import WeightsError
from model.multitask import AlbertForMultiTask
from model.tokenization_albert import WordPieceTokenizer
from predictor import Predictor
from processors.multitask import MixedData, make_data
from run_classifier import ClassifierSettings, main, read_several
from tools.arguments import read as parse

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "good", "bad", "film", "the", "a", "very",
         "rain", "wet", "dry", "is", "it", "."]
SIZES = {"vocab_size": len(WORDS), "embedding_size": 8, "hidden_size": 12, "num_hidden_layers": 2,
         "num_attention_heads": 3, "intermediate_size": 20, "max_position_embeddings": 32,
         "initializer_range": 0.2}


# ---- the plan ------------------------------------------------------------------------------------


def mixed(sampling: str = "proportional", sizes: tuple[int, ...] = (90, 30, 7), seed: int = 3,
          batch: int = 4, epochs: float = 5) -> MixedPlan:
    plans = [LengthGroupedPlan(np.arange(size) % 9 + 3, batch, seed + number)
             for number, size in enumerate(sizes)]
    return MixedPlan(plans, sizes, sampling, seed, epochs)


def tasks_of(plan: MixedPlan, batches: list[np.ndarray]) -> np.ndarray:
    """The data set of each batch; fails for a batch of several."""
    ends = np.cumsum(plan.sizes)
    owners = [set(np.searchsorted(ends, batch, side="right").tolist()) for batch in batches]
    assert all(len(owner) == 1 for owner in owners)
    return np.array([owner.pop() for owner in owners])


@pytest.mark.parametrize("sampling", ["proportional", "annealed", "uniform"])
def test_a_single_data_set_is_walked_as_without_the_mixture(sampling):
    plan, plain = mixed(sampling, (90,)), LengthGroupedPlan(np.arange(90) % 9 + 3, 4, 3)
    for epoch in range(3):
        for one, other in zip(plan.epoch(epoch), plain.epoch(epoch), strict=True):
            np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("sampling", ["proportional", "annealed", "uniform"])
def test_no_batch_mixes_tasks_and_epochs_are_functions_of_seed_and_number(sampling):
    plan = mixed(sampling)
    for epoch in (4, 0, 2):
        batches = plan.epoch(epoch)
        tasks_of(plan, batches)
        assert len(batches) == 23 + 8 + 2
        for one, other in zip(batches, mixed(sampling).epoch(epoch), strict=True):
            np.testing.assert_array_equal(one, other)
    assert any(not np.array_equal(one, other) for one, other in
               zip(plan.epoch(0), mixed(sampling, seed=4).epoch(0), strict=True))
    order = tasks_of(plan, plan.epoch(0))
    assert 6 < np.count_nonzero(np.diff(order))  # in turn, not one after the other


def test_proportional_sees_every_example_once_an_epoch():
    plan = mixed()
    for epoch in range(3):
        assert sorted(np.concatenate(plan.epoch(epoch))) == list(range(127))
        small = mixed(sizes=(90, 1, 1)).epoch(epoch)
        assert sorted(np.concatenate(small)) == list(range(92))


def test_shares_of_the_samplings():
    sizes = (6400, 800, 100)
    for sampling, epoch, exponent in (("proportional", 0, 1.0), ("proportional", 4, 1.0),
                                      ("uniform", 0, 0.0), ("uniform", 4, 0.0),
                                      ("annealed", 0, 1.0), ("annealed", 2, 0.6),
                                      ("annealed", 4, 0.2), ("annealed", 9, 0.2)):
        plan = mixed(sampling, sizes)
        wanted = np.array(sizes, float) ** exponent
        found = np.bincount(tasks_of(plan, plan.epoch(epoch)), minlength=3)
        assert found.sum() == 1600 + 200 + 25
        np.testing.assert_allclose(found / found.sum(), wanted / wanted.sum(), atol=1 / 1000)


def test_what_an_epoch_leaves_out_comes_in_the_next():
    plan = mixed("uniform", (90, 10), epochs=3)  # 26 batches: 13 of each
    first = [batch for epoch in range(2) for batch in plan.epoch(epoch) if batch[0] < 90]
    assert len(first) == 26
    assert sorted(np.concatenate(first[:23])) == list(range(90))  # one epoch of its own, whole
    small = [batch for batch in plan.epoch(0) if batch[0] >= 90]
    for at in range(0, 12, 3):
        assert sorted(np.concatenate(small[at:at + 3])) == list(range(90, 100))


def test_plans_that_cannot_be_mixed_are_refused():
    with pytest.raises(ValueError, match="sampling is 'often', expected one of proportional"):
        mixed("often")
    with pytest.raises(ValueError, match="different batch sizes"):
        MixedPlan([LengthGroupedPlan(np.ones(3), 1), LengthGroupedPlan(np.ones(3), 2)], [3, 3])


# ---- the model -----------------------------------------------------------------------------------

TASKS = {"sst-2": ["0", "1"], "mnli": ["a", "b", "c"], "sts-b": None}


def batch(task: str | None = None, labels: torch.Tensor | None = None) -> dict:
    ids = torch.tensor([[2, 5, 7, 3], [2, 6, 3, 0], [2, 8, 9, 3], [2, 10, 3, 0]])
    return {"input_ids": ids, "attention_mask": (ids > 0).long(),
            "token_type_ids": torch.zeros_like(ids)} | ({task: labels} if task else {})


@pytest.fixture
def model() -> AlbertForMultiTask:
    torch.manual_seed(1)
    return AlbertForMultiTask(AlbertConfig(**SIZES, tasks=TASKS)).eval()


LABELS = {"sst-2": torch.tensor([1, 0, 1, 1]), "mnli": torch.tensor([2, 0, -100, 1]),
          "sts-b": torch.tensor([2.5, 0.0, 1.0, 4.0])}


@pytest.mark.parametrize("task", TASKS)
def test_a_task_is_what_a_plain_classifier_computes(model, task):
    plain = model.single(task)
    mine = model(**batch(task, LABELS[task]))
    wanted = plain(**batch("labels", LABELS[task]))
    assert torch.equal(mine.logits, wanted.logits) and torch.equal(mine.loss, wanted.loss)
    assert set(mine.losses) == {task} and plain.config.id2label == TASKS[task]
    mine.loss.backward()
    number = list(TASKS).index(task)
    assert [head.weight.grad is not None for head in model.classifiers] == [
        i == number for i in range(3)]


@pytest.mark.parametrize("task", TASKS)
def test_parts_add_up_to_the_whole(model, task):
    whole = batch(task, LABELS[task])
    totals = model.loss_weights(whole)
    assert {name: float(value) for name, value in totals.items()} == {
        name: (3.0 if name == "mnli" else 4.0) if name == task else 0.0 for name in TASKS}
    parts = [{key: value[at:at + 2] for key, value in whole.items()} for at in (0, 2)]
    summed = sum(model(**part, loss_weights=totals).loss for part in parts)
    torch.testing.assert_close(summed, model(**whole).loss)


def test_a_batch_without_labels_is_scored_by_its_task_alone(model):
    output = model(**batch("mnli", torch.empty(0)))
    assert output.loss is None and output.losses == {} and output.logits.shape == (4, 3)
    with pytest.raises(ValueError, match="labels of no task, expected of one"):
        model(**batch())
    with pytest.raises(ValueError, match="no task 'cola' in this model; it has sst-2, mnli"):
        model(**batch("cola", torch.empty(0)))
    with pytest.raises(ConfigError, match="names no tasks"):
        AlbertForMultiTask(AlbertConfig(**SIZES))


def test_it_is_saved_and_loaded_whole(model, tmp_path):
    model.save_pretrained(tmp_path)
    assert infer_architecture(open_checkpoint(tmp_path))["head"] == "multitask"
    again = AlbertForMultiTask.from_pretrained(tmp_path)
    assert again.config.tasks == TASKS and not again.load_report.new
    for name, weight in again.named_parameters():
        assert torch.equal(weight, model.get_parameter(name)), name
    plain = AlbertForSequenceClassification.from_pretrained(tmp_path, tasks=None)
    assert set(plain.load_report.new) == {"classifier.weight", "classifier.bias"}


# ---- whole runs ----------------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def quiet(monkeypatch):
    before = list(logging.getLogger().handlers)
    monkeypatch.setattr("callback.trainingmonitor.draw_curves", lambda lines, path: None)
    yield
    for handler in [h for h in logging.getLogger().handlers if h not in before]:
        logging.getLogger().removeHandler(handler)
        handler.close()


def write(path: Path, *rows: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(row.replace("|", "\t") + "\n" for row in rows), encoding="utf-8")


@pytest.fixture
def data(tmp_path) -> Path:
    """Three tasks under one folder: 20, 6 and 9 training examples."""
    folder = tmp_path / "glue"
    good, bad = "the film is very good .", "it is bad"
    write(folder / "SST-2" / "train.tsv", "sentence|label", *[f"{good}|1", f"{bad}|0"] * 10)
    write(folder / "SST-2" / "dev.tsv", "sentence|label", f"{good}|1", f"{bad}|0", f"a {good}|1")
    write(folder / "SST-2" / "test.tsv", "index|sentence", f"0|{good}", f"1|{bad}")
    head = "index|genre|filename|year|old_index|source1|source2|sentence1|sentence2"
    row = f"0|g|f|2012|1|x|y|{good}"
    write(folder / "stsb" / "train.tsv", f"{head}|score", *[f"{row}|{good}|4.8",
                                                            f"{row}|{bad}|1.2"] * 3)
    write(folder / "stsb" / "dev.tsv", f"{head}|score", f"{row}|wet|3.8", f"{row}|{bad}|1.25",
          f"{row}|dry|0")
    write(folder / "stsb" / "test.tsv", head, f"{row}|wet")
    nli = ("index|promptID|pairID|genre|sentence1_binary_parse|sentence2_binary_parse|"
           "sentence1_parse|sentence2_parse|sentence1|sentence2")
    row = "0|1|2|g|a|b|c|d|it is rain|it is wet"
    labelled = [f"{nli}|label1|gold_label", f"{row}|x|entailment", f"{row} .|x|neutral",
                f"{row} dry|x|contradiction"]
    write(folder / "MNLI" / "train.tsv", *labelled, *labelled[1:] * 2)
    write(folder / "MNLI" / "dev_matched.tsv", *labelled)
    write(folder / "MNLI" / "dev_mismatched.tsv", *labelled[:3])
    write(folder / "MNLI" / "test_matched.tsv", nli, row)
    return folder


@pytest.fixture
def start(tmp_path) -> Path:
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "vocab.txt").write_text("\n".join(WORDS), encoding="utf-8")
    torch.manual_seed(0)
    AlbertForPreTraining(AlbertConfig(**SIZES)).save_pretrained(
        folder, WordPieceTokenizer(folder / "vocab.txt"))
    return folder


def flags(names: str, data: Path | str, model: Path, out: Path, *more: str) -> list[str]:
    return ["--task_name", names, "--data_dir", str(data), "--output_dir", str(out),
            "--model_name_or_path", str(model), "--no_cuda", "--per_gpu_train_batch_size", "4",
            "--learning_rate", "1e-3", *more]


def run(*arguments: str) -> dict:
    assert main(arguments) == 0
    out = Path(arguments[arguments.index("--output_dir") + 1])
    return json.loads((out / "eval_results.json").read_text(encoding="utf-8"))


def refused(capsys, *arguments: str) -> str:
    capsys.readouterr()
    try:
        assert main(arguments) == 1
    except SystemExit as stopped:
        assert stopped.code == 2
    message = capsys.readouterr().err
    assert "Traceback" not in message
    return message[message.index("error: "):]


@pytest.mark.parametrize("sampling", ["proportional", "annealed", "uniform"])
def test_three_tasks_end_to_end(data, start, tmp_path, sampling, caplog):
    out = tmp_path / "out"
    with caplog.at_level(logging.INFO):
        results = run(*flags("sst2,STS-B,mnli", data, start, out, "--do_train", "--do_eval",
                             "--do_predict", "--num_train_epochs", "2", "--task_sampling",
                             sampling))
    assert results["task"] == "sst-2+sts-b+mnli" and results["steps"] == 2 * (5 + 2 + 3)
    dev = results["dev"]
    assert {name: scores["main"] for name, scores in dev.items()} == {
        "sst-2": METRICS["accuracy"].main, "sts-b": METRICS["pearson_and_spearman"].main,
        "mnli-m": "accuracy", "mnli-mm": "accuracy"}
    mnli = (dev["mnli-m"]["accuracy"] + dev["mnli-mm"]["accuracy"]) / 2
    of_tasks = dev["sst-2"]["accuracy"], dev["sts-b"]["pearson_and_spearman"], mnli
    assert results["mean"] == pytest.approx(np.mean(of_tasks))
    lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    means = [line["mean"] for line in lines if line["kind"] == "eval"]
    assert len(means) == 2 and results["mean"] == pytest.approx(max(means))
    saved = load_state(checkpoints(out)[-1])  # the mean decides which model is best
    assert saved["callbacks"]["ModelCheckpoint"]["best_value"] == max(means)
    assert {"sst-2", "sts-b", "mnli"} <= set(next(x for x in lines if x["kind"] == "train"))
    assert {path.name for path in (out / "predictions").iterdir()} == {
        "SST-2.tsv", "STS-B.tsv", "MNLI-m.tsv"}
    assert AlbertConfig.from_pretrained(out).tasks == {
        "sst-2": ["0", "1"], "sts-b": None,
        "mnli": ["contradiction", "entailment", "neutral"]}


def test_one_checkpoint_serves_all_tasks(data, start, tmp_path, capsys):
    out = tmp_path / "out"
    trained = run(*flags("sst-2,mnli", data, start, out, "--do_train", "--do_eval", "--max_steps",
                         "8"))
    again = run(*flags("sst-2,mnli", data, out, tmp_path / "b", "--do_eval"))
    assert again["dev"] == trained["dev"] and again["mean"] == trained["mean"]
    alone = run(*flags("mnli", data / "MNLI", out, tmp_path / "c", "--do_eval", "--do_predict"))
    assert alone["dev"] == {name: trained["dev"][name] for name in ("mnli-m", "mnli-mm")}
    assert (tmp_path / "c" / "predictions" / "MNLI-m.tsv").is_file()

    model = AlbertForMultiTask.from_pretrained(out)
    predictor = Predictor.from_pretrained(out, "cpu", task="mnli")
    pair = ("it is rain", "wet")
    encoding = predictor.tokenizer([pair[0]], [pair[1]])
    wanted = model(torch.tensor(encoding.input_ids), mnli=torch.empty(0),
                   token_type_ids=torch.tensor(encoding.token_type_ids)).logits
    np.testing.assert_allclose(predictor.logits([pair]), wanted.detach().numpy(), atol=1e-6)
    assert predictor([pair])[0].label in ("contradiction", "entailment", "neutral")
    with pytest.raises(WeightsError, match="a model of the tasks sst-2, mnli; say which"):
        Predictor.from_pretrained(out)

    assert "it has heads for sst-2, mnli" in refused(
        capsys, *flags("cola", data, out, tmp_path / "d", "--do_eval"))
    (data / "cola").mkdir()
    shutil.copy(data / "SST-2" / "train.tsv", data / "cola")
    other = flags("sst-2,cola", data, out, tmp_path / "d", "--do_train", "--max_steps", "1")
    assert "--new_head to start the heads anew" in refused(capsys, *other)
    assert "in this order" in refused(
        capsys, *flags("mnli,sst-2", data, out, tmp_path / "d", "--do_train", "--max_steps", "1"))
    run(*other, "--new_head")
    assert list(AlbertConfig.from_pretrained(tmp_path / "d").tasks) == ["sst-2", "cola"]
    run(*flags("sst-2", data / "SST-2", out, tmp_path / "e", "--do_train", "--max_steps", "1"))
    config = AlbertConfig.from_pretrained(tmp_path / "e")
    assert config.tasks is None and config.id2label == ["0", "1"]


def test_texts_are_labelled_by_one_of_its_tasks(data, start, tmp_path, capsys):
    out = tmp_path / "out"
    run(*flags("sst-2,mnli", data, start, out, "--do_train", "--max_steps", "2"))
    (tmp_path / "texts").write_text("it is wet\nit is dry\n")
    call = ["--model_name_or_path", str(out), "--predict_file", str(tmp_path / "texts"),
            "--no_cuda"]
    assert "say which (--task_name)" in refused(capsys, *call)
    assert main([*call, "--task_name", "SST-2"]) == 0
    rows = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    answers = Predictor.from_pretrained(out, "cpu", task="sst-2")(["it is wet", "it is dry"])
    assert rows == [[a.label, f"{a.probability:.4f}"] for a in answers]


def test_one_task_alone_is_the_plain_path_to_the_bit(data, start, tmp_path):
    common = ("--do_train", "--do_eval", "--num_train_epochs", "2",
              "--classifier_dropout_prob", "0.1", "--hidden_dropout_prob", "0.1")
    plain = run(*flags("sst-2", data / "SST-2", start, tmp_path / "a", *common))
    settings = parse(ClassifierSettings, "", flags("sst-2", data, start, tmp_path / "b", *common))
    mixed = finetune(settings, lambda config: read_several(settings, ["sst-2"], config), make_data)
    assert mixed["dev"] == plain["dev"]
    one = load_file(tmp_path / "a" / "model.safetensors")
    other = load_file(tmp_path / "b" / "model.safetensors")
    assert len(one) == len(other)
    for name, weight in one.items():
        assert torch.equal(weight, other[name.replace("classifier.", "classifiers.0.")]), name


def test_a_resumed_run_ends_where_it_would_have_ended(data, start, tmp_path):
    call = ("sst-2,mnli,sts-b", data, start)
    more = ("--do_train", "--max_steps", "14", "--save_steps", "6", "--save_total_limit", "0",
            "--task_sampling", "annealed", "--classifier_dropout_prob", "0.1")
    run(*flags(*call, tmp_path / "a", *more))
    (tmp_path / "b").mkdir()
    shutil.copytree(tmp_path / "a" / "checkpoint-6", tmp_path / "b" / "checkpoint-6")
    run(*flags(*call, tmp_path / "b", *more, "--resume"))
    assert (tmp_path / "a" / "model.safetensors").read_bytes() == (
        tmp_path / "b" / "model.safetensors").read_bytes()


def test_accumulation_changes_nothing(data, start, tmp_path):
    more = ("--do_train", "--max_steps", "6", "--classifier_dropout_prob", "0")
    run(*flags("sst-2,mnli", data, start, tmp_path / "a", *more))
    run(*flags("sst-2,mnli", data, start, tmp_path / "b", *more, "--per_gpu_train_batch_size", "1",
               "--gradient_accumulation_steps", "4"))
    one, other = (load_file(tmp_path / x / "model.safetensors") for x in "ab")
    for name, weight in one.items():
        torch.testing.assert_close(other[name], weight, atol=1e-5, rtol=1e-4, msg=name)


def test_other_settings_cannot_be_resumed(data, start, tmp_path, capsys):
    more = ("--do_train", "--max_steps", "4", "--save_steps", "2")
    run(*flags("sst-2,mnli", data, start, tmp_path / "a", *more))
    message = refused(capsys, *flags("sst-2,mnli", data, start, tmp_path / "a", *more, "--resume",
                                     "--task_sampling", "uniform"))
    assert "sampling: checkpoint proportional, this run uniform" in message


def test_the_longest_examples_of_one_task_are_tried_first(data, start, tmp_path, caplog):
    with caplog.at_level(logging.INFO):
        run(*flags("sst-2,mnli", data, start, tmp_path / "a", "--do_train", "--max_steps", "1",
                   "--probe_longest", "--per_gpu_train_batch_size", "16"))
    assert "the longest micro-batch, 9 x 10 tokens, fits" in caplog.text


def test_a_mixed_batch_is_refused(data, start, tmp_path):
    settings = parse(ClassifierSettings, "", flags("sst-2,mnli", data, start, tmp_path / "o",
                                                   "--do_train"))
    task, splits = read_several(settings, settings.several, AlbertConfig(**SIZES))
    mixture = make_data(task, splits.train, WordPieceTokenizer(start / "vocab.txt"), 32)
    assert isinstance(mixture, MixedData) and len(mixture) == 29 == len(mixture.lengths)
    assert set(mixture.collate([mixture[0, 19], mixture[3]])) >= {"sst-2", "input_ids"}
    assert mixture.collate([mixture[20]])["mnli"].tolist() == [1]
    with pytest.raises(ValueError, match=r"a batch of the tasks \[0, 1\], expected one"):
        mixture.collate([mixture[19], mixture[20]])


def test_folders_may_be_listed(data, start, tmp_path, capsys):
    listed = f"{data / 'MNLI'},{data / 'SST-2'}"
    assert run(*flags("mnli,sst-2", listed, start, tmp_path / "a", "--do_train", "--max_steps",
                      "1"))["task"] == "mnli+sst-2"
    assert "found 2 folders for 3 tasks" in refused(
        capsys, *flags("mnli,sst-2,sts-b", listed, start, tmp_path / "b", "--do_train"))
    message = refused(capsys, *flags("mnli,cola,rte", data, start, tmp_path / "b", "--do_train"))
    assert "no folder for cola, rte; found the folders MNLI, SST-2, stsb" in message
    assert "no such folder" in refused(
        capsys, *flags("mnli,rte", data / "x", start, tmp_path / "b", "--do_train"))


def test_flags_that_make_no_sense_are_told_at_once(data, start, tmp_path, capsys):
    message = refused(capsys, *flags("sst-2,custom,SST2,nonsense", data, start, tmp_path / "b",
                                     "--do_train", "--labels", "a", "--train_file", "x"))
    for part in ("custom: no such task", "nonsense: no such task", "sst-2 stands there twice",
                 "--labels, --train_file"):
        assert part in message
    message = refused(capsys, *flags("sst-2,ax", data, start, tmp_path / "b", "--do_train"))
    assert "no folder for ax" in message
