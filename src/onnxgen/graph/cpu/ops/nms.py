"""``NonMaxSuppression``."""

from __future__ import annotations

import numpy as np

from onnxgen.errors import KernelError
from onnxgen.graph.cpu.indexing import scalar
from onnxgen.graph.cpu.registry import KernelTable
from onnxgen.graph.ep.kernel import Kernel
from onnxgen.graph.ep.node import NodeSpec

TABLE = KernelTable()


@TABLE.operator("NonMaxSuppression", 10, 11)
def non_max_suppression(node: NodeSpec) -> Kernel:
    """For each image and class the best boxes that do not overlap better ones: ``[selected, (image, class, box)]``.

    Boxes are two opposite corners (y, x) in any order, or centre x, y, width, height with ``center_point_box``.
    Of equal scores the first box wins.
    """
    from onnxgen.graph.cpu.box_loops import suppress

    centred = bool(node.attr("center_point_box", 0))

    def run(
        boxes: np.ndarray,
        scores: np.ndarray,
        max_output: np.ndarray | None = None,
        iou_threshold: np.ndarray | None = None,
        score_threshold: np.ndarray | None = None,
    ) -> np.ndarray:
        if boxes.shape != (scores.shape[0], scores.shape[2], 4):
            raise KernelError(
                f"{node}: boxes {boxes.shape} do not fit scores {scores.shape}; they are [images, boxes, 4] and [images, classes, boxes]"
            )
        most = 0 if max_output is None else scalar(node, max_output, "max_output_boxes_per_class")
        most = min(max(0, most), boxes.shape[1])
        overlap = 0.0 if iou_threshold is None else float(scalar(node, iou_threshold, "iou_threshold"))
        corners = _corners(boxes, centred=centred)
        found: list[np.ndarray] = []
        for image, label in np.ndindex(*scores.shape[:2]):
            score = scores[image, label]
            order = np.argsort(-score, kind="stable")
            if score_threshold is not None:
                order = order[score[order] > scalar(node, score_threshold, "score_threshold")]
            kept = suppress(corners[image], order, overlap, most)
            found.append(np.stack([np.full_like(kept, image), np.full_like(kept, label), kept], 1))
        return np.concatenate(found) if found else np.zeros((0, 3), np.int64)

    return Kernel(run)


def _corners(boxes: np.ndarray, *, centred: bool) -> np.ndarray:
    first, second = boxes[..., :2], boxes[..., 2:]
    if centred:
        first, second = first[..., ::-1] - second[..., ::-1] / 2, first[..., ::-1] + second[..., ::-1] / 2
    return np.concatenate([np.minimum(first, second), np.maximum(first, second)], -1)
