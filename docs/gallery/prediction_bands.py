# %% [markdown]
# # A distribution for each row
# Noise that grows: the interval follows it. Beyond the rows the model refuses.

# %%
import numpy as np

from diglm import HybridRegressor
from diglm.drawing import DARK, LIGHT, WARM, new_figure
from diglm.recipes import CouplingFlow

rng = np.random.default_rng(0)
X = np.stack([rng.uniform(0, 6, 500), rng.normal(size=500)], axis=1)  # the second says nothing
y = np.sin(1.5 * X[:, 0]) + 0.08 * (1 + X[:, 0]) * rng.normal(size=500)
flow = CouplingFlow(members=1)  # a small model, to be quick
settings = dict(n_blocks=4, width=32, n_epochs=60, random_state=0, verbose=False)
model = HybridRegressor(flow, head="heteroscedastic", **settings).fit(X, y)

# %%
line = np.stack([np.linspace(-1.5, 7.5, 300), np.zeros(300)], axis=1)
low, high = model.predict_interval(line, level=0.9).T
refused = model.rejects(line)
figure, (axes,) = new_figure(7.0, 3.4)
axes.fill_between(line[:, 0], low, high, color=LIGHT, label="90 % interval", linewidth=0)
axes.plot(line[:, 0], model.predict(line), color=DARK, label="E[y|x]")
axes.scatter(X[:, 0], y, s=4, color="black", alpha=0.4)
axes.fill_between(
    line[:, 0], 0, 1, where=refused, transform=axes.get_xaxis_transform(), color=WARM, alpha=0.15,
    label="refused",
)  # fmt: skip
axes.set(xlabel="first column", ylabel="y")
axes.legend(frameon=False, loc="lower left")
figure.savefig("prediction_bands.png", dpi=90)
