# %% [markdown]
# # Which rows to label
# Ten labels are known. The next eight: least sure, or those that together teach most.

# %%
import numpy as np

from diglm import HybridClassifier
from diglm.drawing import DARK, GREY, WARM, new_figure

rng = np.random.default_rng(3)
X = rng.normal(size=(300, 2))
y = (X[:, 0] + 0.5 * X[:, 1] + 0.2 * rng.normal(size=300) > 0).astype(int)
known = np.arange(10)
model = HybridClassifier(
    "linear", head="bayesian", n_epochs=5, reject=0.05, random_state=0, verbose=False
)
model.fit(X[known], y[known], X_unlabelled=X[10:])
pool = X[10:]
unsure = np.argsort(np.abs(model.decision_function(pool)))[:8]
teaching = model.most_informative(pool, 8)

# %%
across, up = np.meshgrid(np.linspace(-3.2, 3.2, 80), np.linspace(-3.2, 3.2, 80))
plane = np.stack([across, up], axis=-1).reshape(-1, 2)
share = model.predict_proba(plane)[:, 1].reshape(across.shape)
figure, panels = new_figure(8.0, 3.6, 2)
asked = {"least sure": unsure, "most informative": teaching}
for axes, (name, chosen) in zip(panels, asked.items(), strict=True):
    axes.contour(across, up, share, levels=[0.25, 0.5, 0.75], colors=GREY, linewidths=0.8)
    axes.scatter(*pool.T, s=4, color=GREY, alpha=0.5)
    axes.scatter(*X[known].T, c=np.where(y[known] == 1, DARK, WARM), s=30, edgecolors="black")
    axes.scatter(*pool[chosen].T, s=70, facecolors="none", edgecolors="black", linewidths=1.6)
    axes.set(title=name, xticks=[], yticks=[])
figure.savefig("asking.png", dpi=90)
