"""CIFAR-10 against SVHN: the direction in which densities of natural images are known to fail.

    python -m diglm.experiments.cifar10 --minutes 20

SVHN's images are smoother than CIFAR-10's, and models of CIFAR-10 tend to find them more probable
than its own. The study shows whether ours does. It is about densities and not about accuracy, so
9,000 of the 10,000 test images are learned and the others judged. Writes
results/cifar10_1.json and the figures docs/images/cifar10_*.png.
"""

from diglm.experiments.image_study import ImageStudy, command_line
from diglm.recipes import Glow

STUDY = ImageStudy(
    name="cifar10",
    strange=("svhn",),
    weights=(1.0,),
    shown=1.0,
    minutes=20,
    borrowed=9_000,
    # As for SVHN, but without a reader: of the few images, classes are not learned anyway.
    flow=Glow(augment=1, reader=None),
    settings={"width": (48, 64, 96), "dropout": 0.0},
)

if __name__ == "__main__":
    command_line(STUDY, __doc__ or "")
