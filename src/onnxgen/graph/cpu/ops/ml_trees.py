"""Tree ensembles of ``ai.onnx.ml``, in the form of version 5 and in the two older ones."""

from __future__ import annotations

import numpy as np

from onnxgen.errors import InvalidGraphError, KernelError
from onnxgen.graph.cpu.class_votes import ClassVotes
from onnxgen.graph.cpu.forest import AGGREGATES, LEAF, MEMBER, MODES, Forest
from onnxgen.graph.cpu.half import widened
from onnxgen.graph.cpu.registry import ML, KernelTable
from onnxgen.graph.cpu.scores import (
    TRANSFORMS,
    class_labels,
    named,
    post_transform,
    transformed,
)
from onnxgen.graph.ep.kernel import Kernel
from onnxgen.graph.ep.node import NodeSpec

TABLE = KernelTable()


@TABLE.operator("TreeEnsemble", 5, domain=ML)
def tree_ensemble(node: NodeSpec) -> Kernel:
    """Regression with leaves apart from inner nodes, and tests of set membership.

    As the standard has it: ONNX Runtime exchanges the numbers of SOFTMAX and LOGISTIC, and takes 0.5 for a member of
    {0, 70}.
    """
    forest = _forest_of_leaves(node)
    aggregate = AGGREGATES[node.attr("aggregate_function", 1)]
    transform = TRANSFORMS[node.attr("post_transform", 0)]

    def run(x: np.ndarray) -> np.ndarray:
        scores, _ = forest.votes(node, _rows(node, widened(x), forest), aggregate)
        return transformed(scores, transform).astype(x.dtype)

    return Kernel(run)


@TABLE.operator("TreeEnsembleRegressor", 1, 3, 5, domain=ML)
def tree_ensemble_regressor(node: NodeSpec) -> Kernel:
    """Joined votes of the leaves, plus the base values."""
    forest = _forest_of_nodes(node, "target", node.attr("n_targets", 1))
    aggregate, transform = named(node, "aggregate_function", "SUM", AGGREGATES), post_transform(node)
    base = _floats(node, "base_values")
    if base.size not in (0, forest.num_targets):
        raise InvalidGraphError(f"{node}: {base.size} base values for {forest.num_targets} targets")

    def run(x: np.ndarray) -> np.ndarray:
        scores, voted = forest.votes(node, _rows(node, x, forest), aggregate)
        if base.size:
            # As in ONNX Runtime, of several targets one without a vote is 0.
            scores = np.where(voted | (forest.num_targets == 1), scores + base, 0)
        return transformed(scores, transform).astype(np.float32)

    return Kernel(run)


@TABLE.operator("TreeEnsembleClassifier", 1, 3, 5, domain=ML)
def tree_ensemble_classifier(node: NodeSpec) -> Kernel:
    """The winning class's label, and all scores: `ClassVotes` says how they come from the votes."""
    labels = class_labels(node)
    forest = _forest_of_nodes(node, "class", len(labels))
    base = _floats(node, "base_values")
    if base.size not in (0, len(labels)) and not (base.size == 1 and len(labels) == 2):
        raise InvalidGraphError(f"{node}: {base.size} base values for {len(labels)} classes")
    votes = ClassVotes(
        base=base.astype(forest.split.dtype),
        transform=post_transform(node),
        one_id=len(set(forest.targets.tolist())) == 1,
        probabilities=not (forest.weights < 0).any(),
    )

    def run(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        winners, scores = votes.decide(*forest.votes(node, _rows(node, x, forest), "SUM"))
        return labels[winners], scores.astype(np.float32)

    return Kernel(run)


def _rows(node: NodeSpec, x: np.ndarray, forest: Forest) -> np.ndarray:
    if x.ndim not in (1, 2):
        raise KernelError(f"{node}: needs [rows, features], its input is of shape {x.shape}")
    # float64 inputs are compared in float64, with splits of either precision; all others in float32.
    return x.reshape(-1, x.shape[-1]).astype(forest.split.dtype, copy=False)


def _floats(node: NodeSpec, name: str) -> np.ndarray:
    """A list of floats, or the tensor of doubles that may stand for it."""
    tensor = node.attr(f"{name}_as_tensor")
    return np.asarray(node.attr(name, ()), np.float32) if tensor is None else tensor.reshape(-1)


def _forest_of_nodes(node: NodeSpec, votes: str, num_targets: int) -> Forest:
    """Trees in which nodes have ids of (tree, node), and votes name them."""
    trees, ids = node.attr("nodes_treeids", ()), node.attr("nodes_nodeids", ())
    count = len(ids)
    place = {key: index for index, key in enumerate(zip(trees, ids, strict=True))}
    mode = np.array([_mode(node, name) for name in node.attr("nodes_modes", ())], np.uint8)
    inner = mode != LEAF
    children = np.zeros((count, 2), np.int64)
    for column, name in enumerate(("nodes_falsenodeids", "nodes_truenodeids")):
        for index in np.flatnonzero(inner).tolist():
            children[index, column] = place.get((trees[index], node.attr(name)[index]), -1)
    has_parent = np.zeros(count + 1, bool)
    has_parent[children[inner]] = True
    roots: dict[int, int] = {}
    for index in np.flatnonzero(~has_parent[:count]).tolist():
        roots.setdefault(trees[index], index)
    if len(roots) != len(set(trees)):
        raise InvalidGraphError(f"{node}: a tree has a cycle, none of its nodes is a root")
    voters = [
        place.get(key, -1)
        for key in zip(node.attr(f"{votes}_treeids", ()), node.attr(f"{votes}_nodeids", ()), strict=True)
    ]
    if -1 in voters:
        raise InvalidGraphError(f"{node}: a vote names a node that no tree has")
    order = np.argsort(voters, kind="stable") if voters else np.zeros(0, np.int64)
    counts = np.bincount(np.array(voters, np.int64), minlength=count)
    if num_targets == 1:
        # As in ONNX Runtime, of a leaf's votes for the only target the first counts; exporters write more of them.
        order = order[np.cumsum([0, *counts])[:-1][counts > 0]]
        counts = np.minimum(counts, 1)
    dtype = _compute_dtype(node, "nodes_values_as_tensor")
    forest = Forest(
        roots=np.array(list(roots.values()), np.int64),
        feature=np.array(node.attr("nodes_featureids", ()), np.int64),
        split=_floats(node, "nodes_values").astype(dtype),
        mode=mode,
        children=children,
        missing=_flags(node, count),
        members=np.zeros(0, np.float64),
        member_ends=np.zeros(count + 1, np.int64),
        vote_ends=np.cumsum([0, *counts], dtype=np.int64),
        targets=np.array(node.attr(f"{votes}_ids", ()), np.int64)[order],
        weights=_floats(node, f"{votes}_weights").astype(dtype)[order],
        num_targets=num_targets,
    )
    forest.check_integrity(node)
    return forest


def _forest_of_leaves(node: NodeSpec) -> Forest:
    """Trees whose leaves are a list of their own: they follow the inner nodes here."""
    splits: np.ndarray = node.attr("nodes_splits")
    inner, leaves = len(splits), len(node.attr("leaf_targetids"))
    mode = np.concatenate([node.attr("nodes_modes").reshape(-1), np.full(leaves, LEAF)]).astype(np.uint8)
    children = np.zeros((inner + leaves, 2), np.int64)
    for column, side in enumerate(("false", "true")):
        is_leaf = np.array(node.attr(f"nodes_{side}leafs"), bool)
        children[:inner, column] = np.array(node.attr(f"nodes_{side}nodeids")) + np.where(is_leaf, inner, 0)
    members, member_ends = _members(node, mode)
    padding = np.zeros(leaves)
    dtype = _compute_dtype(node, "nodes_splits")
    forest = Forest(
        roots=np.array(node.attr("tree_roots"), np.int64),
        feature=np.concatenate([node.attr("nodes_featureids"), padding]).astype(np.int64),
        split=np.concatenate([splits, padding]).astype(dtype),
        mode=mode,
        children=children,
        missing=np.concatenate([_flags(node, inner), padding.astype(bool)]),
        members=members,
        member_ends=member_ends,
        vote_ends=np.concatenate([np.zeros(inner), np.arange(leaves + 1)]).astype(np.int64),
        targets=np.array(node.attr("leaf_targetids"), np.int64),
        weights=node.attr("leaf_weights").astype(dtype),
        num_targets=node.attr("n_targets", 1),
    )
    forest.check_integrity(node)
    return forest


def _members(node: NodeSpec, mode: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The sets of all membership nodes in order, which NaN separate in the attribute."""
    given: np.ndarray = node.attr("membership_values", np.zeros(0))
    given = given.astype(np.float64)
    if given.size and not np.isnan(given[-1]):
        given = np.append(given, np.nan)
    sizes = np.diff(np.flatnonzero(np.isnan(given)), prepend=-1) - 1
    asking = np.flatnonzero(mode == MEMBER)
    if len(sizes) != len(asking):
        raise InvalidGraphError(
            f"{node}: {len(sizes)} sets of members for {len(asking)} nodes that test membership"
        )
    ends = np.zeros(len(mode) + 1, np.int64)
    ends[asking + 1] = sizes
    return given[~np.isnan(given)], np.cumsum(ends)


def _flags(node: NodeSpec, count: int) -> np.ndarray:
    flags = node.attr("nodes_missing_value_tracks_true")
    return np.array(flags, bool) if flags else np.zeros(count, bool)


def _mode(node: NodeSpec, name: str) -> int:
    if name not in MODES:
        raise InvalidGraphError(f"{node}: node mode {name!r} is none of {', '.join(MODES)}")
    return MODES.index(name)


def _compute_dtype(node: NodeSpec, tensor: str) -> np.dtype:
    """What features are compared and votes are added in: float64 where the input or the splits are, else float32."""
    doubles = node.attr(tensor)
    is_double = node.input_dtype(0).name == "DOUBLE" or (doubles is not None and doubles.dtype == np.float64)
    return np.dtype(np.float64 if is_double else np.float32)
