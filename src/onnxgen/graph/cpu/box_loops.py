"""Loops over boxes, compiled."""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def suppress(boxes: np.ndarray, order: np.ndarray, iou_threshold: float, most: int) -> np.ndarray:
    """Of boxes ``[n, 4]`` (low y, low x, high y, high x), indices of the best that overlap no better one too much."""
    kept = np.empty(min(most, order.size), np.int64)
    count = 0
    for candidate in order:
        if count == most:
            break
        y1, x1, y2, x2 = boxes[candidate]
        area = (y2 - y1) * (x2 - x1)
        alone = True
        for index in range(count):
            other = boxes[kept[index]]
            height = min(y2, other[2]) - max(y1, other[0])
            width = min(x2, other[3]) - max(x1, other[1])
            if height <= 0 or width <= 0:
                continue
            both = height * width
            union = area + (other[2] - other[0]) * (other[3] - other[1]) - both
            if union > 0 and both / union > iou_threshold:
                alone = False
                break
        if alone:
            kept[count] = candidate
            count += 1
    return kept[:count]
