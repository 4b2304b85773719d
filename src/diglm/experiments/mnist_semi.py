"""MNIST with 1,000 labels: the paper's Table 3.

    diglm reproduce mnist_semi --budget full

One model a row of the table, trained for the given minutes.
"""

from dataclasses import replace

from diglm.experiments.frame import Study
from diglm.experiments.unlabelled_images import OTHERS, FewLabels, runs
from diglm.recipes import Glow

ROWS = ("with unlabelled images", "labels alone", "all labels", *OTHERS)
STUDY = FewLabels(
    name="mnist",
    minutes=120.0,
    flow=Glow(augment=2),
    unlabelled={"vat_weight": 1.0, "vat_radius": 1.0},
    rows=ROWS,
)
SMALL = replace(
    STUDY,
    rows=("labels alone", "with unlabelled images", "all labels"),
    n_labels=200,
    n_epochs=2,
    n_images=2_000,
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
