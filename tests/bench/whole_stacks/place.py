# SPDX-License-Identifier: Apache-2.0
"""Where one program runs: a folder, an unprivileged user, and the processes that were started there and end with it."""
import contextlib, os, pathlib, pwd, shutil, signal, subprocess, tempfile, time

from rig import run

LOADS = pathlib.Path(__file__).resolve().parent / "loads"
USER = "nobody"
# No process outlives this, whatever happens to the bench.
MAX_SECONDS = 600
END_SECONDS = 10


def tools_path():
    """Debian's programs before all others (pyenv and rustup put shell scripts first), and PostgreSQL's own folder."""
    postgres = sorted(pathlib.Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: int(path.parent.name), reverse=True)
    return ":".join(["/usr/sbin", "/usr/bin", *map(str, postgres), os.environ.get("PATH", "")])


def find(tool):
    return shutil.which(tool, path=tools_path())


def tree(roots):
    """These processes and their descendants."""
    children = {}
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            children.setdefault(int(stat.read_text().rsplit(")", 1)[1].split()[1]), []).append(int(stat.parent.name))
    found = list(roots)
    for pid in found:
        found += children.get(pid, [])
    return found


class Place:
    def __init__(self, work, name):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix=f"{name}-", dir=work))
        self.processes, self.pids = [], set()
        self.user = []
        if os.geteuid() == 0:
            account = pwd.getpwnam(USER)
            os.chown(self.dir, account.pw_uid, account.pw_gid)
            self.user = ["setpriv", "--reuid", str(account.pw_uid), "--regid", str(account.pw_gid), "--clear-groups", "--pdeathsig", "TERM"]
        self.environment = {"PATH": tools_path(), "HOME": str(self.dir), "TMPDIR": str(self.dir), "LC_ALL": "C.UTF-8"}

    def words(self, words):
        return [*self.user, *map(str, words)]

    def load(self, name):
        """A copy that the user can read."""
        return shutil.copy(LOADS / name, self.dir)

    def spawn(self, *words, stdin=subprocess.DEVNULL, stdout=None):
        """A process that is ended with the place, and by timeout(1) after MAX_SECONDS; its output goes to the log."""
        with open(self.dir / "log", "ab") as log:
            process = subprocess.Popen(self.words(["timeout", "-k", 5, MAX_SECONDS, *words]), cwd=self.dir, env=self.environment,
                                       stdin=stdin, stdout=stdout or log, stderr=log)
        self.processes.append(process)
        return process

    def call(self, *words):
        """Runs it to its end as the same user."""
        return run(*self.words(words), cwd=self.dir, env=self.environment, timeout=120)

    def compile(self, *words):
        """Runs a compiler, as ourselves: some lie in a folder of root's. Nothing is downloaded."""
        environment = {**os.environ, "GOCACHE": str(self.dir / "go"), "GOPATH": str(self.dir / "go"), "GOPROXY": "off",
                       "GOTOOLCHAIN": "local", "PATH": tools_path()}
        return run(*words, cwd=self.dir, env=environment, timeout=300)

    def alive(self):
        return all(process.poll() is None for process in self.processes)

    def log(self):
        return (self.dir / "log").read_text(errors="replace")[-2000:] if (self.dir / "log").exists() else ""

    def end(self):
        """Ends all processes, the last first, each by its pid."""
        self.pids.update(tree(process.pid for process in self.processes))
        for process in reversed(self.processes):
            others = tree([process.pid])
            process.terminate()
            end = time.monotonic() + END_SECONDS
            while process.poll() is None and time.monotonic() < end:
                time.sleep(0.02)
            for pid in others if process.poll() is None else []:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            process.wait()

    def remove(self):
        """The folder, and the maps for perf that JIT compilers left in /tmp."""
        shutil.rmtree(self.dir, ignore_errors=True)
        for pid in self.pids:
            pathlib.Path(f"/tmp/perf-{pid}.map").unlink(missing_ok=True)
