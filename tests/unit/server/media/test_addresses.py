from __future__ import annotations

import asyncio

import pytest

from onnxgen.server.errors import ApiError
from onnxgen.server.media.addresses import is_public, public_addresses


@pytest.mark.parametrize(
    "address",
    [
        *("127.0.0.1", "127.8.8.8", "0.0.0.0", "10.1.2.3", "172.16.0.1", "172.31.255.255", "192.168.1.1"),
        *(
            "169.254.169.254",
            "100.64.0.1",
            "192.0.0.192",
            "198.18.0.1",
            "192.0.2.1",
            "203.0.113.9",
            "224.0.0.1",
        ),
        *("240.0.0.1", "255.255.255.255", "::1", "::", "fe80::1", "fe80::1%eth0", "fc00::1", "fd00:ec2::254"),
        *("ff02::1", "::ffff:127.0.0.1", "::ffff:169.254.169.254", "64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe"),
        *("2002:7f00:1::", "2001:0:4136:e378:8000:63bf:3fff:fdd2", "2001:db8::1", "::127.0.0.1", "fec0::1"),
        *("", "localhost", "1.2.3", "0x7f000001", "2130706433"),
    ],
)
def test_special_addresses_are_not_public(address):
    assert not is_public(address)


@pytest.mark.parametrize(
    "address",
    ["1.1.1.1", "93.184.215.14", "172.32.0.1", "2606:4700::1111", "::ffff:1.1.1.1", "64:ff9b::101:101"],
)
def test_addresses_of_the_internet_are_public(address):
    assert is_public(address)


def addresses(*found):
    async def resolve(host, port):
        return found

    return asyncio.run(public_addresses("host", 80, place="url", resolve=resolve))


def test_one_address_that_is_not_public_is_enough():
    assert addresses("1.1.1.1", "1.0.0.1") == ("1.1.1.1", "1.0.0.1")
    with pytest.raises(ApiError, match="not on the public internet") as refused:
        addresses("1.1.1.1", "10.0.0.1")
    assert "10.0.0.1" not in str(refused.value)
    with pytest.raises(ApiError, match="not known"):
        addresses()


def test_names_of_this_machine_are_resolved_and_refused():
    for host in ("localhost", "127.0.0.1", "0x7f000001", "2130706433", "127.1"):
        with pytest.raises(ApiError, match=r"public internet|not known"):
            asyncio.run(public_addresses(host, 80, place="url"))
