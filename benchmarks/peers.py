"""Other flow libraries on one task: the same RealNVP, the same data, the same optimiser.

The model is 8 affine couplings over 8 features. Each conditioner is a perceptron with one hidden
layer of 100 rectified units, the halves change places between couplings, and the base is N(0, I),
all in 32 bits: 8 x (4*100 + 100 + 100*8 + 8) = 10,464 parameters in every library. The last layer
of each conditioner starts at zero, so every flow starts as the identity. Libraries are imported
only when used, so this file loads without any of them.

Run `python benchmarks/peers.py` to check that all do the same job, and to time them lightly.
"""

import importlib.metadata
import importlib.util
import itertools
import math
import random
import statistics
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import contextmanager
from functools import partial
from typing import NamedTuple

import numpy as np

DIM, WIDTH, COUPLINGS, RATE = 8, 100, 8, 1e-3
REST = 0.25  # seconds between turns
PARAMETERS = COUPLINGS * (DIM // 2 * WIDTH + WIDTH + WIDTH * DIM + DIM)


class AbstractPeer(ABC):
    """A library's flow. Call `prepare` once; then `train` and `score`, which block until done."""

    name: str
    package: str
    score_settings: tuple = ()

    def __init__(self):
        self.chosen = {}  # what tuning picked, for the report

    @classmethod
    def available(cls) -> bool:
        """Whether the library is installed."""
        return importlib.util.find_spec(cls.package) is not None

    @property
    def version(self) -> str:
        """The installed version of the library."""
        return importlib.metadata.version(self.package)

    @property
    @abstractmethod
    def n_parameters(self) -> int:
        """Number of trained numbers."""

    @abstractmethod
    def prepare(self, xs_train: np.ndarray, batch: int = 100) -> None:
        """Build the flow, cut the minibatches, compile and tune; leaves the flow untrained."""

    @abstractmethod
    def train(self, n_steps: int) -> float:
        """Take Adam steps on successive minibatches; the last minibatch's loss."""

    @abstractmethod
    def _score(self, xs: np.ndarray, setting) -> np.ndarray:
        """Log-densities of all rows under one way of chunking."""

    def score(self, xs: np.ndarray) -> np.ndarray:
        """Log-densities of all rows. The first call at a row count tunes; do not time that one."""
        if ("score", len(xs)) not in self.chosen:
            runs = {s: partial(self._score, xs, s) for s in self.score_settings}
            self.chosen["score", len(xs)] = _fastest(runs)
        return self._score(xs, self.chosen["score", len(xs)])


class FlowJAX(AbstractPeer):
    """Couplings and flips stacked in FlowJAX's own Scan, as its `coupling_flow` builds them."""

    name, package = "FlowJAX", "flowjax"
    score_settings = (1_000, 10_000, None)  # rows in a chunk; None is all at once

    def prepare(self, xs_train, batch=100):
        """Build the flow and compile the step of FlowJAX's `fit_to_data`."""
        import equinox as eqx
        import jax
        import jax.numpy as jnp
        import optax
        import paramax
        from flowjax.bijections import Affine, Chain, Coupling, Flip, Invert, Scan
        from flowjax.distributions import StandardNormal, Transformed
        from flowjax.train.losses import MaximumLikelihoodLoss

        # The scale is exp(tanh(.)) exactly, set where FlowJAX's Affine invites it. The default
        # recipe draws random permutations; Flip exchanges the halves and avoids a gather.
        scale = paramax.Parameterize(_exp_tanh, jnp.zeros(()))
        transformer = eqx.tree_at(lambda affine: affine.scale, Affine(), scale)

        def block(key):
            sizes = dict(untransformed_dim=DIM // 2, dim=DIM, nn_width=WIDTH, nn_depth=1)
            coupling = Coupling(key, transformer=transformer, **sizes)
            last = coupling.conditioner.layers[-1]
            zero = jax.tree.map(jnp.zeros_like, eqx.filter(last, eqx.is_array))
            zero = eqx.combine(zero, last)
            coupling = eqx.tree_at(lambda c: c.conditioner.layers[-1], coupling, zero)
            return Chain([coupling, Flip((DIM,))])

        blocks = eqx.filter_vmap(block)(jax.random.split(jax.random.key(0), COUPLINGS))
        flow = Transformed(StandardNormal((DIM,)), Invert(Scan(blocks)))
        self._params, self._static = eqx.partition(
            flow, eqx.is_inexact_array, is_leaf=lambda x: isinstance(x, paramax.NonTrainable)
        )
        self._optimiser, self._loss = optax.adam(RATE), MaximumLikelihoodLoss()
        self._log_prob = eqx.filter_jit(lambda flow, xs: flow.log_prob(xs))
        start = self._params, self._optimiser.init(self._params)
        self._batches = [jnp.asarray(xs) for xs in _batches(xs_train, batch)]
        self._params, self._state = start
        self._turn = itertools.cycle(self._batches)
        self.train(2)
        self._params, self._state = start
        self._turn = itertools.cycle(self._batches)

    @property
    def n_parameters(self):
        """Number of trained numbers."""
        import jax

        return sum(leaf.size for leaf in jax.tree.leaves(self._params))

    def train(self, n_steps):
        """Loop over FlowJAX's jitted `step`, as `fit_to_data` does, without its shuffling.

        Its loop also splits a random key at each step. Maximum likelihood ignores the key, so
        none is passed, which is about 0.2 ms a step faster.
        """
        import jax
        from flowjax.train.train_utils import step

        params, state, loss = self._params, self._state, math.nan
        fixed = dict(optimizer=self._optimiser, loss_fn=self._loss)
        for xs in itertools.islice(self._turn, n_steps):
            params, state, loss = step(params, self._static, xs, opt_state=state, **fixed)
        self._params, self._state = jax.block_until_ready((params, state))
        return float(loss)

    def _score(self, xs, setting):
        import equinox as eqx

        flow = eqx.combine(self._params, self._static)
        parts = [self._log_prob(flow, part) for part in _batches(xs, setting, keep_rest=True)]
        return np.concatenate([np.asarray(part) for part in parts])


class AbstractTorchPeer(AbstractPeer):
    """The ordinary PyTorch loop: zero_grad, loss, backward, Adam step.

    Fused Adam was the fastest of PyTorch's three. More threads do not always help at batch 100,
    so their number is tuned, for training and for scoring apart.
    """

    thread_choices: tuple = (1, None)  # None is PyTorch's default
    score_settings = tuple(itertools.product((1, None), (1_000, 10_000, None)))

    @abstractmethod
    def _build(self):
        """The flow, as a torch module."""

    @abstractmethod
    def _log_prob(self, xs):
        """Log-densities of a batch of rows."""

    def prepare(self, xs_train, batch=100):
        """Build the flow and pick the faster number of threads."""
        import torch

        torch.manual_seed(0)
        self._flow = self._build()
        for module in self._flow.modules():
            if len(getattr(module, "weight", ())) == DIM:  # a conditioner's last layer
                torch.nn.init.zeros_(module.weight)
                torch.nn.init.zeros_(module.bias)
        self._batches = [torch.from_numpy(xs) for xs in _batches(xs_train, batch)]
        start = {name: value.clone() for name, value in self._flow.state_dict().items()}
        self._compile()
        self._restart(start)
        runs = {n: partial(self._train, 25, n) for n in self.thread_choices}
        self.chosen["train threads"] = _fastest(runs)
        self._restart(start)

    def _compile(self):
        """Nothing: PyTorch runs eagerly unless a subclass says otherwise."""

    def _without_gradients(self):
        import torch

        return torch.inference_mode()

    def _restart(self, start):
        import torch

        self._flow.load_state_dict(start)  # in place, so that compiled code stays valid
        self._optimiser = torch.optim.Adam(self._flow.parameters(), lr=RATE, fused=True)
        self._turn = itertools.cycle(self._batches)

    @property
    def n_parameters(self):
        """Number of trained numbers."""
        return sum(p.numel() for p in self._flow.parameters() if p.requires_grad)

    def train(self, n_steps):
        """Take Adam steps on successive minibatches; the last minibatch's loss."""
        return self._train(n_steps, self.chosen["train threads"])

    def _train(self, n_steps, threads):
        loss = None
        with _threads(threads):
            for xs in itertools.islice(self._turn, n_steps):
                self._optimiser.zero_grad(set_to_none=True)
                loss = -self._log_prob(xs).mean()
                loss.backward()
                self._optimiser.step()
        return math.nan if loss is None else loss.item()

    def _score(self, xs, setting):
        import torch

        threads, rows = setting
        with _threads(threads), self._without_gradients():
            parts = _batches(torch.from_numpy(xs), rows, keep_rest=True)
            return torch.cat([self._log_prob(part) for part in parts]).numpy()


class NFlows(AbstractTorchPeer):
    """Affine couplings under alternating masks, as in nflows' SimpleRealNVP."""

    name, package = "nflows", "nflows"

    def _build(self):
        import torch
        from nflows.distributions.normal import StandardNormal
        from nflows.flows.base import Flow
        from nflows.nn.nets import MLP
        from nflows.transforms import AffineCouplingTransform, CompositeTransform

        class Conditioner(MLP):  # couplings pass a context, which nflows' own MLP refuses
            def forward(self, inputs, context=None):
                return super().forward(inputs)

        class Coupling(AffineCouplingTransform):
            # exp(tanh(.)) exactly. nflows' sigmoid(. + 2) + 0.001 hardly ever expands, so it
            # could not fit data narrower than the base; this costs no more operations.
            def _scale_and_shift(self, transform_params):
                shift, scale = transform_params.split(self.num_transform_features, dim=1)
                return torch.exp(torch.tanh(scale)), shift

        def conditioner(n_in, n_out):
            return Conditioner((n_in,), (n_out,), [WIDTH])

        mask = torch.ones(DIM)
        mask[: DIM // 2] = -1
        couplings = [Coupling(mask * (-1) ** i, conditioner) for i in range(COUPLINGS)]
        return Flow(CompositeTransform(couplings), StandardNormal([DIM]))

    def _log_prob(self, xs):
        return self._flow.log_prob(xs)


class NormFlows(AbstractTorchPeer):
    """AffineCouplingBlock and a swap, eight times.

    The scale is exp(.), unbounded: normflows offers no tanh for one coupling network, and
    wrapping the network to add it makes a step about 40% slower. The difference is in normflows'
    favour: it does one operation less than the others.
    """

    name, package = "normflows", "normflows"

    def _build(self):
        import normflows as nf

        layers = []
        for _ in range(COUPLINGS):
            network = nf.nets.MLP([DIM // 2, WIDTH, DIM])  # its leaky slope is 0 by default
            layers += [nf.flows.AffineCouplingBlock(network), nf.flows.Permute(DIM, mode="swap")]
        return nf.NormalizingFlow(nf.distributions.DiagGaussian(DIM, trainable=False), layers)

    def _log_prob(self, xs):
        return self._flow.log_prob(xs)


class CompiledNormFlows(NormFlows):
    """The same flow through `torch.compile`; compiling takes tens of seconds, not timed.

    Compiled code is specific to shape and threads, so each has one setting here: one thread for
    the small batches, the default number and chunks of 10,000 rows for scoring.
    """

    name = "normflows compiled"
    thread_choices = (1,)
    score_settings = ((None, 10_000),)

    def _compile(self):
        import torch

        self._log_prob = torch.compile(self._flow.log_prob, dynamic=False)

    def _without_gradients(self):
        import torch

        return torch.no_grad()  # in inference mode the compiler's own guards fail


class Zuko(AbstractTorchPeer):
    """Zuko's coupling transform under alternating masks.

    `zuko.flows.RealNVP` splits into even and odd features; its parts are put together here with
    contiguous halves, since which features see each other is part of the model.

    The log-scale is s / (1 + |s|), Zuko's own soft bound, set to 1 through the smallest slope
    exp(-1): the same range as tanh and the same slope at zero, approached more slowly.
    """

    name, package = "Zuko", "zuko"

    def _build(self):
        import torch
        from zuko.distributions import DiagNormal
        from zuko.flows import GeneralCouplingTransform
        from zuko.lazy import Flow, UnconditionalDistribution
        from zuko.transforms import MonotonicAffineTransform

        first = torch.arange(DIM) < DIM // 2
        options = dict(
            univariate=partial(MonotonicAffineTransform, slope=math.exp(-1)),
            hidden_features=(WIDTH,),
        )
        couplings = [
            GeneralCouplingTransform(DIM, mask=~first if i % 2 else first, **options)
            for i in range(COUPLINGS)
        ]
        normal = dict(loc=torch.zeros(DIM), scale=torch.ones(DIM))
        return Flow(couplings, UnconditionalDistribution(DiagNormal, **normal, buffer=True))

    def _log_prob(self, xs):
        return self._flow().log_prob(xs)


PEERS: tuple[type[AbstractPeer], ...] = (FlowJAX, NormFlows, CompiledNormFlows, Zuko, NFlows)


class Comparison(NamedTuple):
    """Seconds of one competitor, and its time divided by the reference's, round by round."""

    median: float
    best: float
    ratio: float
    ratio_low: float
    ratio_high: float


def interleave(
    callables: dict[str, Callable[[], object]], rounds: int, *, warmup: int = 1, seed: int = 0
) -> dict[str, list[float]]:
    """Seconds of each callable in each round, all run in turn, in a random order per round.

    Whatever slows the machine for a while then slows all alike. The `warmup` rounds are not
    timed: compiling and tuning happen there. Before each turn there is a rest, in which the
    threads of the one before come to a stop: thread pools spin for a while when work has ended,
    which would cost the next one a core, and a fast one the more of its time.
    """
    order, shuffle = list(callables), random.Random(seed).shuffle
    seconds: dict[str, list[float]] = {name: [] for name in callables}
    for i in range(warmup + rounds):
        shuffle(order)
        for name in order:
            time.sleep(REST)
            taken = _time(callables[name])
            if i >= warmup:
                seconds[name].append(taken)
    return seconds


def summary(seconds: dict[str, list[float]], reference: str) -> dict[str, Comparison]:
    """Median and best seconds, and the median, least and largest ratio to `reference` by round."""
    if reference not in seconds:
        raise ValueError(f"Expected reference to be one of {list(seconds)}; got {reference!r}.")
    result = {}
    for name, taken in seconds.items():
        ratios = [t / r for t, r in zip(taken, seconds[reference], strict=True)]
        middle = statistics.median(ratios)
        result[name] = Comparison(
            statistics.median(taken), min(taken), middle, min(ratios), max(ratios)
        )
    return result


def toy(n_rows: int, seed: int = 0) -> tuple[np.ndarray, float]:
    """Rows (a, sin 2a + 0.6 e) with a, e ~ N(0, I), and their exact expected log-density."""
    rng = np.random.default_rng(seed)
    a, e = rng.normal(size=(2, n_rows, DIM // 2))
    entropy = DIM / 2 * math.log(2 * math.pi * math.e) + DIM / 2 * math.log(0.6)
    return np.concatenate([a, np.sin(2 * a) + 0.6 * e], axis=1).astype(np.float32), -entropy


def check(peers: list[AbstractPeer], n_steps: int = 200, tolerance: float = 0.2) -> dict:
    """Mean log-density of fresh rows after training; raises if a library does another job.

    Checks the number of parameters; that an untrained flow is exactly N(0, I); that a trained
    density integrates to one (importance sampling from a normal wider than the data); and that
    the trained densities agree within `tolerance` nats. Leaves the flows trained.
    """
    (xs, _), (xs_new, bound) = toy(10_000), toy(20_000, seed=1)
    noise = np.random.default_rng(2).normal(size=xs_new.shape).astype(np.float32)
    sd = 1.3 * xs.std(axis=0)
    log_base = -0.5 * np.sum(noise**2 + math.log(2 * math.pi), axis=1)
    log_wide = log_base - np.sum(np.log(sd))
    means = {}
    for peer in peers:
        peer.prepare(xs)
        if peer.n_parameters != PARAMETERS:
            raise ValueError(f"{peer.name} has {peer.n_parameters} parameters, not {PARAMETERS}.")
        if not np.allclose(peer.score(noise), log_base, atol=1e-3):
            raise ValueError(f"{peer.name} does not start as N(0, I).")
        peer.train(n_steps)
        total = float(np.mean(np.exp(peer.score(noise * sd) - log_wide)))
        if not abs(total - 1) < 0.1:
            raise ValueError(f"The density of {peer.name} integrates to {total:.3f}, not 1.")
        means[peer.name] = float(np.mean(peer.score(xs_new)))
    if not max(means.values()) - min(means.values()) < tolerance:
        raise ValueError(f"Trained log-densities differ by more than {tolerance}: {means}.")
    if not max(means.values()) < bound + 0.1:
        raise ValueError(f"Log-densities above the exact {bound:.2f}: {means}.")
    return means


def _exp_tanh(s):
    import jax.numpy as jnp

    return jnp.exp(jnp.tanh(s))


def _batches(xs, rows: int | None, *, keep_rest: bool = False):
    rows = rows or len(xs)
    stop = len(xs) if keep_rest else len(xs) - len(xs) % rows
    return [xs[i : i + rows] for i in range(0, stop, rows)]


def _time(run: Callable[[], object]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def _fastest(runs: dict):
    """The key of the callable with the lesser of two times, after one run to warm up."""
    if len(runs) == 1:
        return next(iter(runs))
    seconds = interleave(runs, rounds=2)
    return min(seconds, key=lambda name: min(seconds[name]))


@contextmanager
def _threads(n: int | None):
    import torch

    default = torch.get_num_threads()
    torch.set_num_threads(n or default)
    try:
        yield
    finally:
        torch.set_num_threads(default)


def main(n_steps: int = 100, n_rows: int = 100_000, rounds: int = 3) -> None:
    """Check all installed libraries, then print their times."""
    peers = [peer() for peer in PEERS if peer.available()]
    means = check(peers)
    rows = np.random.default_rng(3).normal(size=(n_rows, DIM)).astype(np.float32)
    steps = interleave({p.name: partial(p.train, n_steps) for p in peers}, rounds)
    scores = interleave({p.name: partial(p.score, rows) for p in peers}, rounds)
    for peer in peers:
        step, score = min(steps[peer.name]) / n_steps, min(scores[peer.name])
        print(
            f"{peer.name:20s}{peer.version:8s}{peer.n_parameters} parameters  "
            f"log p {means[peer.name]:.2f}  {1e3 * step:.2f} ms a step  "
            f"{score:.3f} s for {n_rows} rows  {peer.chosen}"
        )


if __name__ == "__main__":
    main()
