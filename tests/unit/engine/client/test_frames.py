"""Messages on a pipe arrive whole, one after another, whoever writes them."""

import os
import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heard_events import WAIT_S
from onnxgen.engine.client.frames import FrameReader, FrameWriter, encode


@pytest.fixture
def pipe():
    ends = os.pipe()
    still_open = set(ends)

    def close(end):
        still_open.discard(end)
        os.close(end)

    yield *ends, close
    for end in still_open:
        os.close(end)


@settings(deadline=None)
@given(st.lists(st.binary(max_size=300) | st.text(max_size=30) | st.lists(st.integers()), max_size=20))
def test_what_is_written_is_read_in_order(messages):
    source, sink = os.pipe()
    try:
        writer, reader = FrameWriter(sink), FrameReader(source)
        for message in messages:
            writer.write(encode(message))
        assert [reader.read() for _ in messages] == messages
    finally:
        os.close(source)
        os.close(sink)


def test_messages_longer_than_a_pipe_and_of_several_threads_stay_whole(pipe):
    source, sink, _ = pipe
    writer, reader = FrameWriter(sink), FrameReader(source)
    sizes = [1, 100, 70_000, 3_000_000]
    threads = [
        threading.Thread(target=lambda k=k: [writer.write(encode(bytes([k]) * size)) for size in sizes])
        for k in range(4)
    ]
    for thread in threads:
        thread.start()
    read = [reader.read() for _ in range(len(threads) * len(sizes))]
    for thread in threads:
        thread.join(WAIT_S)
    for k in range(4):
        assert [m for m in read if m[0] == k] == [bytes([k]) * size for size in sizes]


@pytest.mark.parametrize("kept", [0, 1, 7, 8, 9, -1])
def test_an_end_in_the_middle_of_a_message_is_an_end(pipe, kept):
    source, sink, close = pipe
    frame = encode("a message")
    os.write(sink, frame[:kept])
    close(sink)
    with pytest.raises(EOFError):
        FrameReader(source).read()


def test_nobody_to_read_is_an_error_of_the_system(pipe):
    source, sink, close = pipe
    close(source)
    with pytest.raises(OSError, match="Broken pipe"):
        FrameWriter(sink).write(encode("x"))
