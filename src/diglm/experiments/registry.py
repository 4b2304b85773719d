"""Every study by name: a module of this room whose `REPRODUCE` is a `frame.Study`.

A new study is a file here and a line below; `diglm reproduce all` runs them in this order.
"""

import importlib

from diglm.experiments.frame import Study
from diglm.registry import Registry

STUDIES: Registry[str] = Registry(
    "study",
    {
        "model": "diglm.experiments.model_figure",
        "toy_regression": "diglm.experiments.toy_regression",
        "flights": "diglm.experiments.flights",
        "mnist": "diglm.experiments.mnist",
        "svhn": "diglm.experiments.svhn",
        "half_moons": "diglm.experiments.half_moons",
        "mnist_semi": "diglm.experiments.mnist_semi",
        "svhn_semi": "diglm.experiments.svhn_semi",
        "unlabelled_search": "diglm.experiments.unlabelled_search",
        "unlabelled_tables": "diglm.experiments.unlabelled_tables",
        "flights_baselines": "diglm.experiments.flights_baselines",
        "uci": "diglm.experiments.uci",
        "uci_bayesian": "diglm.experiments.uci_bayesian",
        "cifar10": "diglm.experiments.cifar10",
        "ood": "diglm.experiments.ood",
        "image_recipes": "diglm.experiments.image_recipes",
        "digits": "diglm.experiments.digits",
        "moons": "diglm.experiments.moons",
        "future_flows": "diglm.experiments.future_flows",
        "active_learning": "diglm.experiments.active_learning",
        "shift": "diglm.experiments.shift",
    },
)


def study(name: str) -> Study:
    """The study of that name."""
    return importlib.import_module(STUDIES[name]).REPRODUCE
