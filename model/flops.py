"""How much arithmetic a model does: parameters shrink with sharing, this does not."""

from __future__ import annotations

from model.configuration_albert import AlbertConfig


def flops_per_token(config: AlbertConfig, length: int, masked_share: float = 0.15,
                    training: bool = True) -> float:
    """Floating-point operations of matrix products for one token of a sequence of `length`.

    A multiplication and an addition count as two; a training step is three forward passes (the
    backward pass is two). masked_share of the tokens meet the vocabulary.
    """
    h, e, f = config.hidden_size, config.embedding_size, config.intermediate_size
    layer = 4 * h * h + 2 * h * f + 2 * length * h  # projections, feed-forward, scores and values
    layers = config.num_hidden_layers * config.inner_group_num * layer
    widen = e * h if e != h else 0
    head = masked_share * (h * e + e * config.vocab_size)
    return 2.0 * (layers + widen + head) * (3 if training else 1)
