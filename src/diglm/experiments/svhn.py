"""SVHN against CIFAR-10: the paper's Table 2 and Figure 4.

    python -m diglm.experiments.svhn --minutes 140

One model for each lambda = w / D, trained for the given minutes on every core, in `runs/`, from
where an interrupted run goes on. Writes results/svhn_W.json, and for w = 1 the figures
docs/images/svhn_*.png.
"""

from diglm.experiments.image_study import ImageStudy, command_line
from diglm.recipes import Glow

STUDY = ImageStudy(
    name="svhn",
    strange=("cifar10",),
    weights=(1.0, 0.1, 10.0, 0.0),
    shown=1.0,
    minutes=140,
    flow=Glow(augment=1),
    settings={"width": (48, 64, 96), "dropout": 0.0},
)

if __name__ == "__main__":
    command_line(STUDY, __doc__ or "")
