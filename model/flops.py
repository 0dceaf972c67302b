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


def _table() -> str:
    """The published sizes: parameters of the encoder and arithmetic of a token, in Markdown."""
    import torch

    from model.configuration_albert import PRESETS
    from model.modeling_albert import AlbertModel

    rows = []
    bert = AlbertConfig(vocab_size=30522, embedding_size=768, share_type="none")
    sizes = [("BERT-base, for comparison", bert)]
    sizes += [(name, AlbertConfig.from_preset(name)) for name in PRESETS
              if name.endswith("_v2") or name in ("zh_tiny", "zh_small")]
    for name, config in sizes:
        with torch.device("meta"):
            parameters = AlbertModel(config).num_parameters()
        work = flops_per_token(config, length=128, masked_share=0, training=False)
        rows.append(f"| {name} | {parameters:,} | {work / 1e9:.3f} |")
    return "\n".join(rows)


if __name__ == "__main__":
    print(_table())
