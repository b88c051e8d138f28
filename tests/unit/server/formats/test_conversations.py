"""Conversations get a system text, and lose their oldest turns where they must."""

from __future__ import annotations

import random
import secrets
from typing import Any

import pytest

from onnxgen.server.formats.conversations import shortened, with_system


def _said(*roles: str) -> list[dict[str, Any]]:
    return [{"role": role, "content": f"{n}"} for n, role in enumerate(roles)]


@pytest.mark.parametrize("text", [None, ""])
def test_no_text_changes_nothing(text: str | None) -> None:
    assert with_system(text, _said("user")) == _said("user")


@pytest.mark.parametrize("role", ["system", "developer"])
def test_two_system_texts_are_one(role: str) -> None:
    messages = [{"role": role, "content": "b"}, {"role": "user", "content": "?"}]
    assert with_system("a", messages) == [{"role": "system", "content": "a\n\nb"}, messages[1]]


def test_a_text_goes_in_front_of_what_is_not_the_systems() -> None:
    assert with_system("a", []) == [{"role": "system", "content": "a"}]
    assert [message["role"] for message in with_system("a", _said("user"))] == ["system", "user"]
    parts = [{"role": "system", "content": [{"type": "text", "text": "b"}]}]
    assert with_system("a", parts) == [{"role": "system", "content": "a"}, *parts]


def test_what_fits_stays_whole() -> None:
    messages = _said("system", "user", "assistant", "user")
    assert shortened(messages, fits=lambda _: True) == messages


def test_turns_go_from_the_oldest_and_system_messages_stay() -> None:
    messages = _said(
        "system", "developer", "user", "assistant", "tool", "assistant", "user", "assistant", "user"
    )
    kept = shortened(messages, fits=lambda given: len(given) <= 5)
    assert [message["content"] for message in kept] == ["0", "1", "6", "7", "8"]


def test_the_last_turn_stays_whatever_its_length() -> None:
    messages = _said("system", "user", "assistant", "user", "assistant")
    kept = shortened(messages, fits=lambda _: False)
    assert [message["content"] for message in kept] == ["0", "3", "4"]
    assert shortened(_said("system"), fits=lambda _: False) == _said("system")
    assert shortened([], fits=lambda _: False) == []


def test_no_more_is_left_out_than_must_and_few_are_tried() -> None:
    seed = secrets.randbits(32)
    print(f"seed {seed}")
    rng = random.Random(seed)
    for _ in range(200):
        roles = ["system"] * rng.randrange(3) + [
            rng.choice(("user", "assistant", "tool")) for _ in range(rng.randrange(40))
        ]
        messages, room = _said(*roles), rng.randrange(45)
        tried: list[int] = []

        def fits(given: list[dict[str, Any]], tried: list[int] = tried, room: int = room) -> bool:
            tried.append(len(given))
            return len(given) <= room

        kept = shortened(messages, fits=fits)
        assert len(tried) <= 6
        assert kept == [message for message in messages if message in kept]
        if len(kept) < len(messages) and len(kept) <= room:
            head = roles.count("system")
            longer = [
                head + len(messages) - n for n, role in enumerate(roles) if n > head and role == "user"
            ] + [len(messages)]
            assert not any(len(kept) < length <= room for length in longer)
