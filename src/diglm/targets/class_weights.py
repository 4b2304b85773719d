"""What rows of each class count in training."""

from collections.abc import Mapping

import numpy as np
from jaxtyping import Float

ClassWeight = str | Mapping[object, float | int] | None


def factors_of(
    class_weight: ClassWeight, classes: np.ndarray, counts: np.ndarray
) -> Float[np.ndarray, " classes"] | None:
    """A factor for each class: None, "balanced", or a dictionary in which others count one."""
    if class_weight is None:
        return None
    if isinstance(class_weight, str):
        if class_weight != "balanced":
            raise ValueError(
                f"class_weight must be 'balanced', a dictionary or None; got {class_weight!r}."
            )
        return counts.sum() / (len(classes) * np.maximum(counts, 1))
    names = classes.tolist()
    if unknown := [name for name in class_weight if name not in names]:
        raise ValueError(f"class_weight names {unknown[0]!r}, but y has the classes {names}.")
    return np.array([float(class_weight.get(name, 1.0)) for name in names])
