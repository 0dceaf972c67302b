"""Turn any ALBERT checkpoint into a model directory, or a model directory into TensorFlow's form.

    python convert_albert_tf_checkpoint_to_pytorch.py \
        --tf_checkpoint_path albert_base.tar.gz --pytorch_dump_path prev_trained_model/albert_base

The model directory holds config.json, model.safetensors and the tokenizer's file. With --to_tf the
two paths change places: --pytorch_dump_path is read, --tf_checkpoint_path is written.
"""

from __future__ import annotations

import argparse
import json
import logging
import math
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from model.configuration_albert import CONFIG_NAME, AlbertConfig, ConfigError
from model.conversion import (
    CheckpointError,
    LoadReport,
    WeightSource,
    export_config,
    export_weights,
    infer_architecture,
    open_checkpoint,
)
from model.modeling_albert import HEADS
from model.modeling_utils import WEIGHTS_NAME, AlbertPreTrainedModel, WeightsError
from model.tf_checkpoint_writer import write_tf_checkpoint
from model.tokenization_albert import AlbertTokenizer, TokenizerError
from model.tokenization_files import FILE_NAMES

WEIGHT_FILES = (".bin", ".pt", ".pth", ".safetensors")
ALIASES = {"squad": "question_answering"}
TF_NAME = "model.ckpt-best"
EXPECTED_ERRORS = (CheckpointError, ConfigError, WeightsError, TokenizerError, OSError)


def arguments(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--tf_checkpoint_path", type=Path, required=True,
        help="a prefix, an .index file, a V1 file, a folder, a TF-Hub folder or a .tar.gz; also a "
             "predecessor's or Hugging Face's model folder. With --to_tf: where to write, a folder "
             f"(the files are called {TF_NAME}) or a prefix that holds '.ckpt'")
    add("--bert_config_file", type=Path,
        help="config of the checkpoint; may be left out where one lies beside it")
    add("--pytorch_dump_path", type=Path, required=True,
        help="model directory to write; of a path that ends in .bin its folder is taken. With "
             "--to_tf: the model directory to read")
    add("--share_type", choices=("all", "attention", "ffn", "none", "None"),
        help="what the layers share, where the config does not say it")
    add("--head", choices=("auto", *HEADS, *ALIASES), default="auto",
        help="class of the model; auto: the one whose head the checkpoint has")
    add("--vocab_file", type=Path,
        help="vocab.txt of a Chinese model, if not beside the checkpoint")
    add("--spm_model_file", type=Path,
        help="SentencePiece model of an English model, if not beside the checkpoint")
    add("--to_tf", action="store_true", help="write a TensorFlow checkpoint from a model directory")
    add("--overwrite", action="store_true", help="replace the files of an earlier conversion")
    args = parser.parse_args(argv)
    args.head = ALIASES.get(args.head, args.head)
    args.share_type = args.share_type and args.share_type.lower()
    return args


def main(argv: Sequence[str] | None = None) -> int:
    """Returns 0, or 1 after one message that says what is wrong; then nothing was written."""
    logging.basicConfig(level=logging.INFO, format="%(levelname)s: %(message)s")
    args = arguments(argv)
    try:
        (to_tensorflow if args.to_tf else to_model_directory)(args)
    except EXPECTED_ERRORS as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


def to_model_directory(args: argparse.Namespace) -> None:
    target = args.pytorch_dump_path
    if target.suffix in WEIGHT_FILES:
        print(f"{target} names a file; the whole model is written into its folder {target.parent}")
        target = target.parent
    _refuse_existing(target / WEIGHTS_NAME, args.overwrite, "--pytorch_dump_path")
    source = _open_source(args.tf_checkpoint_path)
    model = _load(source, args)
    tokenizer = _tokenizer(source, args, model.config)
    report(model, source)

    def write(folder: Path) -> None:
        model.save_pretrained(folder, tokenizer)

    _write_all(target, write)
    print(f"wrote {type(model).__name__} to {target}: {', '.join(_names(target))}")
    if tokenizer is None:
        looked = ", ".join(map(str, source.directories))
        print(f"no tokenizer found in {looked}: put spiece.model (English) or vocab.txt (Chinese) "
              "into the model directory, or run again with --spm_model_file or --vocab_file")


def to_tensorflow(args: argparse.Namespace) -> None:
    target = args.tf_checkpoint_path
    prefix = target if ".ckpt" in target.name else target / TF_NAME
    _refuse_existing(Path(f"{prefix}.index"), args.overwrite, "--tf_checkpoint_path")
    source = open_checkpoint(args.pytorch_dump_path)
    model = _load(source, args)
    tokenizer = _tokenizer(source, args, model.config)
    dialect = model.config.layout
    settings = export_config(model.config, dialect)
    tensors = export_weights(model, dialect)
    # The step counter that the official Estimator looks for when it restores everything.
    tensors["global_step"] = np.array(0, np.int64)

    def write(folder: Path) -> None:
        write_tf_checkpoint(folder / prefix.name, tensors)
        (folder / "albert_config.json").write_text(json.dumps(settings, indent=2) + "\n", "utf-8")
        if tokenizer is not None:
            shutil.copyfile(tokenizer.file, folder / FILE_NAMES[tokenizer.kind][0])

    _write_all(prefix.parent, write)
    print(f"wrote {len(tensors)} variables, {_count(tensors.values()):,} numbers, in the {dialect} "
          f"dialect to {prefix.parent}: {', '.join(_names(prefix.parent))}")


def _open_source(path: Path) -> WeightSource:
    """The checkpoint to convert: where a folder holds TensorFlow's, that one, else whatever is."""
    if path.is_dir():
        try:
            return open_checkpoint(path, kind="tensorflow")
        except FileNotFoundError:
            return open_checkpoint(path)
    return open_checkpoint(path)


def _load(source: WeightSource, args: argparse.Namespace) -> AlbertPreTrainedModel:
    head = infer_architecture(source)["head"] if args.head == "auto" else args.head
    if args.head == "auto" and head == "multiple_choice":
        print("the head has a single row: taken as multiple choice; of a regression model say "
              "--head classification")
    config = AlbertConfig.from_json_file(args.bert_config_file) if args.bert_config_file else None
    changes = {"share_type": args.share_type} if args.share_type else {}
    return HEADS[head].from_pretrained(source, config=config, **changes)


def _tokenizer(source: WeightSource, args: argparse.Namespace, config: AlbertConfig,
               ) -> AlbertTokenizer | None:
    """The tokenizer that is named or lies beside the checkpoint, held against the config."""
    patterns = [pattern for names in FILE_NAMES.values() for pattern in names]
    places = [place for place in source.directories
              if any(path.is_file() for pattern in patterns for path in place.glob(pattern))]
    if not (args.vocab_file or args.spm_model_file or places):
        return None
    tokenizer = AlbertTokenizer.from_pretrained(places[0] if places else None,
                                                vocab_file=args.vocab_file,
                                                spm_model_file=args.spm_model_file)
    if len(tokenizer) != config.vocab_size:
        raise TokenizerError(f"{tokenizer.file} has {len(tokenizer)} entries, the config and the "
                             f"weights of {source} have vocab_size {config.vocab_size}; use the "
                             "vocabulary that was published with this checkpoint")
    return tokenizer


# ---- what is printed -----------------------------------------------------------------------------


def report(model: AlbertPreTrainedModel, source: WeightSource) -> None:
    """Print one line for each input and each new parameter, and the totals."""
    loaded: LoadReport = model.load_report
    parameters = dict(model.named_parameters())
    rows = [("used", theirs, source.shape(theirs), f"-> {name}")
            for name, theirs in loaded.used.items()]
    rows += [("skipped", theirs, source.shape(theirs), reason)
             for theirs, reason in loaded.skipped.items()]
    rows += [("new", name, tuple(parameters[name].shape), "not in the checkpoint: starts at random")
             for name in loaded.new]
    wide = max((len(row[1]) for row in rows), default=0)
    for what, name, shape, note in rows:
        print(f"{what:<8}{name:<{wide}}  {' x '.join(map(str, shape)) or '1':>14}  {note}")
    print(f"\n{source} ({source.dialect} dialect)")
    for what in ("used", "skipped", "new"):
        shapes = [shape for kind, _, shape, _ in rows if kind == what]
        print(f"{what:<8}{len(shapes):>6} tensors {sum(map(math.prod, shapes)):>14,} parameters")
    print(f"{'model':<8}{len(parameters):>6} tensors {model.num_parameters():>14,} parameters")


def _count(arrays) -> int:
    return sum(math.prod(array.shape) for array in arrays)


def _names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.is_file())


# ---- writing all or nothing ----------------------------------------------------------------------


def _refuse_existing(path: Path, overwrite: bool, flag: str) -> None:
    if path.exists() and not overwrite:
        raise FileExistsError(f"{flag}: {path} is there already; give --overwrite to replace it, "
                              "or another path")
    if path.parent.exists() and not path.parent.is_dir():
        raise NotADirectoryError(f"{flag}: {path.parent} is a file, expected a folder")


def _write_all(target: Path, write: Callable[[Path], None]) -> None:
    """Fill a folder beside the target; then rename it, or move its files into a target that exists.

    A config.json that somebody else wrote into the target is kept as config.json.original.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    os.umask(mask := os.umask(0))
    folder = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    try:
        write(folder)
        for path in folder.iterdir():
            with path.open("rb+") as file:
                os.fsync(file.fileno())
            path.chmod(0o666 & ~mask)  # what a plain open() gives; temporary files are stricter
        folder.chmod(0o777 & ~mask)
        if not target.exists():
            folder.rename(target)
            return
        config = target / CONFIG_NAME
        if config.exists() and (folder / CONFIG_NAME).exists():
            backup = target / f"{CONFIG_NAME}.original"
            if '"albert_pytorch"' not in config.read_text("utf-8", "replace"):
                shutil.copyfile(config, backup)
        for path in sorted(folder.iterdir()):
            path.replace(target / path.name)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
