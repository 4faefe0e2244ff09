# SPDX-License-Identifier: Apache-2.0
"""Lines of scripts/bench: bad days (live, frozen, storm), what is done with a file (compress, reading), size (cpus, list)."""
import contextlib, json, math, os, pathlib, random, re, shutil, statistics, subprocess, tempfile, time

from rig import CPUS, EVENT, FILTER, MIB, Flightd, Load, Perf, numbers_of, run

PERF_FILE = "460–1,130 until perf has its file"
OLD_MEMORY = "/sys/fs/cgroup/memory"


def nearest(ordered, percent):
    """The percentile's nearest rank."""
    return ordered[math.ceil(len(ordered) * percent / 100) - 1]


class Lines:
    def live(self):
        many, missing, seen, overlaps, rates = self.times(50), 0, 0, 0, []
        with Flightd(self, "16M", extra={"snapshot": {"capture": "live"}}) as flightd, Load(self, rate=200000 / len(CPUS), nice=-10):
            time.sleep(2)
            before = {}
            for _ in range(many):
                sidecar = flightd.snapshot("--last", "200ms")
                for cpu in CPUS:
                    numbers = [row[2] for row in sorted(numbers_of(sidecar["path"])) if row[0] == cpu]
                    if not numbers:
                        continue
                    missing += sum(b - a - 1 for a, b in zip(numbers, numbers[1:]))
                    seen += len(numbers)
                    overlaps += numbers[0] <= before.get(cpu, 0) + 1
                    before[cpu] = numbers[-1]
                rates.append(sidecar["samples"] / max(sidecar["window"]["seconds"], 1e-3))
                flightd.remove(sidecar)
        self.figures["live"] = {"missing": missing, "seen": seen, "events_per_second": rates}
        self.row("events lost, live", str(missing), "—", "—", "0",
                 f"{seen} numbers in {many} snapshots, {statistics.median(rates)/1e3:.0f} k/s in all, read by perf; "
                 f"{overlaps} windows touch the one before", missing == 0 and seen > 0)

    def frozen(self):
        """Requests at random times under each load; from before the client's send(2) to frozen_ns."""
        many = self.times(100)
        loads = {"16 hogs": lambda: Load(self, rate=-1, hogs=16), "1,000 sleeping": self.sleepers}
        for name, load in loads.items():
            with Flightd(self, "2M") as flightd, load():
                waits, blackouts = self.requests(flightd, many)
            self.frozen_row(name, waits, blackouts)
        # In a memory group of the old kind the kernel holds whoever allocates for 100 ms each time that it finds pages on
        # their way to the disk (mm/vmscan.c, writeback_throttling_sane); in one of the new kind it does not.
        waits, blackouts = self.requests_under_pressure(many, None)
        if not self.old_memory_groups():
            return self.frozen_row("memory pressure", waits, blackouts)
        on_disk = f"; store on a tmpfs, as memory groups are cgroup v1's here (on the disk p99 {nearest(waits, 99):.1f}, worst {waits[-1]:.1f}: docs/performance.md)"
        self.figures["frozen memory pressure on disk, cgroup v1"] = {"ms": waits, "blackout_ms": blackouts}
        with tempfile.TemporaryDirectory(prefix="flightd-bench-", dir="/dev/shm") as folder:
            os.chmod(folder, 0o755)
            self.frozen_row("memory pressure", *self.requests_under_pressure(many, folder), on_disk)

    def requests_under_pressure(self, many, parent):
        with self.memory_group() as group, Flightd(self, "2M", enter=group, parent=parent) as flightd, self.pressure(group):
            return self.requests(flightd, many)

    @staticmethod
    def requests(flightd, many, look=lambda sidecar: None):
        """Milliseconds from request to frozen_ns, in rising order, and of the blackouts. `look` sees each snapshot."""
        waits, blackouts = [], []
        time.sleep(2)
        for _ in range(many):
            time.sleep(random.uniform(0.001, 0.05))
            begin = time.monotonic_ns()
            sidecar = flightd.call("TakeSnapshot", {"reason": "bench", "last_usec": 10000})["snapshot"]
            waits.append((sidecar["window"]["end_ns"] - begin) / 1e6)
            blackouts.append(sidecar["blackout"]["max_us"] / 1e3)
            look(sidecar)
            flightd.remove(sidecar)
        return sorted(waits), blackouts

    def frozen_row(self, name, waits, blackouts, more=""):
        p99, worst = nearest(waits, 99), max(blackouts)
        self.figures[f"frozen {name}"] = {"ms": waits, "blackout_ms": blackouts}
        self.row(f"request → frozen, {name}, p99, ms", f"{p99:.1f}", PERF_FILE if name == "16 hogs" else "—", "—", "< 10; blackout ≤ 0.2",
                 f"{len(waits)} requests at random times, from the client's send to frozen_ns (median {statistics.median(waits):.1f}, worst {waits[-1]:.1f}); "
                 f"worst blackout {worst:.3f} ms{more}", p99 < 10 and worst <= 0.2)

    @contextlib.contextmanager
    def process(self, *words):
        child = subprocess.Popen([str(word) for word in words], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        try:
            child.stdout.readline()  # it says when it is there
            yield child
        finally:
            child.kill()
            child.wait()

    def sleepers(self):
        return self.process(self.build / "tests/e2e/loads/crowd", 1000)

    def pressure(self, group):
        return self.process(*group, self.build / "tests/e2e/loads/hog", 2048)

    @staticmethod
    def old_memory_groups():
        return (pathlib.Path(OLD_MEMORY) / "memory.limit_in_bytes").exists()

    @contextlib.contextmanager
    def memory_group(self):
        """Words that run a command in a cgroup of 192 MiB, in which the hog is killed again and again."""
        for parent, limit in ((OLD_MEMORY, "memory.limit_in_bytes"), ("/sys/fs/cgroup", "memory.max")):
            folder = pathlib.Path(parent) / f"flightd-bench-{os.getpid()}"
            with contextlib.suppress(OSError):
                folder.mkdir()
                (folder / limit).write_text(str(192 * MIB))
                break
        else:
            raise SystemExit("bench: no memory cgroup can be made here")
        try:
            yield ["sh", "-c", 'echo $$ > "$0/cgroup.procs" && exec "$@"', str(folder)]
        finally:
            for _ in range(100):
                with contextlib.suppress(OSError):
                    folder.rmdir()
                    break
                time.sleep(0.1)

    @staticmethod
    def recorder_seconds(flightd):
        """The CPU time of the recorder thread so far."""
        task = next(path for path in pathlib.Path(f"/proc/{flightd.process.pid}/task").iterdir()
                    if (path / "comm").read_text().strip() == "recorder")
        return int((task / "schedstat").read_text().split()[0]) / 1e9

    def storm(self):
        seconds = 5 if self.options.quick else 30
        with Flightd(self, "2M", [{"event": "cycles", "frequency": 99, "stack": "fp"}]) as flightd:
            spent = lambda: self.recorder_seconds(flightd)
            forks = lambda: int(re.search(r"^processes (\d+)", pathlib.Path("/proc/stat").read_text(), re.M).group(1))
            storm = subprocess.Popen(["stress-ng", "--fork", "4", "--exec", "2", "--temp-path", self.work, "-t", str(seconds + 20)],
                                     stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            try:
                time.sleep(2)
                begin, cpu, before = time.monotonic(), spent(), forks()
                time.sleep(seconds)
                took = time.monotonic() - begin
                share, rate = (spent() - cpu) / took * 100, (forks() - before) / took
                sidecar = flightd.snapshot()
                rss = flightd.status()["self"]["flightd"]["rss_bytes"] / MIB
            finally:
                storm.terminate()
                storm.wait(30)
        self.figures["storm"] = {"cpu_percent": share, "forks_per_second": rate, "tracker": sidecar["tracker"], "rss_mib": rss}
        stale = sidecar["tracker"]["stale"]
        self.row("tracker in a fork storm, % of one CPU", f"{share:.2f}", "—", "—", "≤ 2, nothing lost",
                 f"stress-ng --fork 4 --exec 2, {rate:.0f} forks/s, {took:.0f} s, the recorder thread's own time; sideband "
                 f"{'was lost' if stale else 'whole'}, {sidecar['tracker']['exited']} dead kept, RSS {rss:.0f} MiB", share <= 2 and not stale)
        self.flood()

    def flood(self):
        """One thread on each CPU changes an executable mapping as fast as it can."""
        seconds = 3 if self.options.quick else 10
        with Flightd(self, "2M", [{"event": "cycles", "frequency": 99, "stack": "fp"}]) as flightd:
            begin, before = time.monotonic(), self.recorder_seconds(flightd)
            togglers = [subprocess.Popen([self.build / "tests/e2e/loads/toggler", str(cpu), str(seconds), "11"],
                                         stdout=subprocess.PIPE, text=True) for cpu in CPUS]
            texts = [toggler.communicate()[0] for toggler in togglers]
            took = time.monotonic() - begin
            share = (self.recorder_seconds(flightd) - before) / took * 100
            rate = sum(int(re.search(r"toggled (\d+)", text).group(1)) for text in texts) / took
            stale = flightd.snapshot()["tracker"]["stale"]
        self.figures["flood"] = {"cpu_percent": share, "records_per_second": rate}
        self.row("tracker in a flood of mappings, % of one CPU", f"{share:.1f}", "—", "—", "≤ 15, nothing lost",
                 f"a thread on each CPU toggles mprotect(PROT_EXEC), {rate:.0f} MMAP2 records/s, {took:.0f} s, the recorder thread's own "
                 f"time; sideband {'was lost' if stale else 'whole'}", share <= 15 and not stale)
        self.renames()

    def renames(self):
        """One thread on each CPU gives itself names as fast as it can."""
        seconds = 3 if self.options.quick else 10
        with Flightd(self, "2M", [{"event": "cycles", "frequency": 99, "stack": "fp"}]) as flightd:
            begin, before = time.monotonic(), self.recorder_seconds(flightd)
            renamers = [subprocess.Popen([self.build / "tests/e2e/loads/renamer", str(cpu), str(seconds)],
                                         stdout=subprocess.PIPE, text=True) for cpu in CPUS]
            texts = [renamer.communicate()[0] for renamer in renamers]
            took = time.monotonic() - begin
            share = (self.recorder_seconds(flightd) - before) / took * 100
            rate = sum(int(re.search(r"renamed (\d+)", text).group(1)) for text in texts) / took
            stale = flightd.snapshot()["tracker"]["stale"]
        self.figures["renames"] = {"cpu_percent": share, "records_per_second": rate}
        self.row("tracker in a flood of names, % of one CPU", f"{share:.1f}", "—", "—", "≤ 15, nothing lost",
                 f"a thread on each CPU calls prctl(PR_SET_NAME), {rate:.0f} COMM records/s, {took:.0f} s, the recorder thread's own "
                 f"time; sideband {'was lost' if stale else 'whole'}", share <= 15 and not stale)

    def full_file(self, compression):
        """One of ours and one of perf's at the same time, 2 × 16 MiB of the same events; perf's first dump, as a later -z one cannot be read."""
        with Flightd(self, "16M", extra={"snapshot": {"compression": compression}}) as flightd, \
                Perf(self, 16 * MIB, more=["-z"] if compression == "zstd" else []) as perf:
            with Load(self, rate=0, seconds=3):
                time.sleep(3.2)
            ours, (theirs, _) = pathlib.Path(flightd.snapshot()["path"]), perf.snapshot()
            kept = [pathlib.Path(self.work) / f"{who}-{compression}.perf.data" for who in ("ours", "perfs")]
            for source, target in zip((ours, theirs), kept):
                shutil.copyfile(source, target)
        return kept

    @staticmethod
    def report_cost(path):
        """Seconds and peak RSS of one perf report."""
        begin = time.monotonic()
        child = subprocess.Popen(["perf", "report", "--stdio", "-i", str(path)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        return time.monotonic() - begin, usage.ru_maxrss * 1024

    @staticmethod
    def samples_in(path):
        out = subprocess.run(["perf", "script", "-i", str(path), "-F", "time"], capture_output=True, text=True).stdout
        return max(out.count("\n"), 1)

    def reading(self):
        for compression, perfs_own in (("none", "its own overwrite file"), ("zstd", "its own with -z")):
            files = self.full_file(compression)
            samples = [self.samples_in(path) for path in files]
            costs = [[self.report_cost(path) for path in files] for _ in range(self.times(15))]
            seconds = [min(pair[who][0] for pair in costs) / samples[who] * 1e6 for who in (0, 1)]
            rss = [statistics.median(pair[who][1] for pair in costs) / MIB for who in (0, 1)]
            ratio, rss_ratio = seconds[0] / seconds[1], rss[0] / rss[1]
            self.figures[f"reading {compression}"] = {"samples": samples, "us_per_sample": seconds, "peak_rss_mib": rss}
            what = "plain" if compression == "none" else "zstd"
            how = f"perf report, min of {len(costs)} alternating; {samples[0]} and {samples[1]} samples; perf's: {perfs_own}"
            self.row(f"reading it in perf, {what}, µs per sample", f"{seconds[0]:.2f}", f"{seconds[1]:.2f}", f"{ratio:.2f}", "≤ 1", how, ratio <= 1)
            self.row(f"reading it in perf, {what}, peak RSS, MiB", f"{rss[0]:.0f}", f"{rss[1]:.0f}", f"{rss_ratio:.2f}", "≤ 1", how, rss_ratio <= 1)

    def compress(self):
        """The data section's bytes, one frame for each chunk as a worker does it, and by zstd's own benchmark."""
        raw = pathlib.Path(self.work) / "raw"
        with Flightd(self, "16M") as flightd:
            with Load(self, rate=0, seconds=3):
                time.sleep(3.2)
            ours = float(run(self.build / "tests/bench/compress_speed", flightd.snapshot()["path"], raw).stdout)
        zstd = subprocess.run(["zstd", "-b1", "-i3", str(raw)], capture_output=True, text=True)
        theirs = float(re.findall(r"([\d.]+) MB/s", zstd.stdout + zstd.stderr)[-2])
        self.figures["compress"] = {"worker_mb_per_second": ours, "zstd_b1_mb_per_second": theirs}
        self.row("compression, MB/s per worker", f"{ours:.0f}", f"{theirs:.0f}", f"{ours/theirs:.2f}", "—",
                 f"{raw.stat().st_size/MIB:.0f} MiB of a snapshot's records in one thread; beside it `zstd -b1` on the same bytes", True)

    def cpus(self):
        ring, target = 4 * MIB, pathlib.Path(self.work) / "pipeline"
        best = {}
        for _ in range(self.times(9)):
            for rings in (4, 16, 64):
                one = json.loads(run(self.build / "tests/bench/pipeline", rings, ring, len(CPUS), target).stdout)
                if rings not in best or one["seconds"] < best[rings]["seconds"]:
                    best[rings] = one
        self.figures["cpus"] = best
        speed = {rings: one["ring_bytes"] / one["seconds"] / MIB for rings, one in best.items()}
        # Four rings lie in the processor's cache, so 16 are what 64 are compared with.
        large, linear = best[64], best[64]["seconds"] / best[16]["seconds"] / 4
        shares = [cpu / large["seconds"] for cpu in large["worker_cpu_seconds"]]
        peak = large["peak_bytes"] / large["ring_bytes"]
        self.row("cost with CPUs, 64 rings ÷ 4 × that of 16", f"{linear:.2f}", "—", "—", "linear: ≤ 1.1; each worker > 30 % of a CPU",
                 "4 MiB rings through walk, merge, zstd, write: " + ", ".join(f"{r} rings {speed[r]:.0f} MiB/s" for r in speed) +
                 "; workers " + ", ".join(f"{share*100:.0f} %" for share in shares), linear <= 1.1 and min(shares) > 0.3)
        self.row("memory with 64 rings ÷ their bytes", f"{peak:.2f}", "—", "—", "≤ 2 (and a constant)",
                 f"peak RSS {large['peak_bytes']/MIB:.0f} MiB, the images of {large['ring_bytes']/MIB:.0f} MiB in it", peak <= 2)

    def list(self):
        many = 10000
        with Flightd(self, "64K", extra={"store": {"max_files": 2 * many}}) as flightd:
            sidecar = flightd.snapshot()
            text = pathlib.Path(sidecar["path"].removesuffix(".perf.data") + ".json").read_text()
            folder = pathlib.Path(sidecar["path"]).parent
            for number in range(1000, 1000 + many - 1):
                path = sidecar["path"].removesuffix(f"-{sidecar['id']}.perf.data") + f"-{number}.perf.data"
                pathlib.Path(path).write_bytes(b"")
                one = text.replace(f'"id": "{sidecar["id"]}"', f'"id": "{number}"').replace(sidecar["path"], path)
                pathlib.Path(path.removesuffix(".perf.data") + ".json").write_text(one)
            for file in folder.iterdir():
                file.chmod(0o644)
            every, counts = {"cold": [], "cached": [], "status": []}, set()
            for _ in range(self.times(5)):
                flightd.restart()
                for name, method in (("cold", "ListSnapshots"), ("cached", "ListSnapshots"), ("status", "GetStatus")):
                    begin = time.monotonic()
                    answer = flightd.call_raw(method, {})
                    every[name].append((time.monotonic() - begin) * 1e3)
                    if method == "ListSnapshots":
                        counts.add(len(json.loads(answer)["parameters"]["snapshots"]))
        times = {name: statistics.median(values) for name, values in every.items()}
        self.figures["list"] = {"rows": sorted(counts), "ms": every}
        self.row("list of 10,000 snapshots, ms", f"{times['cold']:.0f} / {times['cached']:.0f}", "—", "—", "≤ 500 cold / ≤ 30 cached",
                 f"{max(counts)} rows over the socket, first and second after flightd's start, median of {len(every['cold'])} starts "
                 f"(worst {max(every['cold']):.0f} / {max(every['cached']):.0f}); status then takes {times['status']:.1f} ms",
                 counts == {many} and times["cold"] <= 500 and times["cached"] <= 30)
