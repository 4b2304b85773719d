"""Several processes, on one host or many, that fit one model together.

In every process, before anything else: `diglm.distributed.connect(...)`; then the same `fit_file`.
"""

from diglm.training.devices import connect

__all__ = ["connect"]
