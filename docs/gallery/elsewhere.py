# %% [markdown]
# # Rows from elsewhere
# A straight line, fitted to all rows and for a place from which no label is known.

# %%
import numpy as np

from diglm import HybridDensity, HybridRegressor, adapt
from diglm.drawing import DARK, GREY, WARM, new_figure

rng = np.random.default_rng(0)
X = rng.normal(0, 1, (500, 1))
y = X[:, 0] ** 2 + 0.3 * rng.normal(size=500)
X_new = rng.normal(1.2, 0.4, (500, 1))
settings = dict(n_epochs=5, random_state=0, reject=0.05, verbose=False)
density = HybridDensity("linear", **settings)
plain = HybridRegressor("linear", head="gaussian", **settings).fit(X, y)
weighted = HybridRegressor("linear", head="gaussian", **settings)
_, weights, _ = adapt.fit_for(weighted, X, y, X_new, density=density)

# %%
line = np.linspace(-2.5, 3, 50)[:, None]
figure, (axes,) = new_figure(7.0, 3.4)
axes.scatter(X[:, 0], y, s=3 + 8 * weights.weights, color=GREY, alpha=0.4, linewidths=0)
axes.plot(line[:, 0], plain.predict(line), "--", color=WARM, label="fitted to all rows alike")
axes.plot(line[:, 0], weighted.predict(line), color=DARK, label="fitted for the new place")
axes.plot(X_new[:, 0], np.full(500, -1.3), "|", color=DARK, alpha=0.3)
axes.set(
    title=f"{len(X)} rows, weighted worth {weights.effective_rows:.0f}", ylim=(-1.6, 7), xlabel="x"
)
axes.legend(frameon=False, loc="upper left")
figure.savefig("elsewhere.png", dpi=90)
