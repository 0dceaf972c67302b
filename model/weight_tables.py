"""The names that weights carry elsewhere: one table of rules a dialect, used in both directions.

A rule is (kind, their name, our name); the kind says which variables stand for the module and
whether they are transposed. {G} is the group, {I} the inner layer. Sources of the names:
google-research/albert and brightmart/albert_zh modeling.py, lonePatient/albert_pytorch and Hugging
Face transformers modeling_albert.py.
"""

from __future__ import annotations

from dataclasses import dataclass

Rule = tuple[str, str, str]

# kind: (their ending, our ending, whether the matrix is transposed)
KINDS = {
    # TensorFlow
    "dense": (("/kernel", ".weight", True), ("/bias", ".bias", False)),
    "norm": (("/gamma", ".weight", False), ("/beta", ".bias", False)),
    "table": (("", ".weight", False),),
    "widen": (("", ".weight", True),),
    "output": (("/output_weights", ".weight", False), ("/output_bias", ".bias", False)),
    "output_bias": (("/output_bias", ".bias", False),),
    # PyTorch
    "module": ((".weight", ".weight", False), (".bias", ".bias", False)),
    "parameter": (("", "", False),),
}

# ---- TensorFlow ----------------------------------------------------------------------------------

GOOGLE_LAYER: tuple[Rule, ...] = (
    ("dense", "attention_1/self/query", "attention.self.query"),
    ("dense", "attention_1/self/key", "attention.self.key"),
    ("dense", "attention_1/self/value", "attention.self.value"),
    ("dense", "attention_1/output/dense", "attention.output.dense"),
    ("norm", "LayerNorm", "attention.output.LayerNorm"),
    ("dense", "ffn_1/intermediate/dense", "intermediate.dense"),
    ("dense", "ffn_1/intermediate/output/dense", "output.dense"),
    ("norm", "LayerNorm_1", "output.LayerNorm"),
)
BRIGHT_LAYER: tuple[Rule, ...] = (
    ("dense", "attention/self/query", "attention.self.query"),
    ("dense", "attention/self/key", "attention.self.key"),
    ("dense", "attention/self/value", "attention.self.value"),
    ("dense", "attention/output/dense", "attention.output.dense"),
    ("norm", "attention/output/LayerNorm", "attention.output.LayerNorm"),
    ("dense", "intermediate/dense", "intermediate.dense"),
    ("dense", "output/dense", "output.dense"),
    ("norm", "output/LayerNorm", "output.LayerNorm"),
)
TENSORFLOW_COMMON: tuple[Rule, ...] = (
    ("table", "bert/embeddings/word_embeddings", "bert.embeddings.word_embeddings"),
    ("table", "bert/embeddings/position_embeddings", "bert.embeddings.position_embeddings"),
    ("table", "bert/embeddings/token_type_embeddings", "bert.embeddings.token_type_embeddings"),
    ("norm", "bert/embeddings/LayerNorm", "bert.embeddings.LayerNorm"),
    ("dense", "bert/pooler/dense", "bert.pooler.dense"),
    ("dense", "cls/predictions/transform/dense", "cls.predictions.transform.dense"),
    ("norm", "cls/predictions/transform/LayerNorm", "cls.predictions.transform.LayerNorm"),
    ("output_bias", "cls/predictions", "cls.predictions"),
    ("output", "cls/seq_relationship", "cls.seq_relationship"),
    ("output", "", "classifier"),  # GLUE, and with a single row RACE
    ("output", "cls/squad", "qa_outputs"),  # SQuAD v1
    ("dense", "start_logits/dense", "start_logits.dense"),  # SQuAD v2
    ("dense", "end_logits/dense_0", "end_logits.dense_0"),
    ("norm", "end_logits/LayerNorm", "end_logits.LayerNorm"),
    ("dense", "end_logits/dense_1", "end_logits.dense_1"),
    ("dense", "answer_class/dense_0", "answer_class.dense_0"),
    ("dense", "answer_class/dense_1", "answer_class.dense_1"),
)
GOOGLE_ENCODER: tuple[Rule, ...] = (
    ("dense", "bert/encoder/embedding_hidden_mapping_in",
     "bert.encoder.embedding_hidden_mapping_in"),
)
BRIGHT_EMBEDDINGS: tuple[Rule, ...] = (
    ("widen", "bert/embeddings/word_embeddings_2", "bert.embeddings.word_embeddings_2"),
)
TENSORFLOW_SKIPPED = (
    (r"(.*/)?(adam_[mv]|lamb_[mv]|Adam(_1)?|LAMB(_1)?|Momentum|Adafactor|ExponentialMovingAverage"
     r"|AdamWeightDecayOptimizer(_1)?)", "optimizer slot"),
    (r"(.*/)?(global_step|beta[12]_power|loss_scale\w*|current_loss_scale|good_steps)",
     "training counter"),
    (r"_CHECKPOINTABLE_OBJECT_GRAPH|save_counter(/.*)?", "not a weight"),
)

# ---- PyTorch -------------------------------------------------------------------------------------

SAME_LAYER: tuple[Rule, ...] = (
    ("module", "attention.self.query", "attention.self.query"),
    ("module", "attention.self.key", "attention.self.key"),
    ("module", "attention.self.value", "attention.self.value"),
    ("module", "attention.output.dense", "attention.output.dense"),
    ("module", "attention.output.LayerNorm", "attention.output.LayerNorm"),
    ("module", "intermediate.dense", "intermediate.dense"),
    ("module", "output.dense", "output.dense"),
    ("module", "output.LayerNorm", "output.LayerNorm"),
)
PREDECESSOR_LAYER: tuple[Rule, ...] = (
    ("module", "attention.self.query", "attention.self.query"),
    ("module", "attention.self.key", "attention.self.key"),
    ("module", "attention.self.value", "attention.self.value"),
    ("module", "attention.output.dense", "attention.output.dense"),
    ("module", "ffn.intermediate.dense", "intermediate.dense"),
    ("module", "ffn.intermediate.output.dense", "output.dense"),
)
PREDECESSOR_NORMS: tuple[Rule, ...] = (
    ("module", "LayerNorm", "attention.output.LayerNorm"),
    ("module", "LayerNorm_1", "output.LayerNorm"),
)
PREDECESSOR_NORMS_FROM_1: tuple[Rule, ...] = (  # later files number them from one
    ("module", "LayerNorm_1", "attention.output.LayerNorm"),
    ("module", "LayerNorm_2", "output.LayerNorm"),
)
SHARED_FFN_ATTENTION: tuple[Rule, ...] = (  # share_type ffn: an attention block a layer
    ("module", "attention.{G}.self.query", "attention.self.query"),
    ("module", "attention.{G}.self.key", "attention.self.key"),
    ("module", "attention.{G}.self.value", "attention.self.value"),
    ("module", "attention.{G}.output.dense", "attention.output.dense"),
    ("module", "attention.{G}.output.LayerNorm", "attention.output.LayerNorm"),
)
SHARED_ATTENTION_FFN: tuple[Rule, ...] = (  # share_type attention: a feed-forward block a layer
    ("module", "intermediate.{G}.dense", "intermediate.dense"),
    ("module", "output.{G}.dense", "output.dense"),
    ("module", "output.{G}.LayerNorm", "output.LayerNorm"),
)
HUGGINGFACE_LAYER: tuple[Rule, ...] = (
    ("module", "attention.query", "attention.self.query"),
    ("module", "attention.key", "attention.self.key"),
    ("module", "attention.value", "attention.self.value"),
    ("module", "attention.dense", "attention.output.dense"),
    ("module", "attention.LayerNorm", "attention.output.LayerNorm"),
    ("module", "ffn", "intermediate.dense"),
    ("module", "ffn_output", "output.dense"),
    ("module", "full_layer_layer_norm", "output.LayerNorm"),
)
OWN_COMMON: tuple[Rule, ...] = (
    ("module", "bert.embeddings.word_embeddings", "bert.embeddings.word_embeddings"),
    ("module", "bert.embeddings.position_embeddings", "bert.embeddings.position_embeddings"),
    ("module", "bert.embeddings.token_type_embeddings", "bert.embeddings.token_type_embeddings"),
    ("module", "bert.embeddings.LayerNorm", "bert.embeddings.LayerNorm"),
    ("module", "bert.pooler.dense", "bert.pooler.dense"),
    ("module", "cls.predictions.transform.dense", "cls.predictions.transform.dense"),
    ("module", "cls.predictions.transform.LayerNorm", "cls.predictions.transform.LayerNorm"),
    ("parameter", "cls.predictions.bias", "cls.predictions.bias"),
    ("module", "cls.seq_relationship", "cls.seq_relationship"),
    ("module", "classifier", "classifier"),
    ("module", "qa_outputs", "qa_outputs"),
)
OWN_MAPPING: tuple[Rule, ...] = (
    ("module", "bert.encoder.embedding_hidden_mapping_in",
     "bert.encoder.embedding_hidden_mapping_in"),
)
OWN_BRIGHT: tuple[Rule, ...] = (
    ("module", "bert.embeddings.word_embeddings_2", "bert.embeddings.word_embeddings_2"),
)
OWN_SQUAD_V2: tuple[Rule, ...] = (
    ("module", "start_logits.dense", "start_logits.dense"),
    ("module", "end_logits.dense_0", "end_logits.dense_0"),
    ("module", "end_logits.LayerNorm", "end_logits.LayerNorm"),
    ("module", "end_logits.dense_1", "end_logits.dense_1"),
    ("module", "answer_class.dense_0", "answer_class.dense_0"),
    ("module", "answer_class.dense_1", "answer_class.dense_1"),
)
HUGGINGFACE_COMMON: tuple[Rule, ...] = (
    ("module", "albert.embeddings.word_embeddings", "bert.embeddings.word_embeddings"),
    ("module", "albert.embeddings.position_embeddings", "bert.embeddings.position_embeddings"),
    ("module", "albert.embeddings.token_type_embeddings", "bert.embeddings.token_type_embeddings"),
    ("module", "albert.embeddings.LayerNorm", "bert.embeddings.LayerNorm"),
    ("module", "albert.encoder.embedding_hidden_mapping_in",
     "bert.encoder.embedding_hidden_mapping_in"),
    ("module", "albert.pooler", "bert.pooler.dense"),
    ("module", "predictions.dense", "cls.predictions.transform.dense"),
    ("module", "predictions.LayerNorm", "cls.predictions.transform.LayerNorm"),
    ("parameter", "predictions.bias", "cls.predictions.bias"),
    ("module", "sop_classifier.classifier", "cls.seq_relationship"),
    ("module", "classifier", "classifier"),
    ("module", "qa_outputs", "qa_outputs"),
)
TORCH_SKIPPED = (
    (r"(.*\.)?(position_ids|token_type_ids)", "not a weight"),
    (r".*\.num_batches_tracked", "not a weight"),
)

# ---- the dialects --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Block:
    """Rules under a common beginning of their and of our names.

    use: "always"; "one group" where there is a single group (its name has no number there);
    "reading" for names that are understood and never written.
    """

    theirs: str
    ours: str
    rules: tuple[Rule, ...]
    use: str = "always"


@dataclass(frozen=True)
class Dialect:
    """How one kind of file names the weights."""

    blocks: tuple[Block, ...]
    skipped: tuple[tuple[str, str], ...]  # pattern of their name, reason
    wrapper: str = ""  # what a wrapping module puts before all names, left out here
    base: str = ""  # what the encoder's names begin with where there is a head
    twins: tuple[tuple[str, str, bool], ...] = ()  # tied copy, its original, transposed
    layout: str | None = None  # where the dialect has only one


OURS = "bert.encoder.transformer.group.{G}.inner_group.{I}."
OURS_SHARED = "bert.encoder.transformer.group.0.inner_group.0."
OURS_LAYER = "bert.encoder.transformer.group.{G}.inner_group.0."
OWN_TASKS: tuple[Rule, ...] = (  # model/multitask.py
    ("module", "classifiers.{G}", "classifiers.{G}"),
)
OWN_DECODER = ("cls.predictions.decoder.weight", "bert.embeddings.word_embeddings.weight", False)
OWN_PROJECTION = ("cls.predictions.project_layer.weight",
                  "bert.embeddings.word_embeddings_2.weight", True)

DIALECTS: dict[str, Dialect] = {
    "albert_pytorch": Dialect(
        (Block("", "", OWN_COMMON + OWN_MAPPING + OWN_BRIGHT + OWN_SQUAD_V2 + OWN_TASKS),
         Block(OURS, OURS, SAME_LAYER)),
        TORCH_SKIPPED, wrapper="module.", base="bert."),
    "google": Dialect(
        (Block("", "", TENSORFLOW_COMMON + GOOGLE_ENCODER),
         Block("bert/encoder/transformer/group_{G}/inner_group_{I}/", OURS, GOOGLE_LAYER)),
        TENSORFLOW_SKIPPED, wrapper="module/", layout="google"),
    "bright": Dialect(
        (Block("", "", TENSORFLOW_COMMON + BRIGHT_EMBEDDINGS),
         Block("bert/encoder/layer_shared/", OURS_SHARED, BRIGHT_LAYER, "one group"),
         Block("bert/encoder/layer_{G}/", OURS_LAYER, BRIGHT_LAYER)),
        TENSORFLOW_SKIPPED, wrapper="module/", layout="bright"),
    "predecessor": Dialect(
        (Block("", "", OWN_COMMON + OWN_MAPPING),
         Block(OURS, OURS, PREDECESSOR_LAYER + PREDECESSOR_NORMS)),
        TORCH_SKIPPED, wrapper="module.", base="bert.", twins=(OWN_DECODER,), layout="google"),
    "predecessor_norms_from_1": Dialect(
        (Block("", "", OWN_COMMON + OWN_MAPPING),
         Block(OURS, OURS, PREDECESSOR_LAYER + PREDECESSOR_NORMS_FROM_1)),
        TORCH_SKIPPED, wrapper="module.", base="bert.", twins=(OWN_DECODER,), layout="google"),
    "predecessor_bright": Dialect(
        (Block("", "", OWN_COMMON + OWN_BRIGHT),
         Block("bert.encoder.layer_shared.", OURS_SHARED, SAME_LAYER, "one group"),
         Block("bert.encoder.layer.{G}.", OURS_LAYER, SAME_LAYER),
         Block("bert.encoder.layer_shared.", OURS_LAYER,
               SHARED_FFN_ATTENTION + SHARED_ATTENTION_FFN, "reading")),
        TORCH_SKIPPED, wrapper="module.", base="bert.", twins=(OWN_DECODER, OWN_PROJECTION),
        layout="bright"),
    "huggingface": Dialect(
        (Block("", "", HUGGINGFACE_COMMON),
         Block("albert.encoder.albert_layer_groups.{G}.albert_layers.{I}.", OURS,
               HUGGINGFACE_LAYER)),
        TORCH_SKIPPED, wrapper="module.", base="albert.",
        twins=(("predictions.decoder.weight", "albert.embeddings.word_embeddings.weight", False),
               ("predictions.decoder.bias", "predictions.bias", False)),
        layout="google"),
}

# The dialect of a file: the first of which a name matches.
MARKS = (
    ("bright", r"bert/embeddings/word_embeddings_2$|bert/encoder/layer_shared/"),
    ("google", r"bert/encoder/transformer/group_\d+/inner_group_\d+/"),
    ("huggingface", r"albert_layer_groups\.\d+\."),
    ("albert_pytorch", r"inner_group\.\d+\.attention\.output\.LayerNorm\."),
    ("predecessor_norms_from_1", r"inner_group\.\d+\.LayerNorm_2\."),
    ("predecessor", r"inner_group\.\d+\.ffn\.intermediate\."),
    ("predecessor_bright", r"embeddings\.word_embeddings_2\.|encoder\.layer_shared\."),
)
BERT_MARK = r"encoder[./]layer[._]\d+[./]attention[./]self[./]query"
