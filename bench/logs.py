"""What `bench/logs` measures. Prints rows of `name value unit`; the goals are those of bench/README.md."""

import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request

import buildbot
from plane import Plane, completed, goal, percentile, resident, row, wait_for

# A line that is in the logs once in each job, and nowhere else.
NEEDLE = "a needle in all that hay"

PRINT = """\
on: {{ workflow_dispatch: , push: }}
jobs:
  print:
    runs-on: self-hosted
    steps: [{{ run: 'cat {file}' }}]
"""

MANY = """\
on: workflow_dispatch
jobs:
  print:
    runs-on: self-hosted
    strategy: {{ matrix: {{ leg: [1, 2, 3, 4] }} }}
    steps: [{{ run: 'cat {file}' }}]
"""

TICK = """\
on: workflow_dispatch
jobs:
  tick:
    runs-on: self-hosted
    steps:
      - run: for i in $(seq 1 {ticks}); do date +%s%N; sleep 0.02; done
"""


def write_lines(path, count):
    """The lines of bench/run: they look like those of a build."""
    with open(path, "w") as file:
        for i in range(count):
            file.write(f"[{i % 97:2}] step {i} ok src/mod_{i % 613}.rs\n")
            if i == count // 2:
                file.write(NEEDLE + "\n")


def plane_for(arguments, scratch, name):
    plane = Plane(arguments.kiln, "server", scratch / name, "--set", "limits.log=4GB").ready()
    plane.runner("one", "--jobs", "4")
    plane.await_runners()
    return plane


def ingest(arguments, scratch):
    """B5: as many lines by `kiln run` and through a runner into a server, in turns."""
    lines = scratch / "lines"
    write_lines(lines, arguments.lines)
    folder = scratch / "ingest"
    plane = plane_for(arguments, scratch, "server")
    plane.repository(folder, PRINT.format(file=lines))
    environment = {**os.environ, "KILN_STATE": str(scratch / "state"), "HOME": str(scratch)}
    local, through, peak = [], [], 0
    for turn in range(arguments.rounds + 1):
        began = time.perf_counter()
        run_it = [arguments.kiln, "run", "--label", "self-hosted", "--log-limit", "4GB"]
        subprocess.run(run_it, cwd=folder, env=environment, stdout=subprocess.DEVNULL, check=True)
        between = time.perf_counter()
        found = completed(plane, plane.trigger("ingest"))
        end = time.perf_counter()
        peak = max(peak, resident(plane.process.pid))
        if turn > 0:
            local.append((between - began) * 1e3)
            through.append((end - between) * 1e3)
    log = urllib.request.Request(
        f"{plane.address}/api/jobs/{found['jobs'][0]['id']}/log?tail=1&format=numbered",
        headers={"Authorization": f"Bearer {plane.token()}"},
    )
    with urllib.request.urlopen(log, timeout=60) as answer:
        if int(answer.headers["kiln-log-lines"]) < arguments.lines:
            sys.exit("bench/logs: lines are missing")
    plane.stop()
    row("ingest_local", f"{min(local):.1f}", "ms")
    row("ingest_server", f"{min(through):.1f}", "ms")
    row("ingest_server_memory", f"{peak:.1f}", "MB")
    goal("ingest_to_local", min(through) / min(local), 2, "x")
    if arguments.buildbot:
        theirs = buildbot_ingest(arguments.buildbot, scratch, lines)
        row("ingest_buildbot", f"{theirs:.1f}", "ms")
        goal("buildbot_to_kiln", theirs / min(through), 20, "x", at_most=False)


def buildbot_ingest(programs, scratch, lines):
    """The same lines into Buildbot's log, the better of two."""
    with buildbot.running(programs, scratch, f"cat {lines}") as bot:
        times = []
        for _ in range(2):
            done, began = bot.builds_done(), time.perf_counter()
            bot.force()
            wait_for(lambda: bot.builds_done() > done, 300, 0.02)
            times.append((time.perf_counter() - began) * 1e3)
        return min(times)


def delay(arguments, scratch):
    """From the moment a step reads its clock until a viewer has the line."""
    ticks = 500
    plane = plane_for(arguments, scratch, "delay-server")
    plane.repository(scratch / "delay", TICK.format(ticks=ticks))
    run = plane.trigger("delay")
    job = wait_for(lambda: next((job["id"] for job in plane.call(f"/api/runs/{run}")["jobs"] if job["attempt"]), None))
    request = urllib.request.Request(
        f"{plane.address}/api/jobs/{job}/log/live",
        headers={"Authorization": f"Bearer {plane.token()}", "Accept": "text/event-stream"},
    )
    delays = []
    with urllib.request.urlopen(request, timeout=60) as events:
        for line in events:
            now = time.time_ns()
            if line.startswith(b"data: "):
                message = json.loads(line[6:])
                if message["type"] == "job_complete":
                    break
                content = message.get("content", "")
                if content.isdigit() and len(content) > 15:
                    delays.append((now - int(content)) / 1e6)
    plane.stop()
    if len(delays) < ticks:
        sys.exit(f"bench/logs: {len(delays)} lines of {ticks} came")
    # What was printed before the viewer was there is no delay.
    delays = delays[50:]
    row("delay_p50", f"{percentile(delays, 0.5):.1f}", "ms")
    goal("delay_p99", percentile(delays, 0.99), 250, "ms")


def search(arguments, scratch):
    """B6: all archived logs of a run, by the server and by zstdcat and grep, in turns."""
    if not shutil.which("zstdcat"):
        row("search", "missing", "the program zstdcat, with which it is compared")
        return
    lines = scratch / "hay"
    each = arguments.megabytes * 1_000_000 // 4
    # A line has about 35 bytes, and 16 before them in the log.
    write_lines(lines, each // 51)
    plane = plane_for(arguments, scratch, "search-server")
    plane.repository(scratch / "search", MANY.format(file=lines))
    run = plane.trigger("search")
    completed(plane, run)
    folder = plane.data / "logs"
    wait_for(lambda: not list((folder / "live").iterdir()), 300, 0.2)
    objects = sorted((folder / str(run)).glob("*.zst"))
    row("search_archived", f"{sum(path.stat().st_size for path in objects) / 1e6:.1f}", "MB")
    ours, theirs, searched = [], [], 0
    for turn in range(arguments.rounds + 1):
        began = time.perf_counter()
        pipe = f"cat {' '.join(map(str, objects))} | zstdcat | grep -c '{NEEDLE}'"
        count = int(subprocess.run(pipe, shell=True, capture_output=True, check=True).stdout)
        between = time.perf_counter()
        found, after, searched = 0, "", 0
        while after is not None:
            answer = plane.call(f"/api/runs/{run}/log/search?q={urllib.parse.quote(NEEDLE)}{after}")
            found += len(answer["items"])
            searched += answer["bytes"]
            after = answer["next"] and f"&after={answer['next']}"
        end = time.perf_counter()
        if found != count:
            sys.exit(f"bench/logs: found {found}, grep found {count}")
        if turn > 0:
            theirs.append((between - began) * 1e3)
            ours.append((end - between) * 1e3)
    row("search_raw", f"{searched / 1e6:.1f}", "MB")
    row("search_zstdcat_grep", f"{min(theirs):.1f}", "ms")
    row("search_server", f"{min(ours):.1f}", "ms")
    row("search_server_memory", f"{resident(plane.process.pid):.1f}", "MB")
    plane.stop()
    goal("search_to_grep", min(ours) / min(theirs), 2, "x")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--kiln", required=True)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--lines", type=int, default=1_000_000)
    parser.add_argument("--megabytes", type=int, default=1_000)
    parser.add_argument("--buildbot", default="", help="where the peer is installed")
    parser.add_argument("parts", nargs="*")
    arguments = parser.parse_args()
    for part in arguments.parts:
        with tempfile.TemporaryDirectory(prefix="kiln-logs-", ignore_cleanup_errors=True) as scratch:
            {"ingest": ingest, "delay": delay, "search": search}[part](arguments, pathlib.Path(scratch))


if __name__ == "__main__":
    main()
