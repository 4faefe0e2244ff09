# SPDX-License-Identifier: Apache-2.0
"""Checks what tests/vm/hotplug-in-guest left behind: check_hotplug.py hotplug|suspend OUT."""

import glob
import json
import os
import subprocess
import sys

what, out = sys.argv[1:]
faults = []


def counted(number, noun):
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def check(good, text):
    if not good:
        faults.append(text)


def load(name):
    with open(os.path.join(out, name)) as file:
        return json.load(file)


def ring(sidecar, cpu):
    return next(row for row in sidecar["rings"] if row["cpu"] == cpu)


acts = [line.split(" ", 1) for line in open(os.path.join(out, "acts")).read().splitlines()]
times = {act: int(when) for when, act in acts}  # the last one of each kind
for _, act in acts:
    check("failed" not in act, act)

sidecars = [load(os.path.basename(path)) for path in glob.glob(os.path.join(out, "*.json"))]
sidecars = [value for value in sidecars if "samples" in value]
for sidecar in sidecars:
    # Every sample of every event, also of dead events, has an id that the file lists.
    check(all(row["unknown_ids"] == 0 for row in sidecar["rings"]), f"unknown ids in {sidecar['path']}")
    path = os.path.join(out, "snapshots", os.path.basename(sidecar["path"]))
    lines = subprocess.run(["perf", "script", "-F", "time", "-i", path], capture_output=True, text=True)
    count = len([line for line in lines.stdout.splitlines() if line.strip()])
    check(count == sidecar["samples"], f"perf counts {count} of {sidecar['samples']} samples in {path}: {lines.stderr}")

if what == "hotplug":
    check(len(sidecars) >= 5, f"only {len(sidecars)} snapshots while CPUs came and went")
    offline = glob.glob(os.path.join(out, "status-*-*.json"))
    check(len(offline) == 6, f"{len(offline)} times a CPU was seen offline")
    for path in offline:
        status = load(os.path.basename(path))
        check(status["cpus"] == 14, f"{path}: {status['cpus']} CPUs")
        check(len(status["rings"]) == 15, f"{path}: the offline CPU's ring is kept, but there are {len(status['rings'])}")
    # One ring has one history: from before CPU 5 went offline for the first time until after its last return.
    final = load("final.json")
    five = ring(final, 5)
    check(0 < five["oldest_ns"] < times["begin"], f"the history of CPU 5 from before it went offline is gone: {five}")
    check(five["newest_ns"] > times["flapped"], f"CPU 5 is not recorded any more: {five}")
    reported = [text for text in final.get("warnings", []) if "CPU 5 was offline" in text]
    check(len(reported) >= 3, f"gaps of CPU 5 that are reported: {reported}")
    check(len(final["rings"]) == 16, "a CPU that is online for the first time has no ring")
else:
    last = ring(load("resumed.json"), 3)
    check(last["newest_ns"] > times["resumed"], f"CPU 3 is not recorded after a suspend: {last}")
    check(last["oldest_ns"] < times["suspend"], f"the history from before the suspend is gone: {last}")
    reported = [text for text in load("resumed.json").get("warnings", []) if "CPU 3 was offline or suspended" in text]
    check(len(reported) == 1, f"the suspend is reported {len(reported)} times")
left = [text for text in load("status.last")["warnings"] if "user flightd" not in text]
check(left == [], f"warnings are left: {left}")

for fault in faults:
    print(fault)
print(f"{what}: {counted(len(sidecars), 'snapshot')} verified, {counted(len(faults), 'fault')}")
sys.exit(1 if faults else 0)
