"""The step kernel that indexes all suffixes of a growing sequence, and says what follows where its end has occurred before."""

# pyright: reportUntypedFunctionDecorator=false
# Reason: numba's decorators are not typed.

from __future__ import annotations

from collections.abc import Callable

from onnxgen.graph.cpu.compiled.kernel import ints32, ints64, word
from onnxgen.graph.cpu.compiled.recurrence_layout import (
    EDGES,
    HEADER_SIZE,
    NO_MATCH,
    OTHER_TOKENS,
    SLOTS,
    STATES,
)


def recurrences(
    *, sure_match: int, long_match: int, edit_tokens: int
) -> Callable[[int, int, int, int, int], None]:
    """A suffix automaton (Blumer et al. 1985, https://doi.org/10.1016/0304-3975(85)90157-4), extended and asked.

    Its states are the sets of places where some stretch of the sequence ends; the suffix link of the whole sequence's state
    leads to the longest stretch at the end that also ends further in front. A token takes amortized constant time, since
    there are at most 2 states and 3 edges for each. Edges lie in a table with open addressing and, for copying a state, in
    lists.

    Args:
        sure_match: A match of at least so many tokens says more than where an edited passage goes on.
        long_match: A match of at least so many tokens is a passage that is being copied.
        edit_tokens: For so many tokens after such a passage broke off it is thought to go on behind as many others.

    Words:

        1       tokens: int64 [size]
        2       size
        3       header: int64 [HEADER_SIZE], of zeros for an empty index
        4       memory: int32 [FIELDS * capacity], of zeros for an empty index
        5       capacity: the most tokens, a power of two, at least `size`
        6       least: the shortest match that counts
        7       wanted: how many tokens that may follow
        8       following: int64 [wanted]
        9       found: int64 [2], how many there are, OTHER_TOKENS where those indexed are not the first of these; and how long
                the match is, 0 where an edited passage goes on
    """

    def kernel(row: int, step: int, scratch: int, part: int, parts: int) -> None:
        size, capacity, least, wanted = word(row, 2), word(row, 5), word(row, 6), word(row, 7)
        tokens, header = ints64(word(row, 1), size), ints64(word(row, 3), HEADER_SIZE)
        found = ints64(word(row, 9), 2)
        states, edges, slots = STATES * capacity, EDGES * capacity, SLOTS * capacity
        place = word(row, 4)
        held = ints32(place, capacity)
        place += 4 * capacity
        lengths = ints32(place, states)
        links = ints32(place + 4 * states, states)
        first = ints32(place + 8 * states, states)
        recent = ints32(place + 12 * states, states)
        heads = ints32(place + 16 * states, states)  # an edge's number + 1; 0: none
        place += 20 * states
        sources = ints32(place, edges)
        labels = ints32(place + 4 * edges, edges)
        targets = ints32(place + 8 * edges, edges)
        nexts = ints32(place + 12 * edges, edges)
        table = ints32(place + 16 * edges, slots)
        mask = slots - 1

        count = header[0]
        same = count <= size
        for at in range(min(count, size)):
            same &= tokens[at] == held[at]
        if not same:
            found[0], found[1] = OTHER_TOKENS, 0
            return
        if not count:
            header[1] = 1
            links[0] = -1
        num_states, num_edges, last = header[1], header[2], header[3]
        length, ended, began = header[4], header[5], header[6]
        aligned = header[7]
        for at in range(count, size):
            token = tokens[at]
            held[at] = token
            new = num_states
            num_states += 1
            lengths[new] = lengths[last] + 1
            first[new] = recent[new] = at
            state = last
            edge = -1
            while state >= 0:
                # find the state's edge, or the empty slot where it belongs
                slot = ((state * 0x9E3779B1) ^ (token * 0x85EBCA77)) & 0x7FFFFFFFFFFFFFFF
                slot = (slot ^ (slot >> 29)) & mask
                edge = -1
                while table[slot]:
                    other = table[slot] - 1
                    if sources[other] == state and labels[other] == token:
                        edge = other
                        break
                    slot = (slot + 1) & mask
                if edge >= 0:
                    break
                sources[num_edges], labels[num_edges], targets[num_edges] = state, token, new
                nexts[num_edges] = heads[state]
                num_edges += 1
                heads[state] = table[slot] = num_edges
                state = links[state]
            if state < 0:
                links[new] = 0
            else:
                target = targets[edge]
                if lengths[target] == lengths[state] + 1:
                    links[new] = target
                else:
                    clone = num_states
                    num_states += 1
                    lengths[clone] = lengths[state] + 1
                    links[clone] = links[target]
                    first[clone], recent[clone] = first[target], recent[target]
                    copied = heads[target]
                    while copied:
                        label = labels[copied - 1]
                        slot = ((clone * 0x9E3779B1) ^ (label * 0x85EBCA77)) & 0x7FFFFFFFFFFFFFFF
                        slot = (slot ^ (slot >> 29)) & mask
                        while table[slot]:
                            slot = (slot + 1) & mask
                        sources[num_edges], labels[num_edges] = clone, label
                        targets[num_edges] = targets[copied - 1]
                        nexts[num_edges] = heads[clone]
                        num_edges += 1
                        heads[clone] = table[slot] = num_edges
                        copied = nexts[copied - 1]
                    while edge >= 0 and targets[edge] == target:
                        targets[edge] = clone
                        state = links[state]
                        edge = -1
                        if state >= 0:
                            slot = ((state * 0x9E3779B1) ^ (token * 0x85EBCA77)) & 0x7FFFFFFFFFFFFFFF
                            slot = (slot ^ (slot >> 29)) & mask
                            while table[slot]:
                                other = table[slot] - 1
                                if sources[other] == state and labels[other] == token:
                                    edge = other
                                    break
                                slot = (slot + 1) & mask
                    links[target] = links[new] = clone
            last = new
            before, source = length, ended
            match = links[new]
            length, began, ended = lengths[match], first[match], recent[match]
            # a long match that is not one longer now broke off: the passage may go on behind a token of its own
            if before >= long_match and length <= before:
                aligned = ((source + 2) << 32) | (at + 1)
            visited = match
            for _ in range(4):
                if visited > 0:
                    recent[visited] = at
                    visited = links[visited]
        header[0], header[1], header[2], header[3] = size, num_states, num_edges, last
        header[4], header[5], header[6], header[7] = length, ended, began, aligned

        start = -1
        passed = size - (aligned & 0xFFFFFFFF)
        is_edited = aligned != 0 and passed < edit_tokens
        if length >= max(least, sure_match) or (length >= least and not is_edited):
            start = ended + 1
            if size - start < wanted and size - (began + 1) >= wanted:
                start = began + 1
        elif is_edited:
            start, length = (aligned >> 32) + passed, 0
        if start < 0 or start >= size:
            found[0], found[1] = NO_MATCH, 0
            return
        following = ints64(word(row, 8), wanted)
        for at in range(wanted):
            # behind the end of the sequence it goes on as it has gone on so far
            following[at] = held[start + at] if start + at < size else following[start + at - size]
        found[0], found[1] = wanted, length

    return kernel
