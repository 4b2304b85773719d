"""A training step on images, diglm beside PyTorch: the same Glow, images a second, as ratios.

    python benchmarks/glow.py [--out results/glow.json] [--rounds 5] [--without-compiled]

The model is MNIST's: 8 blocks at 14 x 14 x 4 with 48 hidden channels, 8 at 7 x 7 x 16 with 128. A
block is actnorm, a 1 x 1 convolution and an affine coupling whose network has kernels of
3, 1 and 3; batches of 64, Adam. PyTorch has it by hand, with channels last, eager and compiled, and
from normflows. Contestants take turns in a random order each round; only ratios within a round are
claims. diglm divides a step over the cores as devices of their own; PyTorch uses its threads.
"""

import argparse
import importlib.util
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from peers import interleave, summary

BATCH, STEPS, BLOCKS, WIDTHS, RATE = 64, 10, 8, (48, 128), 1e-3


def images(n: int) -> np.ndarray:
    """Logits of noise: speed does not depend on what images show."""
    return np.random.default_rng(0).normal(size=(n, 28, 28, 1)).astype(np.float32)


def diglm_steps() -> Callable[[], float]:
    """The library's own loop, with all it carries: guard, clipping, schedule, averages."""
    import jax
    import jax.numpy as jnp

    from diglm import Flow, Hybrid, flows
    from diglm.heads import make_head
    from diglm.objectives import JointObjective
    from diglm.training.devices import Layout
    from diglm.training.settings import Schedule, Settings
    from diglm.training.state import State
    from diglm.training.step import Shared, Sums, run_chunk
    from diglm.types import Batch

    layout = Layout()
    glow = flows.glow(
        (28, 28, 1), n_blocks=BLOCKS, width=WIDTHS, unroll=BLOCKS, n_bins=0, key=jax.random.key(0)
    )
    model = Hybrid(Flow(glow), make_head("gaussian", 784))
    objective = JointObjective(1.0, density_only=True)
    schedule = Schedule.of(Settings(learning_rate=RATE), 10**6)
    shared = layout.replicate(Shared(model, objective, schedule, layout.mesh))
    pixels = 128.0 + 20.0 * images(STEPS * BATCH).reshape(STEPS, BATCH, 28, 28, 1)
    nothing = np.zeros((STEPS, BATCH), np.float32)
    chunk = layout.spread(Batch(pixels, nothing, nothing > 0, nothing + 1))
    fixed = (shared, chunk, *layout.replicate((jnp.asarray(STEPS, jnp.int32), jax.random.key(0))))
    state = layout.replicate(State.start(model))

    def step() -> float:
        nonlocal state
        sums = layout.replicate(Sums.zero(jnp.float32))
        state, sums = run_chunk(fixed, state, sums)
        return float(sums.means().loss)

    return step


def torch_glow() -> Any:
    """The same layers by hand, logit included, for images (rows, channels, height, width)."""
    import torch
    from torch import nn
    from torch.nn import functional

    class Block(nn.Module):
        def __init__(self, channels: int, width: int):
            super().__init__()
            self.bias = nn.Parameter(torch.zeros(1, channels, 1, 1))
            self.log_scale = nn.Parameter(torch.zeros(1, channels, 1, 1))
            rotation, _ = torch.linalg.qr(torch.randn(channels, channels))
            p, lower, upper = torch.linalg.lu(rotation)
            self.register_buffer("p", p)
            self.register_buffer("sign", torch.sign(torch.diag(upper)))
            self.lower, self.upper = nn.Parameter(lower), nn.Parameter(upper)
            self.diagonal = nn.Parameter(torch.log(torch.abs(torch.diag(upper))))
            self.net = nn.Sequential(
                nn.Conv2d(channels // 2, width, 3, padding=1),
                nn.ReLU(),
                nn.Conv2d(width, width, 1),
                nn.ReLU(),
                nn.Conv2d(width, channels, 3, padding=1),
            )
            nn.init.zeros_(self.net[-1].weight)
            nn.init.zeros_(self.net[-1].bias)

        def forward(self, x):
            places = x.shape[2] * x.shape[3]
            lower = torch.tril(self.lower, -1) + torch.eye(len(self.lower))
            upper = torch.triu(self.upper, 1) + torch.diag(self.sign * torch.exp(self.diagonal))
            x = (x + self.bias) * torch.exp(self.log_scale)
            x = functional.conv2d(x, (self.p @ lower @ upper)[:, :, None, None])
            a, b = torch.chunk(x, 2, 1)
            raw, shift = torch.chunk(self.net(torch.clamp(a, -8, 8)), 2, 1)
            scale = 2 * torch.tanh(raw / 2)
            total = places * (self.log_scale.sum() + self.diagonal.sum()) + scale.sum((1, 2, 3))
            return torch.cat([a, b * torch.exp(scale) + shift], 1), total

    class Glow(nn.Module):
        def __init__(self):
            super().__init__()
            levels = [[Block(4 ** (i + 1), w) for _ in range(BLOCKS)] for i, w in enumerate(WIDTHS)]
            self.levels = nn.ModuleList(nn.ModuleList(level) for level in levels)

        def forward(self, x):
            total = 0.0
            for level in self.levels:
                x = functional.pixel_unshuffle(x, 2)
                for block in level:
                    x, log_det = block(x)
                    total = total + log_det
            return -(total - 0.5 * x.square().sum((1, 2, 3))).mean()

    return Glow().to(memory_format=torch.channels_last)


def torch_steps(*, compiled: bool) -> Callable[[], float]:
    """Adam on the hand-written Glow."""
    import torch

    model = torch_glow()
    xs = torch.tensor(images(STEPS * BATCH)).permute(0, 3, 1, 2).split(BATCH)
    optimiser = torch.optim.Adam(model.parameters(), RATE, foreach=True)

    def one(x):
        loss = model(x)
        loss.backward()
        return loss

    one = torch.compile(one) if compiled else one

    def step() -> float:
        loss = None
        for x in xs:
            optimiser.zero_grad(set_to_none=True)
            loss = one(x)
            optimiser.step()
        return float(loss)

    return step


def normflows_steps() -> Callable[[], float]:
    """normflows' own blocks, squeezes and training by `forward_kld`."""
    import normflows
    import torch

    def level(i: int) -> list:
        blocks = [normflows.flows.GlowBlock(4 ** (i + 1), WIDTHS[i]) for _ in range(BLOCKS)]
        return [*blocks, normflows.flows.Squeeze()]

    base = normflows.distributions.DiagGaussian((16, 7, 7))
    model = normflows.NormalizingFlow(base, level(1) + level(0))
    xs = torch.tensor(images(STEPS * BATCH)).permute(0, 3, 1, 2).contiguous().split(BATCH)
    optimiser = torch.optim.Adam(model.parameters(), RATE, foreach=True)

    def step() -> float:
        loss = None
        for x in xs:
            optimiser.zero_grad(set_to_none=True)
            loss = model.forward_kld(x)
            loss.backward()
            optimiser.step()
        return float(loss)

    return step


def compare(steps: dict[str, Callable[[], float]], rounds: int) -> dict[str, dict[str, Any]]:
    """Images a second of each contestant, and diglm's over theirs, over rounds in turns."""
    for name, step in steps.items():
        losses = [step(), step()]  # compiles, warms up
        if not np.all(np.isfinite(losses)) or losses[1] >= losses[0]:
            raise RuntimeError(f"{name} does not learn: losses {losses}.")
    return {
        name: {
            "images_a_second": STEPS * BATCH / found.median,
            "diglm_is_faster_by": found.ratio,
            "range": [found.ratio_low, found.ratio_high],
        }
        for name, found in summary(interleave(steps, rounds, warmup=0), "diglm").items()
    }


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", default="results/glow.json")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--without-compiled", action="store_true")
    options = parser.parse_args()
    from diglm.report.results import write_result
    from diglm.training.devices import use_every_core

    use_every_core()
    started = time.perf_counter()
    steps = {"diglm": diglm_steps()}
    if importlib.util.find_spec("torch") is not None:
        steps["PyTorch, eager"] = torch_steps(compiled=False)
        if not options.without_compiled:
            steps["PyTorch, compiled"] = torch_steps(compiled=True)
        if importlib.util.find_spec("normflows") is not None:
            steps["normflows"] = normflows_steps()
    found = compare(steps, options.rounds)
    table = Table("contestant", "images a second", "diglm is faster by", "range")
    for name, numbers in found.items():
        low, high = numbers["range"]
        table.add_row(
            name,
            f"{numbers['images_a_second']:.0f}",
            f"{numbers['diglm_is_faster_by']:.2f}x",
            f"{low:.2f} to {high:.2f}",
        )
    Console().print(table)
    config = {"rounds": options.rounds, "batch": BATCH, "blocks": BLOCKS, "widths": WIDTHS}
    seconds = time.perf_counter() - started
    write_result(options.out, config=config, seed=0, seconds=seconds, metrics=found)


if __name__ == "__main__":
    main()
