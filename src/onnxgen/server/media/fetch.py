"""`Fetcher`: gets what an address names from the public internet, and from nowhere else."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx

from onnxgen.server.media.addresses import IsPublic, Resolve, is_public, public_addresses, resolve
from onnxgen.server.media.policy import MediaPolicy
from onnxgen.server.media.refusal import refusal
from onnxgen.version import __version__

_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_DEFAULT_PORTS = {"http": 80, "https": 443}


class Fetcher:
    """Gets what addresses name. Each hop is checked, and connected to at the address that was checked.

    Args:
        policy: What is allowed.
        transport: Sends requests; None: over sockets, without any proxy.
        resolve: Finds addresses of hosts.
        is_public: Judges an address.
    """

    def __init__(
        self,
        policy: MediaPolicy,
        *,
        transport: httpx.AsyncBaseTransport | None = None,
        resolve: Resolve = resolve,
        is_public: IsPublic = is_public,
    ) -> None:
        self._policy, self._transport = policy, transport
        self._resolve, self._is_public = resolve, is_public
        self._slots = asyncio.Semaphore(policy.max_fetches)
        self._client: httpx.AsyncClient | None = None

    async def fetch(self, url: str, *, place: str) -> tuple[str, bytes]:
        """The declared type and the bytes of what an address names.

        Args:
            url: The address.
            place: The field of the request that it is in.

        Raises:
            ApiError: It is not allowed, not there, too large or too slow.
        """
        client = await self._opened()
        try:
            async with asyncio.timeout(self._policy.timeout_s), self._slots:
                return await self._follow(client, url, place)
        except TimeoutError:
            raise refusal(place, f"it did not come within {self._policy.timeout_s:g} s") from None
        except httpx.HTTPError as error:
            raise refusal(place, f"fetching it failed ({type(error).__name__})") from None

    async def aclose(self) -> None:
        """Close all connections."""
        if self._client is not None:
            await self._client.aclose()

    async def _follow(self, client: httpx.AsyncClient, url: str, place: str) -> tuple[str, bytes]:
        for _ in range(self._policy.max_redirects + 1):
            request = await self._request(client, url, place)
            response = await client.send(request, stream=True)
            try:
                location = response.headers.get("location")
                if response.status_code not in _REDIRECTS or location is None:
                    return await self._content(response, place)
                url = str(_parsed(url, place).join(location))
            except (httpx.InvalidURL, ValueError):
                raise refusal(place, "it is redirected to what is no address") from None
            finally:
                await response.aclose()
        raise refusal(place, f"it is redirected more than {self._policy.max_redirects} times")

    async def _request(self, client: httpx.AsyncClient, url: str, place: str) -> httpx.Request:
        """A request to a checked address, for the host that was asked for."""
        target = _parsed(url, place)
        if target.scheme not in _DEFAULT_PORTS or not target.host:
            raise refusal(place, "only http and https addresses are fetched")
        if target.userinfo:
            raise refusal(place, "an address with a user's name or password is not fetched")
        port = target.port or _DEFAULT_PORTS[target.scheme]
        if self._policy.ports is not None and port not in self._policy.ports:
            raise refusal(place, f"nothing is fetched from port {port}")
        host = target.raw_host.decode("ascii")
        addresses = await public_addresses(
            host, port, place=place, resolve=self._resolve, is_public=self._is_public
        )
        headers = {
            "Host": target.netloc.decode("ascii"),
            "User-Agent": f"onnxgen/{__version__}",
            "Accept-Encoding": "identity",
        }
        # The certificate is checked for the name, whatever address is connected to.
        return client.build_request(
            "GET", target.copy_with(host=addresses[0]), headers=headers, extensions={"sni_hostname": host}
        )

    async def _content(self, response: httpx.Response, place: str) -> tuple[str, bytes]:
        if response.status_code != 200:
            raise refusal(place, f"its host answers with status {response.status_code}")
        if response.headers.get("content-encoding", "identity") != "identity":
            raise refusal(place, "it comes compressed although that was not asked for")
        most = self._policy.max_bytes
        declared = response.headers.get("content-length", "")
        if declared.isdecimal() and int(declared[:20]) > most:
            raise refusal(place, f"it is larger than the {most} bytes that are allowed")
        data = bytearray()
        async for piece in response.aiter_raw():
            data += piece
            if len(data) > most:
                raise refusal(place, f"it is larger than the {most} bytes that are allowed")
        media_type = response.headers.get("content-type", "").partition(";")[0]
        return media_type.strip().lower(), bytes(data)

    async def _opened(self) -> httpx.AsyncClient:
        if self._client is None:
            # Reading the machine's certificates takes a while. Connections are never used again: two hosts at one
            # address would share one whose certificate was checked for the first.
            options: dict[str, Any] = {
                "transport": self._transport,
                "trust_env": False,
                "follow_redirects": False,
                "timeout": self._policy.timeout_s,
                "limits": httpx.Limits(max_keepalive_connections=0),
            }
            self._client = await asyncio.to_thread(httpx.AsyncClient, **options)
        return self._client


def _parsed(url: str, place: str) -> httpx.URL:
    try:
        return httpx.URL(url)
    except (httpx.InvalidURL, ValueError, TypeError):
        raise refusal(place, "it is no address") from None
