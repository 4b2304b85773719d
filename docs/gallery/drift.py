# %% [markdown]
# # When the world moves
# Evidence against "nothing has moved", as rows arrive. From row 400 on one column drifts.

# %%
import numpy as np

from diglm import HybridRegressor
from diglm.drawing import LINES, new_figure

rng = np.random.default_rng(0)


def world(n, moved=0.0):
    X = rng.normal(size=(n, 4))
    y = X[:, 0] + np.sin(X[:, 1]) + 0.2 * rng.normal(size=n)
    return X + [0, 0, moved, 0], y


model = HybridRegressor("linear", n_epochs=5, random_state=0, verbose=False).fit(*world(800))
monitor = model.monitor(*world(500))

# %%
rows, inputs, relation = [], [], []
for piece in range(40):
    drift = monitor.update(*world(20, moved=0.0 if piece < 20 else 0.7))
    rows.append(drift.n_rows)
    inputs.append(drift.inputs.evidence)
    relation.append(drift.relation.evidence)
figure, (axes,) = new_figure(7.0, 3.2)
for values, name, (colour, line) in zip(
    [inputs, relation], ["inputs", "relation"], LINES[:2], strict=True
):
    axes.plot(rows, values, line, color=colour, label=name)
axes.axhline(np.log(20), color="black", linewidth=0.8, linestyle=":")
axes.axvline(400, color="grey", linewidth=0.8)
axes.set(xlabel="rows", ylabel="evidence", title=f"{drift.verdict}: column {drift.columns[0].name}")
axes.legend(frameon=False)
figure.savefig("drift.png", dpi=90)
