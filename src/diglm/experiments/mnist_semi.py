"""MNIST with 1,000 labels: the paper's Table 3.

    python -m diglm.experiments.mnist_semi --minutes 120

One model a row of the table, trained for the given minutes on every core, in `runs/`, from where an
interrupted run goes on. Writes results/semi_mnist_ROW.json.

The head reads a network of whole images, and of images without a label it learns from what it is
sure of when they are distorted; the flow beside it is small.
"""

from diglm.experiments.unlabelled_images import OTHERS, FewLabels, command_line
from diglm.objectives import PseudoLabels
from diglm.recipes import Glow

STUDY = FewLabels(
    name="mnist",
    minutes=120.0,
    flow=Glow(reader=32, head="reader", augment=2),
    settings={"n_blocks": [3, 3], "width": [24, 48]},
    unlabelled={"terms": [PseudoLabels(2.0)]},
)
ROWS = ("with unlabelled images", "labels alone", "all labels", *OTHERS)

if __name__ == "__main__":
    command_line(STUDY, __doc__ or "", ROWS)
