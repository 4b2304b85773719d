"""MNIST with 1,000 labels: the paper's Table 3.

    diglm reproduce mnist_semi --budget full

One model a row of the table, trained for the given minutes.

The head reads a network of whole images, and of images without a label it learns from what it is
sure of when they are distorted; the flow beside it is small.
"""

from dataclasses import replace

from diglm.experiments.frame import Study
from diglm.experiments.unlabelled_images import OTHERS, FewLabels, runs
from diglm.objectives import PseudoLabels
from diglm.recipes import Glow

ROWS = ("with unlabelled images", "labels alone", "all labels", *OTHERS)
STUDY = FewLabels(
    name="mnist",
    minutes=90.0,
    flow=Glow(reader=32, head="reader", augment=2),
    settings={"n_blocks": [3, 3], "width": [24, 48]},
    unlabelled={"terms": [PseudoLabels(2.0)]},
    rows=ROWS,
)
SMALL = replace(
    STUDY,
    rows=("labels alone", "with unlabelled images", "all labels"),
    n_labels=200,
    n_epochs=2,
    n_images=2_000,
    flow=Glow(augment=2),
    settings={"n_blocks": 1, "width": 16},
)
REPRODUCE = Study(
    about="MNIST with 1,000 labels",
    full=STUDY,
    small=SMALL,
    runs=runs,
    shows=("Table 3",),
    needs=("mnist",),
    every_core=True,
)
