"""Fitting: from rows, in memory or in files, to a predictor."""

from diglm.fitting.files import FileSource
from diglm.fitting.prepare import DataWarning
from diglm.fitting.request import Request
from diglm.fitting.run import Fitted, run, run_each
from diglm.fitting.sources import MemorySource

__all__ = [
    "DataWarning",
    "FileSource",
    "Fitted",
    "MemorySource",
    "Request",
    "run",
    "run_each",
]
