#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Keep the layers: who may include whom, which library is seen where, and a few rules a reader relies on.

    tests/layers/check.py ROOT

ARCHITECTURE.md has the same table in words. It reads #include lines, not meson files, so it also sees a
header-only leak that would link by luck. Exit 0 if all rules hold, else 1 and one line per fault: file, line, rule.
"""
import os
import re
import sys

LAYERS = [
    {"base", "json"},
    {"perf", "perfdata", "compress", "sysinfo", "store", "config", "control", "broker", "unwind"},
    {"recorder", "capture", "sideband", "trigger", "stream"},
    {"snapshot", "daemon/log"},
    {"profile"},
    {"export"},
    {"daemon/notify", "daemon/units"},
    {"daemon/recorder", "daemon/store"},
    {"daemon/snapshots"},
    {"daemon/recordings"},
    {"daemon/control"},
    {"daemon", "daemon/start", "daemon/broker", "ctl"},
]
LAYER_OF = {module: layer for layer, modules in enumerate(LAYERS) for module in modules}

# Permitted includes of a sibling (includer, included), and the reason.
SIBLINGS = {
    ("json", "base"),             # reading a JSON text fails as a Result
    ("capture", "recorder"),      # a capture reads the rings that the recorder opened
    ("daemon", "daemon/start"),         # main() starts what start/ makes
    ("daemon/start", "daemon"),         # it makes the objects of the lifecycle
    ("daemon/start", "daemon/broker"),  # started by hand, flightd forks its own broker
}

# Headers of daemon/ that a lower module may include, too.
EVERYWHERE_IN_DAEMON = {
    "daemon/folders.hpp",          # owners of the store's and the runtime directory
    "daemon/privileges.hpp",
    "daemon/control/backend.hpp",  # the control calls: those who answer them include it
    "daemon/control/peer.hpp",     # who asks
}
# (module, header): one more.
ONE_MORE = {
    ("daemon/control", "daemon/reload.hpp"),  # the router forwards Reload
}

# Only this module may include all of these: it is the pipeline.
PIPELINE = ("snapshot", {"capture", "perfdata", "compress", "store"})

DAEMON_MODULES = {"broker", "control", "log", "notify", "recorder", "recordings", "snapshots", "start", "store", "units"}
DAEMON, CTL = {"daemon"} | {f"daemon/{name}" for name in DAEMON_MODULES}, {"ctl"}
# First component of <library/...>, or the whole name of a lone header -> the modules that may include it.
LIBRARIES = {
    "boost": DAEMON,
    "spdlog": {"daemon/log"},
    "systemd": DAEMON,
    "CLI": DAEMON | CTL,
    "nlohmann": {"json"},
    "zstd.h": {"compress"},
    "zstd_errors.h": {"compress"},
    "zdict.h": {"compress"},
    "zlib.h": {"unwind", "export"},  # sections of ELF files; gzip
    "protozero": {"export"},
    "archive.h": CTL,
    "archive_entry.h": CTL,
    "tl": {"base"},
    "fmt": set(LAYER_OF),
}
# Never in a header there: it would reach every includer.
SOURCE_ONLY = {"nlohmann": {"json"}, "protozero": {"export"}, "zlib.h": {"unwind", "export"}}
SYSTEM = {"sys", "linux", "asm", "asm-generic", "net", "netinet", "arpa", "bits"}

MAX_LINES = 400
CODE = (".cpp", ".hpp", ".c", ".h")
WITH_SPDX = CODE + (".py", ".sh")
WITH_SPDX_NAMES = {"meson.build", "meson_options.txt"}
SPDX = "SPDX-License-Identifier: Apache-2.0"
# Paths that exist on one machine only. They are assembled here, so that this file does not contain them.
PRIVATE = re.compile(r"\.\./" + r"shared\b" + r"|(?<![\w.~/-])/" + r"work(?=[/\s\"'`),;:]|$)")
# The C library opens files of /sys or /proc for these, which in a container can be those of a server that hangs.
WAITS = re.compile(r"\b(hardware_concurrency|get_nprocs(?:_conf)?|_SC_NPROCESSORS_\w+|getloadavg)\b")
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')


def module_of(path):
    """The module a file lies in ("perf", "daemon/broker", "tests"), or None for a file of no module."""
    parts = path.split("/")
    if len(parts) >= 3 and parts[0] == "libcore":
        return parts[1]
    if len(parts) >= 3 and parts[0] == "daemon":
        return f"daemon/{parts[1]}"
    return parts[0] if len(parts) >= 2 and parts[0] in ("daemon", "ctl", "tests") else None


def project_include_fault(module, path, target):
    """Why `module` may not have #include "target", or None."""
    other = module_of(target)
    if other is None:
        return f'"{target}": include paths start at the root of the repository'
    if other == "tests":
        return f'"{target}": the program must not include its tests'
    if other not in LAYER_OF:
        return f'"{target}": {other} is in no layer'
    if other == module or (module, other) in SIBLINGS:
        return None
    # The modules of flightd are below each other, and not below the other programs.
    is_of_flightd = other == "daemon" or (other.startswith("daemon/") and other not in ("daemon/broker", "daemon/log"))
    another_program = is_of_flightd and module in ("ctl", "daemon/broker")
    if LAYER_OF[other] < LAYER_OF[module] and not another_program:
        return None
    in_daemon = module.startswith("daemon/") and module not in ("daemon/broker", "daemon/log")
    if (in_daemon and target in EVERYWHERE_IN_DAEMON) or (module, target) in ONE_MORE:
        return None
    if another_program:
        return f'"{target}": {module} may not see {other}, it is of another program'
    how = "a sibling" if LAYER_OF[other] == LAYER_OF[module] else "in a higher layer"
    return f'"{target}": {module} (layer {LAYER_OF[module]}) may not see {other} (layer {LAYER_OF[other]}), it is {how}'


def library_include_fault(module, path, target):
    """Why `module` may not have #include <target>, or None."""
    if module_of(target) is not None:
        return f"<{target}>: the project's own headers are included with quotes"
    first, slash, _ = target.partition("/")
    if first not in LIBRARIES:
        if slash and first not in SYSTEM:
            return f"<{target}>: no rule says who may use {first}: name its modules in LIBRARIES"
        return None
    if module not in LIBRARIES[first]:
        return f"<{target}>: only {', '.join(sorted(LIBRARIES[first]))} may use {first}, not {module}"
    if module in SOURCE_ONLY.get(first, ()) and path.endswith((".hpp", ".h")):
        return f"<{target}>: {first} belongs in the .cpp, not in a header"
    return None


def text_files(root):
    """(path relative to root, lines) of every text file in the tree; built and hidden-cache folders left out."""
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(d for d in folders if d not in (".git", ".cache", "__pycache__", "node_modules")
                            and not (folder == root and d.startswith("build")))
        for name in sorted(names):
            if name == ".git":  # of a worktree: it names the repository
                continue
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
    seen = {}  # module -> modules it includes
    files = 0
    for path, lines in text_files(root):
        name = os.path.basename(path)
        module = module_of(path)
        script = bool(lines) and lines[0].startswith("#!")
        if name.endswith(WITH_SPDX) or name in WITH_SPDX_NAMES or script:
            if not any(SPDX in line for line in lines[:2]):
                faults.append((path, 1, f"no '{SPDX}' in the first two lines"))
        for number, line in enumerate(lines, 1):
            if PRIVATE.search(line):
                faults.append((path, number, "names a place outside the repository"))
        if module is None or module == "tests":
            continue
        if len(lines) > MAX_LINES:
            faults.append((path, len(lines), f"has {len(lines)} lines, more than {MAX_LINES}: it wants to be two"))
        if not name.endswith(CODE):
            continue
        files += 1
        if module not in LAYER_OF:
            faults.append((path, 1, f"{module} is in no layer: name it in LAYERS"))
            continue
        for number, line in enumerate(lines, 1):
            if waits := WAITS.search(line):
                faults.append((path, number, f"{waits.group(1)} may wait for a server: use libcore/sysinfo/cpus.hpp"))
            match = INCLUDE.match(line)
            if not match:
                continue
            own = match.group(1) == '"'
            fault = (project_include_fault if own else library_include_fault)(module, path, match.group(2))
            if fault:
                faults.append((path, number, fault))
            if own:
                whole = "daemon" if module.startswith("daemon/") and module != "daemon/broker" else module
                seen.setdefault(whole, set()).add(module_of(match.group(2)))
    only, together = PIPELINE
    for module in sorted(seen):
        if module != only and together <= seen[module]:
            faults.append((module, 0, f"sees {', '.join(sorted(together))} together: only {only} may"))
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
    print(f"layers: {files} source files, {len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
