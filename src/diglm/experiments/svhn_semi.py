"""SVHN with 1,000 labels: the paper's Table S2.

    diglm reproduce svhn_semi --budget full

One model a row of the table, trained for the given minutes.
"""

from dataclasses import replace

from diglm.experiments.frame import Study
from diglm.experiments.unlabelled_images import OTHERS, FewLabels, runs
from diglm.recipes import Glow

OWN_ROWS = ("with unlabelled images", "labels alone", "all labels", "all labels and terms")
ROWS = OWN_ROWS + OTHERS
STUDY = FewLabels(
    name="svhn",
    minutes=150.0,
    flow=Glow(augment=1),
    settings={"width": (48, 64, 96), "dropout": 0.0},
    unlabelled={"vat_weight": 1.0, "vat_radius": 1.0},
    rows=ROWS,
)
SMALL = replace(
    STUDY,
    rows=OWN_ROWS[:3],
    n_labels=200,
    n_epochs=1,
    n_images=1_000,
    flow=Glow(augment=1, reader=16),
    settings={"n_blocks": 1, "width": 16, "dropout": 0.0},
)
REPRODUCE = Study(
    about="house numbers with 1,000 labels",
    full=STUDY,
    small=SMALL,
    runs=runs,
    shows=("Table S2",),
    needs=("svhn",),
    every_core=True,
)
