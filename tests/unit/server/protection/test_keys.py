from __future__ import annotations

import logging
import os

import pytest

from onnxgen.errors import ConfigError
from onnxgen.server.protection.keys import KeyRing


class Clock:
    def __init__(self):
        self.s = 0.0

    def __call__(self):
        return self.s


@pytest.fixture
def clock():
    return Clock()


def ring(clock, *users, admins=(), file=None):
    return KeyRing(users, admins, file=file, now=clock)


def rewrite(path, text, clock):
    before = path.stat() if path.exists() else None
    path.write_text(text)
    if before is not None:  # however coarse the file system's clock is
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns + 1))
    clock.s += 2


def test_without_keys_none_is_asked_for(clock):
    assert not ring(clock).is_asked_for


def test_names_and_scopes(clock):
    keys = ring(clock, "alice=one", "two", admins=["root=three"])
    alice, two, root = keys.find("one"), keys.find("two"), keys.find("three")
    assert (alice.name, alice.scope) == ("alice", "user")
    assert two.scope == "user"
    assert two.name.startswith("key-")
    assert (root.name, root.scope) == ("root", "admin")
    assert keys.has_admins
    for wrong in ("", "On", "one ", "alice=one", "ONE", "\ud800", "ö" * 100):
        assert keys.find(wrong) is None


@pytest.mark.parametrize("key", ["c2VjcmV0==", "=x", "a/b=c", "sk-=="])
def test_signs_in_keys_are_not_names(clock, key):
    found = ring(clock, key).find(key)
    assert found is not None


def test_a_name_before_a_padded_key(clock):
    assert ring(clock, "bob=c2Vjcg==").find("c2Vjcg==").name == "bob"


def test_two_keys_without_names_are_two_tenants(clock):
    keys = ring(clock, "one", "two")
    assert keys.find("one").name != keys.find("two").name


@pytest.mark.parametrize("key", ["", " ", "a b", "schlüssel", "name=a b", "x\n"])
def test_a_malformed_key_is_refused_without_repeating_it(clock, key):
    with pytest.raises(ConfigError, match="visible ASCII") as refused:
        ring(clock, key)
    assert len(key) < 4 or key not in str(refused.value)


def test_one_key_for_two_is_refused(clock):
    with pytest.raises(ConfigError, match=r"'alice' \(user\) and 'root' \(admin\)") as refused:
        ring(clock, "alice=s3cret", admins=["root=s3cret"])
    assert "s3cret" not in str(refused.value)


def test_keys_are_not_in_memory_as_they_are(clock):
    keys = ring(clock, "alice=s3cret")
    assert "s3cret" not in repr(vars(keys))


def test_a_file_is_read_with_comments_and_scopes(clock, tmp_path):
    file = tmp_path / "keys"
    file.write_text("# ours\n\n  alice=one  \nroot=two admin\nthree user\n")
    keys = ring(clock, "given", file=file)
    assert keys.find("one").name == "alice"
    assert keys.find("two").scope == "admin"
    assert keys.find("three").scope == "user"
    assert keys.find("given") is not None


def test_a_file_without_keys_closes_the_server(clock, tmp_path):
    file = tmp_path / "keys"
    file.write_text("# none yet\n")
    keys = ring(clock, file=file)
    assert keys.is_asked_for
    assert keys.find("") is None


def test_a_changed_file_is_read_again_a_second_later(clock, tmp_path):
    file = tmp_path / "keys"
    file.write_text("one\n")
    keys = ring(clock, file=file)
    rewrite(file, "two\n", clock)
    assert keys.find("one") is None
    assert keys.find("two") is not None
    rewrite(file, "one\ntwo\n", clock)
    clock.s -= 1.5
    assert keys.find("one") is None
    clock.s += 1.5
    assert keys.find("one") is not None


@pytest.mark.parametrize("bad", ["one two three\n", "one owner\n", "a=x\nb=x\n"])
def test_a_file_that_goes_bad_leaves_the_keys(clock, tmp_path, caplog, bad):
    file = tmp_path / "keys"
    file.write_text("one\n")
    keys = ring(clock, file=file)
    with caplog.at_level(logging.ERROR):
        rewrite(file, bad, clock)
        assert keys.find("one") is not None
        clock.s += 2
        assert keys.find("one") is not None
    assert len(caplog.records) == 1
    rewrite(file, "two\n", clock)
    assert keys.find("one") is None


def test_a_file_that_vanishes_leaves_the_keys(clock, tmp_path, caplog):
    file = tmp_path / "keys"
    file.write_text("one\n")
    keys = ring(clock, file=file)
    file.unlink()
    clock.s += 2
    assert keys.find("one") is not None
    assert "stay as they were" in caplog.text


@pytest.mark.parametrize("content", [None, b"\xff\xfe", b"a b c\n"])
def test_a_server_does_not_start_with_a_bad_file(clock, tmp_path, content):
    file = tmp_path / "keys"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(ConfigError, match="keys"):
        ring(clock, file=file)
