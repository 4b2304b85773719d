"""Lossless codes: how few bytes say an image."""

import itertools

import numpy as np
import pytest

from diglm.refusal.scores.simplicity import Simplicity, code_lengths, photograph_lengths


def every_image(shape, levels):
    """All images of a shape whose pixels have some levels."""
    pixels = np.array(list(itertools.product(levels, repeat=int(np.prod(shape)))), np.uint8)
    return pixels.reshape(-1, *shape)


@pytest.mark.parametrize(
    "shape, levels",
    [((1, 2, 1), range(256)), ((2, 1, 1), range(256)), ((2, 2, 1), range(0, 256, 17))]
    + [((1, 1, 3), range(0, 256, 8)), ((2, 3, 1), range(0, 6)), ((1, 2, 3), range(0, 6))],
)
def test_code_words_of_all_images_fit_into_a_code(shape, levels):
    """Kraft's inequality, which a pixel that is told by itself would break."""
    lengths = photograph_lengths(every_image(shape, levels))
    assert np.all(lengths > 0) and np.sum(256.0**-lengths) <= 1


def photographs(n, roughness, seed=0):
    """Smooth random images in colour, with noise on every pixel."""
    rng = np.random.default_rng(seed)
    slopes = rng.normal(0, 3, (n, 2, 3))
    down, across = np.mgrid[:16, :16] - 8
    smooth = 128 + slopes[:, 0, None, None] * down[..., None]
    smooth = smooth + slopes[:, 1, None, None] * across[..., None]
    noise = rng.normal(0, roughness, (n, 16, 16, 1))
    return np.clip(np.round(smooth + noise), 0, 255).astype(np.uint8)


def test_rougher_photographs_have_longer_codes():
    kinds = [photographs(30, spread) for spread in (1.0, 6.0, 60.0)]
    calm, rough, noise = map(photograph_lengths, kinds)
    assert np.all(calm < rough) and np.all(rough < noise)
    assert np.mean(calm) < 0.4 * kinds[0][0].size


def test_an_image_has_the_shorter_of_two_codes(known, images):
    drawings, seen = images(20), photographs(20, 2.0)
    stripes = np.broadcast_to(np.arange(16) % 2 * 255, (5, 16, 16))[..., None].astype(np.uint8)
    assert np.all(code_lengths(known(values=stripes)) < 0.5 * photograph_lengths(stripes))
    assert np.array_equal(code_lengths(known(values=seen)), photograph_lengths(seen))
    assert Simplicity()(known(values=drawings)).shape == (20,)


def test_a_code_does_not_depend_on_company(known):
    some = photographs(1030, 5.0)
    together = code_lengths(known(values=some))
    assert np.array_equal(together[700:703], code_lengths(known(values=some[700:703])))
    assert code_lengths(known(values=some[:0])).shape == (0,)
