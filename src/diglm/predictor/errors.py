r"""What is not known exactly of log p(x): the standard error of estimated log-determinants.

A model whose layers estimate their log-determinants answers with a mean over fixed probes. Asked
with one probe of each layer at a time it gives independent answers, whose spread is that of their
mean: through chains of layers, averages over cells and draws of what is missing alike. Where all
is exact there are no probes, and no error.
"""

from dataclasses import replace

import numpy as np
from jaxtyping import Float

from diglm.bijections import parts, standard_error
from diglm.data.encoder import Encoded
from diglm.predictor.predictor import Predictor


def log_px_error(predictor: Predictor, encoded: Encoded) -> Float[np.ndarray, " rows"]:
    """The standard error of each row's log p(x), in nats; zero where it is exact."""
    model = predictor.model
    asked = [replace(predictor, model=model.with_source(one)) for one in parts(model.source)]
    if not asked:
        return np.zeros(len(encoded))
    return standard_error(np.stack([one.log_px(encoded) for one in asked]))
