# SPDX-License-Identifier: Apache-2.0
"""What the lines of scripts/bench stand on: a flightd and a perf of their own, loads, and the numbers in a file."""
import json, os, pathlib, re, shutil, signal, socket, subprocess, sys, tempfile, time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
EVENT = "raw_syscalls:sys_enter"
CLOSE_NR = {"x86_64": 3, "aarch64": 57}[os.uname().machine]
FILTER = f"id == {CLOSE_NR}"
MIB = 1 << 20
CPUS = sorted(os.sched_getaffinity(0))


def run(*words, **options):
    return subprocess.run([str(w) for w in words], check=True, capture_output=True, text=True, **options)


def wait_until(condition, seconds, what):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        value = condition()
        if value:
            return value
        time.sleep(0.002)
    raise SystemExit(f"bench: waited {seconds} s in vain for {what}")


def jiffies(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return int(fields[11]) + int(fields[12])


def wakeups(pids):
    """Of each thread that lives now, "NAME TID": how often it went to sleep."""
    out = {}
    for pid in pids:
        for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
            status = dict(line.split(":\t", 1) for line in (task / "status").read_text().splitlines() if ":\t" in line)
            out[f"{status['Name']} {task.name}"] = int(status["voluntary_ctxt_switches"])
    return out


def children(pid):
    return [int(child) for child in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def cpu_ticks():
    """Of all CPUs since boot: not idle, and in all."""
    ticks = [int(word) for word in pathlib.Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]
    return sum(ticks) - ticks[3] - ticks[4], sum(ticks)


def pss_kib(pid):
    """Without the rings, which are the kernel's memory: some kernels count them where they are mapped, some do not."""
    total, of_a_ring = 0, False
    for line in pathlib.Path(f"/proc/{pid}/smaps").read_text().splitlines():
        words = line.split()
        if not words[0].endswith(":"):
            of_a_ring = "[perf_event]" in line
        elif words[0] == "Pss:" and not of_a_ring:
            total += int(words[1])
    return total


class Flightd:
    """A flightd of our own in a folder on the same disk as perf's files, or below `parent`. `config`: that file's text as
    it is, in place of one with the bench's channel, which has no triggers."""

    def __init__(self, bench, ring="", events=None, extra=None, enter=(), parent=None, config=None):
        self.bench = bench
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="flightd-", dir=parent or bench.work))
        self.dir.chmod(0o755)
        text = {"channels": {"bench": {"ring": ring, "events": events or [{"event": EVENT, "filter": FILTER}]}},
                "memory": {"max": "50%"}, **(extra or {})}
        self.config = self.dir / "config.json"
        self.config.write_text(config.read_text() if config else json.dumps(text))
        self.socket = self.dir / "run" / "io.flightd.Recorder"
        self.log = open(self.dir / "log", "w")
        self.enter = list(enter)  # words before the command
        self.start()

    def start(self):
        self.process = subprocess.Popen(
            [*self.enter, self.bench.build / "daemon/flightd", "--config", self.config, "--state-dir", self.dir / "state",
             "--runtime-dir", self.dir / "run"], stderr=self.log, stdout=self.log)
        wait_until(lambda: self.status() or self.process.poll() is not None, 20, "flightd")
        if self.process.poll() is not None:
            raise SystemExit("bench: flightd did not start: " + (self.dir / "log").read_text())

    def restart(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(20)
        self.start()

    def call_raw(self, method, parameters):
        """One call over the socket, without a process in between: the answer's text."""
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(str(self.socket))
            connection.sendall(json.dumps({"method": "io.flightd.Recorder." + method, "parameters": parameters}).encode() + b"\0")
            answer = bytearray()
            while not answer.endswith(b"\0"):
                piece = connection.recv(1 << 20)
                if not piece:
                    raise SystemExit(f"bench: flightd hung up on {method}")
                answer += piece
        return answer[:-1]

    def call(self, method, parameters):
        answer = json.loads(self.call_raw(method, parameters))
        if "error" in answer:
            raise SystemExit(f"bench: {method}: {answer}")
        return answer["parameters"]

    def ctl(self, *words):
        return subprocess.run([self.bench.build / "ctl/flightctl", "--socket", self.socket, "--json", *words],
                              capture_output=True, text=True)

    def status(self):
        answer = self.ctl("status")
        return json.loads(answer.stdout) if answer.returncode == 0 else None

    def snapshot(self, *words):
        answer = self.ctl("snapshot", *words)
        if answer.returncode != 0:
            raise SystemExit("bench: snapshot failed: " + answer.stderr)
        return json.loads(answer.stdout)

    def remove(self, sidecar):
        self.ctl("remove", sidecar["id"])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(20)
        self.log.close()
        shutil.rmtree(self.dir, ignore_errors=True)


class Perf:
    """perf record --overwrite --switch-output=signal with the same event and rings."""

    def __init__(self, bench, ring_bytes, event=EVENT, filter_text=FILTER, more=()):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="perf-", dir=bench.work))
        words = ["perf", "record", "-a", "--overwrite", "--switch-output=signal", "-k", "mono", "-m", str(ring_bytes // 4096),
                 "-e", event, "-o", str(self.dir / "perf.data"), *more]
        if filter_text:
            words += ["--filter", filter_text]
        self.err = open(self.dir / "err", "w+")
        self.process = subprocess.Popen(words, stderr=self.err, stdout=self.err, start_new_session=True)
        time.sleep(1.0)
        if self.process.poll() is not None:
            raise SystemExit("bench: perf did not start: " + (self.dir / "err").read_text())

    def dumps(self):
        return re.findall(r"Dump (\S+) \]", (self.dir / "err").read_text())

    def snapshot(self):
        """Sends the signal; the file's path and the seconds until perf said that it was dumped."""
        before = len(self.dumps())
        begin = time.monotonic()
        self.process.send_signal(signal.SIGUSR2)
        wait_until(lambda: len(self.dumps()) > before, 60, "perf's dump")
        return pathlib.Path(self.dumps()[-1]), time.monotonic() - begin

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGINT)
        self.process.wait(60)
        self.err.close()
        shutil.rmtree(self.dir, ignore_errors=True)


class Load:
    """close(-n) on every CPU, at `rate` a second each; or spinning processes."""

    def __init__(self, bench, rate=0, seconds=600, hogs=0, nice=0):
        words = ["nice", "-n", nice, bench.build / "tests/bench/close_load", "run"]
        self.processes = [subprocess.Popen([str(word) for word in words] + [str(cpu), str(rate), str(seconds)]) for cpu in CPUS if rate >= 0]
        spin = "import time\nend = time.time() + 600\nwhile time.time() < end: pass"
        self.processes += [subprocess.Popen([sys.executable, "-c", spin]) for _ in range(hogs)]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in self.processes:
            process.kill()
        for process in self.processes:
            process.wait()


def numbers_of(path):
    """(cpu, time in s, number) of every close in the file, by stock perf."""
    out = subprocess.run(["perf", "script", "-i", str(path), "--ns", "-F", "cpu,time,trace"], capture_output=True, text=True).stdout
    found = []
    for line in out.splitlines():
        match = re.match(r"\s*\[(\d+)\]\s+([\d.]+):\s+NR \d+ \(([0-9a-f]+)", line)
        if match:
            value = int(match.group(3), 16)
            if value >= 1 << 63:
                found.append((int(match.group(1)), float(match.group(2)), (1 << 64) - value))
    return found


def gaps_ms(paths):
    """From outside: the time between each two neighbours on a CPU whose numbers are not consecutive, over all files."""
    # Each dump of `perf record --overwrite` holds what came since the one before. The records lost in the blackout are
    # between two files, so missing sequence numbers are counted over all of them.
    rows = sorted({row for path in paths for row in numbers_of(path)})
    return [(b[1] - a[1]) * 1e3 for a, b in zip(rows, rows[1:]) if a[0] == b[0] and b[2] > a[2] + 1]
