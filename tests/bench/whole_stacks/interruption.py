# SPDX-License-Identifier: Apache-2.0
"""What a sample costs the program that is sampled: how long interrupts stop a busy program on one CPU, under one recorder
after the other, less that under none. The CPU time of the recorders' own threads is no part of it."""
import contextlib

from rig import CPUS, run

from .place import Place
from .recorders import FlightdRecorder, PerfRecorder, DUMP_BYTES, event_here

STACK_BYTES = 2 * DUMP_BYTES
RING = 8 << 20
BUDGET_HERTZ = 49
REAL_TIME = ("chrt", "--fifo", 1)  # only interrupts stop it; the recorders' own threads run elsewhere or later


@contextlib.contextmanager
def running(recorder):
    try:
        recorder.start()
        yield
    finally:
        recorder.end()


def makers(bench, hertz, stack):
    """Name: what makes the recorder."""
    event = event_here()
    found = {"flightd fp": lambda: FlightdRecorder(bench, hertz, "fp", RING)}
    if stack != "fp":
        found[f"flightd {stack}"] = lambda: FlightdRecorder(bench, hertz, stack, RING)
    found["perf fp"] = lambda: PerfRecorder("perf fp", "fp", event, hertz, bench.work)
    found["perf dwarf"] = lambda: PerfRecorder("perf dwarf", f"dwarf,{DUMP_BYTES}", event, hertz, bench.work)
    return found


def measure(bench, times, seconds, hertz, stack):
    """Nanoseconds of interruption per second of each recorder, alternating, as the machine's speed drifts."""
    place = Place(bench.work, "gaps")
    recorders = makers(bench, hertz, stack)
    found = {name: [] for name in ("nothing", *recorders)}
    try:
        place.compile("g++", "-O2", "-o", place.dir / "gaps", place.load("gaps.cpp"))
        for _ in range(times):
            for name, runs in found.items():
                with running(recorders[name]()) if name in recorders else contextlib.nullcontext():
                    gaps, _, took = map(int, run(*REAL_TIME, place.dir / "gaps", CPUS[-1], seconds, STACK_BYTES).stdout.split())
                    runs.append(gaps / took * 1e9)
    finally:
        place.end()
        place.remove()
    return {"hertz": hertz, "seconds": seconds, "stack_bytes": STACK_BYTES, "ns_per_second": found}


def markdown(result):
    best = {name: min(runs) for name, runs in result["ns_per_second"].items()}
    lines = [f"One busy program with {result['stack_bytes'] >> 10} KiB of stack, {result['hertz']} Hz; the shortest of "
             f"{len(result['ns_per_second']['nothing'])} alternating runs of {result['seconds']} s.", "",
             "| recorder | interrupted, µs a second | more than without, µs a sample | % of a CPU at 49 Hz |", "|---|---|---|---|"]
    for name, value in best.items():
        sample = (value - best["nothing"]) / result["hertz"]
        lines.append(f"| {name} | {value / 1e3:.0f} | " + ("— | — |" if name == "nothing" else
                     f"{sample / 1e3:.1f} | {sample * BUDGET_HERTZ / 1e7:.3f} |"))
    return "\n".join(lines) + "\n"
