# SPDX-License-Identifier: Apache-2.0
"""The recorders that run side by side, with one event and frequency: flightd, and perf with each kind of call graph."""
import contextlib, os, pathlib, signal, subprocess, time

from rig import Flightd, run

from .place import tree

DUMP_BYTES = 16384
PERF_SECONDS = 120
SLACK_SECONDS = 10
SAMPLE_BYTES = {"fp": 1200, "whole": 14000}  # at most, in flightd's ring


def event_here():
    """cycles where the machine counts them, as flightd decides it."""
    counted = run("perf", "stat", "-x", ",", "-e", "cycles", "--", "true").stderr
    return "cpu-clock" if "not supported" in counted or "not counted" in counted else "cycles"


def cpu_seconds(pids):
    """The CPU time of all living threads of these processes, to the nanosecond."""
    total = 0
    for pid in pids:
        for stat in pathlib.Path(f"/proc/{pid}/task").glob("*/schedstat"):
            with contextlib.suppress(OSError):
                total += int(stat.read_text().split()[0])
    return total / 1e9


class FlightdRecorder:
    """One flightd for all programs; a snapshot of the last seconds is its file."""
    name = "flightd"

    def __init__(self, bench, hertz, stack, ring_bytes):
        self.flightd = Flightd(bench, str(ring_bytes), [{"event": "cycles", "frequency": hertz, "stack": stack, "max_stack": 127}])
        self.begin, self.id = time.monotonic(), None

    def start(self):
        self.begin = time.monotonic()

    def spent(self):
        return cpu_seconds(tree([self.flightd.process.pid]))

    def finish(self):
        """The file, and what it cost in seconds of CPU time."""
        before = self.spent()
        # On a busy machine the request itself takes seconds.
        last = int(time.monotonic() - self.begin) + SLACK_SECONDS
        sidecar = self.flightd.snapshot("--last", f"{last}s", "--reason", "stacks")
        self.id = sidecar["id"]
        return pathlib.Path(sidecar["path"]), self.spent() - before

    def remove(self):
        if self.id:
            self.flightd.ctl("remove", self.id)
        self.id = None

    def end(self):
        self.flightd.__exit__()


class PerfRecorder:
    def __init__(self, name, graph, event, hertz, work):
        self.process, self.pipes = None, []
        self.name, self.path = name, pathlib.Path(work) / f"{name.replace(' ', '-')}.perf.data"
        # The idle task has no stack. flightd leaves it out; arm64's PMU refuses the modifier, and stops while a CPU is idle.
        event = "cpu-clock:I" if event == "cpu-clock" else event
        self.words = ["perf", "record", "-a", "-N", "-k", "mono", "-m", "2M", "-e", event, "-F", str(hertz),
                      "--call-graph", graph, "-o", str(self.path)]

    def start(self):
        """Returns when perf's events are enabled."""
        (control, commands), (answers, answer) = os.pipe(), os.pipe()
        with open(self.path.with_suffix(".log"), "w") as log:
            self.process = subprocess.Popen([*self.words, "--delay=-1", f"--control=fd:{control},{answer}"], stdin=subprocess.DEVNULL,
                                            stdout=log, stderr=log, pass_fds=[control, answer])
        for fd in (control, answer):
            os.close(fd)
        self.pipes = [commands, answers]  # perf 6.1 ends with an error when they are closed
        os.write(commands, b"enable\n")
        if b"ack" not in os.read(answers, 8):
            self.end()
            raise SystemExit("bench: perf did not start: " + self.path.with_suffix(".log").read_text())

    def spent(self):
        return cpu_seconds([self.process.pid])

    def finish(self):
        before = self.spent()
        os.kill(self.process.pid, signal.SIGINT)
        end = time.monotonic() + PERF_SECONDS
        while True:
            pid, status, usage = os.wait4(self.process.pid, os.WNOHANG)
            if pid:
                break
            if time.monotonic() > end:
                os.kill(self.process.pid, signal.SIGKILL)
            time.sleep(0.01)
        self.process.returncode = os.waitstatus_to_exitcode(status)
        self.end()
        return self.path, max(usage.ru_utime + usage.ru_stime - before, 0)

    def remove(self):
        self.end()
        self.path.unlink(missing_ok=True)

    def end(self):
        if self.process and self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        for pipe in self.pipes:
            os.close(pipe)
        self.pipes = []


def ring_for(hertz, seconds, stack):
    """Room for the measured seconds and those until the snapshot. A ring's size is a power of two."""
    return 1 << max(20, (hertz * (seconds + 2 * SLACK_SECONDS) * SAMPLE_BYTES[stack]).bit_length())


def recorders(bench, hertz, stack, seconds):
    event = event_here()
    return [FlightdRecorder(bench, hertz, stack, ring_for(hertz, seconds, stack)),
            PerfRecorder("perf fp", "fp", event, hertz, bench.work),
            PerfRecorder("perf dwarf", f"dwarf,{DUMP_BYTES}", event, hertz, bench.work)]
