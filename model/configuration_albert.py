"""The settings of an ALBERT model, the dialects they are read from, and the published presets."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any

CONFIG_NAME = "config.json"
CONFIG_NAMES = (CONFIG_NAME, "albert_config.json", "bert_config.json")

HIDDEN_ACTS = ("gelu_new", "gelu", "relu", "silu", "tanh")
CHOICES = {
    "hidden_act": HIDDEN_ACTS,
    "layout": ("google", "bright"),
    "ln_type": ("postln", "preln"),
    "share_type": ("all", "attention", "ffn", "none"),
    "problem_type": (None, "classification", "regression"),
    "squad_head": ("v1", "v2"),
}


class ConfigError(ValueError):
    """Settings that no model can be built from; the message names every problem at once."""


@dataclass
class AlbertConfig:
    """Sizes and variants of an ALBERT model (paper: arXiv 1909.11942, table 1 and section 3.1).

    The defaults are ALBERT-base v2. Impossible settings raise `ConfigError`, which lists all of
    them. `hidden_act` means the same here as at Hugging Face: "gelu_new" is the tanh
    approximation, "gelu" the exact function.
    """

    vocab_size: int = 30000
    embedding_size: int = 128
    hidden_size: int = 768
    num_hidden_layers: int = 12
    num_hidden_groups: int = 1  # layers of one group share their weights
    inner_group_num: int = 1  # distinct layers that one pass through a group runs
    num_attention_heads: int = 12
    intermediate_size: int = 3072
    hidden_act: str = "gelu_new"
    hidden_dropout_prob: float = 0.0
    attention_probs_dropout_prob: float = 0.0
    classifier_dropout_prob: float = 0.1  # its own field: v2 encoders have no dropout, heads do
    max_position_embeddings: int = 512
    type_vocab_size: int = 2
    initializer_range: float = 0.02
    layer_norm_eps: float = 1e-12
    pad_token_id: int = 0
    layout: str = "google"  # bright: words are widened to hidden_size before positions are added
    ln_type: str = "postln"
    share_type: str = "all"  # what the layers of a group share (paper, section 4.4)
    num_labels: int = 2
    id2label: list[str] | None = None  # label names in the order of their ids
    problem_type: str | None = None  # None: regression where num_labels is 1
    tasks: dict[str, list[str] | None] | None = None  # several heads: label names, None: a number
    squad_head: str = "v1"
    start_n_top: int = 5  # beam of the SQuAD v2 head: starts, and ends for each start
    end_n_top: int = 5

    def __post_init__(self) -> None:
        if self.id2label is not None:
            self.id2label = [str(name) for name in self.id2label]
            self.num_labels = len(self.id2label)
        problems = list(self._problems())
        if problems:
            raise ConfigError("impossible model settings:\n  " + "\n  ".join(problems))

    def _problems(self) -> Iterable[str]:
        wrong = set()
        for field in fields(self):
            value = getattr(self, field.name)
            if field.type == "int" and (isinstance(value, bool) or not isinstance(value, int)):
                wrong.add(field.name)
                yield f"{field.name} is {value!r}, expected a whole number"
            elif field.type == "float" and (isinstance(value, bool)
                                            or not isinstance(value, (int, float))):
                wrong.add(field.name)
                yield f"{field.name} is {value!r}, expected a number"
            elif field.type == "int" and field.name != "pad_token_id" and value < 1:
                wrong.add(field.name)
                yield f"{field.name} is {value}, expected at least 1"
            elif field.name.endswith("_prob") and not 0 <= value < 1:
                yield f"{field.name} is {value}, expected 0 <= p < 1"
        for name, allowed in CHOICES.items():
            if getattr(self, name) not in allowed:
                options = ", ".join(map(str, allowed))
                yield f"{name} is {getattr(self, name)!r}, expected one of {options}"
        if not wrong & {"initializer_range"} and self.initializer_range <= 0:
            yield f"initializer_range is {self.initializer_range}, expected more than 0"
        if not wrong & {"layer_norm_eps"} and self.layer_norm_eps <= 0:
            yield f"layer_norm_eps is {self.layer_norm_eps}, expected more than 0"
        if (not wrong & {"hidden_size", "num_attention_heads"}
                and self.hidden_size % self.num_attention_heads):
            yield (f"hidden_size {self.hidden_size} is not a multiple of "
                   f"num_attention_heads {self.num_attention_heads}")
        if (not wrong & {"num_hidden_layers", "num_hidden_groups"}
                and self.num_hidden_groups > self.num_hidden_layers):
            yield (f"num_hidden_groups {self.num_hidden_groups} exceeds "
                   f"num_hidden_layers {self.num_hidden_layers}: some groups would never run")
        if (not wrong & {"pad_token_id", "vocab_size"}
                and not 0 <= self.pad_token_id < self.vocab_size):
            yield f"pad_token_id {self.pad_token_id} is outside a vocabulary of {self.vocab_size}"
        if self.id2label is not None and len(set(self.id2label)) != len(self.id2label):
            yield f"id2label names a label twice: {self.id2label}"

    @property
    def is_regression(self) -> bool:
        """Whether a sequence-classification head predicts a number instead of a class."""
        return (self.problem_type or ("regression" if self.num_labels == 1 else "")) == "regression"

    @property
    def label2id(self) -> dict[str, int] | None:
        return self.id2label and {name: i for i, name in enumerate(self.id2label)}

    def group_of_layer(self, layer: int) -> int:
        """The group that layer 0 <= layer < num_hidden_layers runs (official modeling.py)."""
        return layer * self.num_hidden_groups // self.num_hidden_layers

    def replace(self, **changes: Any) -> AlbertConfig:
        """A copy with some settings changed, checked again."""
        _reject_unknown(changes, "config override")
        if "num_labels" in changes and "id2label" not in changes:
            changes["id2label"] = None
        return replace(self, **changes)

    # ---- reading and writing -------------------------------------------------------------

    @classmethod
    def from_dict(cls, settings: Mapping[str, Any], dialect: str | None = None,
                  source: str = "config") -> AlbertConfig:
        """Read settings of any dialect, keeping what they mean there.

        dialect: albert_pytorch (this library), google, bright, predecessor or huggingface; told
        from the keys where it is not given. `source` names the origin in errors. Raises
        `ConfigError` for impossible settings and for an ALBERT without factorised embedding.
        """
        settings = dict(settings)
        dialect = dialect or detect_config_dialect(settings)
        if dialect not in DIALECTS:
            raise ConfigError(f"{source}: unknown config dialect {dialect!r}, expected one of "
                              + ", ".join(DIALECTS))
        try:
            return cls(**DIALECTS[dialect](settings, source))
        except ConfigError as error:
            raise ConfigError(f"{source} ({dialect} dialect): {error}") from None

    @classmethod
    def from_json_file(cls, path: str | Path, dialect: str | None = None) -> AlbertConfig:
        """Read a JSON file of any dialect. Raises `ConfigError` that names the file."""
        path = Path(path)
        try:
            settings = json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise ConfigError(f"{path}: no such config file") from None
        except (json.JSONDecodeError, UnicodeDecodeError) as error:
            raise ConfigError(f"{path}: not a JSON file in UTF-8 ({error})") from None
        if not isinstance(settings, dict):
            raise ConfigError(f"{path}: found a JSON {type(settings).__name__}, expected an object")
        return cls.from_dict(settings, dialect, str(path))

    @classmethod
    def from_pretrained(cls, directory: str | Path, dialect: str | None = None) -> AlbertConfig:
        """Read the config file that lies in a model directory (or a JSON file itself)."""
        directory = Path(directory)
        if directory.is_file():
            return cls.from_json_file(directory, dialect)
        return cls.from_json_file(find_config(directory), dialect)

    @classmethod
    def from_preset(cls, name: str, **changes: Any) -> AlbertConfig:
        """A published configuration by name, such as "base_v2" or "zh_tiny" (see `PRESETS`)."""
        if name not in PRESETS:
            raise ConfigError(f"no preset {name!r}; there are: {', '.join(PRESETS)}")
        return cls(**PRESETS[name]).replace(**changes)

    def to_dict(self) -> dict[str, Any]:
        """All settings, with the marks by which `from_dict` knows this library's dialect."""
        return {"model_type": "albert", "dialect": "albert_pytorch", **asdict(self)}

    def save_pretrained(self, directory: str | Path) -> Path:
        """Write `config.json` into a directory, which is made where missing; returns its path."""
        path = Path(directory) / CONFIG_NAME
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(self.to_dict(), indent=2, ensure_ascii=False) + "\n",
                        encoding="utf-8")
        return path


def find_config(directory: Path) -> Path:
    """The config file of a model directory: `config.json`, or the only `*config*.json` there."""
    for name in CONFIG_NAMES:
        if (directory / name).is_file():
            return directory / name
    found = sorted(p for p in directory.glob("*config*.json") if p.name != "tokenizer_config.json")
    if len(found) == 1:
        return found[0]
    listing = ", ".join(p.name for p in found) or "none"
    raise ConfigError(f"{directory}: expected one of {', '.join(CONFIG_NAMES)} or a single "
                      f"*config*.json, found {listing}")


# ---- dialects ------------------------------------------------------------------------------

_MARKS = {  # the first dialect of which one key is present
    "albert_pytorch": ("dialect",),
    "huggingface": ("model_type", "architectures", "transformers_version"),
    "predecessor": ("share_type", "finetuning_task", "torchscript", "pruned_heads"),
    "bright": ("ln_type", "directionality", "pooler_type", "pooler_fc_size"),
}


def detect_config_dialect(settings: Mapping[str, Any]) -> str:
    """Tell the dialect of a config from its keys; plain sizes alone are Google's."""
    for dialect, keys in _MARKS.items():
        if any(key in settings for key in keys):
            return dialect
    return "google"


def _reject_unknown(settings: Iterable[str], source: str) -> None:
    known = [field.name for field in fields(AlbertConfig)]
    unknown = [name for name in settings if name not in known]
    if unknown:
        hints = {name: get_close_matches(name, known, 1) for name in unknown}
        raise ConfigError(f"{source}: unknown setting " + ", ".join(
            f"{name!r} (did you mean {hint[0]}?)" if hint else repr(name)
            for name, hint in hints.items()))


def _known(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings that this library has too; the rest belongs to other tools."""
    names = {field.name for field in fields(AlbertConfig)}
    return {name: value for name, value in settings.items() if name in names}


def _label_names(settings: Mapping[str, Any]) -> list[str] | None:
    """Label names from {"0": "no", …}, {0: …} or a list; placeholders LABEL_0, … are none."""
    names = settings.get("id2label")
    if isinstance(names, Mapping):
        names = [names[key] for key in sorted(names, key=int)]
    if not names or all(str(name) == f"LABEL_{i}" for i, name in enumerate(names)):
        return None
    return [str(name) for name in names]


def _from_own(settings: dict[str, Any], source: str) -> dict[str, Any]:
    own = {k: v for k, v in settings.items() if k not in ("model_type", "dialect")}
    _reject_unknown(own, source)
    return own


def _from_google(settings: dict[str, Any], source: str) -> dict[str, Any]:
    if "embedding_size" not in settings:
        raise ConfigError(f"{source}: no embedding_size, so this is not factorised: a BERT config? "
                          "ALBERT needs embedding_size (128 in all published models)")
    own = _known(settings)
    if own.get("hidden_act") == "gelu":  # official modeling.gelu is the tanh approximation
        own["hidden_act"] = "gelu_new"
    own.pop("id2label", None)
    own["layout"] = "google"
    return own


def _from_bright(settings: dict[str, Any], source: str) -> dict[str, Any]:
    return _from_google(settings, source) | {"layout": "bright"}


def _from_huggingface(settings: dict[str, Any], source: str) -> dict[str, Any]:
    if settings.get("model_type", "albert") != "albert":
        raise ConfigError(f"{source}: model_type is {settings['model_type']!r}, expected 'albert'")
    if settings.get("position_embedding_type", "absolute") != "absolute":
        raise ConfigError(f"{source}: position_embedding_type is "
                          f"{settings['position_embedding_type']!r}, expected 'absolute'")
    own = _known(settings)
    # Hugging Face's own defaults are xxlarge's; a file may leave them out.
    own = {"hidden_size": 4096, "num_attention_heads": 64, "intermediate_size": 16384} | own
    for there, here in (("swish", "silu"), ("gelu_pytorch_tanh", "gelu_new"),
                        ("gelu_fast", "gelu_new")):
        if own.get("hidden_act") == there:
            own["hidden_act"] = here
    own["id2label"] = _label_names(settings)
    if own["id2label"] is None and isinstance(settings.get("id2label"), Mapping):
        own["num_labels"] = len(settings["id2label"])
    problem = settings.get("problem_type")
    own["problem_type"] = {"single_label_classification": "classification"}.get(problem, problem)
    return own


def _from_predecessor(settings: dict[str, Any], source: str) -> dict[str, Any]:
    own = _from_google(settings, source)
    own.pop("layout")  # its configs do not say; the weights do
    own["hidden_act"] = {"swish": "silu"}.get(settings.get("hidden_act"),
                                              settings.get("hidden_act", "gelu"))
    own["share_type"] = str(settings.get("share_type", "all")).lower()
    own["id2label"] = _label_names(settings)
    return own


DIALECTS = {
    "albert_pytorch": _from_own,
    "google": _from_google,
    "bright": _from_bright,
    "huggingface": _from_huggingface,
    "predecessor": _from_predecessor,
}


# ---- published configurations ----------------------------------------------------------------

_SIZES = {  # hidden_size, num_hidden_layers, num_attention_heads, intermediate_size
    "tiny": (312, 4, 12, 1248),
    "small": (384, 6, 12, 1536),
    "base": (768, 12, 12, 3072),
    "large": (1024, 24, 16, 4096),
    "xlarge": (2048, 24, 16, 8192),
    "xxlarge": (4096, 12, 64, 16384),
}


def _preset(size: str, vocab_size: int, dropout: float = 0.0, **more: Any) -> dict[str, Any]:
    hidden, layers, heads, intermediate = _SIZES[size]
    return {
        "vocab_size": vocab_size, "hidden_size": hidden, "num_hidden_layers": layers,
        "num_attention_heads": heads, "intermediate_size": intermediate,
        "hidden_dropout_prob": dropout, "attention_probs_dropout_prob": dropout,
    } | more


PRESETS: dict[str, dict[str, Any]] = {
    "base_v1": _preset("base", 30000, 0.1),
    "large_v1": _preset("large", 30000, 0.1),
    "xlarge_v1": _preset("xlarge", 30000, 0.1),
    "xxlarge_v1": _preset("xxlarge", 30000),
    "base_v2": _preset("base", 30000),
    "large_v2": _preset("large", 30000),
    "xlarge_v2": _preset("xlarge", 30000),
    "xxlarge_v2": _preset("xxlarge", 30000),
    "zh_tiny": _preset("tiny", 21128),
    "zh_small": _preset("small", 21128),
    "zh_base": _preset("base", 21128),
    "zh_large": _preset("large", 21128),
    "zh_xlarge": _preset("xlarge", 21128),
    "zh_xxlarge": _preset("xxlarge", 21128, num_attention_heads=16),
    "bright_tiny": _preset("tiny", 21128, layout="bright"),
    "bright_small": _preset("small", 21128, layout="bright"),
    "bright_base": _preset("base", 21128, layout="bright"),
    "bright_large": _preset("large", 21128, layout="bright"),
    "bright_xlarge": _preset("xlarge", 21128, layout="bright", num_attention_heads=32),
    "bright_xxlarge": _preset("xxlarge", 21128, layout="bright", ln_type="preln"),
}
