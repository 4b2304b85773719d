# %% [markdown]
# # Twelve labels, five hundred rows
# What rows without a label say about where answers should change.

# %%
import numpy as np
from sklearn.datasets import make_moons

from diglm import HybridClassifier
from diglm.drawing import DARK, WARM, new_figure
from diglm.recipes import CouplingFlow

X, y = make_moons(500, noise=0.1, random_state=1)
known = np.r_[np.flatnonzero(y == 0)[:6], np.flatnonzero(y == 1)[:6]]
marked = np.full(500, -1)
marked[known] = y[known]
flow = CouplingFlow(members=1)  # a small model, to be quick
settings = dict(n_blocks=4, width=32, n_epochs=60, reject=None, random_state=0, verbose=False)
models = {
    "twelve labels alone": HybridClassifier(flow, **settings).fit(X[known], y[known]),
    "and 488 rows without": HybridClassifier(flow, unlabelled=-1, **settings).fit(X, marked),
}

# %%
across, up = np.meshgrid(np.linspace(-1.5, 2.5, 120), np.linspace(-1, 1.5, 90))
plane = np.stack([across, up], axis=-1).reshape(-1, 2)
figure, panels = new_figure(9.0, 3.2, 2)
for axes, (name, model) in zip(panels, models.items(), strict=True):
    share = model.predict_proba(plane)[:, 1].reshape(across.shape)
    axes.contourf(across, up, share, levels=[0, 0.5, 1], colors=[WARM, DARK], alpha=0.25)
    axes.scatter(*X.T, s=3, color="grey")
    axes.scatter(*X[known].T, c=np.where(y[known] == 1, DARK, WARM), s=60, edgecolors="black")
    axes.set(title=f"{name}: {model.score(X, y):.0%} right", xticks=[], yticks=[])
figure.savefig("few_labels.png", dpi=90)
