"""Resize and Upsample."""

from __future__ import annotations

import numpy as np
import pytest

from kernel_runs import assert_same, fresh_rng, kernel_of, node_spec, run_cpu, run_ort, run_reference
from onnxgen.errors import InvalidGraphError

NO_ROI = np.zeros(0, np.float32)
POSITIONS = ["half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric"]


def _sizes(rng):
    return np.array([1, 2, *rng.integers(1, 14, 2)])


@pytest.mark.parametrize("positions", POSITIONS)
@pytest.mark.parametrize("mode", ["linear", "cubic"])
@pytest.mark.parametrize("option", [{}, {"antialias": 1}, {"exclude_outside": 1, "cubic_coeff_a": -0.5}])
def test_smooth_modes(mode, positions, option):
    rng = fresh_rng()
    if mode == "linear" and "exclude_outside" in option:
        pytest.skip("ONNX Runtime takes exclude_outside for cubic only")
    for _ in range(4):
        x = rng.standard_normal((1, 2, *rng.integers(2, 9, 2))).astype(np.float32)
        options = {
            "mode": mode,
            "coordinate_transformation_mode": positions,
            "constants": [1],
            "opset": 19,
            **option,
        }
        args = (x, NO_ROI, None, _sizes(rng))
        assert_same(
            run_cpu("Resize", *args, **options), run_ort("Resize", *args, **options), rtol=1e-3, atol=1e-4
        )


@pytest.mark.parametrize("positions", POSITIONS)
@pytest.mark.parametrize("nearest", ["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"])
def test_nearest_pixels(nearest, positions):
    rng = fresh_rng()
    options = {"nearest_mode": nearest, "coordinate_transformation_mode": positions}
    for _ in range(6):  # powers of two, whose ratios have no rounding of their own
        height, width, *out = (int(n) for n in 2 ** rng.integers(0, 5, 4))
        args = (
            rng.standard_normal((1, 2, height, width)).astype(np.float32),
            NO_ROI,
            None,
            np.array([1, 2, *out]),
        )
        options |= {"constants": [1], "opset": 19}
        assert_same(run_cpu("Resize", *args, **options), run_ort("Resize", *args, **options))


@pytest.mark.parametrize(("nearest", "third"), [("round_prefer_floor", 2), ("round_prefer_ceil", 3)])
def test_ties_between_pixels(nearest, third):
    x = np.arange(5, dtype=np.float32)  # seen at 0, 1.25, 2.5, 3.75
    options = {"nearest_mode": nearest, "coordinate_transformation_mode": "asymmetric"}
    got = run_cpu("Resize", x, None, np.array([0.8], np.float32), **options)
    assert got.tolist() == [0, 1, third, 4]


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_scales_round_the_size_down(mode):
    x = fresh_rng().standard_normal((1, 1, 10, 7)).astype(np.float32)
    args = (x, NO_ROI, np.array([1, 1, 0.7, 1.5], np.float32))
    options = {"mode": mode, "constants": [1], "opset": 19}
    got = run_cpu("Resize", *args, **options)
    assert got.shape == (1, 1, 7, 10)  # 10 * float32(0.7) is 7 in float32
    assert_same(got, run_ort("Resize", *args, **options), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_crops_take_a_value_of_their_own_outside(mode):
    x = fresh_rng().standard_normal((1, 1, 6, 5)).astype(np.float32)
    roi = np.array([0, 0, 0.2, 0.3, 1, 1, 0.8, 1.4], np.float32)
    args = (x, roi, None, np.array([1, 1, 4, 7]))
    options = {
        "mode": mode,
        "coordinate_transformation_mode": "tf_crop_and_resize",
        "extrapolation_value": 9.0,
    }
    got = run_cpu("Resize", *args, **options)
    assert (got[..., -1] == 9).all() and (got[..., 0] != 9).all()
    assert_same(got, run_reference("Resize", *args, **options), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("policy", ["stretch", "not_larger", "not_smaller"])
@pytest.mark.parametrize("axes", [[2, 3], [3, 2]])
def test_policies_keep_the_aspect_ratio_over_chosen_axes(policy, axes):
    x = fresh_rng().standard_normal((1, 1, 4, 6)).astype(np.float32)
    args = (x, None, None, np.array([7, 8]))
    options = {"axes": axes, "keep_aspect_ratio_policy": policy, "mode": "linear"}
    assert_same(
        run_cpu("Resize", *args, **options), run_reference("Resize", *args, **options), rtol=1e-3, atol=1e-4
    )
    negative = options | {"axes": [axis - 4 for axis in axes]}
    assert_same(run_cpu("Resize", *args, **negative), run_cpu("Resize", *args, **options))


def test_integers_are_cut_or_with_antialias_rounded():
    x = np.array([[[[0, 3]]]], np.uint8)
    args = (x, NO_ROI, None, np.array([1, 1, 1, 4]))
    assert run_cpu("Resize", *args, mode="linear").reshape(-1).tolist() == [0, 0, 2, 3]
    assert run_cpu("Resize", *args, mode="linear", antialias=1).reshape(-1).tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("mode", ["nearest", "linear"])
@pytest.mark.parametrize("scale", [0.5, 0.6, 1.0, 1.5, 3.0])
def test_version_10(mode, scale):
    args = (
        fresh_rng().standard_normal((1, 2, 5, 6)).astype(np.float32),
        np.array([1, 1, scale, 2], np.float32),
    )
    got = run_cpu("Resize", *args, opset=10, mode=mode)
    assert_same(got, run_ort("Resize", *args, opset=10, mode=mode), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("mode", ["nearest", "linear"])
def test_upsample_takes_its_scales_from_attributes_first_and_from_an_input_later(mode):
    x = fresh_rng().standard_normal((1, 2, 3, 4)).astype(np.float32)
    scales = [1.0, 1.0, 2.0, 1.5]
    nine = run_cpu("Upsample", x, np.array(scales, np.float32), opset=9, mode=mode)
    assert_same(
        nine, run_ort("Upsample", x, np.array(scales, np.float32), opset=9, mode=mode), rtol=1e-3, atol=1e-4
    )
    assert_same(run_cpu("Upsample", x, opset=7, mode=mode, scales=scales), nine)
    old = {"linear": "bilinear"}.get(mode, mode)
    assert_same(run_cpu("Upsample", x, opset=1, mode=old, height_scale=2.0, width_scale=1.5), nine)


def test_an_unknown_mode_is_named():
    with pytest.raises(InvalidGraphError, match="mode 'lanczos'; known are nearest, linear, cubic"):
        kernel_of(node_spec("Resize", np.zeros((1, 1)), None, np.ones(2), mode="lanczos"))


def test_no_elements():
    got = run_cpu("Resize", np.zeros((0, 1, 2, 2), np.float32), None, None, np.array([0, 1, 4, 4]))
    assert got.shape == (0, 1, 4, 4)
