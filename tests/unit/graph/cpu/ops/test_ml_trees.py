from __future__ import annotations

import itertools
from collections import defaultdict

import numpy as np
import pytest

from kernel_runs import assert_same, fresh_rng, kernel_of, node_spec, run_cpu, run_ort, run_reference
from onnxgen.errors import InvalidGraphError, KernelError

ML = "ai.onnx.ml"
BRANCHES = ["BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ"]
TRANSFORMS = ["NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT"]
FEATURES, TREES, DEPTH = 4, 3, 3


class Forest:
    """Random trees as attributes, and rows that meet their splits."""

    def __init__(self, votes, targets, *, positive):
        seed = int(np.random.default_rng().integers(2**31))
        print("seed", seed)
        self.rng, self.votes, self.targets, self.positive = (
            np.random.default_rng(seed),
            votes,
            targets,
            positive,
        )
        self.grid = np.round(self.rng.standard_normal(6), 2).astype(np.float32)
        self.attributes = defaultdict(list)
        for tree in range(TREES):
            self.grow(tree, itertools.count(), DEPTH)

    def grow(self, tree, ids, depth):
        node, a = next(ids), self.attributes
        place = len(a["nodes_nodeids"])
        leaf = depth == 0 or self.rng.random() < 0.15
        a["nodes_nodeids"].append(node)
        a["nodes_treeids"].append(tree)
        a["nodes_featureids"].append(int(self.rng.integers(FEATURES)))
        a["nodes_values"].append(float(self.rng.choice(self.grid)))
        a["nodes_modes"].append("LEAF" if leaf else str(self.rng.choice(BRANCHES)))
        a["nodes_missing_value_tracks_true"].append(int(self.rng.integers(2)))
        for side in ("true", "false"):
            a[f"nodes_{side}nodeids"].append(0)
        if leaf:
            for target in self.targets:
                weight = self.rng.random() * 0.2 if self.positive else self.rng.standard_normal() * 0.3
                for name, value in (
                    ("treeids", tree),
                    ("nodeids", node),
                    ("ids", target),
                    ("weights", weight),
                ):
                    a[f"{self.votes}_{name}"].append(value)
        else:
            for side in ("true", "false"):
                a[f"nodes_{side}nodeids"][place] = self.grow(tree, ids, depth - 1)
        return node

    def rows(self, count, dtype):
        shape = (count, FEATURES)
        x = np.where(
            self.rng.random(shape) < 0.4, self.rng.choice(self.grid, shape), self.rng.standard_normal(shape)
        )
        x = x.astype(dtype)
        if x.dtype.kind == "f":
            x[self.rng.random(shape) < 0.1] = np.nan
        return x


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("aggregate", ["SUM", "AVERAGE", "MIN", "MAX"])
@pytest.mark.parametrize("targets", [1, 3])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_regression_is_the_runtimes(transform, aggregate, targets, dtype):
    forest = Forest("target", range(targets), positive=transform == "PROBIT")
    options = {
        **forest.attributes,
        "aggregate_function": aggregate,
        "n_targets": targets,
        "post_transform": transform,
    }
    options["base_values"] = (forest.rng.random(targets) * 0.2).tolist()
    for count in (1, 20):
        x = forest.rows(count, dtype)
        got, want = (
            run("TreeEnsembleRegressor", x, domain=ML, opset=3, **options) for run in (run_cpu, run_ort)
        )
        tolerance = 2e-3 if transform == "PROBIT" else 1e-4
        assert_same(got, want, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("classes", [2, 3, 4])
@pytest.mark.parametrize("positive", [False, True])
@pytest.mark.parametrize("labels", ["strings", "int64s"])
def test_classification_is_the_runtimes(transform, classes, positive, labels):
    forest = Forest("class", range(classes), positive=positive or transform == "PROBIT")
    options = {**forest.attributes, "post_transform": transform}
    # Of two integer labels ONNX Runtime takes others than 0 and 1 for these.
    options[f"classlabels_{labels}"] = (
        [f"c{i}" for i in range(classes)]
        if labels == "strings"
        else [0, 1]
        if classes == 2
        else [7, 5, 3, 1][:classes]
    )
    if classes > 2:
        options["base_values"] = (forest.rng.random(classes) * 0.2).tolist()
    x = forest.rows(20, forest.rng.choice([np.float32, np.float64, np.int64, np.int32]))
    got, want = (classify(run, x, options) for run in (run_cpu, run_ort))
    tolerance = 2e-3 if transform == "PROBIT" else 1e-4  # which in float32 cancels near 0.5
    assert_same(got[1], want[1], rtol=tolerance, atol=tolerance)
    assert got[0].tolist() == want[0].tolist()


def classify(run, x, options):
    return run("TreeEnsembleClassifier", x, domain=ML, opset=3, outputs=2, **options)


@pytest.mark.parametrize("transform", [name for name in TRANSFORMS if name != "PROBIT"])
@pytest.mark.parametrize("positive", [False, True])
@pytest.mark.parametrize("base", [None, [0.1]])
@pytest.mark.parametrize("voted", [0, 1])
def test_two_classes_may_share_one_score(transform, positive, base, voted):
    forest = Forest("class", [voted], positive=positive)
    options = {**forest.attributes, "post_transform": transform, "classlabels_strings": ["no", "yes"]}
    if base:
        options["base_values"] = base
    x = forest.rows(20, np.float32)
    got, want = (classify(run, x, options) for run in (run_cpu, run_ort))
    assert_same(got, want, rtol=1e-4, atol=1e-4)


def stump(votes, others=(), **options):
    """A tree whose left leaf, where 0 and less goes, has some votes of (class, weight), and the right one others."""
    voters = [*((1, *vote) for vote in votes), *((2, *vote) for vote in others)]
    return {
        "nodes_nodeids": [0, 1, 2],
        "nodes_treeids": [0, 0, 0],
        "nodes_featureids": [0, 0, 0],
        "nodes_values": [0.0, 0.0, 0.0],
        "nodes_modes": ["BRANCH_LEQ", "LEAF", "LEAF"],
        "nodes_truenodeids": [1, 0, 0],
        "nodes_falsenodeids": [2, 0, 0],
        "class_treeids": [0 for _ in voters],
        "class_nodeids": [leaf for leaf, _, _ in voters],
        "class_ids": [place for _, place, _ in voters],
        "class_weights": [weight for _, _, weight in voters],
        "classlabels_strings": ["no", "yes"],
        **options,
    }


BOTH_SIDES = np.array([[-1.0], [1.0]], np.float32)


@pytest.mark.parametrize("transform", [name for name in TRANSFORMS if name != "PROBIT"])
@pytest.mark.parametrize(
    ("votes", "others", "bases"),
    [
        ([(0, 0.3)], [(0, 0.7)], [None, [0.15], [0.11, 0.17]]),
        ([(0, 0.3)], [(0, -0.3)], [None, [0.15], [0.11, 0.17]]),
        ([(1, 0.3)], [(1, 0.7)], [None, [0.15]]),
        ([(1, 0.3)], [(1, -0.3)], [None, [0.15]]),
        ([], [(0, 0.6)], [None, [0.15], [0.11, 0.17]]),
        ([], [(1, 0.6)], [None, [0.15]]),
        ([], [(1, -0.6)], [None, [0.15]]),
        ([(0, 0.5)], [(0, 0.25), (0, 0.25)], [None, [0.0]]),
        ([(0, 0.3)], [(1, 0.1)], [None]),
        ([(0, -0.3)], [(1, -0.1)], [None]),
        ([(0, 0.2), (1, 0.4)], [(0, 0.4), (1, -0.2)], [None, [0.15]]),
    ],
)
def test_which_of_two_classes_wins_and_their_scores(votes, others, bases, transform):
    for base in bases:
        options = {"post_transform": transform} | ({} if base is None else {"base_values": base})
        got, want = (classify(run, BOTH_SIDES, stump(votes, others, **options)) for run in (run_cpu, run_ort))
        assert_same(got, want, rtol=1e-5, atol=1e-6)


def test_integer_labels_are_those_of_the_model():
    tree = stump([(0, 0.2), (1, 0.4)], [(0, 0.4), (1, -0.2)], classlabels_int64s=[7, 5])
    del tree["classlabels_strings"]
    assert classify(run_cpu, BOTH_SIDES, tree)[0].tolist() == [5, 7]
    assert (
        classify(run_cpu, BOTH_SIDES, stump([(0, -0.5)], classlabels_strings=["only"]))[0].tolist()
        == ["only"] * 2
    )


def test_votes_for_the_second_class_count_whatever_base_values_there_are():
    got = classify(run_cpu, BOTH_SIDES, stump([(0, 0.2), (1, 0.4)], [(1, -0.4)], base_values=[0.1, 0.2]))
    assert_same(got, (np.array(["yes", "no"], object), np.array([[0.3, 0.6], [0, -0.2]], np.float32)))


@pytest.mark.parametrize("aggregate", ["SUM", "AVERAGE", "MIN", "MAX"])
@pytest.mark.parametrize("targets", [1, 2])
@pytest.mark.parametrize("base", [False, True])
def test_targets_with_many_votes_and_with_none(aggregate, targets, base):
    tree = {
        name.replace("class_", "target_"): value
        for name, value in stump([(0, 1.0), (0, 2.0)], [(targets - 1, 5.0)]).items()
        if name != "classlabels_strings"
    }
    options = tree | {"n_targets": targets, "aggregate_function": aggregate}
    if base:
        options["base_values"] = [10.0, 20.0][:targets]
    got, want = (
        run("TreeEnsembleRegressor", BOTH_SIDES, domain=ML, opset=3, **options) for run in (run_cpu, run_ort)
    )
    assert_same(got, want)


@pytest.mark.parametrize("rows", [0, 1, 5000])
def test_any_number_of_rows(rows):
    forest = Forest("class", range(3), positive=True)
    options = {**forest.attributes, "classlabels_int64s": [7, 5, 3]}
    x = forest.rows(rows, np.float32)
    got, want = (classify(run, x, options) for run in (run_cpu, run_ort))
    assert_same(got, want)


def test_sums_round_as_the_runtimes():
    """Ten votes of 0.05 make 0.50000006 in float32, a majority; the exact sum is none."""
    trees = 10
    options = {
        "nodes_nodeids": [0] * trees,
        "nodes_treeids": list(range(trees)),
        "nodes_featureids": [0] * trees,
        "nodes_values": [0.0] * trees,
        "nodes_modes": ["LEAF"] * trees,
        "nodes_truenodeids": [0] * trees,
        "nodes_falsenodeids": [0] * trees,
        "class_treeids": list(range(trees)),
        "class_nodeids": [0] * trees,
        "class_ids": [0] * trees,
        "class_weights": [0.05] * trees,
        "classlabels_strings": ["no", "yes"],
    }
    got, want = (classify(run, BOTH_SIDES, options) for run in (run_cpu, run_ort))
    assert_same(got, want)
    total = np.float32(0)
    for _ in range(trees):
        total += np.float32(0.05)
    assert got[0].tolist() == ["yes" if total > 0.5 else "no"] * 2


def test_deep_trees():
    depth = 300
    leaves = range(depth, 2 * depth)
    options = {
        "nodes_nodeids": list(range(2 * depth + 1)),
        "nodes_treeids": [0] * (2 * depth + 1),
        "nodes_featureids": [0] * (2 * depth + 1),
        "nodes_values": [float(bound) for bound in range(depth)] + [0.0] * (depth + 1),
        "nodes_modes": ["BRANCH_LT"] * depth + ["LEAF"] * (depth + 1),
        "nodes_truenodeids": [*leaves] + [0] * (depth + 1),
        "nodes_falsenodeids": [*range(1, depth), 2 * depth] + [0] * (depth + 1),
        "target_treeids": [0] * (depth + 1),
        "target_nodeids": [*leaves, 2 * depth],
        "target_ids": [0] * (depth + 1),
        "target_weights": [float(place) for place in range(depth + 1)],
    }
    x = np.array([[-0.5], [0.5], [150.5], [298.5], [1000]], np.float32)
    got = run_cpu("TreeEnsembleRegressor", x, domain=ML, opset=3, **options)
    assert got.ravel().tolist() == [0, 1, 151, 299, 300]


@pytest.mark.parametrize("bases", [[0.1], [0.1, 0.2]])
def test_base_values_have_to_fit_the_classes(bases):
    tree = stump([(0, 1.0)], classlabels_strings=["a", "b", "c"], base_values=bases)
    with pytest.raises(InvalidGraphError, match=f"{len(bases)} base values for 3 classes"):
        kernel_of(node_spec("TreeEnsembleClassifier", BOTH_SIDES, domain=ML, opset=3, outputs=2, **tree))


def test_doubles_are_compared_as_doubles():
    step = 0.1 + 1e-12
    options = {
        "nodes_nodeids": [0, 1, 2],
        "nodes_treeids": [0, 0, 0],
        "nodes_featureids": [0, 0, 0],
        "nodes_values_as_tensor": np.array([0.1, 0, 0]),
        "nodes_modes": ["BRANCH_LEQ", "LEAF", "LEAF"],
        "nodes_truenodeids": [1, 0, 0],
        "nodes_falsenodeids": [2, 0, 0],
        "target_treeids": [0, 0],
        "target_nodeids": [1, 2],
        "target_ids": [0, 0],
        "target_weights_as_tensor": np.array([1.0, 2.0]),
    }
    got = run_cpu("TreeEnsembleRegressor", np.array([[0.1], [step]]), domain=ML, opset=3, **options)
    assert got.tolist() == [[1.0], [2.0]]


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
def test_sets_of_members(dtype):
    options = {
        "n_targets": 1,
        "aggregate_function": 1,
        "tree_roots": [0],
        "nodes_featureids": [0, 1, 0],
        "nodes_splits": np.array([1.5, 0, 0], dtype),
        "nodes_modes": np.array([0, 6, 6], np.uint8),
        "nodes_truenodeids": [1, 0, 2],
        "nodes_falsenodeids": [2, 1, 3],
        "nodes_trueleafs": [0, 1, 1],
        "nodes_falseleafs": [0, 1, 1],
        "leaf_targetids": [0, 0, 0, 0],
        "leaf_weights": np.array([1, 10, 100, 1000], dtype),
        "membership_values": np.array([1.5, 2, np.nan, 7, np.nan], dtype),
    }
    x = np.array([[1, 2], [1, 3], [7, 0], [8, 0], [1.5, 1.5], [np.nan, 0]], dtype)
    got = run_cpu("TreeEnsemble", x, domain=ML, opset=5, **options)
    assert got.ravel().tolist() == [1, 10, 100, 1000, 1, 1000]
    assert_same(got, run_reference("TreeEnsemble", x, domain=ML, opset=5, **options))


def leafy(rng, targets, depth):
    """A random tree of version 5 whose nodes have all kinds of comparisons."""
    tree, members = defaultdict(list), {}

    def grow(left):
        at = len(tree["nodes_featureids"])
        for name in ("featureids", "modes", "splits", "missing_value_tracks_true"):
            tree[f"nodes_{name}"].append(
                int(rng.integers({"featureids": FEATURES, "modes": 7, "splits": 4}.get(name, 2)))
            )
        for side in ("true", "false"):
            tree[f"nodes_{side}nodeids"].append(0)
            tree[f"nodes_{side}leafs"].append(int(left == 0 or rng.random() < 0.2))
        if tree["nodes_modes"][at] == 6:
            members[at] = rng.integers(0, 9, 3)
        for side in ("true", "false"):
            if tree[f"nodes_{side}leafs"][at]:
                tree[f"nodes_{side}nodeids"][at] = len(tree["leaf_targetids"])
                tree["leaf_targetids"].append(int(rng.integers(targets)))
                tree["leaf_weights"].append(rng.standard_normal())
            else:
                tree[f"nodes_{side}nodeids"][at] = grow(left - 1)
        return at

    tree["tree_roots"] = [grow(depth), grow(depth)]
    tree["membership_values"] = [value for at in sorted(members) for value in (*members[at], np.nan)]
    return tree


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("aggregate", range(4))
@pytest.mark.parametrize("targets", [1, 3])
def test_version_5_is_the_runtimes(dtype, aggregate, targets):
    rng = fresh_rng()
    tree = leafy(rng, targets, DEPTH) | {"n_targets": targets, "aggregate_function": aggregate}
    tree["nodes_modes"] = np.array(tree["nodes_modes"], np.uint8)
    for name in ("nodes_splits", "leaf_weights", "membership_values"):
        tree[name] = np.array(tree[name], dtype)
    if not tree["membership_values"].size:
        del tree["membership_values"]
    x = rng.integers(0, 9, (40, FEATURES)).astype(dtype)
    x[rng.random(x.shape) < 0.1] = np.nan
    got, want = (run("TreeEnsemble", x, domain=ML, opset=5, **tree) for run in (run_cpu, run_ort))
    assert_same(got, want)


def small(**changes):
    tree = {
        "nodes_nodeids": [0, 1],
        "nodes_treeids": [0, 0],
        "nodes_featureids": [2, 0],
        "nodes_values": [0.5, 0.5],
        "nodes_modes": ["BRANCH_LEQ", "LEAF"],
        "nodes_truenodeids": [1, 0],
        "nodes_falsenodeids": [1, 0],
        "target_treeids": [0],
        "target_nodeids": [1],
        "target_ids": [0],
        "target_weights": [1.0],
    }
    return node_spec(
        "TreeEnsembleRegressor", np.zeros((1, 3), np.float32), domain=ML, opset=3, **tree | changes
    )


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"nodes_modes": ["BRANCH_LEQ", "BRANCH_LT"], "nodes_truenodeids": [1, 1]}, "cycle"),
        (
            {
                "nodes_nodeids": [0, 1, 2],
                "nodes_treeids": [0, 0, 0],
                "nodes_featureids": [0, 0, 0],
                "nodes_values": [0.5, 0.5, 0.5],
                "nodes_modes": ["BRANCH_LEQ", "BRANCH_LT", "LEAF"],
                "nodes_truenodeids": [1, 1, 0],
                "nodes_falsenodeids": [2, 2, 0],
            },
            "cycle",
        ),
        ({"nodes_truenodeids": [7, 0]}, "not among the 2 nodes"),
        ({"nodes_modes": ["BRANCH", "LEAF"]}, "node mode 'BRANCH'"),
        ({"target_nodeids": [9]}, "no tree has"),
        ({"target_ids": [3]}, "target 3 of 1"),
        ({"post_transform": "CUBE"}, "post_transform 'CUBE'"),
    ],
)
def test_a_broken_tree_is_refused_before_it_runs(changes, message):
    with pytest.raises(InvalidGraphError, match=message):
        kernel_of(small(**changes))


def test_too_few_features_are_an_error():
    with pytest.raises(KernelError, match="compare 3 features"):
        kernel_of(small()).run(np.zeros((1, 2), np.float32))
