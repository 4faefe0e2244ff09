# SPDX-License-Identifier: Apache-2.0
"""Which frames are the beginning of a program or of a thread. By name where there are debug symbols; else by place:

  * the program's own entry: the first bytes of the function at the ELF header's e_entry (_start);
  * libc's callers of main() and of a thread's function. They have no name in a stripped libc, but each call in them has one
    return address, the same in every process. We find these in our own process: backtrace(3) unwinds by .eh_frame.
"""
import bisect, collections, ctypes, pathlib, struct, threading

NAMES = {"_start", "__libc_start_main", "__libc_start_call_main", "__libc_start_main_impl", "__libc_start_main@@GLIBC_2.34",
         "start_thread", "clone", "__clone", "clone3", "__clone3", "__GI___clone", "__GI___clone3", "thread_start",
         # Go starts its goroutines and threads itself.
         "runtime.goexit", "runtime.goexit.abi0", "runtime.mstart", "runtime.mstart.abi0", "runtime.rt0_go", "runtime.rt0_go.abi0"}
START_BYTES = 64  # _start has 38 on x86-64, 48 on arm64

Mapping = collections.namedtuple("Mapping", "begin end offset path")


def maps_of(pid):
    """The executable mappings of a living process that have a file."""
    found = []
    for line in pathlib.Path(f"/proc/{pid}/maps").read_text().splitlines():
        words = line.split(None, 5)
        if len(words) == 6 and "x" in words[1] and words[5].startswith("/"):
            begin, end = (int(word, 16) for word in words[0].split("-"))
            found.append(Mapping(begin, end, int(words[2], 16), words[5]))
    return found


def file_offset(mappings, address):
    """(path, offset), or None."""
    index = bisect.bisect_right(mappings, address, key=lambda mapping: mapping.begin) - 1
    if index < 0 or address >= mappings[index].end:
        return None
    mapping = mappings[index]
    return mapping.path, address - mapping.begin + mapping.offset


def backtrace():
    buffer = (ctypes.c_void_p * 512)()
    count = ctypes.CDLL(None).backtrace(buffer, len(buffer))
    return [address or 0 for address in buffer[:count]]


def libc_starts():
    """(path of libc, offset) of the return addresses in libc that end every stack: of main()'s chain and of a thread's."""
    stacks = [backtrace()]
    thread = threading.Thread(target=lambda: stacks.append(backtrace()))
    thread.start()
    thread.join()
    mappings, found = maps_of("self"), set()
    for stack in stacks:
        places = [file_offset(mappings, address) for address in reversed(stack)]
        libc = next((place[0] for place in places if place and pathlib.Path(place[0]).name.startswith(("libc.", "libc-"))), None)
        begun = False
        for place in places:
            of_libc = place is not None and place[0] == libc
            if begun and not of_libc:
                break
            if of_libc:
                begun = True
                found.add(place)
    return found


def entry_offset(path):
    """Where in the file its e_entry is."""
    try:
        with open(path, "rb") as file:
            head = file.read(64)
            if head[:5] != b"\x7fELF\x02":
                return None
            entry, table = struct.unpack_from("<QQ", head, 24)
            size, count = struct.unpack_from("<HH", head, 54)
            file.seek(table)
            segments = file.read(size * count)
    except OSError:
        return None
    for at in range(0, size * count, size):
        kind, _, offset, address, _, bytes_in_file = struct.unpack_from("<IIQQQQ", segments, at)
        if kind == 1 and address <= entry < address + bytes_in_file:
            return entry - address + offset
    return None


class Starts:
    """The start code of the processes that were noted while they lived."""

    def __init__(self):
        self.libc, self.maps, self.entries = libc_starts(), {}, {}

    def note(self, pids):
        for pid in pids:
            try:
                program, mappings = str(pathlib.Path(f"/proc/{pid}/exe").readlink()), maps_of(pid)
            except OSError:
                continue
            self.maps[pid] = mappings
            if program not in self.entries:
                self.entries[program] = entry_offset(program)

    def contain(self, pid, frame):
        if frame.symbol in NAMES:
            return True
        # perf 6.1 prints the offset in the file, others may print the address in memory.
        return self.is_start((frame.file, frame.address)) or self.is_start(file_offset(self.maps.get(pid, []), frame.address))

    def is_start(self, place):
        if place is None:
            return False
        path, offset = place
        # Some unwinders give the return address, some the byte before it.
        if (path, offset) in self.libc or (path, offset + 1) in self.libc:
            return True
        entry = self.entries.get(path)
        return entry is not None and entry <= offset < entry + START_BYTES
