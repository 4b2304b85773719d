"""MNIST against NotMNIST and Fashion-MNIST: the paper's Table 1 and Figure 4.

    diglm reproduce mnist --budget full

A model for each lambda = w / D and each seed, all by one recipe and for as many epochs. The paper's
networks are 16 blocks of highway networks of 200 units, trained for a million steps; ours are
smaller, see `diglm.recipes.Glow`.
"""

from dataclasses import replace

from diglm.experiments.frame import Study
from diglm.experiments.image_study import ImageStudy, runs
from diglm.recipes import Glow

FULL = ImageStudy(
    name="mnist",
    strange=("notmnist", "fashion-mnist"),
    weights=(1.0, 0.01, 10.0, 0.0),  # the paper's
    epochs=30,
    figures=(
        (0.0, "densities", "figure_4a.png"),
        (1.0, "densities", "figure_4b.png"),
        (1.0, "interpolations", "figure_4c.png"),
        (1.0, "confidence", "mnist_confidence.png"),
        (1.0, "samples", "mnist_samples.png"),
    ),
    flow=Glow(augment=2),
)
SMALL = replace(
    FULL,
    epochs=1,
    seeds=(0,),
    n_train=3_000,
    n_test=1_000,
    settings={"n_blocks": 2, "width": 24},
)
REPRODUCE = Study(
    about="MNIST, a weight of the density a row; NotMNIST and Fashion-MNIST to be refused",
    full=FULL,
    small=SMALL,
    runs=runs,
    shows=("Table 1", "Figure 4"),
    needs=("mnist", "notmnist", "fashion-mnist"),
    every_core=True,
)
