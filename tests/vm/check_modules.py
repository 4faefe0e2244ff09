# SPDX-License-Identifier: Apache-2.0
"""Checks what tests/vm/modules-in-guest left behind: check_modules.py OUT."""

import json
import os
import re
import sys

out = sys.argv[1]
faults = []


def check(good, text):
    if not good:
        faults.append(text)


def read(name):
    with open(os.path.join(out, name)) as file:
        return file.read()


def samples(name):
    """(time in ns, symbol, dso) of each sample; a sample without a stack is one line."""
    found = []
    for line in read(name + ".script").splitlines():
        match = re.match(r"\s*(\d+)\.(\d+):\s+[0-9a-f]+ (.*) \((.*)\)$", line)
        if match:
            time = int(match[1]) * 10**9 + int(match[2].ljust(9, "0"))
            found.append((time, match[3], os.path.basename(match[4]).split(".ko")[0].strip("[]")))
    return found


def place(name, module):
    for line in read(name + ".modules").splitlines():
        words = line.split()
        if words[0] == module:
            return int(words[5], 16), int(words[1])
    return None


acts = {act: int(when) for when, act in (line.split(" ", 1) for line in read("acts").splitlines())}
sidecars = {name: json.loads(read(name + ".json")) for name in ("before", "loaded", "replaced")}
files = read("files").split()

for name, sidecar in sidecars.items():
    check(sidecar["kallsyms"] in files, f"{name}: {sidecar['kallsyms']} is not in the store: {files}")
check(len({sidecar["kallsyms"] for sidecar in sidecars.values()}) == 3, "another set of modules, the same symbols")
check(read("before.raid6_pq").strip() == "0", "before: raid6_pq is in kallsyms")
check(read("loaded.raid6_pq").strip() != "0", "loaded: raid6_pq is not in kallsyms")
check(read("replaced.raid6_pq").strip() == "0", "replaced: raid6_pq is in kallsyms still")
check(read("replaced.xor").strip() != "0", "replaced: xor is not in kallsyms")

named = [row for row in samples("loaded") if row[2] == "raid6_pq" and row[1].startswith("raid6_")]
check(len(named) > 20, f"loaded after the attach: {len(named)} samples have a name of raid6_pq")
check(all(acts["loading raid6_pq"] - 10**7 <= row[0] for row in named), "raid6_pq ran before it was loaded")
check("warnings" not in sidecars["loaded"], f"loaded: {sidecars['loaded'].get('warnings')}")

rows = samples("replaced")
old, new = place("loaded", "raid6_pq"), place("replaced", "xor")
shared = old[0] < new[0] + new[1] and new[0] < old[0] + old[1]
early = [row for row in rows if row[2] == "xor" and row[0] < acts["loading xor"] - 10**7]
late = [row for row in rows if row[2] == "raid6_pq" and row[0] > acts["unloaded raid6_pq"] + 10**7]
check(early == [], f"samples of raid6_pq have the name of xor: {early[:3]}")
check(late == [], f"samples of xor have the name of raid6_pq: {late[:3]}")
named = [row for row in rows if row[2] == "xor" and row[1] != "[unknown]"]
warnings = [text for text in sidecars["replaced"].get("warnings", []) if "same addresses" in text]
if shared:
    check(named == [], "the addresses had two owners, and there are names")
    check(len(warnings) == 1 and "raid6_pq" in warnings[0] and "xor" in warnings[0], f"replaced: {warnings}")
elif any("other code ran" in text and "xor" in text for text in sidecars["replaced"].get("warnings", [])):
    # The init part of raid6_pq ran at the present address of xor.
    check(named == [], "other code ran at the addresses of xor, and there are names")
else:
    check(len(named) > 5, f"{len(named)} samples have a name of xor")
    check(warnings == [], f"replaced: {warnings}")

for fault in faults:
    print(fault)
print(f"modules: addresses {'shared' if shared else 'apart'}, {len(rows)} samples, {len(faults)} faults")
sys.exit(1 if faults else 0)
