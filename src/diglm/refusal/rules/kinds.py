r"""Kinds of rows that have a threshold of their own: Mondrian conformal prediction.

A kind is known of a new row before its label is, so that among rows of each kind the promise of a
rate is exact by itself: $P(\text{refused} \mid \text{kind}) \leq \alpha$.

Reference: Vovk, Gammerman and Shafer (2005), Algorithmic Learning in a Random World, section 4.5
"""

from collections.abc import Callable

import numpy as np
from jaxtyping import Int

from diglm.refusal.known import Known
from diglm.registry import Registry


def _predicted(known: Known) -> Int[np.ndarray, " rows"]:
    if known.expected.ndim != 2:
        raise ValueError("by='class' takes the predicted class, and this model predicts none.")
    return np.argmax(known.expected, axis=1)


def _group(known: Known) -> Int[np.ndarray, " rows"]:
    if known.groups is None:
        raise ValueError("by='group' takes the groups of rows, and this model knows of none.")
    return np.asarray(known.groups, int)


KINDS: Registry[Callable[[Known], Int[np.ndarray, " rows"]]] = Registry(
    "kind of rows", {"class": _predicted, "group": _group}
)
