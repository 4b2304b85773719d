"""CIFAR-10 against SVHN: the direction in which densities of natural images are known to fail.

    diglm reproduce cifar10 --budget full

SVHN's images are smoother than CIFAR-10's, and models of CIFAR-10 tend to find them more probable
than its own. The study shows whether ours does. It is about densities and not about accuracy, so
9,000 of the 10,000 test images are learned and the others judged.
"""

from dataclasses import replace

from diglm.experiments.frame import Study
from diglm.experiments.image_study import ImageStudy, runs
from diglm.recipes import Glow

FULL = ImageStudy(
    name="cifar10",
    strange=("svhn",),
    weights=(1.0,),
    epochs=22,
    seeds=(0,),
    figures=((1.0, "densities", "cifar10_densities.png"),),
    borrowed=9_000,
    # As for SVHN, but without a reader: of the few images, classes are not learned anyway.
    flow=Glow(augment=1, reader=None),
    settings={"width": (48, 64, 96), "dropout": 0.0},
)
SMALL = replace(
    FULL,
    epochs=2,
    seeds=(0,),
    n_train=2_000,
    n_test=500,
    settings={"n_blocks": 1, "width": 16, "dropout": 0.0},
)
REPRODUCE = Study(
    about="CIFAR-10, where the more probable images are the strange ones",
    full=FULL,
    small=SMALL,
    runs=runs,
    needs=("cifar10", "svhn"),
    every_core=True,
)
