"""Blocks kept or inverted on the way back: memory, time and gradients of 24 blocks of Glow.

    python benchmarks/reversible.py [--out results/reversible.json] [--rounds 15]

SVHN's sizes: three levels of 8 blocks at 32 x 32 x 3, widths 48, 64 and 96, batches of 64, in 32
bits, after some steps of training on smooth random pictures (weights drawn at random make a flow
that magnifies rounding as no trained one does). Memory is what XLA sets aside for a compiled
gradient besides its inputs and outputs. Both take turns in a random order each round; only ratios
within a round are claims.
"""

import argparse
import functools
import random
import statistics
import time

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from rich.console import Console
from rich.table import Table
from scipy.ndimage import zoom

from diglm import flows
from diglm.report.results import write_result
from diglm.types import partition

SHAPE, BLOCKS, WIDTHS, BATCH = (32, 32, 3), (8, 8, 8), (48, 64, 96), 64


def pictures(n: int) -> np.ndarray:
    """Coarse colours, made fine by interpolation, with a little noise: bytes in [0, 256)."""
    rng = np.random.default_rng(1)
    coarse = rng.uniform(30, 220, (n, 5, 5, SHAPE[2]))
    fine = zoom(coarse, (1, SHAPE[0] / 5, SHAPE[1] / 5, 1), order=1)
    return np.clip(np.floor(fine + 4 * rng.normal(size=fine.shape)), 0, 255)


def trained(model, n_steps: int):
    """The model after some steps of Adam on the pictures, with noise in the cells of pixels."""
    images, rng = pictures(n_steps * BATCH), np.random.default_rng(2)
    start = jnp.asarray(images[:BATCH] + rng.uniform(size=(BATCH, *SHAPE)), jnp.float32)
    _, _, model = eqx.filter_jit(model.forward_batch)(start, start=True)
    trainable, fixed = partition(model)
    adam = optax.chain(optax.clip_by_global_norm(5.0), optax.adam(1e-3))

    @eqx.filter_jit
    def step(trainable, state, xs):
        gradient = jax.grad(lambda t: loss(eqx.combine(t, fixed), xs))(trainable)
        update, state = adam.update(gradient, state)
        return optax.apply_updates(trainable, update), state

    state = adam.init(trainable)
    for i in range(n_steps):
        batch = images[i * BATCH : (i + 1) * BATCH]
        xs = jnp.asarray(batch + rng.uniform(size=batch.shape), jnp.float32)
        trainable, state = step(trainable, state, xs)
    return eqx.combine(trainable, fixed)


def loss(model, xs):
    """Minus the mean log density a dimension, but for constants."""
    zs, log_dets, _ = model.forward_batch(xs)
    return (0.5 * jnp.mean(jnp.sum(jnp.square(zs), axis=1)) - jnp.mean(log_dets)) / zs.shape[1]


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", default="results/reversible.json")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--steps", type=int, default=50, help="of training before the comparison")
    options = parser.parse_args()
    started = time.perf_counter()
    xs = jnp.asarray(pictures(BATCH) + 0.5, jnp.float32)
    ways, memory = {}, {}
    make = functools.partial(
        flows.glow,
        SHAPE,
        n_blocks=BLOCKS,
        width=WIDTHS,
        factor_out=True,
        key=jax.random.key(0),
    )
    weights = jax.tree.leaves(trained(make(), options.steps))
    for name, reversible in (("kept", False), ("inverted", True)):
        model = jax.tree.unflatten(jax.tree.structure(make(reversible=reversible)), weights)
        compiled = eqx.filter_jit(eqx.filter_grad(loss)).lower(model, xs).compile()
        memory[name] = compiled.compiled.memory_analysis().temp_size_in_bytes / 2**20
        ways[name] = (compiled, model)
    flat = {
        name: np.concatenate(
            [np.ravel(leaf) for leaf in jax.tree.leaves(partition(compiled(model, xs))[0])]
        )
        for name, (compiled, model) in ways.items()
    }
    difference = np.linalg.norm(flat["kept"] - flat["inverted"]) / np.linalg.norm(flat["kept"])
    ratios = []
    for round_ in range(options.rounds):
        taken = {}
        for name in random.Random(round_).sample(list(ways), 2):
            compiled, model = ways[name]
            since = time.perf_counter()
            jax.block_until_ready(jax.tree.leaves(partition(compiled(model, xs))[0]))
            taken[name] = time.perf_counter() - since
        ratios.append(taken["inverted"] / taken["kept"])
    found = {
        "memory_mib": memory,
        "memory_ratio": memory["kept"] / memory["inverted"],
        "time_ratio": statistics.median(ratios),
        "time_range": [min(ratios), max(ratios)],
        "gradient_difference": float(difference),
    }
    table = Table("memory kept, MiB", "inverted, MiB", "time ratio", "gradients differ by")
    table.add_row(
        f"{memory['kept']:.0f}",
        f"{memory['inverted']:.0f}",
        f"{found['time_ratio']:.2f}",
        f"{difference:.1e}",
    )
    Console().print(table)
    config = {"shape": SHAPE, "blocks": BLOCKS, "widths": WIDTHS, "batch": BATCH}
    config |= {"rounds": options.rounds, "steps": options.steps}
    seconds = time.perf_counter() - started
    write_result(options.out, config=config, seed=0, seconds=seconds, metrics=found)


if __name__ == "__main__":
    main()
