#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Read an uncompressed perf.data file as a simple program does: once, from its begin to its end.

    tests/e2e/naive_reader.py FILE

It shares no code with flightd or perf, sorts nothing, and knows no special cases but these: pid 0 is the idle task, the
maps of pid -1 are the kernel's, and tid -1 is any task that is exiting. It prints one JSON object:

    samples        how many there are, and how many of them are in user mode: user_samples
    nameless       of how many the task had no COMM, and no FORK of a task with one, before the sample
    unmapped       of how many the address is in no mapping before the sample
    forks_at_zero  FORKs of time 0 of a task whose COMM is there, too
    examples       some of these

Exit: 1 and a message on stderr if the file is not as perf.data-file-format.txt and perf_event.h describe it.
"""
import json
import struct
import sys
from collections import Counter

MMAP, COMM, FORK, SAMPLE, MMAP2, KSYMBOL = 1, 3, 7, 9, 10, 17
COMPRESSED, FINISHED_INIT, COMPRESSED2 = 81, 82, 83
USER_RECORDS = 64
KERNEL_PID = NO_TASK = 0xFFFFFFFF
MODES, KERNEL_MODE, USER_MODE = 7, 1, 2
FORK_COPIES_NO_MAPS = COMM_EXEC = 1 << 13
TID, TIME, ID, CPU, STREAM_ID = 1 << 1, 1 << 2, 1 << 6, 1 << 7, 1 << 9
IP, IDENTIFIER = 1 << 0, 1 << 16
SAMPLE_ID_ALL = 1 << 18
EXAMPLES = 10


class Wrong(Exception):
    pass


def expect(condition, text):
    if not condition:
        raise Wrong(text)


class File:
    """The header, the events and where the records are."""

    def __init__(self, data):
        self.data = data
        expect(data[:8] == b"PERFILE2", "no perf.data file")
        size, attr_size, attrs_at, attrs_bytes, self.begin, data_bytes, _, _ = struct.unpack_from("<8Q", data, 8)
        features = int.from_bytes(data[72:104], "little")
        self.end = self.begin + data_bytes
        expect(size == 104, f"a header of {size} bytes")
        expect(attrs_bytes > 0 and attrs_bytes % attr_size == 0, "the events are no whole number")
        self.types = {}
        for at in range(attrs_at, attrs_at + attrs_bytes, attr_size):
            self.read_event(at, attr_size)
        expect(self.types and 0 not in self.types, "no event, or one with the id 0")
        (rate,) = struct.unpack_from("<Q", data, attrs_at + 16)
        expect(rate > 0, "the first event has no samples: samply takes it for the one that was sampled")
        self.check_features(features)

    def read_event(self, at, attr_size):
        (own_size,) = struct.unpack_from("<I", self.data, at + 4)
        (sample_type,) = struct.unpack_from("<Q", self.data, at + 24)
        (flags,) = struct.unpack_from("<Q", self.data, at + 40)
        expect(own_size + 16 == attr_size, f"an event of {own_size} bytes in a table of {attr_size}")
        expect(flags & SAMPLE_ID_ALL and sample_type & IDENTIFIER, "an event without ids")
        expect(sample_type & TID and sample_type & TIME, "an event without tasks and times")
        ids_at, ids_bytes = struct.unpack_from("<2Q", self.data, at + own_size)
        for event_id in struct.unpack_from(f"<{ids_bytes // 8}Q", self.data, ids_at):
            expect(event_id not in self.types, f"two events with the id {event_id}")
            self.types[event_id] = sample_type

    def check_features(self, bits):
        """The table follows the records; the contents follow the table, and nothing follows them."""
        at, last = self.end, self.end + bits.bit_count() * 16
        while at < self.end + bits.bit_count() * 16:
            begin, size = struct.unpack_from("<2Q", self.data, at)
            expect(begin == last and size > 0, f"a feature at {begin}, not at {last}")
            at, last = at + 16, begin + size
        expect(last == len(self.data), f"{len(self.data) - last} bytes behind the last feature")

    def records(self):
        at = self.begin
        while at < self.end:
            kind, misc, size = struct.unpack_from("<IHH", self.data, at)
            expect(size >= 8 and size % 8 == 0 and at + size <= self.end, f"a record of {size} bytes at {at}")
            yield kind, misc, self.data[at + 8:at + size]
            at += size


def trailer_of(sample_type, body):
    """pid, tid, time, id: the fields in the order of perf_event.h, the last one at the end of the record."""
    sizes = [(bit, 8) for bit in (TID, TIME, ID, STREAM_ID, CPU, IDENTIFIER) if sample_type & bit]
    at, found = len(body) - sum(size for _, size in sizes), {}
    for bit, size in sizes:
        found[bit] = body[at:at + size]
        at += size
    pid, tid = struct.unpack("<2I", found[TID])
    return pid, tid, *struct.unpack("<Q", found[TIME]), *struct.unpack("<Q", found[IDENTIFIER])


def text_of(body):
    return body[:body.index(b"\0")].decode(errors="replace")


class Reader:
    def __init__(self, file):
        self.file = file
        self.names, self.maps = {}, {}  # of (pid, tid); of pid
        self.forked_at_zero = set()
        self.count = Counter({"samples": 0, "user_samples": 0, "nameless": 0, "unmapped": 0, "forks_at_zero": 0})
        self.examples = []
        self.time, self.prologue = 0, True

    def read(self):
        for kind, misc, body in self.file.records():
            expect(kind not in (COMPRESSED, COMPRESSED2), "it is compressed")
            if kind == FINISHED_INIT:
                self.prologue = False
            elif kind < USER_RECORDS:
                self.take(kind, misc, body)
        return dict(self.count, examples=self.examples)

    def take(self, kind, misc, body):
        event_id = struct.unpack_from("<Q", body)[0] if kind == SAMPLE else struct.unpack("<Q", body[-8:])[0]
        # Records that were generated have the id 0: that of the first event.
        sample_type = self.file.types.get(event_id or next(iter(self.file.types)))
        expect(sample_type is not None, f"a record of type {kind} with the unknown id {event_id}")
        time = self.sample(sample_type, misc, body) if kind == SAMPLE else trailer_of(sample_type, body)[2]
        expect((time == 0) == self.prologue, f"a record of type {kind} with the time {time}")
        expect(time >= self.time, f"a record of type {kind} at {time}, behind one at {self.time}")
        self.time = time
        if kind == COMM:
            self.comm(misc, body)
        elif kind == FORK:
            self.fork(misc, body, time)
        elif kind in (MMAP, MMAP2):
            pid, _, address, size, _ = struct.unpack_from("<2I3Q", body)
            self.maps.setdefault(pid, []).append((address, address + size))
        elif kind == KSYMBOL:
            address, size, _, _ = struct.unpack_from("<QI2H", body)
            self.maps.setdefault(KERNEL_PID, []).append((address, address + size))

    def comm(self, misc, body):
        task = struct.unpack_from("<2I", body)
        if task in self.forked_at_zero:
            self.count["forks_at_zero"] += 1
            self.example("FORK of time 0", task, text_of(body[8:]))
        if misc & COMM_EXEC:
            self.maps.pop(task[0], None)
        self.names[task] = text_of(body[8:])

    def fork(self, misc, body, time):
        pid, parent, tid, parent_tid = struct.unpack_from("<4I", body)
        if time == 0:
            self.forked_at_zero.add((pid, tid))
        # A parent that is not known has nothing to give. (The tracker writes the parents that matter.)
        self.names.pop((pid, tid), None)
        if (parent, parent_tid) in self.names:
            self.names[pid, tid] = self.names[parent, parent_tid]
        if pid == tid:
            self.maps[pid] = [] if misc & FORK_COPIES_NO_MAPS else list(self.maps.get(parent, []))

    def sample(self, sample_type, misc, body):
        _, address, pid, tid, time = struct.unpack_from("<QQ2IQ", body)
        expect(sample_type & IP, "a sample without an address")
        self.count["samples"] += 1
        task = (NO_TASK, NO_TASK) if tid == NO_TASK else (pid, tid)
        if pid != 0 and task not in self.names:
            self.count["nameless"] += 1
            self.example("nameless", (pid, tid), time)
        user = misc & MODES == USER_MODE
        self.count["user_samples"] += user
        owner = pid if user else KERNEL_PID
        if (user or misc & MODES == KERNEL_MODE) and \
                not any(begin <= address < end for begin, end in self.maps.get(owner, [])):
            self.count["unmapped"] += 1
            self.example("unmapped", (pid, tid), f"{address:x} at {time}")
        return time

    def example(self, *what):
        if len(self.examples) < EXAMPLES:
            self.examples.append(" ".join(map(str, what)))


def main(path):
    with open(path, "rb") as file:
        data = file.read()
    try:
        print(json.dumps(Reader(File(data)).read()))
    except (Wrong, ValueError, struct.error) as error:
        sys.exit(f"{path}: {error}")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
