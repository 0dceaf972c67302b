"""ALBERT's encoder, leaf to root: embeddings, attention, layer, group, transformer, pooler.

One file for every variant; the settings that choose are fields of `AlbertConfig`:
layout (google, bright), ln_type (postln, preln), share_type (all, attention, ffn, none).

Letters in shape comments: B batch, T tokens, E embedding size, H hidden size, N heads,
D head size (H = N * D), F feed-forward size, V vocabulary.
Sources: the paper (arXiv 1909.11942, section 3.1); google-research/albert modeling.py; for
layout bright, brightmart/albert_zh modeling.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from model.configuration_albert import AlbertConfig

MASKED_SCORE = -10000.0  # official modeling.py; finite, so a row of padding alone gives no NaN

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "gelu_new": lambda x: F.gelu(x, approximate="tanh"),
    "gelu": F.gelu,
    "relu": F.relu,
    "silu": F.silu,
    "tanh": torch.tanh,
}


class AlbertEmbeddings(nn.Module):
    """Sum of word, position and token-type embeddings, normalised.

    google: all three are E wide and the encoder widens the sum. bright: words are widened by
    `word_embeddings_2` first, positions and types are H wide.
    """

    def __init__(self, config: AlbertConfig) -> None:
        super().__init__()
        bright = config.layout == "bright"
        width = config.hidden_size if bright else config.embedding_size
        self.word_embeddings = nn.Embedding(config.vocab_size, config.embedding_size)
        self.word_embeddings_2 = (nn.Linear(config.embedding_size, width, bias=False)
                                  if width != config.embedding_size else None)
        self.position_embeddings = nn.Embedding(config.max_position_embeddings, width)
        self.token_type_embeddings = nn.Embedding(config.type_vocab_size, width)
        self.LayerNorm = nn.LayerNorm(width, eps=config.layer_norm_eps)
        self.dropout = nn.Dropout(config.hidden_dropout_prob)

    def forward(self, input_ids: Tensor, token_type_ids: Tensor | None = None,
                position_ids: Tensor | None = None) -> Tensor:
        """(B, T) ids -> (B, T, E), or (B, T, H) in layout bright."""
        length = input_ids.shape[-1]
        if position_ids is None:
            if length > self.position_embeddings.num_embeddings:
                raise ValueError(f"input of {length} tokens, but the model has positions for "
                                 f"{self.position_embeddings.num_embeddings}: truncate the input")
            position_ids = torch.arange(length, device=input_ids.device)  # (T,)
        if token_type_ids is None:
            token_type_ids = torch.zeros_like(input_ids)
        x = self.word_embeddings(input_ids)  # (B, T) -> (B, T, E)
        if self.word_embeddings_2 is not None:
            x = self.word_embeddings_2(x)  # (B, T, E) -> (B, T, H)
        x = x + self.position_embeddings(position_ids) + self.token_type_embeddings(token_type_ids)
        return self.dropout(self.LayerNorm(x))

    def vocabulary_logits(self, x: Tensor) -> Tensor:
        """Score every word by the table itself: (..., E), or (..., H) in bright -> (..., V)."""
        if self.word_embeddings_2 is not None:
            x = x @ self.word_embeddings_2.weight  # (..., H) -> (..., E)
        return F.linear(x, self.word_embeddings.weight)  # (..., E) -> (..., V)


class AlbertSelfAttention(nn.Module):
    """Scaled dot-product attention over all heads."""

    def __init__(self, config: AlbertConfig) -> None:
        super().__init__()
        self.num_heads = config.num_attention_heads
        self.query = nn.Linear(config.hidden_size, config.hidden_size)
        self.key = nn.Linear(config.hidden_size, config.hidden_size)
        self.value = nn.Linear(config.hidden_size, config.hidden_size)
        self.dropout_prob = config.attention_probs_dropout_prob

    def split_heads(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (self.num_heads, -1)).transpose(1, 2)  # (B, T, H) -> (B, N, T, D)

    def forward(self, x: Tensor, scores_bias: Tensor | None, need_weights: bool = False,
                ) -> tuple[Tensor, Tensor | None]:
        """(B, T, H), bias broadcastable to (B, N, T, T) -> (B, T, H), weights or None."""
        q, k, v = (self.split_heads(project(x)) for project in (self.query, self.key, self.value))
        dropout = self.dropout_prob if self.training else 0.0
        weights = None
        if need_weights:
            scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])  # (B, N, T, T)
            if scores_bias is not None:
                scores = scores + scores_bias
            weights = scores.softmax(dim=-1)
            y = F.dropout(weights, dropout, self.training) @ v  # (B, N, T, D)
        else:
            if scores_bias is not None:
                scores_bias = scores_bias.to(q.dtype)
            y = F.scaled_dot_product_attention(q, k, v, scores_bias, dropout)  # (B, N, T, D)
        return y.transpose(1, 2).flatten(2), weights  # (B, N, T, D) -> (B, T, H)


class AlbertResidual(nn.Module):
    """The end of a block: dense, dropout, residual, with the LayerNorm that the block owns."""

    def __init__(self, in_features: int, config: AlbertConfig) -> None:
        super().__init__()
        self.dense = nn.Linear(in_features, config.hidden_size)
        self.LayerNorm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.dropout = nn.Dropout(config.hidden_dropout_prob)
        self.preln = config.ln_type == "preln"

    def before(self, x: Tensor) -> Tensor:
        """What the block reads: its input, normalised in preln."""
        return self.LayerNorm(x) if self.preln else x

    def forward(self, y: Tensor, x: Tensor) -> Tensor:
        """(B, T, in_features) block output, (B, T, H) block input -> (B, T, H)."""
        x = x + self.dropout(self.dense(y))
        return x if self.preln else self.LayerNorm(x)


class AlbertAttention(nn.Module):
    """Self-attention block: heads, output projection, residual and LayerNorm."""

    def __init__(self, config: AlbertConfig) -> None:
        super().__init__()
        self.self = AlbertSelfAttention(config)
        self.output = AlbertResidual(config.hidden_size, config)

    def forward(self, x: Tensor, scores_bias: Tensor | None, need_weights: bool = False,
                ) -> tuple[Tensor, Tensor | None]:
        """(B, T, H) -> (B, T, H) and, if asked for, (B, N, T, T) attention weights."""
        y, weights = self.self(self.output.before(x), scores_bias, need_weights)
        return self.output(y, x), weights


class AlbertIntermediate(nn.Module):
    """First half of the feed-forward block: H -> F and the activation."""

    def __init__(self, config: AlbertConfig) -> None:
        super().__init__()
        self.dense = nn.Linear(config.hidden_size, config.intermediate_size)
        self.activation = ACTIVATIONS[config.hidden_act]

    def forward(self, x: Tensor) -> Tensor:
        """(B, T, H) -> (B, T, F)."""
        return self.activation(self.dense(x))


class AlbertLayer(nn.Module):
    """One transformer layer: attention block, then feed-forward block."""

    def __init__(self, config: AlbertConfig) -> None:
        super().__init__()
        self.attention = AlbertAttention(config)
        self.intermediate = AlbertIntermediate(config)
        self.output = AlbertResidual(config.intermediate_size, config)

    def forward(self, x: Tensor, scores_bias: Tensor | None = None, need_weights: bool = False,
                ) -> tuple[Tensor, Tensor | None]:
        """(B, T, H) -> (B, T, H) and, if asked for, (B, N, T, T) attention weights."""
        x, weights = self.attention(x, scores_bias, need_weights)
        return self.output(self.intermediate(self.output.before(x)), x), weights


class AlbertGroup(nn.Module):
    """The layers (usually one) that a pass through a group runs in turn."""

    def __init__(self, config: AlbertConfig) -> None:
        super().__init__()
        self.inner_group = nn.ModuleList(AlbertLayer(config) for _ in range(config.inner_group_num))


class AlbertTransformer(nn.Module):
    """num_hidden_layers passes through num_hidden_groups groups of shared weights.

    With share_type other than "all" there is a group for every layer, and the block that is
    shared is one module used in each: it has one set of weights, under the name of the first.
    """

    def __init__(self, config: AlbertConfig) -> None:
        super().__init__()
        layers = range(config.num_hidden_layers)
        if config.share_type == "all":
            self.group_of_layer = [config.group_of_layer(i) for i in layers]
            self.group = nn.ModuleList(AlbertGroup(config) for _ in range(config.num_hidden_groups))
        else:
            self.group_of_layer = list(layers)
            self.group = nn.ModuleList(AlbertGroup(config) for _ in layers)
            self._share_blocks(config)
        self.checkpoint_activations = False

    def _share_blocks(self, config: AlbertConfig) -> None:
        shared = {"attention": ["attention"], "ffn": ["intermediate", "output"], "none": []}
        first: dict[int, AlbertGroup] = {}
        for i, group in enumerate(self.group):
            donor = first.setdefault(config.group_of_layer(i), group)
            for layer, source in zip(group.inner_group, donor.inner_group, strict=True):
                for name in shared[config.share_type]:
                    setattr(layer, name, getattr(source, name))

    def forward(self, x: Tensor, scores_bias: Tensor | None = None, output_hidden_states=False,
                output_attentions=False) -> tuple[Tensor, list[Tensor], list[Tensor]]:
        """(B, T, H) -> (B, T, H), the output of every layer, the attention of every layer.

        The lists are empty unless asked for. With `checkpoint_activations` a layer keeps only
        its input for the backward pass and computes the rest again.
        """
        hidden_states, attentions = [x] if output_hidden_states else [], []
        recompute = self.checkpoint_activations and self.training and torch.is_grad_enabled()
        for i in self.group_of_layer:
            for layer in self.group[i].inner_group:
                if recompute:
                    x, weights = checkpoint(layer, x, scores_bias, output_attentions,
                                            use_reentrant=False)
                else:
                    x, weights = layer(x, scores_bias, output_attentions)
                if output_hidden_states:
                    hidden_states.append(x)
                if output_attentions:
                    attentions.append(weights)
        return x, hidden_states, attentions


class AlbertEncoder(nn.Module):
    """The mapping from embedding width to hidden width (layout google), then the transformer."""

    def __init__(self, config: AlbertConfig) -> None:
        super().__init__()
        widen = config.layout == "google" and config.embedding_size != config.hidden_size
        self.embedding_hidden_mapping_in = (
            nn.Linear(config.embedding_size, config.hidden_size) if widen else None)
        self.transformer = AlbertTransformer(config)

    def forward(self, x: Tensor, scores_bias: Tensor | None = None, output_hidden_states=False,
                output_attentions=False) -> tuple[Tensor, list[Tensor], list[Tensor]]:
        """(B, T, E) embeddings ((B, T, H) in bright) -> as `AlbertTransformer.forward`."""
        if self.embedding_hidden_mapping_in is not None:
            x = self.embedding_hidden_mapping_in(x)  # (B, T, E) -> (B, T, H)
        return self.transformer(x, scores_bias, output_hidden_states, output_attentions)


class AlbertPooler(nn.Module):
    """A dense layer and tanh over the first token, [CLS]."""

    def __init__(self, config: AlbertConfig) -> None:
        super().__init__()
        self.dense = nn.Linear(config.hidden_size, config.hidden_size)

    def forward(self, sequence_output: Tensor) -> Tensor:
        """(B, T, H) -> (B, H)."""
        return torch.tanh(self.dense(sequence_output[:, 0]))


def attention_scores_bias(attention_mask: Tensor | None, dtype: torch.dtype) -> Tensor | None:
    """Mask of ones (attend) and zeros -> what is added to the attention scores.

    (B, T) -> (B, 1, 1, T); (B, T, T) -> (B, 1, T, T). None stays None: everything attends.
    """
    if attention_mask is None:
        return None
    if attention_mask.dim() not in (2, 3):
        raise ValueError(f"attention_mask has shape {tuple(attention_mask.shape)}, expected (B, T) "
                         "or (B, T, T)")
    mask = attention_mask[:, None, None] if attention_mask.dim() == 2 else attention_mask[:, None]
    return (1.0 - mask.to(dtype)) * MASKED_SCORE
