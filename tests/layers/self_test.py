#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Does the layers test see what it must see? Builds small trees, each with one fault, and runs check.py on them.

Prints TAP, one line per tree. The first trees are clean and must pass: a check that always fails proves nothing.
"""
import contextlib
import io
import os
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import check  # noqa: E402

SPDX = "// SPDX-License-Identifier: Apache-2.0\n"
OUTSIDE = "/" + "work/notes"
NEIGHBOUR = "../" + "shared/page.md"

# A tree that follows every rule; each case below adds or replaces files.
CLEAN = {
    "meson.build": "# SPDX-License-Identifier: Apache-2.0\nproject('x', 'cpp')\n",
    "libcore/base/result.hpp": SPDX + "#include <tl/expected.hpp>\n#include <sys/stat.h>\n",
    "libcore/perf/attr.hpp": SPDX + '#include "libcore/base/result.hpp"\n#include <linux/perf_event.h>\n',
    "libcore/json/parse.cpp": SPDX + "#include <nlohmann/json.hpp>\n" + '#include "libcore/base/result.hpp"\n',
    "libcore/recorder/rings.hpp": SPDX + '#include "libcore/perf/attr.hpp"\n',
    "libcore/capture/capture.hpp": SPDX + '#include "libcore/recorder/rings.hpp"\n',
    "libcore/compress/zstd.cpp": SPDX + "#include <zstd.h>\n",
    "daemon/main.cpp": SPDX + "#include <boost/asio.hpp>\n" + '#include "daemon/start/start.hpp"\n',
    "daemon/start/start.hpp": SPDX + '#include "daemon/broker/run.hpp"\n' + '#include "daemon/folders.hpp"\n',
    "daemon/store/budget.hpp": SPDX + '#include "daemon/folders.hpp"\n',
    "daemon/snapshots/api.hpp": SPDX + '#include "daemon/control/backend.hpp"\n' + '#include "daemon/store/budget.hpp"\n',
    "daemon/broker/run.hpp": SPDX + '#include "libcore/recorder/rings.hpp"\n',
    "tests/unit/perf/attr_test.cpp": SPDX + "#include <gtest/gtest.h>\n",
}
PIPELINE = "".join(f'#include "libcore/{module}/x.hpp"\n' for module in ("capture", "perfdata", "compress", "store"))

# name, files that replace those of CLEAN, text that the output must contain (None: must pass)
CASES = [
    ("a clean tree passes", {}, None),
    ("the snapshot module sees the whole pipeline", {"libcore/snapshot/pipeline.cpp": SPDX + PIPELINE}, None),
    ("a build folder is not looked at", {"build-x/gen.cpp": OUTSIDE}, None),
    ("a path that only ends alike is fine", {"docs/a.md": "see /tmp/" + "work/x and net" + "work/x\n"}, None),
    ("a module sees in a higher layer", {"libcore/base/bad.hpp": SPDX + '#include "libcore/perf/attr.hpp"\n'},
     "libcore/base/bad.hpp:2: \"libcore/perf/attr.hpp\": base (layer 0) may not see perf"),
    ("a module sees a sibling", {"libcore/store/bad.cpp": SPDX + '#  include "libcore/config/config.hpp"\n'},
     "libcore/store/bad.cpp:2:"),
    ("an exception holds one way only", {"libcore/recorder/bad.cpp": SPDX + '#include "libcore/capture/capture.hpp"\n'},
     "it is a sibling"),
    ("the broker sees the daemon", {"daemon/broker/bad.cpp": SPDX + '#include "daemon/loop.hpp"\n'},
     "daemon/broker/bad.cpp:2:"),
    ("a module of the daemon sees one above it", {"daemon/store/bad.cpp": SPDX + '#include "daemon/snapshots/api.hpp"\n'},
     "daemon/store/bad.cpp:2:"),
    ("a module of the daemon sees its sibling", {"daemon/recorder/bad.cpp": SPDX + '#include "daemon/store/budget.hpp"\n'},
     "it is a sibling"),
    ("a module sees the lifecycle", {"daemon/control/bad.cpp": SPDX + '#include "daemon/lifecycle.hpp"\n'},
     "daemon/control/bad.cpp:2:"),
    ("the other program is only started", {"daemon/bad.cpp": SPDX + '#include "daemon/broker/run.hpp"\n'},
     "daemon/bad.cpp:2:"),
    ("a new module without a layer", {"daemon/cellar/x.hpp": SPDX}, "daemon/cellar is in no layer"),
    ("the broker sees a module of the daemon", {"daemon/broker/bad.cpp": SPDX + '#include "daemon/store/budget.hpp"\n'},
     "it is of another program"),
    ("flightctl sees a module of the daemon", {"ctl/bad.cpp": SPDX + '#include "daemon/store/budget.hpp"\n'},
     "it is of another program"),
    ("flightctl sees the daemon", {"ctl/bad.cpp": SPDX + '#include "daemon/loop.hpp"\n'}, "ctl/bad.cpp:2:"),
    ("another module sees the whole pipeline", {"daemon/bad.cpp": SPDX + PIPELINE}, "only snapshot may"),
    ("a new module without a layer", {"libcore/cellar/x.hpp": SPDX}, "cellar is in no layer"),
    ("the program includes a test", {"ctl/bad.cpp": SPDX + '#include "tests/unit/x.hpp"\n'}, "must not include its tests"),
    ("a relative include", {"libcore/perf/bad.cpp": SPDX + '#include "attr.hpp"\n'}, "start at the root"),
    ("an own header in angle brackets", {"libcore/base/bad.cpp": SPDX + "#include <libcore/perf/attr.hpp>\n"}, "quotes"),
    ("Asio in libcore", {"libcore/control/bad.cpp": SPDX + "#include <boost/asio.hpp>\n"}, "control/bad.cpp:2:"),
    ("spdlog in libcore", {"libcore/snapshot/bad.cpp": SPDX + "#include <spdlog/spdlog.h>\n"}, "snapshot/bad.cpp:2:"),
    ("spdlog in flightctl", {"ctl/bad.cpp": SPDX + "#include <spdlog/spdlog.h>\n"}, "ctl/bad.cpp:2:"),
    ("libsystemd in libcore", {"libcore/broker/bad.cpp": SPDX + "#include <systemd/sd-daemon.h>\n"}, "broker/bad.cpp:2:"),
    ("zstd outside compress", {"libcore/snapshot/bad.cpp": SPDX + "#include <zstd.h>\n"}, "only compress may use"),
    ("zlib outside of its modules", {"libcore/profile/bad.cpp": SPDX + "#include <zlib.h>\n"}, "only export, unwind may use"),
    ("protozero in a header", {"libcore/export/bad.hpp": SPDX + "#include <protozero/pbf_writer.hpp>\n"},
     "belongs in the .cpp"),
    ("profile sees export", {"libcore/profile/bad.cpp": SPDX + '#include "libcore/export/pprof.hpp"\n'}, "in a higher layer"),
    ("CLI11 in libcore", {"libcore/config/bad.cpp": SPDX + "#include <CLI/CLI.hpp>\n"}, "config/bad.cpp:2:"),
    ("nlohmann in a header of json", {"libcore/json/bad.hpp": SPDX + "#include <nlohmann/json.hpp>\n"}, "belongs in the .cpp"),
    ("nlohmann outside json", {"libcore/config/bad.cpp": SPDX + "#include <nlohmann/json.hpp>\n"},
     "only json may use nlohmann, not config"),
    ("nlohmann's forward declarations outside json", {"daemon/bad.cpp": SPDX + "#include <nlohmann/json_fwd.hpp>\n"},
     "only json may use nlohmann, not daemon"),
    ("base sees json", {"libcore/base/bad.cpp": SPDX + '#include "libcore/json/value.hpp"\n'}, "it is a sibling"),
    ("a library without a rule", {"daemon/bad.cpp": SPDX + "#include <absl/x.h>\n"}, "no rule says who may use absl"),
    ("no SPDX line in a source", {"ctl/bad.cpp": "\n\n" + SPDX}, "ctl/bad.cpp:1: no 'SPDX"),
    ("no SPDX line in a script", {"scripts/bad": "#!/bin/sh\ntrue\n"}, "scripts/bad:1: no 'SPDX"),
    ("no SPDX line in a meson.build", {"ctl/meson.build": "x = 1\n"}, "ctl/meson.build:1:"),
    ("a file that is too long", {"ctl/bad.cpp": SPDX + "\n" * 400}, "ctl/bad.cpp:401: has 401 lines"),
    ("a place of one machine", {"docs/bad.md": "see `" + OUTSIDE + "`\n"}, "docs/bad.md:1: names a place"),
    ("a neighbour of the repository", {"docs/bad.md": NEIGHBOUR + "\n"}, "docs/bad.md:1: names a place"),
    ("the C library is asked for the CPUs", {"libcore/base/bad.cpp": SPDX + "auto n = get_nprocs();\n"},
     "libcore/base/bad.cpp:2: get_nprocs may wait"),
    ("an empty tree", dict.fromkeys(CLEAN), "no source file found"),
]


def run(files):
    with tempfile.TemporaryDirectory(prefix="flight-layers-") as root:
        for path, content in {**CLEAN, **files}.items():
            if content is None:
                continue
            full = os.path.join(root, path)
            os.makedirs(os.path.dirname(full), exist_ok=True)
            with open(full, "w", encoding="utf-8") as file:
                file.write(content)
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            sys.argv = ["check.py", root]
            status = check.main()
        return status, out.getvalue()


def main():
    print(f"1..{len(CASES)}")
    failed = 0
    for number, (name, files, expected) in enumerate(CASES, 1):
        status, out = run(files)
        if expected is None:
            good = status == 0
        else:
            # Exactly one fault: a check that reports faults everywhere would hide the intended one.
            good = status == 1 and expected in out and "1 faults" in out
        failed += not good
        print(f"{'ok' if good else 'not ok'} {number} - {name}")
        if not good:
            print("\n".join(f"# {line}" for line in [f"exit {status}", *out.splitlines()]))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
