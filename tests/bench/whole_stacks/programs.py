# SPDX-License-Identifier: Apache-2.0
"""The programs to measure that need no clients. Each works in user space until it is ended."""
import dataclasses, pathlib, random, re, subprocess, typing

from .place import find, tree


@dataclasses.dataclass
class Program:
    """`start(place)` starts it and returns the pids whose trees are measured. `name_functions(place, pids)` is called when
    the measured seconds are over and the program still runs."""
    name: str
    packages: dict  # tool: the Debian package that has it
    start: typing.Callable
    settle: float = 2
    name_functions: typing.Callable = lambda place, pids: None
    apart: bool = False  # neither frame pointers nor CFI lead through it: not counted

    @property
    def slug(self):
        return re.sub(r"[^a-z0-9]+", "-", self.name.lower()).strip("-")

    def missing(self):
        return sorted({package for tool, package in self.packages.items() if not find(tool)})


def text(bytes_wanted):
    """Compressible text, the same on each machine."""
    dice = random.Random(1)
    words = ["".join(dice.choices("abcdefghijklmnopqrstuvwxyz", k=dice.randint(2, 9))) for _ in range(5000)]
    return " ".join(dice.choices(words, k=bytes_wanted // 6)).encode()


def cpp(place):
    place.compile("g++", "-O2", "-fomit-frame-pointer", "-o", place.dir / "busy-cpp", place.load("busy.cpp"))
    return [place.spawn(place.dir / "busy-cpp").pid]


def go(place):
    place.compile("go", "build", "-o", place.dir / "busy-go", place.load("busy.go"))
    return [place.spawn(place.dir / "busy-go").pid]


def rust(place):
    place.compile("rustc", "-O", "-o", place.dir / "busy-rust", place.load("busy.rs"))
    return [place.spawn(place.dir / "busy-rust").pid]


def gzip(place):
    (place.dir / "text").write_bytes(text(8 << 20))
    feeder = place.spawn("sh", "-c", "while cat text; do :; done", stdout=subprocess.PIPE)
    return [place.spawn("gzip", "-9", stdin=feeder.stdout, stdout=subprocess.DEVNULL).pid]


def python(place):
    return [place.spawn(find("python3"), place.load("busy.py")).pid]


def sqlite(place):
    return [place.spawn("sqlite3", ":memory:", ".read " + place.load("busy.sql")).pid]


def node(*options):
    return lambda place: [place.spawn("node", *options, place.load("busy.js")).pid]


def java(*options):
    def start(place):
        place.compile("javac", "-d", place.dir, place.load("Busy.java"))
        return [place.spawn("java", "-Xmx256m", *options, "-cp", place.dir, "Busy").pid]
    return start


def java_map(place, pids):
    """The JVM writes /tmp/perf-PID.map. Before JDK 17 it cannot: its functions stay without names."""
    for pid in tree(pids):
        # To any other process, jcmd's signal is deadly.
        if (comm := pathlib.Path(f"/proc/{pid}/comm")).exists() and comm.read_text() == "java\n":
            subprocess.run(place.words(["jcmd", pid, "Compiler.perfmap"]), env=place.environment, capture_output=True, timeout=60)


JDK = {"java": "default-jdk-headless", "javac": "default-jdk-headless"}
PROGRAMS = [
    Program("C++ -O2", {"g++": "g++"}, cpp),
    Program("gzip", {"gzip": "gzip"}, gzip),
    Program("python3", {"python3": "python3"}, python),
    Program("sqlite3", {"sqlite3": "sqlite3"}, sqlite),
    Program("go", {"go": "golang-go"}, go),
    Program("rust", {"rustc": "rustc"}, rust),
    Program("node", {"node": "nodejs"}, node()),
    Program("node --perf-basic-prof", {"node": "nodejs"}, node("--perf-basic-prof")),
    Program("java", JDK, java(), 4, java_map, apart=True),
    Program("java -XX:+PreserveFramePointer", JDK, java("-XX:+PreserveFramePointer"), 4, java_map),
]
