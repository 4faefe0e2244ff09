#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Keep the floors: who may include whom, which library is seen where, and a few rules a reader relies on.

    tests/floors/check.py ROOT

ARCHITECTURE.md has the same table in words. It reads #include lines, not meson files, so it also sees a
header-only leak that would link by luck. Exit 0 if all rules hold, else 1 and one line per fault: file, line, rule.
"""
import os
import re
import sys

FLOORS = [
    {"base"},
    {"perf", "perfdata", "compress", "sysinfo", "store", "config", "control", "broker"},
    {"recorder", "capture", "sideband", "trigger"},
    {"snapshot"},
    {"daemon", "daemon/broker", "ctl"},
]
FLOOR_OF = {room: floor for floor, rooms in enumerate(FLOORS) for room in rooms}

# Who looks at a sibling all the same (includer, included), and why.
SIBLINGS = {
    ("capture", "recorder"),      # a capture reads the rings that the recorder opened
    ("daemon", "daemon/broker"),  # started by hand, flightd forks its own broker
}

# Only this room sees all of these together: it is the pipeline.
PIPELINE = ("snapshot", {"capture", "perfdata", "compress", "store"})

DAEMON, CTL = {"daemon", "daemon/broker"}, {"ctl"}
JSON_ROOMS = {"config", "control", "broker", "store"}
# First component of <library/...>, or the whole name of a lone header -> the rooms that may include it.
LIBRARIES = {
    "boost": DAEMON | CTL,
    "spdlog": DAEMON,
    "systemd": DAEMON,
    "CLI": DAEMON | CTL,
    "nlohmann": JSON_ROOMS,
    "zstd.h": {"compress"},
    "zstd_errors.h": {"compress"},
    "zdict.h": {"compress"},
    "archive.h": CTL,
    "archive_entry.h": CTL,
    "tl": {"base"},
    "fmt": set(FLOOR_OF),
}
SOURCE_ONLY = {"nlohmann": JSON_ROOMS}  # never in a header there: it would reach every includer
SYSTEM = {"sys", "linux", "asm", "asm-generic", "net", "netinet", "arpa", "bits"}

MAX_LINES = 400
CODE = (".cpp", ".hpp", ".c", ".h")
WITH_SPDX = CODE + (".py", ".sh")
WITH_SPDX_NAMES = {"meson.build", "meson_options.txt"}
SPDX = "SPDX-License-Identifier: Apache-2.0"
# Places that exist on one machine only. Put together here, so that this file does not name them.
PRIVATE = re.compile(r"\.\./" + r"shared\b" + r"|(?<![\w.~/-])/" + r"work(?=[/\s\"'`),;:]|$)")
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')


def room_of(path):
    """The room a file lies in ("perf", "daemon/broker", "tests"), or None for a file outside the house."""
    parts = path.split("/")
    if len(parts) >= 3 and parts[0] == "libcore":
        return parts[1]
    if len(parts) >= 3 and parts[:2] == ["daemon", "broker"]:
        return "daemon/broker"
    return parts[0] if len(parts) >= 2 and parts[0] in ("daemon", "ctl", "tests") else None


def project_include_fault(room, path, target):
    """Why `room` may not have #include "target", or None."""
    other = room_of(target)
    if other is None:
        return f'"{target}": include paths start at the root of the repository'
    if other == "tests":
        return f'"{target}": the program must not include its tests'
    if other not in FLOOR_OF:
        return f'"{target}": {other} stands on no floor'
    if other == room or FLOOR_OF[other] < FLOOR_OF[room] or (room, other) in SIBLINGS:
        return None
    how = "a sibling" if FLOOR_OF[other] == FLOOR_OF[room] else "upstairs"
    return f'"{target}": {room} (floor {FLOOR_OF[room]}) may not see {other} (floor {FLOOR_OF[other]}), it is {how}'


def library_include_fault(room, path, target):
    """Why `room` may not have #include <target>, or None."""
    if room_of(target) is not None:
        return f"<{target}>: the project's own headers are included with quotes"
    first, slash, _ = target.partition("/")
    if first not in LIBRARIES:
        if slash and first not in SYSTEM:
            return f"<{target}>: no rule says who may use {first}: name its rooms in LIBRARIES"
        return None
    if room not in LIBRARIES[first]:
        return f"<{target}>: only {', '.join(sorted(LIBRARIES[first]))} may use {first}, not {room}"
    if room in SOURCE_ONLY.get(first, ()) and path.endswith((".hpp", ".h")):
        return f"<{target}>: {first} belongs in the .cpp, not in a header"
    return None


def text_files(root):
    """(path relative to root, lines) of every text file in the tree; built and hidden-cache folders left out."""
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(d for d in folders if d not in (".git", ".cache", "__pycache__")
                            and not (folder == root and d.startswith("build")))
        for name in sorted(names):
            full = os.path.join(folder, name)
            if os.path.islink(full) or not os.path.isfile(full):
                continue
            with open(full, "rb") as file:
                content = file.read()
            if b"\0" not in content:
                yield os.path.relpath(full, root), content.decode("utf-8", "replace").splitlines()


def check(root):
    """All faults of the tree as (path, line, text)."""
    faults = []
    seen = {}  # room -> rooms it includes
    files = 0
    for path, lines in text_files(root):
        name = os.path.basename(path)
        room = room_of(path)
        script = bool(lines) and lines[0].startswith("#!")
        if name.endswith(WITH_SPDX) or name in WITH_SPDX_NAMES or script:
            if not any(SPDX in line for line in lines[:2]):
                faults.append((path, 1, f"no '{SPDX}' in the first two lines"))
        for number, line in enumerate(lines, 1):
            if PRIVATE.search(line):
                faults.append((path, number, "names a place outside the repository"))
        if room is None or room == "tests":
            continue
        if len(lines) > MAX_LINES:
            faults.append((path, len(lines), f"has {len(lines)} lines, more than {MAX_LINES}: it wants to be two"))
        if not name.endswith(CODE):
            continue
        files += 1
        if room not in FLOOR_OF:
            faults.append((path, 1, f"{room} stands on no floor: name it in FLOORS"))
            continue
        for number, line in enumerate(lines, 1):
            match = INCLUDE.match(line)
            if not match:
                continue
            own = match.group(1) == '"'
            fault = (project_include_fault if own else library_include_fault)(room, path, match.group(2))
            if fault:
                faults.append((path, number, fault))
            if own:
                seen.setdefault(room, set()).add(room_of(match.group(2)))
    only, together = PIPELINE
    for room in sorted(seen):
        if room != only and together <= seen[room]:
            faults.append((room, 0, f"sees {', '.join(sorted(together))} together: only {only} may"))
    if files == 0:
        faults.append((root, 0, "no source file found: is this the root of the repository?"))
    return faults, files


def main():
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    faults, files = check(os.path.abspath(sys.argv[1]))
    for path, line, text in faults:
        print(f"{path}:{line}: {text}")
    print(f"floors: {files} source files, {len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
