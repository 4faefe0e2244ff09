# SPDX-License-Identifier: Apache-2.0
"""Checks what tests/vm/hotplug-in-guest left behind: check_hotplug.py hotplug|suspend OUT."""

import glob
import json
import os
import re
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


def data_of(sidecar):
    return os.path.join(out, "snapshots", os.path.basename(sidecar["path"]))


def check_count(sidecar):
    path = data_of(sidecar)
    lines = subprocess.run(["perf", "script", "-F", "time", "-i", path], capture_output=True, text=True)
    count = len([line for line in lines.stdout.splitlines() if line.strip()])
    check(count == sidecar["samples"], f"perf counts {count} of {sidecar['samples']} samples in {path}: {lines.stderr}")


def samples_of(sidecar):
    """(CPU, ns) of each sample."""
    lines = subprocess.run(["perf", "script", "--ns", "-F", "cpu,time", "-i", data_of(sidecar)], capture_output=True, text=True)
    return [(int(cpu), int(s) * 10**9 + int(ns)) for cpu, s, ns in re.findall(r"\[(\d+)\]\s+(\d+)\.(\d{9}):", lines.stdout)]


def check_recording():
    """Its parts are whole, and a CPU that returns is in them, or in a hole."""
    rows = [json.load(open(path)) for path in glob.glob(os.path.join(out, "snapshots", "*.json"))]
    parts = sorted((row for row in rows if row.get("kind") == "recording"), key=lambda row: row["record"]["part"])
    result = load("record.result")
    finished = result["progress"]["finished"]
    check(result["ended"] == "asked", f"the recording ended: {result['ended']}, {result['warnings']}")
    check([part["id"] for part in parts] == finished, f"parts {[part['id'] for part in parts]} of {finished}")
    check([part["record"]["part"] for part in parts] == list(range(1, len(parts) + 1)), "the parts are not numbered")
    check(len(parts) >= 3, f"only {len(parts)} parts: each CPU that returns has new events, which begin another one")
    left = [name for name in open(os.path.join(out, "store")).read().split() if name.startswith((".flightd-part-", ".flightd-rec-"))]
    check(left == [], f"left of the recording: {left}")
    samples, holes, texts = [], [], []
    for part in parts:
        record = part["record"]
        check(record["first"] == finished[0], f"{part['path']} belongs to {record['first']}")
        check(record["ended"] == ("asked" if part is parts[-1] else None), f"{part['path']}: ended {record['ended']}")
        check(record["holes_known"], f"{part['path']}: it does not know its holes")
        check_count(part)
        samples += samples_of(part)
        holes += [(hole["cpu"], hole["begin_ns"], hole["end_ns"]) for hole in part["holes"]]
        texts += part.get("warnings", [])
    check(sum(part["samples"] for part in parts) == len(samples), f"{len(samples)} samples have a CPU and a time")
    check(not any("unknown events" in text for text in texts), f"records of new events are missing: {texts}")
    check(any("CPU 5 was offline" in text for text in texts), f"no part says that CPU 5 was offline: {texts}")
    # The load runs on CPU 5 while that is online, at the end for 5 s on CPU 15.
    back = times["online 5"]
    for cpu, begin, end in [(5, times["record"], times["offline 5"]), (5, back, times["flapped"]), (5, times["flapped"], times["recorded"]),
                            (15, times["first online 15"], times["recorded"])]:
        found = any(one == cpu and begin < when < end for one, when in samples)
        hole = any(one == cpu and first < end and last > begin for one, first, last in holes)
        check(found or hole, f"CPU {cpu} is neither in the recording nor in a hole between {begin} and {end}")
    return len(parts)


acts = [line.split(" ", 1) for line in open(os.path.join(out, "acts")).read().splitlines()]
times = {act: int(when) for when, act in acts}  # the last one of each kind
for _, act in acts:
    check("failed" not in act, act)

sidecars = [load(os.path.basename(path)) for path in glob.glob(os.path.join(out, "*.json"))]
sidecars = [value for value in sidecars if "samples" in value]
for sidecar in sidecars:
    # Every sample of every event, also of dead events, has an id that the file lists.
    check(all(row["unknown_ids"] == 0 for row in sidecar["rings"]), f"unknown ids in {sidecar['path']}")
    check_count(sidecar)

parts = 0
if what == "hotplug":
    parts = check_recording()
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
recorded = f", {counted(parts, 'part')} of a recording" if parts else ""
print(f"{what}: {counted(len(sidecars), 'snapshot')}{recorded} verified, {counted(len(faults), 'fault')}")
sys.exit(1 if faults else 0)
