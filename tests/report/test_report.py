"""Figures draw what they are given, pages fetch nothing, and the demo writes its files."""

import dataclasses
import json
import math
import sys
from html.parser import HTMLParser

import numpy as np
import pytest

matplotlib = pytest.importorskip("matplotlib")

from diglm import report  # noqa: E402
from diglm.experiments import digits, moons  # noqa: E402
from diglm.report import figures  # noqa: E402


class Inventory(HTMLParser):
    """Every tag with its attributes, and whether tags close in the order they opened."""

    EMPTY = {"meta", "img"}

    def __init__(self, text):
        super().__init__()
        self.tags, self.open = [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in self.EMPTY:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def named(self, name):
        return [attributes for tag, attributes in self.tags if tag == name]


def check_self_contained(text):
    inventory = Inventory(text)
    assert inventory.open == []
    assert "://" not in text and "url(" not in text and "@import" not in text
    for forbidden in ("script", "link", "iframe", "object"):
        assert inventory.named(forbidden) == []
    for image in inventory.named("img"):
        assert image["src"].startswith("data:image/")
        assert image["alt"]
    return inventory


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def drawn_texts(axes):
    axes.figure.canvas.draw()
    return [text.get_text() for text in axes.texts]


# ---------------------------------------------------------------------- figures


@pytest.mark.parametrize("lowest", [-200.0, -1e6])
def test_histogram_shows_every_row_and_the_share_refused(rng, lowest):
    familiar = rng.normal(-90.0, 8.0, 400)
    strange = -np.geomspace(100.0, -lowest, 200)
    figure, (axes,) = report.new_figure(6.0, 3.0)
    report.log_density_histogram(axes, {"digits": familiar, "noise": strange}, threshold=-120.0)
    texts = drawn_texts(axes)
    assert {"digits", "noise", "refused", "answered"} <= set(texts)
    assert f"{np.mean(strange < -120):.1%} refused" in texts
    low, high = axes.get_xlim()
    assert low <= lowest and high >= familiar.max()
    # The tallest bar of each row has the same height, and no row's bars reach into the next.
    for row, bars in enumerate(axes.containers):
        heights = [bar.get_height() for bar in bars]
        assert max(heights) == pytest.approx(0.8)
        assert {bar.get_y() for bar in bars} == {-row}
    assert axes.containers[0][0].get_hatch() != axes.containers[1][0].get_hatch()
    assert axes.get_xscale() == ("symlog" if lowest < -1000 else "linear")


def test_histogram_bars_count_all_rows(rng):
    values = np.append(rng.normal(0.5, 1.0, 300), -1e4)
    figure, (axes,) = report.new_figure(6.0, 2.0)
    edges = figures._set_log_density_scale(axes, [values], threshold=-3.0)
    assert np.all(np.diff(edges) > 0)
    assert np.histogram(values, edges)[0].sum() == len(values)


def test_histogram_without_threshold(rng):
    figure, (axes,) = report.new_figure(6.0, 2.0)
    report.log_density_histogram(axes, {"rows": rng.normal(size=50)}, threshold=-math.inf)
    assert "0.0% refused" in drawn_texts(axes)
    assert "answered" not in drawn_texts(axes)


def test_risk_coverage_curves_end_at_the_error_of_all_rows(rng):
    wrong = rng.random(200) < 0.3
    figure, (axes,) = report.new_figure(4.0, 3.0)
    report.risk_coverage_curves(
        axes, {"good": np.where(wrong, 0.0, 1.0), "random": rng.random(200)}, wrong
    )
    figure.canvas.draw()
    good, random = axes.lines
    for line in (good, random):
        assert line.get_xdata()[-1] == 100
        assert line.get_ydata()[-1] == pytest.approx(100 * wrong.mean())
    assert np.all(good.get_ydata() <= random.get_ydata() + 1e-9)
    assert good.get_linestyle() != random.get_linestyle()
    assert "%" in axes.get_xlabel() and "%" in axes.get_ylabel()


def test_image_grid_places_images_captions_and_frames(rng):
    images = [[rng.integers(0, 17, (8, 8)) for _ in range(3)], [np.zeros((8, 8)), None, None]]
    captions = [["a\nb", "c", "d"], ["e", "", ""]]
    framed = [[True, False, False], [False, False, False]]
    figure, axes = report.new_grid(2, 3, caption_lines=2)
    report.image_grid(
        axes, images, top=16, captions=captions, framed=framed, row_labels=["first", "second"]
    )
    assert [*drawn_texts(axes)] == ["a\nb", "c", "d", "e", "first", "second"]
    assert len(axes.images) == len(axes.patches) == 4
    assert axes.patches[0].get_linewidth() > axes.patches[1].get_linewidth()
    # Captions end above the images of the next row.
    bottom = axes.texts[0].get_window_extent().y0
    assert bottom > axes.images[3].get_window_extent().y1


def test_density_decision_picture_names_all_it_shows(rng):
    across, up = np.linspace(-2, 2, 40), np.linspace(-1, 1, 30)
    gx, gy = np.meshgrid(across, up)
    figure, (axes,) = report.new_figure(6.0, 4.0)
    report.density_decision_picture(
        axes,
        (across, up),
        -(gx**2) - gy**2,
        1 / (1 + np.exp(-3 * gx)),
        -1.5,
        points=rng.normal(0, 0.4, (60, 2)),
        classes=rng.integers(0, 2, 60),
        refused=np.array([[1.8, 0.8]]),
    )
    figure.canvas.draw()
    labels = [text.get_text() for text in axes.get_legend().get_texts()]
    assert len(labels) == 6 and "refused region" in labels
    assert axes.get_xlim() == (-2, 2) and axes.get_ylim() == (-1, 1)
    hatched = [one for one in axes.collections if any(getattr(one, "hatches", [None]))]
    assert len(hatched) == 1


def test_missing_matplotlib_says_what_to_install(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match=r"diglm\[plot\]"):
        report.new_figure(1.0, 1.0)
    for needy in (
        lambda: digits.demo(tmp_path, quick=True),
        lambda: moons.run(moons.Config(), tmp_path),
    ):
        with pytest.raises(ImportError, match=r"hint: pip install 'diglm\[plot\]'"):
            needy()
    assert list(tmp_path.iterdir()) == []


# ---------------------------------------------------------------------- pages


@pytest.mark.parametrize("vector", [True, False])
def test_page_is_self_contained_and_repeatable(rng, vector):
    def make():
        figure, (axes,) = report.new_figure(3.0, 2.0)
        axes.plot([0, 1], [1, 0])
        content = report.embed(figure, 'a "line" <down>', vector=vector)
        content += report.table(("kind", "value"), [("a & b", "1 < 2")])
        return report.page("A <title>", "lead", [report.Section("S", "Read it.", content)], "end")

    text = make()
    assert text == make()
    inventory = check_self_contained(text)
    (image,) = inventory.named("img")
    assert image["alt"] == 'a "line" <down>'
    assert "<title>A &lt;title&gt;</title>" in text and "<td>a &amp; b</td>" in text


# ---------------------------------------------------------------------- experiments


def test_strange_inputs_are_images_like_the_digits(rng):
    images = rng.integers(0, 17, (30, 64))
    kept = images.copy()
    kinds = digits.strange_inputs(images, np.random.default_rng(1))
    again = digits.strange_inputs(images, np.random.default_rng(1))
    np.testing.assert_array_equal(images, kept)
    for kind, strange in kinds.items():
        assert strange.shape == images.shape and strange.dtype.kind == "i"
        assert strange.min() >= 0 and strange.max() <= 16
        assert not np.array_equal(strange, images)
        np.testing.assert_array_equal(strange, again[kind])
    np.testing.assert_array_equal(
        np.sort(kinds["shuffled pixels"], axis=1), np.sort(images, axis=1)
    )
    np.testing.assert_array_equal(
        kinds["shifted by 1 pixel"].reshape(-1, 8, 8)[:, :, 1:],
        images.reshape(-1, 8, 8)[:, :, :-1],
    )


def leaves(tree):
    if isinstance(tree, dict):
        return [leaf for value in tree.values() for leaf in leaves(value)]
    return [tree]


@pytest.mark.slow
def test_demo_writes_page_and_finite_metrics(tmp_path, capsys, monkeypatch):
    # Tests of their own say how well is drawn and searched; here a little of both will do.
    monkeypatch.setattr("diglm.predictor.draw.PROPOSALS", 1_024)
    monkeypatch.setattr("diglm.predictor.search.GENERATIONS", 1)
    monkeypatch.setattr("diglm.predictor.search.POLISH", 1)
    xs, ys = digits.load_digits(return_X_y=True)
    monkeypatch.setattr(digits, "load_digits", lambda return_X_y: (xs[:600], ys[:600]))
    out = tmp_path / "demo"
    digits.demo(out, quick=True)
    printed = capsys.readouterr().out
    assert "accuracy" in printed and "halves of two digits" in printed
    record = json.loads((out / "metrics.json").read_text())
    assert record["config"] == dataclasses.asdict(digits.QUICK) and record["seed"] == 0
    metrics = record["metrics"]
    assert all(math.isfinite(value) for value in leaves(metrics))
    assert metrics["accuracy"] > 0.5  # two passes of a tiny model beat chance by far
    assert metrics["strange"]["uniform noise"]["refused"] > 0.9
    inventory = check_self_contained((out / "report.html").read_text(encoding="utf-8"))
    assert len(inventory.named("img")) == 6


@pytest.mark.slow
def test_moons_picture_is_saved(tmp_path):
    config = moons.Config(n_rows=200, n_blocks=2, width=8, n_epochs=2, n_grid=30)
    moons.run(config, tmp_path / "images" / "moons.png")
    assert (tmp_path / "images" / "moons.png").read_bytes().startswith(b"\x89PNG")
