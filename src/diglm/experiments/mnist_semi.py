"""MNIST with 1,000 labels: the paper's Table 3.

    python -m diglm.experiments.mnist_semi --minutes 120

One model a row of the table, trained for the given minutes on every core, in `runs/`, from where an
interrupted run goes on. Writes results/semi_mnist_ROW.json.
"""

from diglm.experiments.unlabelled_images import OTHERS, FewLabels, command_line
from diglm.recipes import Glow

STUDY = FewLabels(
    name="mnist",
    minutes=120.0,
    flow=Glow(augment=2),
    unlabelled={"vat_weight": 1.0, "vat_radius": 1.0},
)
ROWS = ("with unlabelled images", "labels alone", "all labels", *OTHERS)

if __name__ == "__main__":
    command_line(STUDY, __doc__ or "", ROWS)
