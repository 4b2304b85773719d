# %% [markdown]
# # What would have to change?
# For five rows of one class, the nearest rows that the model would call the other.

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
few = X[(model.predict(X) == 0) & ~model.rejects(X)][:8]
change = model.counterfactual(few, 1, allow_strange=True)

# %%
figure, (axes,) = new_figure(6.0, 3.6)
axes.scatter(*X.T, c=np.where(y == 1, DARK, WARM), s=5, alpha=0.5)
for start, end, strange in zip(few, change.x, change.rejected, strict=True):
    style = dict(arrowstyle="->", color="black", linestyle=":" if strange else "-")
    axes.annotate("", end, start, arrowprops=style)
axes.set(title="arrows end where the answer is the other class; dotted: strange", xticks=[])
axes.set_yticks([])
figure.savefig("counterfactual.png", dpi=90)
