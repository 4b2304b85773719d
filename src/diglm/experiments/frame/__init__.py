"""What all studies share: settings, runs that each leave a file, budgets, embedded data."""

from diglm.experiments.frame.stand_ins import images, lacking
from diglm.experiments.frame.study import BUDGETS, Folders, Run, Study, Work, plain

__all__ = ["BUDGETS", "Folders", "Run", "Study", "Work", "images", "lacking", "plain"]
