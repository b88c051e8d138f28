"""`ResponseStore`: responses that the server keeps, so that the next request can go on where one ended."""

from __future__ import annotations

import logging
from collections import Counter, OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from onnxgen.server.errors import ApiError

_log = logging.getLogger(__name__)

MAX_BYTES = 64 << 20
"""What all responses together may take."""


@dataclass(frozen=True, slots=True)
class StoredResponse:
    """A response, and what it answered.

    Attributes:
        response: The response.
        input_items: All items that were answered, those of earlier responses that it went on from included.
        tenant: Whose it is.
        num_bytes: Its size as JSON text. What it shares with earlier ones counts for each.
    """

    response: dict[str, Any]
    input_items: Sequence[dict[str, Any]]
    tenant: str
    num_bytes: int

    @property
    def conversation(self) -> list[dict[str, Any]]:
        """What was asked and answered."""
        return [*self.input_items, *self.response["output"]]


class _KeptItem:
    """An item, and how often responses that are kept have it."""

    __slots__ = ("item", "uses")

    def __init__(self, item: dict[str, Any]) -> None:
        self.item, self.uses = item, 0


class ResponseStore:
    """Keeps responses in memory, each for its tenant.

    When there are too many, or they are too large, the tenant who takes most of what is short loses the one that was not
    used for longest.

    Args:
        max_responses: As many at most; 0 keeps none.
        max_bytes: As many bytes of JSON text at most.
    """

    def __init__(self, *, max_responses: int, max_bytes: int = MAX_BYTES) -> None:
        self.max_responses, self.max_bytes = max_responses, max_bytes
        self._num_by_tenant, self._bytes_by_tenant = Counter[str](), Counter[str]()
        self._kept: OrderedDict[str, StoredResponse] = OrderedDict()
        self._items: dict[tuple[str, str], _KeptItem] = {}

    def __len__(self) -> int:
        return len(self._kept)

    @property
    def num_bytes(self) -> int:
        """Bytes of all of them."""
        return self._bytes_by_tenant.total()

    def keep(self, stored: StoredResponse) -> bool:
        """Keep a response; returns whether it is kept."""
        if not self.max_responses or stored.num_bytes > self.max_bytes:
            _log.warning(
                "a response of %d bytes is not kept: the limits are %d responses and %d bytes",
                stored.num_bytes,
                self.max_responses,
                self.max_bytes,
            )
            return False
        self._kept[stored.response["id"]] = stored
        self._count(stored, 1)
        for item in stored.conversation:
            kept = self._items.setdefault((stored.tenant, item["id"]), _KeptItem(item))
            kept.item, kept.uses = item, kept.uses + 1
        while len(self._kept) > self.max_responses:
            self._forget_one(self._num_by_tenant)
        while self.num_bytes > self.max_bytes:
            self._forget_one(self._bytes_by_tenant)
        return stored.response["id"] in self._kept

    def get(self, response_id: str, *, tenant: str) -> StoredResponse | None:
        """A response of a tenant's, if it is kept."""
        stored = self._kept.get(response_id)
        if stored is None or stored.tenant != tenant:
            return None
        self._kept.move_to_end(response_id)
        return stored

    def require(self, response_id: str, *, tenant: str, param: str | None = None) -> StoredResponse:
        """A response of a tenant's.

        Args:
            response_id: Its id.
            tenant: Whose it is.
            param: The field of the request that names it.

        Raises:
            ApiError: 404, it is not kept.
        """
        stored = self.get(response_id, tenant=tenant)
        if stored is None:
            most = self.max_responses
            why = f"at most the last {most} are kept, in memory" if most else "this server keeps none"
            raise ApiError(
                404,
                f"there is no response {response_id!r:.80} here (any more): {why}",
                code="response_not_found",
                param=param,
            )
        return stored

    def delete(self, response_id: str, *, tenant: str) -> bool:
        """Forget a response; returns whether it was there. Later ones that went on from it are whole without it."""
        if self.get(response_id, tenant=tenant) is None:
            return False
        self._forget(response_id)
        return True

    def item(self, item_id: str, *, tenant: str) -> dict[str, Any] | None:
        """An item that a tenant's responses answered or consist of; of several with this id, the newest."""
        kept = self._items.get((tenant, item_id))
        return None if kept is None else kept.item

    def _count(self, stored: StoredResponse, sign: int) -> None:
        for counts, size in ((self._num_by_tenant, 1), (self._bytes_by_tenant, stored.num_bytes)):
            counts[stored.tenant] += sign * size
            if not counts[stored.tenant]:
                del counts[stored.tenant]

    def _forget_one(self, weights: Counter[str]) -> None:
        [(heaviest, _)] = weights.most_common(1)
        self._forget(next(id for id, stored in self._kept.items() if stored.tenant == heaviest))

    def _forget(self, response_id: str) -> None:
        stored = self._kept.pop(response_id)
        self._count(stored, -1)
        for item in stored.conversation:
            kept = self._items[stored.tenant, item["id"]]
            kept.uses -= 1
            if not kept.uses:
                del self._items[stored.tenant, item["id"]]

    def check_integrity(self) -> None:
        """Check the sums.

        Raises:
            AssertionError: They are wrong, or a limit is passed.
        """
        total = sum(stored.num_bytes for stored in self._kept.values())
        assert total == self.num_bytes <= self.max_bytes, f"{total} bytes are kept, counted {self.num_bytes}"
        tenants = Counter(stored.tenant for stored in self._kept.values())
        assert tenants == self._num_by_tenant, f"{tenants} have responses, counted {self._num_by_tenant}"
        assert len(self._kept) <= self.max_responses, f"{len(self._kept)} are kept of {self.max_responses}"
        uses = Counter(
            (stored.tenant, item["id"]) for stored in self._kept.values() for item in stored.conversation
        )
        counted = {key: kept.uses for key, kept in self._items.items()}
        assert counted == uses, f"{len(uses)} items are kept, {len(counted)} counted"
