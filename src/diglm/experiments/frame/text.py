"""What the page of results says around its tables and figures."""

from diglm.experiments.frame import paper
from diglm.experiments.frame.contrary import reservations
from diglm.experiments.frame.page import MARKS, Results
from diglm.experiments.frame.study import Folders
from diglm.experiments.frame.tables import (
    flights_table,
    future_table,
    grid_table,
    image_table,
    moons_table,
    semi_table,
    studies_table,
    toy_table,
)

ABOUT = """\
Every table and figure of the paper under its own name. In each cell stands our number in bold, then
the paper's in brackets and by how much ours is better or worse. This page is written by a command
from the files that the studies leave: {made}.
Seconds are those of training where that is most of the work, on 2 cores without a GPU.

**Unmarked rows are made again by the command above their table.** The others are not, and count as
results only when they have been run anew:

{marks}
"""

SMALL = """\
Small runs see few rows, images and epochs, so that all of them take minutes. Their gaps to the
paper say that everything runs; what the method can do is said by the full budget.\
"""

SEEDS = """\
Rows of several seeds say their mean and standard deviation. The paper's rule refuses what is less
probable than every training image, ours a hundredth of familiar images at most; the paper has no
numbers under ours.\
"""


def page_of(budget: str, folders: Folders) -> str:
    """The whole page."""
    of = Results(budget, folders)
    made = "`python docs/measured.py`" if budget == "full" else "`diglm reproduce all`"
    marks = "\n".join(f"- {mark} {meaning}" for mark, meaning in MARKS.items())
    title = "# Results" if budget == "full" else "# Results of the small budget"
    parts = [
        title,
        ABOUT.format(made=made, marks=marks).strip(),
        *([SMALL] if budget != "full" else []),
        *_model(of),
        *_toy(of),
        *_flights(of),
        *_images(of),
        *_few_labels(of),
        *_future(of),
        "## All studies",
        f"`diglm reproduce all --budget {budget}` runs them all, one after the other.",
        studies_table(of),
    ]
    return "\n\n".join(parts) + "\n"


def _model(of: Results) -> list[str]:
    return [
        "## Figure 1: the model",
        of.command("model"),
        of.figure(
            "model", "figure_1.png", "The model: input, invertible network, features, two densities"
        ),
    ]


def _toy(of: Results) -> list[str]:
    return [
        "## Figure 2: regression in one dimension",
        of.command("toy_regression"),
        of.figure(
            "toy_regression",
            "figure_2.png",
            "A Gaussian process, the hybrid's predictions, its density",
        ),
        toy_table(of),
        "The paper shows the figure and gives no numbers: the hybrid's predictions should be like "
        "those of a Gaussian process, its density like a kernel density estimate.",
    ]


def _flights(of: Results) -> list[str]:
    return [
        "## Flight delays and Figure 3",
        of.command("flights"),
        flights_table(of),
        "The paper learns from five million flights of the whole year, here they are those of "
        "January to April: the gap is between different test rows, and says little.",
        of.figure(
            "flights", "figure_3.png", "Histograms of log p(x): training rows, and later rows"
        ),
    ]


def _images(of: Results) -> list[str]:
    return [
        "## Table 1: MNIST",
        of.command("mnist"),
        image_table(of, "mnist", "notmnist", paper.TABLE_1),
        SEEDS,
        "At λ = 0 nothing learns the density, in the paper's model as in ours.",
        reservations(of, "mnist", "notmnist"),
        "## Figure 4: MNIST",
        of.figure("mnist", "figure_4a.png", "(a) log p(x) of the discriminative model, λ = 0"),
        of.figure(
            "mnist",
            "figure_4b.png",
            "(b) log p(x) of the hybrid at λ = 1/D; the paper's has 0.01/D",
        ),
        of.figure("mnist", "figure_4c.png", "(c) Interpolations in the space of features"),
        "## Table 2: SVHN",
        of.command("svhn"),
        image_table(of, "svhn", "cifar10", paper.TABLE_2),
        reservations(of, "svhn", "cifar10"),
        "## Figure 5: SVHN",
        of.figure("svhn", "figure_5a.png", "(a) log p(x) of SVHN and CIFAR-10"),
        of.figure("svhn", "svhn_densities_0.png", "The same at λ = 0, which the paper leaves out"),
        of.figure("svhn", "figure_5b.png", "(b) Interpolations in the space of features"),
        of.figure(
            "svhn", "figure_5c.png", "(c) Confidence and accuracy, strange images among them"
        ),
    ]


def _few_labels(of: Results) -> list[str]:
    return [
        "## Figure 6: half moons",
        of.command("half_moons"),
        of.figure(
            "half_moons", "figure_6.png", "Decisions from twelve labels, and with unlabelled points"
        ),
        moons_table(of),
        "## Table 3: MNIST with 1,000 labels",
        of.command("mnist_semi"),
        semi_table(of, "mnist", paper.TABLE_3),
        "## Table S1: hyperparameters for rows without a label",
        of.command("unlabelled_search"),
        grid_table(of),
        "## Table S2: SVHN with 1,000 labels",
        of.command("svhn_semi"),
        semi_table(of, "svhn", paper.TABLE_S2),
    ]


def _future(of: Results) -> list[str]:
    return [
        "## What the paper leaves for the future",
        of.command("future_flows"),
        "Continuous-time flows, invertible residual networks and a Wasserstein term in the paper's "
        "model, one network for head and density, beside couplings in it; and the library's "
        "default, which has a density of its own and several networks. Error, NLL, KL and log p(x) "
        "are of rows that were not learned from. Where log-determinants are estimated, a row's "
        "standard error is stated; zero stands for exact.",
        "### Half moons",
        future_table(of, "moons"),
        "### Digits of 8 x 8 pixels",
        future_table(of, "digits"),
        "### A UCI table",
        future_table(of, "table"),
    ]
