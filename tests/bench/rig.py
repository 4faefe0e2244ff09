# SPDX-License-Identifier: Apache-2.0
"""What the lines of scripts/bench stand on: a flightd and a perf of their own, loads, and the numbers in a file."""
import contextlib, json, os, pathlib, re, shutil, signal, socket, subprocess, sys, tempfile, time

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


def jiffies(pid, and_reaped=False):
    """Of all its threads; and of its children that have ended."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return sum(map(int, fields[11:15 if and_reaped else 13]))


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
        try:
            wait_until(lambda: self.status() or self.process.poll() is not None, 20, "flightd")
        except BaseException:
            self.process.kill()
            raise
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

    def cpu_seconds(self):
        """So far, of all threads of flightd, its broker and the broker's helpers."""
        broker = self.status()["self"]["broker"]["pid"]
        return sum(jiffies(pid, and_reaped=True) for pid in (self.process.pid, broker, *children(broker))) / os.sysconf("SC_CLK_TCK")

    def record(self, *words):
        answer = self.ctl("record", *words)
        return self.whole_recording(answer.stdout, answer.stderr)

    @contextlib.contextmanager
    def recording(self, *words):
        """flightctl record runs in the block; after it the result is in the dictionary."""
        result = {}
        child = subprocess.Popen([self.bench.build / "ctl/flightctl", "--socket", self.socket, "--json", "record", *words],
                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        try:
            wait_until(lambda: b" is running: " in self.call_raw("GetStatus", {}) or child.poll() is not None, 20, "the recording")
            yield result
            child.send_signal(signal.SIGTERM)  # a shell's background jobs ignore SIGINT
            result.update(self.whole_recording(*child.communicate(timeout=60)))
        finally:
            child.kill()
            child.wait()

    @staticmethod
    def whole_recording(out, err):
        result = json.loads(out or "{}")
        if result.get("ended") != "asked":
            raise SystemExit(f"bench: the recording ended early: {result.get('warnings', '')} {err}")
        return result

    def parts(self, result):
        """The sidecars of a recording's parts, in their order."""
        return [self.call("DescribeSnapshot", {"id": number})["snapshot"] for number in result["progress"]["finished"]]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(20)
        finally:
            self.process.kill()
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


class Closers:
    """tests/e2e/loads/closer on every CPU: close(-n), at `rate` a second each, from go() on. No other call matches `filter`."""

    def __init__(self, bench, rate, seconds=900):
        self.processes = []
        with contextlib.ExitStack() as failed:
            failed.callback(self.stop)
            for cpu in CPUS:
                words = [bench.build / "tests/e2e/loads/closer", str(cpu), str(rate), str(seconds)]
                self.processes.append(subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE))
                self.processes[-1].stdout.readline()  # it is ready
            failed.pop_all()
        self.filter = f"{FILTER} && (" + " || ".join(f"common_pid == {process.pid}" for process in self.processes) + ")"

    def go(self):
        for process in self.processes:
            process.stdin.close()
        time.sleep(2)

    def stop(self):
        for process in self.processes:
            process.kill()
            process.wait()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()


NUMBERED = re.compile(r"\s*\[(\d+)\]\s+(\d+)\.(\d{9}):\s+NR \d+ \(([0-9a-f]+)")


def each_number(path):
    """(cpu, time in ns, number) of every close in the file or directory, by stock perf."""
    words = ["perf", "script", "-i", str(path), "--ns", "-F", "cpu,time,trace"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as child:
        try:
            for line in child.stdout:
                match = NUMBERED.match(line)
                if match:
                    cpu, seconds, fraction, value = match.groups()
                    value = int(value, 16)
                    if value >= 1 << 63:
                        yield int(cpu), int(seconds + fraction), (1 << 64) - value
        finally:
            child.kill()


def numbers_of(path):
    """The same with the time in s."""
    return [(cpu, ns / 1e9, number) for cpu, ns, number in each_number(path)]


def gaps_ms(paths):
    """From outside: the time between each two neighbours on a CPU whose numbers are not consecutive, over all files."""
    # Each dump of `perf record --overwrite` holds what came since the one before. The records lost in the blackout are
    # between two files, so missing sequence numbers are counted over all of them.
    rows = sorted({row for path in paths for row in numbers_of(path)})
    return [(b[1] - a[1]) * 1e3 for a, b in zip(rows, rows[1:]) if a[0] == b[0] and b[2] > a[2] + 1]
