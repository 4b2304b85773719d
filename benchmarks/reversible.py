"""Blocks kept or inverted on the way back: memory, time and gradients of 24 blocks of Glow.

    python benchmarks/reversible.py [--out results/reversible.json] [--rounds 5]

SVHN's sizes: three levels of 8 blocks at 32 x 32 x 3, widths 48, 64 and 96, batches of 64, in 32
bits, started from the images as training starts. Memory is what XLA sets aside for a compiled
gradient besides its inputs and outputs. Both take turns in a random order each round; only ratios
within a round are claims.
"""

import argparse
import random
import statistics
import time

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from rich.console import Console
from rich.table import Table

from diglm import flows
from diglm.report.results import write_result
from diglm.types import partition

SHAPE, BLOCKS, WIDTHS, BATCH = (32, 32, 3), (8, 8, 8), (48, 64, 96), 64


def perturbed(model, size: float = 0.01):
    """Noise on everything that trains, as after some training."""
    trainable, fixed = partition(model)
    rng = np.random.default_rng(0)

    def noisy(leaf):
        return leaf + size * jnp.asarray(rng.normal(size=leaf.shape), leaf.dtype)

    return eqx.combine(jax.tree.map(noisy, trainable), fixed)


def loss(model, xs):
    """Minus the mean log density, but for constants."""
    zs, log_dets, _ = model.forward_batch(xs)
    return 0.5 * jnp.mean(jnp.sum(jnp.square(zs), axis=1)) - jnp.mean(log_dets)


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", default="results/reversible.json")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    started = time.perf_counter()
    xs = jnp.asarray(np.random.default_rng(1).uniform(0, 256, (BATCH, *SHAPE)), jnp.float32)
    ways, memory = {}, {}
    for reversible in (False, True):
        name = "inverted" if reversible else "kept"
        model = flows.glow(
            SHAPE,
            n_blocks=BLOCKS,
            width=WIDTHS,
            factor_out=True,
            reversible=reversible,
            key=jax.random.key(0),
        )
        _, _, model = eqx.filter_jit(model.forward_batch)(xs, start=True)
        model = perturbed(model)
        gradient = eqx.filter_jit(eqx.filter_grad(loss))
        compiled = gradient.lower(model, xs).compile()
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
    config |= {"rounds": options.rounds}
    seconds = time.perf_counter() - started
    write_result(options.out, config=config, seed=0, seconds=seconds, metrics=found)


if __name__ == "__main__":
    main()
