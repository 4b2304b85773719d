# %% [markdown]
# # Density, decision, refusal
# Two interleaved half circles: where the model answers, how probable rows are, what it refuses.

# %%
import numpy as np
from sklearn.datasets import make_moons

from diglm import HybridClassifier
from diglm.drawing import DARK, WARM, new_figure
from diglm.recipes import CouplingFlow

X, y = make_moons(500, noise=0.1, random_state=0)
flow = CouplingFlow(members=1)  # a small model, to be quick
settings = dict(n_blocks=4, width=32, n_epochs=40, random_state=0, verbose=False)
model = HybridClassifier(flow, score="density", **settings).fit(X, y)

# %%
across, up = np.meshgrid(np.linspace(-1.8, 2.8, 120), np.linspace(-1.3, 1.8, 100))
plane = np.stack([across, up], axis=-1).reshape(-1, 2)
figure, (left, right) = new_figure(9.0, 3.4, 2)
share = model.predict_proba(plane)[:, 1].reshape(across.shape)
left.contourf(across, up, share, levels=11, cmap="RdBu", alpha=0.8)
left.set_title("p(y|x)")
log_px = np.maximum(model.score_samples(plane).reshape(across.shape), -12)
right.contourf(across, up, log_px, levels=14, cmap="Greys")
refused = model.rejects(plane).reshape(across.shape)
right.contour(across, up, refused, levels=[0.5], colors="black", linestyles="--")
right.set_title("log p(x); outside the dashes rows are refused")
for axes in (left, right):
    axes.scatter(*X.T, c=np.where(y == 1, DARK, WARM), s=4)
    axes.set(xticks=[], yticks=[])
figure.savefig("two_moons.png", dpi=90)
