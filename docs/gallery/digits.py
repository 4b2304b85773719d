# %% [markdown]
# # Digits, drawn and refused
# The model that comes with diglm: images that it draws, and images that are no digits.

# %%
import numpy as np

from diglm import load
from diglm.drawing import new_figure

model = load("mnist")
drawn = model.sample(8, y=np.arange(8) + 1, random_state=0, temperature=0.8)
rng = np.random.default_rng(0)
blank = np.zeros((28, 28), "uint8")
cross, ring = blank.copy(), blank.copy()
cross[np.arange(4, 24), np.arange(4, 24)] = cross[np.arange(4, 24), np.arange(23, 3, -1)] = 255
rows, columns = np.mgrid[:28, :28]
ring[np.abs(np.hypot(rows - 14, columns - 14) - 12) < 1] = 255
noise = rng.integers(0, 256, (28, 28)).astype("uint8")
photo = (128 + 90 * np.sin(rows / 5) * np.cos(columns / 7)).astype("uint8")
others = np.stack([blank, cross, ring, noise, photo, 255 - drawn[0, ..., 0], drawn[3, ::-1, :, 0],
                   np.roll(drawn[5, ..., 0], 9, axis=1)])[..., None]  # fmt: skip

# %%
figure, panels = new_figure(9.0, 2.9)
(axes,) = panels
both = np.concatenate([drawn, others])
refused, answers = model.rejects(both), model.predict(both)
axes.imshow(np.block([[both[8 * i + j, ..., 0] for j in range(8)] for i in (0, 1)]), cmap="Greys")
for place, (no, answer) in enumerate(zip(refused, answers, strict=True)):
    row, column = divmod(place, 8)
    told = "refused" if no else str(answer)
    axes.text(
        28 * column + 1, 28 * row + 26, told, fontsize=8, color="#d9622b" if no else "#1f4e79"
    )
axes.set(xticks=[], yticks=[], title="above: drawn by the model; below: not digits")
figure.savefig("digits.png", dpi=90)
