"""Calls of operators in each of their versions, for comparing those who implement them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx.defs

F, D, I, L, B = np.float32, np.float64, np.int32, np.int64, np.bool_


@dataclass(frozen=True)
class OperatorCall:
    """One operator of one version with inputs and attributes."""

    op_type: str
    version: int
    inputs: tuple[Any, ...]
    outputs: int = 1
    attributes: dict[str, Any] = field(default_factory=dict)

    def __str__(self):
        shapes = ",".join("-" if x is None else f"{x.dtype}{list(x.shape)}" for x in self.inputs)
        attributes = ",".join(f"{name}={value}" for name, value in self.attributes.items())
        return f"{self.op_type}-{self.version}({shapes};{attributes})"


def old_calls(rng: np.random.Generator) -> list[OperatorCall]:
    """Every call; inputs are drawn from the generator."""
    return list(_calls(rng))


def versions_of(op_type: str, first: int, last: int) -> list[int]:
    """Versions of an operator between two, both included; deprecated ones left out."""
    return sorted(
        schema.since_version
        for schema in onnx.defs.get_all_schemas_with_history()
        if schema.domain == "" and schema.name == op_type and first <= schema.since_version <= last
        if not schema.deprecated
    )


def _calls(rng: np.random.Generator) -> Iterator[OperatorCall]:
    def of(op_type: str, first: int, last: int, *inputs: Any, outputs: int = 1, **attributes: Any):
        arrays = tuple(_array(rng, value) for value in inputs)
        for version in versions_of(op_type, first, last):
            yield OperatorCall(op_type, version, arrays, outputs, attributes)

    new = 99
    x = (2, 3, 4)
    # elementwise with the old way of broadcasting
    for op in ("Add", "Sub", "Mul", "Div", "Pow"):
        yield from of(op, 1, 6, x, x)
        yield from of(op, 1, 6, x, (3, 4), broadcast=1)
        yield from of(op, 1, 6, x, (2, 3), broadcast=1, axis=0)
        yield from of(op, 1, 6, x, (3,), broadcast=1, axis=1)
        yield from of(op, 1, 6, x, (1,), broadcast=1)
        yield from of(op, 7, new, x, (3, 1))
    for op in ("Add", "Sub", "Mul", "Div"):
        yield from of(op, 6, new, _ints(rng, x), _ints(rng, x))
    for op in ("And", "Or", "Xor"):
        yield from of(op, 1, 1, _bools(rng, x), _bools(rng, (3,)), broadcast=1, axis=1)
        yield from of(op, 7, new, _bools(rng, x), _bools(rng, (3, 1)))
    for op in ("Equal", "Greater", "Less"):
        kind = _ints if op == "Equal" else _floats
        yield from of(op, 1, 1, kind(rng, x), kind(rng, (3,)), broadcast=1, axis=1)
        yield from of(op, 7, new, kind(rng, x), kind(rng, (3, 1)))
    for op in ("Abs", "Neg", "Ceil", "Floor", "Exp", "Relu", "Sigmoid", "Tanh", "Softplus", "Softsign", "Erf", "Sign",
               "Sin", "Cos", "Tan", "Atan", "Sinh", "Cosh", "Asinh", "Reciprocal", "Round", "Identity", "Selu",
               "Elu", "HardSigmoid", "LeakyRelu", "ThresholdedRelu", "Celu", "HardSwish", "Mish", "IsNaN",
               "Shrink", "Gelu", "Swish"):  # fmt: skip
        yield from of(op, 1, new, x)
    yield from of("Celu", 12, new, x, alpha=0.5)
    yield from of("IsInf", 10, new, np.array([1, np.inf, -np.inf, np.nan], F))
    for op in ("Log", "Sqrt"):
        yield from of(op, 1, new, np.abs(_floats(rng, x)) + F(0.1))
    for op in ("Acos", "Asin", "Atanh"):
        yield from of(op, 1, new, np.clip(_floats(rng, x), -0.9, 0.9))
    yield from of("Acosh", 9, new, np.abs(_floats(rng, x)) + F(1))
    yield from of("Selu", 1, new, x, alpha=1.5, gamma=2.0)
    yield from of("Elu", 1, new, x, alpha=0.3)
    yield from of("HardSigmoid", 1, new, x, alpha=0.3, beta=0.4)
    yield from of("LeakyRelu", 1, new, x, alpha=0.3)
    yield from of("PRelu", 1, 6, x, (3,))
    yield from of("PRelu", 1, new, x, (1,))
    yield from of("PRelu", 7, new, x, (3, 1))
    yield from of("Clip", 1, 6, x, min=-0.5, max=0.5)
    yield from of("Clip", 1, 6, x, max=0.5)
    yield from of("Clip", 1, 6, x)
    yield from of("Clip", 11, new, x, np.array(-0.5, F), np.array(0.5, F))
    yield from of("Clip", 11, new, x, None, np.array(0.5, F))
    for op in ("Max", "Min", "Sum", "Mean"):
        yield from of(op, 1, new, x, x, x)
        yield from of(op, 8, new, x, (3, 1), (4,))
    yield from of("Mod", 10, new, _ints(rng, x), _ints(rng, x) * 2 + 1)
    yield from of("Mod", 10, new, x, x, fmod=1)
    yield from of("Where", 9, new, _bools(rng, x), x, (4,))
    # softmax and norms
    for op in ("Softmax", "LogSoftmax", "Hardmax"):
        for axis in ({}, {"axis": 0}, {"axis": 2}):
            yield from of(op, 1, new, x, **axis)
        yield from of(op, 11, new, x, axis=-2)
    image, channel = (2, 3, 5, 4), [np.abs(_floats(rng, (3,))) + F(0.5) for _ in range(4)]
    for spatial in ({}, {"spatial": 1}):
        yield from of("BatchNormalization", 6, 6, image, *channel, is_test=1, epsilon=1e-3, **spatial)
        yield from of("BatchNormalization", 7, 7, image, *channel, momentum=0.8, **spatial)
    yield from of("BatchNormalization", 1, 1, image, *channel, is_test=1, consumed_inputs=[0, 0, 0, 1, 1])
    per_value = [np.abs(_floats(rng, (3, 5, 4))) + F(0.5) for _ in range(4)]
    yield from of("BatchNormalization", 6, 6, image, *per_value, is_test=1, spatial=0)
    yield from of("BatchNormalization", 7, 7, image, *per_value, spatial=0)
    yield from of("BatchNormalization", 9, new, image, *channel, epsilon=1e-2, momentum=0.7)
    yield from of("BatchNormalization", 14, new, image, *channel, outputs=3, training_mode=1, momentum=0.7)
    # a fifth output would be the variance, of which ONNX Runtime gives the inverse root
    yield from of("BatchNormalization", 7, 9, image, *channel, outputs=4, momentum=0.7)
    yield from of("InstanceNormalization", 1, new, image, (3,), (3,), epsilon=1e-3)
    yield from of("LpNormalization", 1, new, x, axis=1, p=1)
    yield from of("LpNormalization", 1, new, x)
    yield from of("MeanVarianceNormalization", 9, new, image)
    yield from of("MeanVarianceNormalization", 9, new, image, axes=[2, 3])
    yield from of("LRN", 1, new, (2, 5, 3, 3), size=3)
    yield from of("LRN", 1, new, (2, 5, 3, 3), size=4, alpha=0.5, beta=0.6, bias=2.0)
    yield from of("LayerNormalization", 17, new, x, (4,), (4,))
    yield from of("GroupNormalization", 18, 18, (2, 4, 3), (2,), (2,), num_groups=2)
    yield from of("GroupNormalization", 21, new, (2, 4, 3), (4,), (4,), num_groups=2)
    # reductions
    for op in ("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2",
               "ReduceLogSumExp", "ReduceSumSquare", "ReduceLogSum"):  # fmt: skip
        data = np.abs(_floats(rng, x)) + F(0.5)
        last_attribute = 11 if op == "ReduceSum" else 17
        for attributes in ({}, {"axes": [1]}, {"axes": [0, 2], "keepdims": 0}, {"keepdims": 0}):
            yield from of(op, 1, last_attribute, data, **attributes)
        yield from of(op, 11, last_attribute, data, axes=[-1])
        yield from of(op, last_attribute + 1, new, data, np.array([1], L))
        yield from of(op, last_attribute + 1, new, data)
        yield from of(op, last_attribute + 1, new, data, noop_with_empty_axes=1)
        yield from of(op, last_attribute + 1, new, data, np.array([-1, 0], L), keepdims=0)
    ties = _ints(rng, x).astype(F)
    for op in ("ArgMax", "ArgMin"):
        yield from of(op, 1, new, ties, axis=1)
        yield from of(op, 1, new, ties, keepdims=0)
        yield from of(op, 12, new, ties, axis=-1, select_last_index=1)
    yield from of("TopK", 1, 1, x, k=2, outputs=2)
    yield from of("TopK", 1, 1, x, k=2, axis=1, outputs=2)
    yield from of("TopK", 10, new, x, np.array([2], L), outputs=2)
    yield from of("TopK", 10, new, x, np.array([1], L), axis=0, outputs=2)
    yield from of("TopK", 11, new, x, np.array([2], L), axis=-2, largest=0, outputs=2)
    yield from of("CumSum", 11, new, x, np.array(1, L))
    yield from of("CumSum", 11, new, x, np.array(-1, I), exclusive=1, reverse=1)
    # shapes
    yield from of("Reshape", 1, 1, x, shape=[4, -1])
    yield from of("Reshape", 1, 1, x, shape=[0, 12])
    yield from of("Reshape", 5, new, x, np.array([0, -1], L))
    yield from of("Reshape", 14, new, (0, 3), np.array([3, 0], L), allowzero=1)
    yield from of("Flatten", 1, new, image, axis=2)
    yield from of("Flatten", 1, new, image, axis=0)
    yield from of("Flatten", 11, new, image, axis=-1)
    yield from of("Squeeze", 1, 11, (1, 3, 1, 2))
    yield from of("Squeeze", 1, 11, (1, 3, 1, 2), axes=[2])
    yield from of("Squeeze", 11, 11, (1, 3, 1, 2), axes=[-2])
    yield from of("Squeeze", 13, new, (1, 3, 1, 2), np.array([0, -2], L))
    yield from of("Squeeze", 13, new, (1, 3, 1, 2))
    yield from of("Unsqueeze", 1, 11, x, axes=[0, 4])
    yield from of("Unsqueeze", 11, 11, x, axes=[-1, 0])
    yield from of("Unsqueeze", 13, new, x, np.array([-1, 1], L))
    yield from of("Concat", 1, 1, x, x)
    yield from of("Concat", 1, new, x, (2, 1, 4), axis=1)
    yield from of("Concat", 11, new, x, x, axis=-1)
    yield from of("Split", 1, 11, (6, 4), outputs=2, axis=0)
    yield from of("Split", 1, 11, (6, 4), outputs=2, axis=0, split=[2, 4])
    yield from of("Split", 2, 17, (6, 4), outputs=3)
    yield from of("Split", 11, 13, (6, 4), outputs=2, axis=-1)
    yield from of("Split", 13, new, (6, 4), np.array([1, 5], L), outputs=2)
    yield from of("Split", 18, new, (7, 4), outputs=3, num_outputs=3)
    yield from of("Slice", 1, 1, x, starts=[1, 0], ends=[2, -1])
    yield from of("Slice", 1, 1, x, starts=[-3, 1], ends=[1000, 3], axes=[2, 1])
    yield from of(
        "Slice",
        10,
        new,
        x,
        np.array([0, 3], L),
        np.array([2, -9], L),
        np.array([1, 2], L),
        np.array([1, -2], L),
    )
    yield from of("Slice", 10, new, x, np.array([1], I), np.array([99], I))
    yield from of("Slice", 11, new, x, np.array([1], L), np.array([3], L), np.array([-2], L))
    yield from of("Transpose", 1, new, x)
    yield from of("Transpose", 1, new, x, perm=[1, 2, 0])
    yield from of("Tile", 6, new, (2, 3), np.array([2, 1], L))
    yield from of("Expand", 8, new, (3, 1), np.array([2, 1, 4], L))
    yield from of("Shape", 1, new, x)
    yield from of("Shape", 15, new, x, start=-2, end=3)
    yield from of("Size", 1, new, x)
    yield from of("Pad", 1, 1, (2, 3), paddings=[0, 1, 2, 1], value=1.5)
    for mode in ("constant", "edge", "reflect"):
        yield from of("Pad", 1, 1, (4, 3), paddings=[1, 1, 2, 1], mode=mode)
        yield from of("Pad", 2, 2, (4, 3), pads=[1, 1, 2, 1], mode=mode)
        yield from of("Pad", 11, new, (4, 3), np.array([1, 1, 2, 1], L), mode=mode)
    yield from of("Pad", 2, 2, (4, 3), pads=[-1, 0, -1, 2], value=1.5)
    yield from of("Pad", 11, new, (4, 3), np.array([-1, 0, -1, 2], L), np.array(2.5, F))
    yield from of("Pad", 18, new, (4, 3), np.array([2, 1], L), None, np.array([-1], L))
    yield from of("Pad", 19, new, (4, 3), np.array([1, 1, 2, 1], L), mode="wrap")
    for mode in ("DCR", "CRD"):
        yield from of("DepthToSpace", 11, new, (1, 8, 2, 3), blocksize=2, mode=mode)
    yield from of("DepthToSpace", 1, new, (1, 8, 2, 3), blocksize=2)
    yield from of("SpaceToDepth", 1, new, (1, 2, 4, 6), blocksize=2)
    yield from of("Trilu", 14, new, (3, 4), np.array(1, L))
    yield from of("EyeLike", 9, new, (3, 4), k=1)
    yield from of("ConstantOfShape", 9, new, np.array([2, 3], L))
    yield from of("ConstantOfShape", 9, new, np.array([2, 3], L), value=np.array([7], I))
    yield from of("Range", 11, new, np.array(1, F), np.array(5.5, F), np.array(1.5, F))
    # gather and scatter
    yield from of("Gather", 1, new, x, np.array([[0, 1], [1, 0]], L), axis=1)
    yield from of("Gather", 11, new, x, np.array([-1, 0], I))
    yield from of("GatherElements", 11, new, x, rng.integers(-3, 3, (2, 3, 4)), axis=1)
    yield from of("GatherND", 11, new, x, np.array([[0, 1], [1, 2]], L))
    yield from of("GatherND", 12, new, x, np.array([[1], [2]], L), batch_dims=1)
    yield from of("Scatter", 9, 9, (3, 3), np.array([[1, 0, 2], [0, 2, 1]], L), (2, 3))
    yield from of("Scatter", 9, 9, (1, 5), np.array([[1, 3]], L), (1, 2), axis=1)
    yield from of("ScatterElements", 11, new, (1, 5), np.array([[1, -3]], L), (1, 2), axis=1)
    yield from of("ScatterElements", 16, new, (1, 5), np.array([[1, 1]], L), (1, 2), axis=1, reduction="add")
    yield from of("ScatterElements", 18, new, (1, 5), np.array([[1, 1]], L), (1, 2), axis=1, reduction="max")
    yield from of("ScatterND", 11, new, (4, 3), np.array([[1], [3]], L), (2, 3))
    yield from of("ScatterND", 16, new, (4, 3), np.array([[1], [1]], L), (2, 3), reduction="mul")
    yield from of("OneHot", 9, new, np.array([1, -1, 7], L), np.array(4, L), np.array([0, 2], F), axis=0)
    yield from of("Compress", 9, new, x, np.array([True, False, True]), axis=1)
    yield from of("Compress", 9, new, x, np.array([False, True, True]))
    yield from of("NonZero", 9, new, _ints(rng, x))
    yield from of("ReverseSequence", 10, new, (4, 3), np.array([1, 3, 2], L))
    yield from of("Unique", 11, new, np.array([2, 1, 1, 3], F), outputs=4)
    # products
    yield from of("MatMul", 1, new, x, (2, 4, 5))
    yield from of("MatMul", 1, new, x, (4,))
    for c, broadcast in (
        ((2, 5), {}),
        ((5,), {"broadcast": 1}),
        ((2, 1), {"broadcast": 1}),
        ((1,), {"broadcast": 1}),
    ):
        yield from of("Gemm", 1, 6, (2, 3), (3, 5), c, alpha=0.5, beta=2.0, **broadcast)
    yield from of("Gemm", 1, 6, (3, 2), (5, 3), (2, 5), transA=1, transB=1)
    yield from of("Gemm", 7, new, (3, 2), (5, 3), (5,), transA=1, transB=1, alpha=0.5, beta=0.25)
    yield from of("Gemm", 11, new, (2, 3), (3, 5))
    yield from of("Det", 11, new, (2, 3, 3))
    yield from of("Einsum", 12, new, x, (2, 4, 5), equation="bij,bjk->bik")
    # convolutions and pooling
    w = (4, 3, 3, 2)
    yield from of("Conv", 1, new, image, w, (4,), pads=[1, 0, 1, 1], strides=[2, 1])
    yield from of("Conv", 1, new, (1, 4, 6), (4, 2, 3), group=2, dilations=[2])
    for auto_pad in ("SAME_UPPER", "SAME_LOWER", "VALID"):
        yield from of("Conv", 1, new, image, w, auto_pad=auto_pad, strides=[2, 2])
        yield from of("ConvTranspose", 1, new, (1, 3, 3, 3), (3, 2, 3, 3), auto_pad=auto_pad, strides=[2, 2])
        yield from of("MaxPool", 1, new, image, kernel_shape=[3, 2], auto_pad=auto_pad, strides=[2, 2])
        yield from of("AveragePool", 1, new, image, kernel_shape=[3, 2], auto_pad=auto_pad, strides=[2, 2])
        yield from of("LpPool", 2, new, image, kernel_shape=[3, 2], auto_pad=auto_pad, strides=[2, 2])
    yield from of(
        "ConvTranspose", 1, new, (1, 3, 3, 3), (3, 2, 3, 3), (2,), strides=[2, 2], output_padding=[1, 1]
    )
    yield from of("ConvTranspose", 1, new, (1, 3, 3, 3), (3, 2, 3, 3), strides=[3, 2], output_shape=[10, 8])
    yield from of("ConvTranspose", 1, new, (1, 4, 5), (4, 2, 3), group=2, pads=[1, 1])
    yield from of("ConvTranspose", 11, new, (1, 3, 3, 3), (3, 2, 2, 2), dilations=[2, 2])
    yield from of("MaxPool", 1, new, image, kernel_shape=[3, 2], pads=[1, 0, 1, 1])
    yield from of("MaxPool", 8, new, image, kernel_shape=[2, 2], strides=[2, 1], outputs=2)
    yield from of("MaxPool", 8, new, image, kernel_shape=[2, 2], outputs=2, storage_order=1)
    yield from of("MaxPool", 10, new, image, kernel_shape=[2, 2], strides=[2, 2], ceil_mode=1)
    yield from of("MaxPool", 10, new, image, kernel_shape=[2, 2], dilations=[2, 1])
    yield from of("AveragePool", 1, new, image, kernel_shape=[3, 2], pads=[1, 0, 1, 1])
    yield from of("AveragePool", 7, new, image, kernel_shape=[3, 2], pads=[1, 0, 1, 1], count_include_pad=1)
    yield from of("AveragePool", 10, new, image, kernel_shape=[2, 3], strides=[2, 2], ceil_mode=1)
    yield from of("AveragePool", 19, new, image, kernel_shape=[2, 2], dilations=[2, 1])
    yield from of("LpPool", 1, 1, image, kernel_shape=[2, 2], p=2.0)
    yield from of("LpPool", 2, new, image, kernel_shape=[2, 3], p=3, pads=[1, 1, 0, 0])
    for op in ("GlobalAveragePool", "GlobalMaxPool"):
        yield from of(op, 1, new, image)
    yield from of("GlobalLpPool", 1, 1, image, p=2.0)
    yield from of("GlobalLpPool", 2, new, image, p=3)
    yield from of("GlobalLpPool", 1, new, image)
    rois = np.array([[0, 0, 0, 3, 4], [1, 1, 1, 2, 3]], F)
    yield from of("MaxRoiPool", 1, new, image, rois, pooled_shape=[2, 2])
    yield from of("MaxRoiPool", 1, new, image, rois, pooled_shape=[3, 2], spatial_scale=0.5)
    boxes = np.array([[0.2, 0.3, 3, 4], [1, 1, 2, 3]], F)
    yield from of("RoiAlign", 10, new, image, boxes, np.array([0, 1], L), output_height=2, output_width=2)
    yield from of(
        "MaxUnpool",
        9,
        new,
        (1, 1, 2, 2),
        np.array([[[[0, 3], [8, 10]]]], L),
        kernel_shape=[2, 2],
        strides=[2, 2],
    )
    # resizing
    up = np.array([1, 1, 2, 3], F)
    for mode in ("nearest", "bilinear"):
        yield from of("Upsample", 1, 1, (1, 2, 2, 2), height_scale=2.0, width_scale=3.0, mode=mode)
    for mode in ("nearest", "linear"):
        yield from of("Upsample", 7, 7, (1, 2, 2, 2), scales=[1.0, 1.0, 2.0, 3.0], mode=mode)
        yield from of("Upsample", 9, 9, (1, 2, 2, 2), up, mode=mode)
        yield from of("Resize", 10, 10, (1, 2, 4, 4), up, mode=mode)
        yield from of("Resize", 10, 10, (1, 2, 4, 4), np.array([1, 1, 0.6, 0.5], F), mode=mode)
    empty = np.array([], F)
    for mode in ("nearest", "linear", "cubic"):
        for coordinates in ("half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel"):
            # shrunk with aligned corners, ONNX Runtime differs from the standard's own tests
            shrunk = () if coordinates == "align_corners" else (np.array([1, 1, 0.6, 0.5], F),)
            for scale in (up, *shrunk):
                yield from of("Resize", 11, 11, (1, 2, 4, 4), empty, scale, mode=mode,
                              coordinate_transformation_mode=coordinates)  # fmt: skip
                yield from of("Resize", 13, new, (1, 2, 4, 4), None, scale, mode=mode,
                              coordinate_transformation_mode=coordinates)  # fmt: skip
    for rounding in ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil"):
        yield from of(
            "Resize", 13, new, (1, 1, 4, 5), None, None, np.array([1, 1, 7, 3], L), nearest_mode=rounding
        )
    yield from of("Resize", 11, 11, (1, 2, 4, 4), empty, empty, np.array([1, 2, 7, 3], L))
    yield from of("Resize", 11, 11, (1, 1, 4, 4), np.array([0, 0, 0.2, 0.1, 1, 1, 0.9, 1.2], F), empty,
                  np.array([1, 1, 3, 3], L), mode="linear", coordinate_transformation_mode="tf_crop_and_resize")  # fmt: skip
    yield from of(
        "GridSample", 16, 16, (1, 2, 4, 4), np.clip(_floats(rng, (1, 3, 3, 2)), -1, 1), mode="bilinear"
    )
    yield from of(
        "GridSample", 16, 16, (1, 2, 4, 4), np.clip(_floats(rng, (1, 3, 3, 2)), -1, 1), mode="bicubic"
    )
    yield from of(
        "GridSample", 20, new, (1, 2, 4, 4), np.clip(_floats(rng, (1, 3, 3, 2)), -1, 1), mode="linear"
    )
    yield from of(
        "GridSample", 16, new, (1, 2, 4, 4), np.clip(_floats(rng, (1, 3, 3, 2)), -1, 1), mode="nearest"
    )
    # casts, dropout, constants of types
    for to in ("FLOAT", "INT64", "BOOL", "DOUBLE", "INT32"):
        yield from of("Cast", 1, 1, x, to=to)
    for to in (1, 7, 9, 11, 6):
        yield from of("Cast", 6, new, x, to=to)
    yield from of("Dropout", 1, 6, x, is_test=1)
    yield from of("Dropout", 7, 10, x, outputs=2, ratio=0.3)
    yield from of("Dropout", 12, new, x, outputs=2)
    # recurrent
    sequence = (3, 2, 4)
    for op, gates in (("RNN", 1), ("GRU", 3), ("LSTM", 4)):
        shapes = ((1, gates * 3, 4), (1, gates * 3, 3), (1, 2 * gates * 3))
        outputs = 3 if op == "LSTM" else 2
        yield from of(op, 7, new, sequence, *shapes[:2], hidden_size=3, outputs=outputs)
        yield from of(op, 7, new, sequence, *shapes, hidden_size=3, outputs=outputs)
        yield from of(op, 7, new, sequence, *shapes, np.array([3, 1], I), hidden_size=3, outputs=outputs)
        yield from of(op, 7, new, sequence, *shapes, None, (1, 2, 3), hidden_size=3, outputs=outputs)
        yield from of(op, 7, new, sequence, *shapes, hidden_size=3, outputs=outputs, direction="reverse")
        double = tuple((2, *shape[1:]) for shape in shapes)
        yield from of(
            op, 7, new, sequence, *double, hidden_size=3, outputs=outputs, direction="bidirectional"
        )
        yield from of(op, 1, 1, sequence, *shapes, hidden_size=3, outputs=outputs, output_sequence=1)
        yield from of(op, 7, new, sequence, *shapes, hidden_size=3, outputs=outputs, clip=0.2)
    yield from of(
        "GRU",
        3,
        new,
        sequence,
        (1, 9, 4),
        (1, 9, 3),
        (1, 18),
        hidden_size=3,
        linear_before_reset=1,
        outputs=2,
    )
    yield from of("LSTM", 7, new, sequence, (1, 12, 4), (1, 12, 3), (1, 24), None, (1, 2, 3), (1, 2, 3), (1, 9),
                  hidden_size=3, outputs=3)  # fmt: skip
    yield from of("LSTM", 7, new, sequence, (1, 12, 4), (1, 12, 3), hidden_size=3, outputs=3, input_forget=1)
    yield from of(
        "RNN", 7, new, sequence, (1, 3, 4), (1, 3, 3), hidden_size=3, outputs=2, activations=["Relu"]
    )
    # quantization
    scale, zero = np.array(0.1, F), np.array(3, np.uint8)
    yield from of("QuantizeLinear", 10, new, x, scale, zero)
    yield from of("DequantizeLinear", 10, new, rng.integers(0, 255, x).astype(np.uint8), scale, zero)
    yield from of("DequantizeLinear", 10, new, rng.integers(-9, 99, x).astype(np.int32), scale)
    yield from of(
        "QuantizeLinear", 13, new, x, np.array([0.1, 0.2, 0.3], F), np.array([1, 2, 3], np.int8), axis=1
    )
    yield from of("DequantizeLinear", 13, new, rng.integers(-99, 99, x).astype(np.int8), np.array([0.1, 0.2, 0.3], F),
                  np.array([1, 2, 3], np.int8), axis=1)  # fmt: skip
    yield from of("DynamicQuantizeLinear", 11, new, x, outputs=3)
    u8 = rng.integers(0, 255, (2, 3)).astype(np.uint8)
    yield from of(
        "MatMulInteger", 10, new, u8, rng.integers(0, 255, (3, 2)).astype(np.uint8), np.array(3, np.uint8)
    )
    yield from of("QLinearMatMul", 10, new, u8, scale, zero, u8.T.copy(), scale, zero, np.array(9, F), zero)
    scores = rng.random((1, 1, 6)).astype(F)
    yield from of("NonMaxSuppression", 10, new, np.sort(rng.random((1, 6, 4)).astype(F), axis=-1)[..., [0, 1, 2, 3]],
                  scores, np.array([3], L), np.array([0.5], F))  # fmt: skip
    labels = np.array([0, 2, 1], L)
    for reduction in ("mean", "sum", "none"):
        yield from of("NegativeLogLikelihoodLoss", 12, new, (3, 4), labels, reduction=reduction)
        yield from of(
            "SoftmaxCrossEntropyLoss", 12, new, (3, 4), labels, (4,), reduction=reduction, ignore_index=1
        )
    for function in ("HannWindow", "HammingWindow", "BlackmanWindow"):
        yield from of(function, 17, new, np.array(8, I))
        yield from of(function, 17, new, np.array(8, I), periodic=0)
    yield from of("DFT", 17, 17, (1, 6, 1), axis=1)
    yield from of("DFT", 17, 17, (1, 6, 2), axis=1, inverse=1)
    yield from of("DFT", 20, new, (1, 6, 1), None, np.array(1, L), onesided=1)
    yield from of("STFT", 17, new, (1, 16, 1), np.array(4, L), None, np.array(8, L))
    yield from of(
        "MelWeightMatrix",
        17,
        new,
        np.array(4, L),
        np.array(16, L),
        np.array(800, L),
        np.array(10.0, F),
        np.array(400.0, F),
    )
    yield from of("AffineGrid", 20, new, (1, 2, 3), np.array([1, 1, 3, 4], L))
    yield from of("Col2Im", 18, new, (1, 4, 4), np.array([3, 3], L), np.array([2, 2], L))
    yield from of("CenterCropPad", 18, new, (5, 4), np.array([3, 6], L))
    yield from of(
        "BitShift", 11, new, np.array([1, 8], np.uint8), np.array([2, 1], np.uint8), direction="LEFT"
    )


def _array(rng: np.random.Generator, value: Any) -> np.ndarray | None:
    return _floats(rng, value) if isinstance(value, tuple) else value


def _floats(rng: np.random.Generator, shape: Sequence[int]) -> np.ndarray:
    return rng.standard_normal(shape).astype(F)


def _ints(rng: np.random.Generator, shape: Sequence[int]) -> np.ndarray:
    return rng.integers(1, 6, shape).astype(I)


def _bools(rng: np.random.Generator, shape: Sequence[int]) -> np.ndarray:
    return rng.random(shape) < 0.5
