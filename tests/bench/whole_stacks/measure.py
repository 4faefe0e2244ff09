# SPDX-License-Identifier: Apache-2.0
"""Runs one program under all recorders at the same time, and takes the figures from the same seconds of each file."""
import os, pathlib, subprocess, time

from rig import CPUS, run

from . import samples
from .entry import Starts
from .figures import of_program
from .place import Place, tree
from .programs import PROGRAMS
from .recorders import event_here, recorders
from .servers import SERVERS

ALL = SERVERS + PROGRAMS


def chosen(only):
    """Programs by the first word of their name, or by the whole name; None: all."""
    words = only.split(",") if only else None
    return [program for program in ALL if not words or program.name in words or program.name.split()[0] in words]


class Measurement:
    """`bench` has a build folder and a work folder (`build`, `work`)."""

    def __init__(self, bench, seconds, hertz, stack, keep):
        self.bench, self.seconds, self.keep = bench, seconds, keep
        self.result = {"machine": f"{os.uname().sysname} {os.uname().release}, {len(CPUS)} CPUs, " + run("perf", "--version").stdout.strip(),
                       "event": event_here(), "hertz": hertz, "seconds": seconds, "stack": stack, "programs": {}, "left_out": {}}
        self.recorders = recorders(bench, hertz, stack, seconds)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for recorder in self.recorders:
            recorder.end()

    def take(self, program):
        missing = program.missing()
        if missing:
            return self.leave_out(program, "not installed: " + ", ".join(missing))
        place = Place(self.bench.work, program.slug)
        try:
            files, window, starts = self.record(program, place)
            self.result["programs"][program.name] = {"apart": program.apart, **self.figures(program, files, window, starts)}
        except (subprocess.SubprocessError, SystemExit) as error:
            output = getattr(error, "stderr", None) or place.log()
            self.leave_out(program, f"could not be run: {error}: {output.strip()[-500:]}")
        except EndedEarly as error:
            self.leave_out(program, f"ended early: {error}")
        finally:
            place.end()
            for recorder in self.recorders:
                recorder.remove()
            place.remove()

    def leave_out(self, program, reason):
        print(f"  {program.name}: left out: {reason}", flush=True)
        self.result["left_out"][program.name] = reason

    def record(self, program, place):
        """Each recorder's (file, CPU seconds while recording, of the file), the seconds of all, and the start code."""
        pids = program.start(place)
        time.sleep(program.settle)
        starts = Starts()
        starts.note(tree(pids))
        for recorder in self.recorders:
            recorder.start()
        before = [recorder.spent() for recorder in self.recorders]
        begin = time.monotonic()
        time.sleep(self.seconds)
        end = time.monotonic()
        spent = [recorder.spent() - early for recorder, early in zip(self.recorders, before)]
        if not place.alive():
            raise EndedEarly(place.log())
        starts.note(tree(pids))
        files = [(*recorder.finish(), recording) for recorder, recording in zip(self.recorders, spent)]
        program.name_functions(place, pids)
        place.end()
        return files, (begin, end), starts

    def figures(self, program, files, window, starts):
        found = {}
        for recorder, (path, of_file, recording) in zip(self.recorders, files):
            if self.keep:
                self.keep_text(program, recorder, path, starts.maps)
            inside = lambda seconds: window[0] <= seconds <= window[1]
            times = samples.times(path)
            figures = of_program([sample for sample in samples.read(path, starts.maps) if inside(sample.seconds)], starts)
            figures["samples_of_all"] = len(times)
            figures["file_bytes_per_sample"] = path.stat().st_size / max(len(times), 1)
            total, count = samples.record_bytes(path)
            figures["record_bytes_per_sample"] = total / count if count else None
            figures["recording_us_per_sample"] = recording * 1e6 / max(sum(map(inside, times)), 1)
            figures["file_us_per_sample"] = of_file * 1e6 / max(len(times), 1)
            figures["samples_inside"] = sum(map(inside, times))
            found[recorder.name] = figures
        counts = {name: figures["samples_inside"] for name, figures in found.items()}
        if min(counts.values()) < 0.9 * max(counts.values()):
            print(f"  {program.name}: a recorder was too late or lost samples; all that each has of these seconds: {counts}", flush=True)
        return {"recorders": found}

    def keep_text(self, program, recorder, path, pids):
        target = pathlib.Path(self.keep) / f"{program.slug}-{recorder.name.replace(' ', '-')}.txt"
        target.parent.mkdir(parents=True, exist_ok=True)
        with open(target, "w") as out:
            subprocess.run(samples.script_words(path, pids), stdout=out, stderr=subprocess.DEVNULL)


class EndedEarly(Exception):
    pass


def measure(bench, only=None, seconds=8, hertz=99, stack="fp", keep=None):
    with Measurement(bench, seconds, hertz, stack, keep) as measurement:
        for program in chosen(only):
            print(f"  {program.name}", flush=True)
            measurement.take(program)
    return measurement.result
