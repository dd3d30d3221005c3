"""Common code of the comparisons: child processes, memory, wall time, and the results file.

Contains nothing specific to a measured system. All processes listen on loopback, have their files in a temporary directory, and are
terminated by process id when the script ends, also after an error.
"""

import argparse
import atexit
import json
import os
import platform
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SIZES = (10, 25, 50)
ROUNDS = 5


def say(text):
    print(f"compare: {text}", file=sys.stderr, flush=True)


def fail(text):
    raise SystemExit(f"compare: {text}")


def arguments(description, more=None):
    """The options of every script."""
    parser = argparse.ArgumentParser(description=description.strip().splitlines()[0])
    sizes = lambda text: tuple(int(part) for part in text.split(","))
    parser.add_argument("--nodes", type=sizes, default=SIZES, help="numbers of daemons, one run for each number (10,25,50)")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="number of measurements of each command (%(default)s)")
    parser.add_argument("--out", type=Path, default=Path("target/compare"), help="output directory for the results (%(default)s)")
    if more:
        more(parser)
    return parser.parse_args()


class Scratch:
    """A temporary directory and the processes started in it. Terminates the processes and removes the directory at exit."""

    def __init__(self, name):
        self.path = Path(tempfile.mkdtemp(prefix=f"muster-compare-{name}."))
        self.children = []
        atexit.register(self.close)
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: sys.exit(130))

    def start(self, name, command, **environment):
        """Starts a program in its own session, with its own log file."""
        with open(self.path / f"{name}.log", "wb") as log:
            child = subprocess.Popen(
                [str(word) for word in command],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                # Core dumps and similar files are written here.
                cwd=self.path,
                env={**os.environ, **{key: str(value) for key, value in environment.items()}},
                start_new_session=True,
            )
        self.children.append(child)
        return child

    def stop(self):
        """Terminates all processes, the last one first: with TERM, then with KILL."""
        for number, patience in ((signal.SIGTERM, 15), (signal.SIGKILL, 5)):
            for child in reversed(self.children):
                try:
                    os.killpg(child.pid, number)
                except ProcessLookupError:
                    pass
            until = time.monotonic() + patience
            for child in self.children:
                try:
                    child.wait(max(0.05, until - time.monotonic()))
                except subprocess.TimeoutExpired:
                    pass
        self.children.clear()

    def close(self):
        self.stop()
        if os.environ.get("KEEP"):
            say(f"directory kept: {self.path}")
        else:
            shutil.rmtree(self.path, ignore_errors=True)

    def log(self, name):
        return (self.path / f"{name}.log").read_text(errors="replace")


def free_port():
    """A free port on loopback."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def awaited(seconds, what, condition):
    """Waits until the condition is true; returns the number of seconds. Ends the script at the time limit."""
    began = time.monotonic()
    while not condition():
        if time.monotonic() - began > seconds:
            fail(f"time limit of {seconds} s exceeded: {what}")
        time.sleep(0.2)
    return round(time.monotonic() - began, 1)


def is_open(port):
    with socket.socket() as client:
        client.settimeout(0.5)
        return client.connect_ex(("127.0.0.1", port)) == 0


def output(command, **environment):
    """The standard output of a command; the exit code is ignored."""
    done = subprocess.run(
        [str(word) for word in command],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, **{key: str(value) for key, value in environment.items()}},
        text=True,
        check=False,
    )
    return done.stdout


def timed(rounds, command, complete=lambda text: True, **environment):
    """Wall time of whole commands in milliseconds, including process start. Rounds with incomplete output are repeated."""
    times, missed = [], 0
    while len(times) < rounds:
        began = time.monotonic()
        text = output(command, **environment)
        took = (time.monotonic() - began) * 1000
        if complete(text):
            times.append(round(took, 1))
            continue
        missed += 1
        if missed > rounds:
            say(f"no measurement, too many rounds with missing replies: {' '.join(str(word) for word in command)}")
            return None
    return {"min": min(times), "median": round(statistics.median(times), 1), "max": max(times), "missed": missed}


def family(pid):
    """The ids of a process and of all its descendants."""
    found, queue = [], [pid]
    while queue:
        at = queue.pop()
        found.append(at)
        for task in Path(f"/proc/{at}/task").glob("*/children"):
            try:
                queue += [int(word) for word in task.read_text().split()]
            except OSError:
                continue
    return found


def pss(pid):
    """Proportional set size of a process and its descendants in MiB: shared pages are divided among the processes that share them."""
    total = 0
    for member in family(pid):
        try:
            text = Path(f"/proc/{member}/smaps_rollup").read_text()
        except OSError:
            continue
        total += sum(int(line.split()[1]) for line in text.splitlines() if line.startswith("Pss:"))
    return round(total / 1024, 1)


def median_pss(pids):
    return round(statistics.median(pss(pid) for pid in pids), 1)


def machine():
    with open("/proc/cpuinfo", encoding="utf-8") as info:
        model = next((line.split(":", 1)[1].strip() for line in info if line.startswith("model name")), platform.machine())
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return f"{model}, {os.cpu_count()} cores, {memory:.0f} GiB, Linux {platform.release()}"


def keep(out, system, version, about, runs):
    """Writes the results to the directory that `table` reads."""
    out.mkdir(parents=True, exist_ok=True)
    path = out / f"{system}.json"
    document = {
        "system": system,
        "version": version,
        "about": about,
        "machine": machine(),
        "date": time.strftime("%Y-%m-%d"),
        "load": round(os.getloadavg()[0], 1),
        "runs": runs,
    }
    path.write_text(json.dumps(document, indent=2) + "\n")
    say(f"wrote {path}")
