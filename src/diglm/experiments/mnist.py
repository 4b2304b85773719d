"""MNIST against NotMNIST and Fashion-MNIST: the paper's Table 1 and Figure 3.

    python -m diglm.experiments.mnist --minutes 110

One model for each lambda = w / D, trained for the given minutes on every core, in `runs/`, from
where an interrupted run goes on. Writes results/mnist_W.json, and for w = 1 the figures
docs/images/mnist_*.png.
"""

from diglm.experiments.image_study import ImageStudy, command_line
from diglm.recipes import Glow

STUDY = ImageStudy(
    name="mnist",
    strange=("notmnist", "fashion-mnist"),
    weights=(1.0, 0.01, 10.0, 0.0),
    shown=1.0,
    minutes=110,
    flow=Glow(augment=2),
)

if __name__ == "__main__":
    command_line(STUDY, __doc__ or "")
