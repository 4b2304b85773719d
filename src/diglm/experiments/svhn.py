"""SVHN against CIFAR-10: the paper's Table 2 and Figure 5.

    diglm reproduce svhn --budget full

A model for each lambda = w / D and each seed, all by one recipe and for as many epochs. The paper's
networks are 24 blocks of highway networks of 300 units; ours are smaller, see
`diglm.recipes.Glow`.
"""

from dataclasses import replace

from diglm.experiments.frame import Study
from diglm.experiments.image_study import ImageStudy, runs
from diglm.recipes import Glow

FULL = ImageStudy(
    name="svhn",
    strange=("cifar10",),
    weights=(1.0, 0.1, 10.0, 0.0),  # the paper's
    epochs=16,
    figures=(
        (1.0, "densities", "figure_5a.png"),
        (1.0, "interpolations", "figure_5b.png"),
        (1.0, "confidence", "figure_5c.png"),
        (1.0, "samples", "svhn_samples.png"),
        (0.0, "densities", "svhn_densities_0.png"),  # not in the paper
    ),
    flow=Glow(augment=1),
    settings={"width": (48, 64, 96), "dropout": 0.0},
)
SMALL = replace(
    FULL,
    epochs=1,
    seeds=(0,),
    n_train=2_000,
    n_test=500,
    flow=Glow(augment=1, reader=16),
    settings={"n_blocks": 1, "width": 16, "dropout": 0.0},
)
REPRODUCE = Study(
    about="house numbers, a weight of the density a row; CIFAR-10 to be refused",
    full=FULL,
    small=SMALL,
    runs=runs,
    shows=("Table 2", "Figure 5"),
    needs=("svhn", "cifar10"),
    every_core=True,
)
