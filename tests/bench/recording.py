# SPDX-License-Identifier: Apache-2.0
"""The line "recording" of scripts/bench: flightctl record beside perf record -a -z, and what a recording costs flightd."""
import os, pathlib, re, signal, statistics, subprocess, tempfile, time

from lines import nearest
from rig import CPUS, EVENT, MIB, ROOT, Closers, Flightd, each_number, pss_kib

GIB = 1 << 30
RATE = 100_000  # events a second on each CPU
RING = 16 * MIB  # of each CPU, flightd's and perf's
MEMORY_RING = 4 * MIB
FULL_RATE, FULL_RING = 200_000, 32 * MIB  # for the numbers alone


def ring(size):
    return f"{size // MIB}M"


def recorded(paths):
    """By the numbers in these files: how many events, and (cpu, ns before, ns after, missing) of each gap. -1: one that is
    there twice, or too late."""
    last, count, gaps = {}, 0, []
    for path in paths:
        for cpu, ns, number in each_number(path):
            before_ns, before = last.get(cpu, (ns, number - 1))
            if number != before + 1:
                gaps.append((cpu, before_ns, ns, number - before - 1 if number > before else -1))
            last[cpu] = ns, number
            count += 1
    return count, gaps


def missing(gaps):
    return sum(max(gap[3], 0) for gap in gaps)


def unstated(parts, count, gaps):
    """Of these gaps the numbers that no sidecar says are missing, and what perf does not print of what they say is there."""
    holes = [hole for part in parts for hole in part["holes"]]
    stated = lambda cpu, begin, end: any(hole["cpu"] == cpu and hole["begin_ns"] <= end and hole["end_ns"] >= begin for hole in holes)
    return sum(abs(many) for cpu, begin, end, many in gaps if many < 0 or not stated(cpu, begin, end)) + \
        abs(sum(part["samples"] for part in parts) - count)


def perf_has_threads():
    usage = subprocess.run(["perf", "record", "-h"], capture_output=True, text=True)
    return "--threads" in usage.stdout + usage.stderr


class Recording:
    def recording(self):
        for layout in ("file", "directory"):
            self.recording_beside_perf(layout)
            self.recording_numbers(layout)
        self.recording_idle()
        self.recording_frozen()
        self.recording_memory()

    def recording_beside_perf(self, layout):
        seconds = 10 if self.options.quick else 60
        ours = self.record_with_flightd(layout, seconds)
        words = ["--threads=cpu"] if layout == "directory" and perf_has_threads() else []
        theirs = self.record_with_perf(words, seconds)
        self.figures[f"recording {layout}"] = {"seconds": seconds, "flightd": ours, "perf": theirs}
        command = " ".join(["perf record -a -z --all-cgroups", *words])
        if layout == "directory" and not words:
            command += " (this perf has no --threads, so a file)"
        how = (f"{seconds} s each, one after the other; {RATE * len(CPUS) / 1e3:.0f} k events/s on {len(CPUS)} CPUs, all busy, {ring(RING)} rings; "
               f"beside {command}")
        cost = [one["cpu_seconds"] / one["raw_bytes"] * GIB for one in (ours, theirs)]
        self.row(f"recording, {layout}, CPU s per GiB", f"{cost[0]:.2f}", f"{cost[1]:.2f}", f"{cost[0] / cost[1]:.2f}", "≤ 1",
                 f"{how}; utime + stime of flightd and broker {ours['cpu_seconds']:.2f} s for {ours['raw_bytes'] / GIB:.2f} GiB before compression, "
                 f"without the {ours['cpu_seconds_before']:.2f} s of as long before; of perf {theirs['cpu_seconds']:.2f} s for "
                 f"{theirs['raw_bytes'] / GIB:.2f} GiB", cost[0] <= cost[1])
        size = [one["file_bytes"] / one["events"] for one in (ours, theirs)]
        self.row(f"recording, {layout}, bytes per event", f"{size[0]:.2f}", f"{size[1]:.2f}", f"{size[0] / size[1]:.3f}", "≤ 1.02",
                 f"the same; {ours['file_bytes'] / MIB:.1f} MiB in {ours['parts']} parts and {theirs['file_bytes'] / MIB:.1f} MiB", size[0] <= 1.02 * size[1])
        self.row(f"recording, {layout}, events lost", str(ours["lost"]), str(theirs["lost"]), "—", "≤ perf's",
                 f"the same; missing numbers, of {ours['events']} and {theirs['events']}, read by perf", ours["lost"] <= theirs["lost"])
        self.row(f"recording, {layout}, lost outside holes / holes", f"{ours['unstated']} / {ours['holes']}", "—", "—", "0 / 0",
                 "numbers that are missing and in no hole of a sidecar, and holes", ours["unstated"] == 0 and ours["holes"] == 0)

    def recording_numbers(self, layout):
        """At the full rate: each number is there once, or in a hole."""
        seconds = 10 if self.options.quick else 60
        ours = self.record_with_flightd(layout, seconds, FULL_RATE, FULL_RING)
        self.figures[f"recording numbers {layout}"] = {"seconds": seconds, "flightd": ours}
        self.row(f"recording, {layout}, {FULL_RATE // 1000} k/s per CPU, lost outside holes / holes", f"{ours['unstated']} / {ours['holes']}", "—", "—", "0 / 0",
                 f"{seconds} s, {ours['events']} events on {len(CPUS)} CPUs, all busy, {ring(FULL_RING)} rings; numbers that are missing and in no "
                 "hole of a sidecar, and holes; read by perf", ours["unstated"] == 0 and ours["holes"] == 0)

    def record_with_flightd(self, layout, seconds, rate=RATE, ring_bytes=RING):
        with Closers(self, rate) as load, Flightd(self, ring(ring_bytes), [{"event": EVENT, "filter": load.filter}]) as flightd:
            load.go()
            before = self.cpu_seconds_of(flightd, lambda: time.sleep(seconds))[0] / seconds
            cpu, took, result = self.cpu_seconds_of(flightd, lambda: flightd.record("--for", f"{seconds}s", "--layout", layout))
            load.stop()
            parts = flightd.parts(result)
            count, gaps = recorded(part["path"] for part in parts)
        if not count:
            raise SystemExit("bench: the recording has no events")
        total = lambda key: sum(part[key] for part in parts)
        return {"cpu_seconds": cpu - before * took, "cpu_seconds_before": before * took, "raw_bytes": total("raw_bytes"),
                "file_bytes": total("size_bytes"), "events": count, "lost": missing(gaps), "unstated": unstated(parts, count, gaps),
                "holes": sum(len(part["holes"]) for part in parts), "lost_by_sidecars": result["progress"]["lost"], "parts": len(parts)}

    @staticmethod
    def cpu_seconds_of(flightd, action):
        """Its CPU seconds meanwhile, how long that was, and the action's result."""
        cpu, begin = flightd.cpu_seconds(), time.monotonic()
        result = action()
        return flightd.cpu_seconds() - cpu, time.monotonic() - begin, result

    def record_with_perf(self, words, seconds):
        """Its CPU time is that of its own process; most of its beginning is reading /proc, as most of flightd's."""
        with tempfile.TemporaryDirectory(prefix="perf-", dir=self.work) as folder, Closers(self, RATE) as load:
            load.go()
            path, log = pathlib.Path(folder) / "perf.data", pathlib.Path(folder) / "err"
            with log.open("w") as err:
                child = subprocess.Popen(
                    ["perf", "record", "-a", "-z", "--all-cgroups", "-k", "mono", "-m", str(RING // 4096), "-e", EVENT, "--filter", load.filter,
                     "-o", str(path), *words], stdout=err, stderr=err)
            try:
                time.sleep(seconds)
                child.send_signal(signal.SIGINT)
                _, status, usage = os.wait4(child.pid, 0)
                child.returncode = os.waitstatus_to_exitcode(status)
            finally:
                child.kill()
                child.wait()
            load.stop()
            original = re.search(r"original ([\d.]+) MB", log.read_text())
            count, gaps = recorded([path]) if original else (0, [])
            if not count:
                raise SystemExit("bench: perf did not record: " + log.read_text())
            files = path.iterdir() if path.is_dir() else [path]
            return {"cpu_seconds": usage.ru_utime + usage.ru_stime, "raw_bytes": float(original.group(1)) * MIB,
                    "file_bytes": sum(file.stat().st_size for file in files), "events": count, "lost": missing(gaps)}

    def recording_idle(self):
        seconds = 10 if self.options.quick else 60
        with Flightd(self, config=ROOT / "config" / "flightd.json") as flightd:
            time.sleep(3)
            without = self.cpu_seconds_of(flightd, lambda: time.sleep(seconds))[0] / seconds * 100
            with flightd.recording():
                time.sleep(3)
                during = self.cpu_seconds_of(flightd, lambda: time.sleep(seconds))[0] / seconds * 100
        self.figures["recording idle"] = {"seconds": seconds, "cpu_percent": during, "cpu_percent_without": without}
        self.row("recording, idle, % of one CPU more", f"{during - without:.2f}", "—", "—", "≤ 0.1",
                 f"{seconds} s, default config, /proc/PID/stat of all processes: {during:.2f} with a recording, {without:.2f} without", during - without <= 0.1)

    def recording_frozen(self):
        """Snapshots during a recording: both have each number."""
        many, captures, lost, seen = self.times(50), set(), 0, 0

        def look(sidecar):
            nonlocal lost, seen
            captures.add(sidecar["capture"])
            count, gaps = recorded([sidecar["path"]])
            seen += count
            lost += missing(gaps)

        with Closers(self, RATE // 2) as load, Flightd(self, ring(RING), [{"event": EVENT, "filter": load.filter}]) as flightd:
            load.go()
            alone, _ = self.requests(flightd, many)
            with flightd.recording() as result:
                waits, blackouts = self.requests(flightd, many, look)
            load.stop()
            parts = flightd.parts(result)
            count, gaps = recorded(part["path"] for part in parts)
        wrong = unstated(parts, count, gaps)
        p99 = nearest(waits, 99)
        self.figures["recording frozen"] = {"ms": waits, "ms_without": alone, "blackout_ms": blackouts, "captures": sorted(captures), "lost": lost,
                                            "seen": seen, "recording_lost": missing(gaps), "recording_unstated": wrong, "recording_events": count}
        self.row("request → frozen during a recording, p99, ms", f"{p99:.1f}", "—", "—", "< 10; live, nothing lost in either",
                 f"{many} requests at random times (median {statistics.median(waits):.1f}, worst {waits[-1]:.1f}; without a recording p99 "
                 f"{nearest(alone, 99):.1f}), {RATE // 2 * len(CPUS) / 1e3:.0f} k events/s, all CPUs busy; capture {', '.join(sorted(captures))}; missing numbers: {lost} in "
                 f"the snapshots' {seen}, {missing(gaps)} in the recording's {count}, {wrong} outside holes",
                 p99 < 10 and captures == {"live"} and seen > 0 and count > 0 and lost == missing(gaps) == wrong == 0)

    def recording_memory(self):
        """At full speed; parts that are whole are removed, so that the disk does not fill."""
        seconds = 30 if self.options.quick else round(60 * self.options.record_minutes)
        early = min(60, seconds / 2)
        extra = {"store": {"max_files": 1000000, "max_use": "8G"}}
        with Closers(self, 10**9, seconds + 300) as load, Flightd(self, ring(MEMORY_RING), [{"event": EVENT, "filter": load.filter}], extra) as flightd:
            load.go()
            pss = lambda: pss_kib(flightd.process.pid) / 1024
            before, sizes = pss(), []
            with flightd.recording("--max-size", "1048576G", "--switch-size", "16M") as result:
                begin = time.monotonic()
                while not sizes or sizes[-1][0] < seconds:
                    time.sleep(2)
                    sizes.append((time.monotonic() - begin, pss()))
                    for part in flightd.call("ListSnapshots", {})["snapshots"][:-1]:
                        flightd.call("RemoveSnapshot", {"id": part["id"]})
        first, last = next(size for at, size in sizes if at >= early), sizes[-1][1]
        progress = result["progress"]
        # flightd.json(5), RECORD: half the rings' size, 4 MiB to 256 MiB, and less than 4 MiB for each worker.
        pool = min(max(MEMORY_RING * len(CPUS) / 2 / MIB, 4), 256)
        most, speed = pool + 4 * len(CPUS), progress["events"] / progress["seconds"]
        self.figures["recording memory"] = {"seconds": seconds, "pss_mib_before": before, "pss_mib": sizes,
                                            "progress": {key: progress[key] for key in ("bytes", "events", "lost", "parts", "seconds")}}
        how = (f"/proc/PID/smaps of flightd, without mappings of perf events; {ring(MEMORY_RING)} rings, every CPU closes as fast as it can: "
               f"{speed / 1e3:.0f} k events/s recorded, {100 * progress['lost'] / (progress['lost'] + progress['events']):.0f} % lost, {progress['parts']} parts")
        self.row(f"PSS of a recording after {seconds / 60:.1f} min − after {early / 60:.1f}, MiB", f"{last - first:.1f}", "—", "—", "≤ 1", how, last - first <= 1)
        worst = max(size for _, size in sizes)
        self.row("the most PSS − that before the recording, MiB", f"{worst - before:.1f}", "—", "—",
                 f"≤ {most:.0f}: a pool of {pool:.0f}, and 4 for each worker", f"the same: {before:.1f} before, {worst:.1f} at most; "
                 f"{(worst - before) / len(CPUS):.1f} for each worker with its share of the pool", worst - before <= most)
