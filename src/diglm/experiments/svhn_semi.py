"""SVHN with 1,000 labels: the paper's Table S1.

    python -m diglm.experiments.svhn_semi --minutes 150

One model a row of the table, trained for the given minutes on every core, in `runs/`, from where an
interrupted run goes on. Writes results/semi_svhn_ROW.json.
"""

from diglm.experiments.unlabelled_images import OTHERS, FewLabels, command_line
from diglm.recipes import Glow

STUDY = FewLabels(
    name="svhn",
    minutes=150.0,
    flow=Glow(augment=1),
    settings={"width": (48, 64, 96), "dropout": 0.0},
    unlabelled={"vat_weight": 1.0, "vat_radius": 1.0},
)
ROWS = (
    "with unlabelled images",
    "labels alone",
    "all labels",
    "all labels and terms",
    *OTHERS,
)

if __name__ == "__main__":
    command_line(STUDY, __doc__ or "", ROWS)
