"""Which file of a folder is the tokenizer, and the settings that are saved beside it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

SENTENCEPIECE, WORDPIECE = "sentencepiece", "wordpiece"
SETTINGS_NAME = "tokenizer_config.json"

# The names that win, then the patterns of which a folder may hold one file.
FILE_NAMES = {
    SENTENCEPIECE: ("spiece.model", "*.model"),
    WORDPIECE: ("vocab.txt", "vocab_chinese.txt", "vocab*.txt"),
}
ARGUMENTS = {SENTENCEPIECE: "spm_model_file", WORDPIECE: "vocab_file"}
KINDS_OF_CLASSES = {
    "AlbertTokenizer": SENTENCEPIECE,
    "AlbertTokenizerFast": SENTENCEPIECE,
    "BertTokenizer": WORDPIECE,
    "BertTokenizerFast": WORDPIECE,
}


class TokenizerError(ValueError):
    """A tokenizer file that is missing, ambiguous, damaged, or of another model."""


def find_tokenizer_file(
    folder: str | Path | None,
    vocab_file: str | Path | None = None,
    spm_model_file: str | Path | None = None,
    kinds: tuple[str, ...] = (SENTENCEPIECE, WORDPIECE),
) -> tuple[str, Path]:
    """(kind, path) of the tokenizer to use; raises `TokenizerError` rather than guess.

    1. A file named by an argument wins; of two, the SentencePiece model, which carries its own
       vocabulary (the official scripts name its `.vocab` listing as `vocab_file` as well).
    2. Else what lies in `folder`, or in its `assets/` (TF-Hub).
    3. Where both kinds lie there, the `tokenizer_class` of `tokenizer_config.json` decides.
    """
    if spm_model_file and SENTENCEPIECE in kinds:
        return SENTENCEPIECE, _existing(spm_model_file, "spm_model_file")
    if vocab_file and WORDPIECE in kinds:
        path = _existing(vocab_file, "vocab_file")
        if path.suffix in (".vocab", ".model"):
            raise TokenizerError(
                f"vocab_file {path} belongs to a SentencePiece model; give the .model file itself "
                "as spm_model_file (a .vocab is only a listing of it)"
            )
        return WORDPIECE, path
    if folder is None:
        names = " or ".join(ARGUMENTS[kind] for kind in kinds)
        raise TokenizerError(f"no tokenizer: expected a folder that holds one, or {names}")
    folder = Path(folder)
    if not folder.is_dir():
        raise TokenizerError(f"no tokenizer: there is no folder {folder}")
    for place in (folder, folder / "assets"):
        found = {kind: path for kind in kinds if (path := _find(place, kind))}
        if len(found) > 1:
            kind = KINDS_OF_CLASSES.get(read_settings(folder).get("tokenizer_class", ""))
            if kind is None:
                names = " and ".join(path.name for path in found.values())
                raise TokenizerError(
                    f"{place} holds two tokenizers, {names}; say which one belongs to the model "
                    "with spm_model_file (English) or vocab_file (Chinese), or remove the other"
                )
            return kind, found[kind]
        if found:
            return next(iter(found.items()))
    raise TokenizerError(_nothing_found(folder, kinds))


def read_settings(folder: Path) -> dict[str, Any]:
    """The settings saved in a folder, with `strip_accents` also where `keep_accents` says it."""
    path = folder / SETTINGS_NAME
    if not path.is_file():
        return {}
    try:
        settings = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise TokenizerError(f"{path}: not a JSON file ({error})") from error
    if not isinstance(settings, dict):
        raise TokenizerError(f"{path}: expected settings in braces, found {settings!r}")
    for name in ("do_lower_case", "strip_accents", "keep_accents"):
        if settings.get(name) not in (None, True, False):
            raise TokenizerError(f"{path}: {name} is {settings[name]!r}, expected true or false")
    keep, strip = settings.get("keep_accents"), settings.get("strip_accents")
    if keep is not None and keep == strip:
        raise TokenizerError(f"{path}: keep_accents and strip_accents are both {keep}")
    if strip is None and keep is not None:
        settings["strip_accents"] = not keep
    return settings


def _existing(path: str | Path, argument: str) -> Path:
    path = Path(path)
    if not path.is_file():
        raise TokenizerError(f"{argument}: there is no file {path}")
    return path


def _find(folder: Path, kind: str) -> Path | None:
    for pattern in FILE_NAMES[kind]:
        paths = sorted(path for path in folder.glob(pattern) if path.is_file())
        if len(paths) > 1:
            names = ", ".join(path.name for path in paths)
            raise TokenizerError(
                f"{folder} holds several tokenizer files, {names}; say which one belongs to the "
                f"model with {ARGUMENTS[kind]}"
            )
        if paths:
            return paths[0]
    return None


def _nothing_found(folder: Path, kinds: tuple[str, ...]) -> str:
    names = sorted(path.name for path in folder.iterdir())
    listing = ", ".join(names[:20]) + (f" and {len(names) - 20} more" if len(names) > 20 else "")
    wanted = " or ".join(FILE_NAMES[kind][0] for kind in kinds)
    message = f"no tokenizer in {folder}: expected {wanted}, found {listing or 'an empty folder'}"
    listings = [name for name in names if name.endswith(".vocab")]
    if listings:
        return (
            f"{message}. {listings[0]} only lists the pieces; SentencePiece needs the .model file "
            "that it came with"
        )
    if "tokenizer.json" in names:
        return (
            f"{message}. tokenizer.json is not read here; put the spiece.model (English) or the "
            "vocab.txt (Chinese) of the same model beside it"
        )
    return message
