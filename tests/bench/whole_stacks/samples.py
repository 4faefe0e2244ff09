# SPDX-License-Identifier: Apache-2.0
"""The samples of a perf.data file, as stock `perf script` prints them."""
import collections, itertools, re, struct, subprocess

Frame = collections.namedtuple("Frame", "address symbol file")
Sample = collections.namedtuple("Sample", "comm pid tid seconds frames")

HEAD = re.compile(r"\s*(\S.*?)\s+(-?\d+)/(-?\d+)\s+(\d+\.\d+):\s*$")
# Names have spaces and parentheses (C++, Java), and so have some files.
FRAME = re.compile(r"\s+([0-9a-f]+) (.*?) \((\[JIT\] tid \d+|\[[^\]]*\](?:[.\w]*)|[^()]*(?: \(deleted\))?)\)$")
UNKNOWN = "[unknown]"
SAMPLE_RECORD = 9  # perf_event.h


def script_words(path, pids, fields="comm,pid,tid,time,ip,sym,dso"):
    """Inlined functions are left out: they are no frames of a stack. -f: maps of JIT compilers belong to another user."""
    words = ["perf", "script", "-f", "-i", str(path), "--ns", "--no-inline", "-F", fields]
    return words + ["--pid", ",".join(map(str, sorted(pids)))] if pids else words


def read(path, pids):
    """The samples of these processes, oldest first."""
    with subprocess.Popen(script_words(path, pids), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, errors="replace") as script:
        yield from parse(script.stdout)
    if script.returncode != 0:
        print(f"  perf script ended with {script.returncode}: samples of {path.name} are missing", flush=True)


def times(path):
    """When each sample of the file was taken, of all processes. Nothing is unwound for this."""
    out = subprocess.run(script_words(path, None, "time"), capture_output=True, text=True).stdout
    return [float(line.strip().rstrip(":")) for line in out.splitlines() if line.strip()]


def record_bytes(path):
    """The bytes and the number of the sample records of a file that is not compressed; other records stand for what the
    whole machine did meanwhile."""
    with open(path, "rb") as file:
        offset, size = struct.unpack_from("<QQ", file.read(56), 40)
        file.seek(offset)
        data = file.read(size)
    at = total = count = 0
    while at + 8 <= len(data):
        kind, _, length = struct.unpack_from("<IHH", data, at)
        if kind == SAMPLE_RECORD:
            total, count = total + length, count + 1
        at += max(length, 8)
    return total, count


def parse(lines):
    sample = None
    for line in lines:
        if match := FRAME.match(line):
            if sample:
                sample.frames.append(Frame(int(match.group(1), 16), match.group(2) or UNKNOWN, match.group(3)))
        elif match := HEAD.match(line):
            if sample:
                yield sample
            sample = Sample(match.group(1), int(match.group(2)), int(match.group(3)), float(match.group(4)), [])
        elif line.strip():
            raise SystemExit(f"bench: perf script printed a line that is neither a sample nor a frame: {line!r}")
    if sample:
        yield sample


def split(sample):
    """The kernel's frames and the user's. Garbage among the user's may look like an address of the kernel."""
    kernel = list(itertools.takewhile(lambda frame: frame.address >> 63, sample.frames))
    return kernel, sample.frames[len(kernel):]
