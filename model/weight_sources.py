"""Opening a checkpoint of any kind as a mapping from names to tensors, each read when asked for."""

from __future__ import annotations

import json
import pickle
import re
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from model.tf_checkpoint import TensorFlowCheckpoint
from model.tf_table import CheckpointError
from model.weight_names import detect_dialect

SAFETENSORS = "model.safetensors"
PICKLE = "pytorch_model.bin"
SHARDED = (SAFETENSORS + ".index.json", PICKLE + ".index.json")
NESTED = ("state_dict", "model_state_dict", "model")  # where training scripts put the weights


class WeightSource(Mapping[str, Any]):
    """The tensors of a checkpoint by their names there.

    dialect: key of `model.weight_tables.DIALECTS`, told from the names (raises `CheckpointError`).
    directories: where its config and tokenizer may lie. `str(source)` names the file.
    """

    def __init__(self, tensors: Mapping[str, Any], description: str = "weights",
                 directories: tuple[Path, ...] = (), dialect: str | None = None) -> None:
        self.tensors = tensors
        self.description = description
        self.directories = directories
        self._dialect = dialect

    @property
    def dialect(self) -> str:
        if self._dialect is None:
            try:
                self._dialect = detect_dialect(self.tensors)
            except CheckpointError as error:
                raise CheckpointError(f"{self}: {error}") from None
        return self._dialect

    def shape(self, name: str) -> tuple[int, ...]:
        """The shape of a tensor, without reading it."""
        of_file = getattr(self.tensors, "shape", None)
        return tuple(of_file(name) if of_file else self.tensors[name].shape)

    def __getitem__(self, name: str) -> Any:
        return self.tensors[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.tensors)

    def __len__(self) -> int:
        return len(self.tensors)

    def __str__(self) -> str:
        return self.description


def open_checkpoint(path: str | Path | WeightSource, kind: str | None = None) -> WeightSource:
    """Open a checkpoint; no tensor is read yet. One that is open already is given back.

    path: a directory of this library (`model.safetensors`), of its predecessor
    (`pytorch_model.bin`) or of Hugging Face (either, also in shards), one of these files, or a
    TensorFlow checkpoint: a prefix, an `.index` file, a V1 file, a folder, a TF-Hub folder, a
    `.tar.gz`. Where a folder holds several kinds they are preferred in this order.
    kind: "safetensors", "pickle" or "tensorflow" to take that kind only.
    Raises FileNotFoundError, or `CheckpointError` for what is damaged or refused.
    """
    if isinstance(path, WeightSource):
        return path
    path = Path(path)
    for name, (find, open_kind) in KINDS.items():
        found = find(path) if kind in (None, name) else None
        if found is not None:
            return open_kind(found)
    raise FileNotFoundError(f"{path}: no {kind or 'checkpoint'} there")


def _find(path: Path, names: tuple[str, ...], suffixes: tuple[str, ...]) -> Path | None:
    if path.is_dir():
        return next((path / name for name in names if (path / name).is_file()), None)
    return path if path.is_file() and path.name.endswith(suffixes) else None


# ---- safetensors ---------------------------------------------------------------------------------


class _Safetensors(Mapping[str, Tensor]):
    def __init__(self, files: list[Path]) -> None:
        self._files: dict[str, Any] = {}
        for path in files:
            try:
                file = safe_open(path, framework="pt")
            except (SafetensorError, OSError) as error:
                raise CheckpointError(f"{path}: cannot be read ({error}); a download that broke "
                                      "off?") from None
            self._files.update(dict.fromkeys(file.keys(), file))

    def shape(self, name: str) -> tuple[int, ...]:
        return tuple(self._files[name].get_slice(name).get_shape())

    def __getitem__(self, name: str) -> Tensor:
        return self._files[name].get_tensor(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._files)

    def __len__(self) -> int:
        return len(self._files)


def _open_safetensors(path: Path) -> WeightSource:
    return WeightSource(_Safetensors(_shards(path)), str(path), (path.parent,))


def _shards(path: Path) -> list[Path]:
    """The files that a Hugging Face index names, or the one file itself."""
    if not path.name.endswith(".json"):
        return [path]
    try:
        names = sorted(set(json.loads(path.read_text("utf-8"))["weight_map"].values()))
    except (ValueError, KeyError, AttributeError, TypeError) as error:
        raise CheckpointError(f"{path}: not an index of weight files ({error!r})") from None
    wrong = [name for name in names
             if Path(name).name != name or not (path.parent / name).is_file()]
    if wrong:
        raise CheckpointError(f"{path}: names files that are not beside it: {', '.join(wrong)}")
    return [path.parent / name for name in names]


# ---- pickles -------------------------------------------------------------------------------------


def _open_pickle(path: Path) -> WeightSource:
    tensors: dict[str, Tensor] = {}
    for shard in _shards(path):
        tensors |= _read_pickle(shard)
    return WeightSource(tensors, str(path), (path.parent,))


def _read_pickle(path: Path) -> dict[str, Tensor]:
    with path.open("rb") as file:
        current = file.read(4) == b"PK\3\4"  # a zip; the older format can only be read whole
    try:
        damaged = zipfile.ZipFile(path).testzip() if current else None
        loaded = torch.load(path, map_location="cpu", weights_only=True, mmap=current)
    except Exception as error:  # what damaged bytes do to an unpickler is any of a dozen types
        raise CheckpointError(f"{path}: {_why_unreadable(error)}") from None
    if damaged:
        raise CheckpointError(f"{path}: its record {damaged} does not match its checksum; the file "
                              "is damaged, fetch it again")
    for name in NESTED:
        if isinstance(loaded, Mapping) and isinstance(loaded.get(name), Mapping):
            loaded = loaded[name]
    if not isinstance(loaded, Mapping) or not loaded:
        raise CheckpointError(f"{path}: holds a {type(loaded).__name__}, expected a state_dict")
    other = [str(name) for name, value in loaded.items() if not isinstance(value, Tensor)]
    if other:
        raise CheckpointError(f"{path}: expected a state_dict of tensors, found other things under "
                              f"{', '.join(other[:5])}")
    return {str(name): value for name, value in loaded.items()}


def _why_unreadable(error: Exception) -> str:
    wanted = re.search(r"GLOBAL ([\w.]+)", str(error))
    if isinstance(error, pickle.UnpicklingError) and wanted:
        return (f"refused, since it holds more than tensors: reading it would use {wanted[1]}, and "
                "so may run any code. Where you trust it, save it again as a state_dict of tensors")
    reason = (str(error).splitlines() or [""])[0]
    return f"cannot be read ({type(error).__name__}: {reason}); a download that broke off?"


# ---- TensorFlow ----------------------------------------------------------------------------------


def _open_tensorflow(path: Path) -> WeightSource:
    checkpoint = TensorFlowCheckpoint(path)
    return WeightSource(checkpoint, str(checkpoint), tuple(checkpoint.directories))


KINDS = {
    "safetensors": (lambda path: _find(path, (SAFETENSORS, SHARDED[0]), (".safetensors",)),
                    _open_safetensors),
    "pickle": (lambda path: _find(path, (PICKLE, SHARDED[1]), (".bin", ".pt", ".pth")),
               _open_pickle),
    "tensorflow": (lambda path: path, _open_tensorflow),
}
