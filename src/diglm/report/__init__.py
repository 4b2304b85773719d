"""Results as files, figures and self-contained pages. Figures need the extra `diglm[plot]`."""

from diglm.drawing import new_figure, require_matplotlib
from diglm.report.displays import (
    AbstractDisplay,
    DensityDisplay,
    PITDisplay,
    ReliabilityDisplay,
    RiskCoverageDisplay,
    StrangerDisplay,
)
from diglm.report.figures import (
    confidence_accuracy_curves,
    density_decision_picture,
    log_density_histogram,
    risk_coverage_curves,
)
from diglm.report.images import image_grid, new_grid
from diglm.report.measures import measure, worded
from diglm.report.page import Section, embed, page, table
from diglm.report.results import write_result

__all__ = [
    "AbstractDisplay",
    "DensityDisplay",
    "PITDisplay",
    "ReliabilityDisplay",
    "RiskCoverageDisplay",
    "StrangerDisplay",
    "confidence_accuracy_curves",
    "Section",
    "density_decision_picture",
    "embed",
    "image_grid",
    "log_density_histogram",
    "measure",
    "new_figure",
    "new_grid",
    "page",
    "require_matplotlib",
    "risk_coverage_curves",
    "table",
    "worded",
    "write_result",
]
