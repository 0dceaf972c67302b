"""The official optimizers' arithmetic, held against plain NumPy, and what decays."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from callback.optimization import OPTIMIZERS, Lamb, build_optimizer, parameter_groups
from model.configuration_albert import AlbertConfig
from model.modeling_albert import AlbertForPreTraining

RATE, DECAY, EPS, BETAS = 0.02, 0.1, 1e-6, (0.9, 0.999)
SHAPES = {"matrix": (3, 5), "table": (7, 2), "zero": (2, 2), "bias": (5,), "scale": (1,)}


def model_of(values: dict[str, np.ndarray]) -> nn.ParameterDict:
    return nn.ParameterDict({name: nn.Parameter(torch.from_numpy(value.copy()))
                             for name, value in values.items()})


def start_and_gradients(steps: int = 5) -> tuple[dict[str, np.ndarray], list[dict]]:
    rng = np.random.default_rng(3)
    start = {name: rng.normal(size=shape).astype(np.float32) for name, shape in SHAPES.items()}
    start["zero"][:] = 0  # a norm of 0: its trust ratio is 1
    gradients = [{name: rng.normal(size=shape).astype(np.float32) for name, shape in SHAPES.items()}
                 for _ in range(steps)]
    return start, gradients


def expected(name: str, start: dict[str, np.ndarray], gradients: list[dict],
             decay: float) -> dict[str, np.ndarray]:
    """lamb_optimizer.py and optimization.py, written down step by step in float64."""
    weights = {n: w.astype(np.float64) for n, w in start.items()}
    m = {n: np.zeros_like(w) for n, w in weights.items()}
    v = {n: np.zeros_like(w) for n, w in weights.items()}
    for step in gradients:
        for n, g in step.items():
            m[n] = BETAS[0] * m[n] + (1 - BETAS[0]) * g
            v[n] = BETAS[1] * v[n] + (1 - BETAS[1]) * g.astype(np.float64) ** 2
            update = m[n] / (np.sqrt(v[n]) + EPS)
            ratio = 1.0
            if weights[n].ndim > 1:
                update = update + decay * weights[n]
                norms = np.linalg.norm(weights[n]), np.linalg.norm(update)
                if name == "lamb" and norms[0] > 0 and norms[1] > 0:
                    ratio = norms[0] / norms[1]
            weights[n] = weights[n] - ratio * RATE * update
    return weights


def take(model: nn.ParameterDict, optimizer: torch.optim.Optimizer, gradients: list[dict]) -> None:
    for step in gradients:
        for name, gradient in step.items():
            model[name].grad = torch.from_numpy(gradient.copy())
        optimizer.step()


@pytest.mark.parametrize("decay", [DECAY, 0.0])  # without decay LAMB keeps its trust ratio
@pytest.mark.parametrize("name", ["lamb", "adamw"])
def test_the_official_update(name: str, decay: float) -> None:
    start, gradients = start_and_gradients()
    model = model_of(start)
    take(model, build_optimizer(name, model, RATE, decay, EPS, BETAS), gradients)
    for parameter, value in expected(name, start, gradients, decay).items():
        np.testing.assert_allclose(model[parameter].detach().numpy(), value, rtol=2e-5, atol=2e-6,
                                   err_msg=parameter)


def test_lamb_on_its_own_trusts_every_parameter() -> None:
    start, gradients = start_and_gradients(1)
    model = model_of({"bias": start["bias"]})
    Lamb(model.parameters(), RATE, weight_decay=0.0)
    take(model, Lamb(model.parameters(), RATE, weight_decay=0.0), [{"bias": gradients[0]["bias"]}])
    moved = np.linalg.norm(model["bias"].detach().numpy() - start["bias"])
    assert moved == pytest.approx(RATE * np.linalg.norm(start["bias"]), rel=1e-4)


@pytest.mark.parametrize("name", sorted(OPTIMIZERS))
def test_a_state_dict_carries_everything(name: str) -> None:
    start, gradients = start_and_gradients(6)
    whole = model_of(start)
    take(whole, build_optimizer(name, whole, RATE, DECAY), gradients)
    first = model_of(start)
    optimizer = build_optimizer(name, first, RATE, DECAY)
    take(first, optimizer, gradients[:3])
    second = model_of({n: p.detach().numpy() for n, p in first.items()})
    resumed = build_optimizer(name, second, RATE, DECAY)
    resumed.load_state_dict(optimizer.state_dict())
    take(second, resumed, gradients[3:])
    assert all(torch.equal(whole[n], second[n]) for n in whole)


@pytest.mark.parametrize("name", sorted(OPTIMIZERS))
def test_every_optimizer_goes_downhill_and_leaves_the_frozen_alone(name: str) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), nn.LayerNorm(4), nn.Linear(4, 2))
    model[0].weight.requires_grad_(False)
    frozen = model[0].weight.clone()
    optimizer = build_optimizer(name, model, 0.02, 0.0)
    x, y = torch.randn(11, 3), torch.randn(11, 2)
    losses = []
    for _ in range(30):
        loss = ((model(x) - y) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.9 * losses[0]
    assert torch.equal(frozen, model[0].weight)


def test_a_parameter_without_a_gradient_stays() -> None:
    start, gradients = start_and_gradients(1)
    for name in ("lamb", "adamw"):
        model = model_of(start)
        del gradients[0]["table"], gradients[0]["bias"]
        take(model, build_optimizer(name, model, RATE, DECAY), gradients)
        assert np.array_equal(model["table"].detach().numpy(), start["table"])
        gradients = start_and_gradients(1)[1]


@pytest.mark.parametrize("changes", [{}, {"layout": "bright"}, {"share_type": "none"},
                                     {"ln_type": "preln", "layout": "bright"}])
def test_decay_by_dimension_is_the_official_rule_by_name(changes: dict) -> None:
    model = AlbertForPreTraining(AlbertConfig(
        vocab_size=23, embedding_size=4, hidden_size=6, num_attention_heads=2, intermediate_size=7,
        num_hidden_layers=2, max_position_embeddings=11, **changes))
    decays, stays = parameter_groups(model, 0.25)
    assert (decays["weight_decay"], stays["weight_decay"]) == (0.25, 0.0)
    chosen = {id(p) for p in decays["params"]}
    for name, parameter in model.named_parameters():
        official = not any(part in name for part in ("LayerNorm", "layer_norm", "bias"))
        assert (id(parameter) in chosen) == official, name
    assert len(decays["params"]) + len(stays["params"]) == len(list(model.parameters()))


def test_wrong_settings_are_told_together() -> None:
    parameters = [nn.Parameter(torch.zeros(2))]
    with pytest.raises(ValueError, match=r"Lamb: lr is -1.*betas is \(0.9, 1.0\)"):
        Lamb(parameters, -1, betas=(0.9, 1.0))
    with pytest.raises(ValueError, match="--optimizer adam: no such optimizer.*adamw.*lamb"):
        build_optimizer("adam", nn.Linear(2, 2), 0.1)
