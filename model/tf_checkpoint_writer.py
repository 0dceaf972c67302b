"""Writing a TensorFlow checkpoint (V2) that TensorFlow restores."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from model.crc32c import masked_crc32c
from model.tf_messages import DTYPE_NUMBERS, Entry, write_entry, write_header
from model.tf_table import CheckpointError, write_table


def write_tf_checkpoint(prefix: str | Path, tensors: Mapping[str, Any]) -> None:
    """Write a V2 checkpoint of one data file, and the `checkpoint` file that names it.

    prefix: path without ending, such as "model/model.ckpt-best"; its folder is made where missing.
    The bytes are those that TensorFlow's own BundleWriter gives for the same tensors (NumPy arrays,
    or tensors that NumPy can look at). Files are written beside and then renamed, the ones that
    name others last. Raises `CheckpointError` for a type that TensorFlow's format has no number
    for, before anything is written.
    """
    prefix = Path(prefix)
    arrays = {name: np.asarray(tensors[name]) for name in sorted(tensors, key=str.encode)}
    wrong = [f"{name or '(no name)'} ({array.dtype})" for name, array in arrays.items()
             if not name or array.dtype.newbyteorder("<") not in DTYPE_NUMBERS]
    if wrong:
        raise CheckpointError(f"{prefix}: cannot write {', '.join(wrong)}; types that can be "
                              f"written: {', '.join(str(dtype) for dtype in DTYPE_NUMBERS)}")
    prefix.parent.mkdir(parents=True, exist_ok=True)
    table, offset = [(b"", write_header())], 0
    data = Path(f"{prefix}.data-00000-of-00001")
    with _beside(data).open("wb") as file:
        for name, array in arrays.items():
            dtype = array.dtype.newbyteorder("<")
            raw = np.ascontiguousarray(array, dtype).tobytes()
            table.append((name.encode(), write_entry(Entry(
                DTYPE_NUMBERS[dtype], array.shape, 0, offset, len(raw), masked_crc32c(raw)))))
            file.write(raw)
            offset += len(raw)
        _sync(file)
    quoted = re.sub(r'(["\\])', r"\\\1", prefix.name)
    rest = {
        Path(f"{prefix}.index"): write_table(table),
        prefix.with_name("checkpoint"): f'model_checkpoint_path: "{quoted}"\n'
                                        f'all_model_checkpoint_paths: "{quoted}"\n'.encode(),
    }
    for path, content in rest.items():
        with _beside(path).open("wb") as file:
            file.write(content)
            _sync(file)
    for path in (data, *rest):
        _beside(path).replace(path)


def _beside(path: Path) -> Path:
    return path.with_name(f".{path.name}.partial")


def _sync(file: Any) -> None:
    file.flush()
    os.fsync(file.fileno())
