"""What `bench/web` measures. Prints rows of `name value unit`; the goals are those of bench/README.md."""

import argparse
import asyncio
import contextlib
import http.client
import json
import pathlib
import queue
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse
import urllib.request

from copies import multiply
from plane import Plane, ended, free_port, goal, percentile, resident, row, wait_for

WORKFLOW = """\
on: workflow_dispatch
jobs:
  build:
    runs-on: self-hosted
    steps: [{run: "true"}]
  test:
    needs: build
    runs-on: self-hosted
    strategy: {matrix: {leg: [1, 2, 3]}}
    steps: [{run: "echo one; echo two"}]
"""

LONG = """\
on: workflow_dispatch
jobs:
  long:
    runs-on: self-hosted
    steps: [{{run: "seq -f 'line %.0f of a long log, with words in it' 1 {lines}"}}]
"""

TICK = """\
on: workflow_dispatch
jobs:
  tick:
    runs-on: self-hosted
    steps: [{{run: "for i in $(seq 1 {ticks}); do date +%s%N; sleep 0.1; done"}}]
"""


def plane_for(arguments, scratch, name, *more):
    plane = Plane(arguments.kiln, "server", scratch / name, "--set", "limits.log=4GB", *more).ready()
    plane.runner("one", "--jobs", "4")
    plane.await_runners()
    return plane


def completed(plane, run):
    look = lambda: (found := plane.call(f"/api/runs/{run}"))["status"] == "completed" and found
    return wait_for(look, 600, 0.02)


def session(plane):
    """The cookie of somebody who has signed in."""
    connection = http.client.HTTPConnection(urllib.parse.urlsplit(plane.address).netloc)
    form = urllib.parse.urlencode({"token": plane.token()})
    connection.request("POST", "/sign-in", form, {"Content-Type": "application/x-www-form-urlencoded"})
    cookie = connection.getresponse().getheader("set-cookie")
    return cookie.split(";")[0]


def asked(plane, paths, rate, seconds):
    """Asks for pages at this rate, whoever is slow; the times until they were there whole, in milliseconds."""
    cookie, times, due = session(plane), [], queue.Queue()
    host = urllib.parse.urlsplit(plane.address).netloc

    def work():
        connection = http.client.HTTPConnection(host)
        while (turn := due.get()) is not None:
            at, path = turn
            connection.request("GET", path, headers={"Cookie": cookie, "Accept": "text/html"})
            answer = connection.getresponse()
            answer.read()
            if answer.status != 200:
                times.append(60_000.0)
            times.append((time.perf_counter() - at) * 1e3)

    threads = [threading.Thread(target=work, daemon=True) for _ in range(16)]
    for thread in threads:
        thread.start()
    began = time.perf_counter()
    for number in range(int(rate * seconds)):
        at = began + number / rate
        time.sleep(max(0, at - time.perf_counter()))
        due.put((time.perf_counter(), random.choice(paths)))
    for _ in threads:
        due.put(None)
    for thread in threads:
        thread.join(60)
    return times[len(times) // 10:]


def pages(arguments, scratch):
    """W1: lists and runs, 200 a second, with few and with many runs."""
    plane = plane_for(arguments, scratch, "few-server")
    plane.repository(scratch / "many", WORKFLOW)
    for _ in range(50):
        last = plane.trigger("many")
    completed(plane, last)
    wait_for(lambda: not plane.call("/api/runs?status=in_progress")["items"], 300, 0.1)
    plane.stop()
    results = {}
    for name, runs in (("few", 1_000), ("many", arguments.runs)):
        place = scratch / f"{name}-server"
        if name == "many":
            shutil.copytree(scratch / "few-server", place)
        database = next(path for path in place.glob("*.db"))
        row(f"{name}_runs", multiply(database, runs), "")
        plane = Plane(arguments.kiln, "server", place)
        try:
            found = [run["id"] for run in plane.call("/api/runs?limit=40&repo=bench/many")["items"]]
            lists = ["/runs", "/bench/many/actions", "/runs?status=success", "/", "/repositories",
                     f"/runs?after={found[-1]}", "/runs?branch=main&repo=bench/many", "/runs?workflow=ci.yml"]
            one = [f"/bench/many/actions/runs/{run}" for run in found[:20]]
            one += [f"{path}?view=list" for path in one[:5]]
            for kind, paths in (("list", lists), ("run", one)):
                for path in paths:
                    asked(plane, [path], 20, 0.2)
                times = asked(plane, paths, 200, arguments.seconds)
                results[name, kind] = times
                row(f"{name}_{kind}_p50", f"{percentile(times, 0.5):.2f}", "ms")
                if name == "many":
                    goal(f"{name}_{kind}_p99", percentile(times, 0.99), 20, "ms")
                else:
                    row(f"{name}_{kind}_p99", f"{percentile(times, 0.99):.2f}", "ms")
            for path in lists:
                slow = asked(plane, [path], 20, 2)
                row(f"{name} {path.split('=')[0][:20]}", f"{percentile(slow, 0.5):.2f}", "ms alone")
        finally:
            plane.stop()
    for kind in ("list", "run"):
        few, many = (percentile(results[name, kind], 0.5) for name in ("few", "many"))
        goal(f"{kind}_many_to_few", many / few, 1.3, "x")


class Browser:
    """Chromium, by way of chromedriver."""

    def __init__(self, scratch):
        self.address = f"http://127.0.0.1:{free_port()}"
        port = self.address.rsplit(":", 1)[1]
        environment = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(scratch), "TMPDIR": str(scratch)}
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        self.driver = subprocess.Popen(["chromedriver", f"--port={port}"], env=environment, **quiet)
        wait_for(lambda: urllib.request.urlopen(f"{self.address}/status", timeout=5), pause=0.05)
        options = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
                   "--window-size=1280,800", f"--user-data-dir={scratch / 'profile'}"]
        wish = {"alwaysMatch": {"browserName": "chrome", "goog:chromeOptions": {"args": options}}}
        self.session = self.ask("/session", {"capabilities": wish})["sessionId"]

    def ask(self, path, body, method="POST"):
        data = json.dumps(body).encode() if body is not None else None
        request = urllib.request.Request(self.address + path, data, {"Content-Type": "application/json"}, method=method)
        with urllib.request.urlopen(request, timeout=120) as answer:
            return json.load(answer)["value"]

    def open(self, url):
        self.ask(f"/session/{self.session}/url", {"url": url})

    def script(self, text, wait=False):
        kind = "async" if wait else "sync"
        return self.ask(f"/session/{self.session}/execute/{kind}", {"script": text, "args": []})

    def stop(self):
        with contextlib.suppress(Exception):
            self.ask(f"/session/{self.session}", None, "DELETE")
        ended(self.driver)


# From the moment the address changes until the line is drawn in sight.
JUMP = """\
const done = arguments[arguments.length - 1], began = performance.now(), line = 'L%d';
location.hash = '#' + line;
const look = () => {
  const box = document.getElementById(line)?.getBoundingClientRect();
  if (box && box.top >= 0 && box.bottom <= innerHeight) done(performance.now() - began);
  else if (performance.now() - began > 20000) done(20000);
  else requestAnimationFrame(look);
};
look();
"""


def log(arguments, scratch):
    """W2: a long log in Chromium."""
    if not shutil.which("chromedriver"):
        row("log", "missing", "the program chromedriver")
        return
    plane = plane_for(arguments, scratch, "log-server")
    plane.repository(scratch / "long", LONG.format(lines=arguments.lines))
    browser = None
    try:
        run = plane.trigger("long")
        job = completed(plane, run)["jobs"][0]["id"]
        wait_for(lambda: not list((plane.data / "logs/live").iterdir()), 300, 0.2)
        browser = Browser(scratch)
        browser.open(f"{plane.address}/sign-in")
        name, value = session(plane).split("=", 1)
        cookie = {"name": name, "value": value, "path": "/"}
        browser.ask(f"/session/{browser.session}/cookie", {"cookie": cookie})
        page = f"{plane.address}/bench/long/actions/runs/{run}/job/{job}"
        first = []
        for _ in range(7):
            browser.open("about:blank")
            browser.open(page)
            painted = "return performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? 0"
            first.append(wait_for(lambda: browser.script(painted), pause=0.05))
        if not browser.script("return document.querySelectorAll('.l').length"):
            sys.exit("bench/web: the page shows no lines")
        row("log_first_lines_spread", f"{max(first[1:]) / min(first[1:]):.1f}", "x")
        goal("log_first_lines", percentile(first[1:], 0.5), 300, "ms")
        random.seed(7)
        jumps = [browser.script(JUMP % random.randint(1, arguments.lines), wait=True) for _ in range(60)][10:]
        row("log_jump_p50", f"{percentile(jumps, 0.5):.1f}", "ms")
        goal("log_jump_worst", max(jumps), 100, "ms")
        row("log_drawn_lines", browser.script("return document.querySelectorAll('.l').length"), "")
        memory = "return performance.memory ? performance.memory.usedJSHeapSize / 1e6 : 0"
        row("log_script_memory", f"{browser.script(memory):.1f}", "MB")
    finally:
        if browser:
            browser.stop()
        plane.stop()


# How many of the viewers look at their lines; the others only take them, so that the program keeps up.
LOOKING = 50


async def viewer(host, port, path, cookie, delays, ready):
    """Reads a stream to its end; one that looks notes how late each line is."""
    reader, writer = await asyncio.open_connection(host, port, limit=1 << 20)
    writer.write(f"GET {path} HTTP/1.1\r\nHost: {host}:{port}\r\nCookie: {cookie}\r\n"
                 "Accept: text/event-stream\r\n\r\n".encode())
    await reader.readuntil(b"\r\n\r\n")
    ready.append(1)
    with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
        if delays is None:
            while piece := await reader.read(1 << 16):
                if b"job_complete" in piece:
                    break
        else:
            await look(reader, delays)
    writer.close()


async def look(reader, delays):
    while line := await reader.readline():
        if not line.startswith(b"data: "):
            continue
        now = time.time_ns()
        message = json.loads(line[6:])
        if message["type"] == "job_complete":
            break
        content = message.get("content", "")
        if content.isdigit() and len(content) > 15:
            delays.append((now - int(content)) / 1e6)


async def crowd(plane, job, count):
    host, port = urllib.parse.urlsplit(plane.address).netloc.split(":")
    cookie, delays, ready = session(plane), [], []
    path = f"/api/jobs/{job}/log/live"
    tasks = []
    for number in range(count):
        own = delays if number % max(1, count // LOOKING) == 0 else None
        tasks.append(asyncio.create_task(viewer(host, port, path, cookie, own, ready)))
        if len(tasks) % 50 == 0:
            await asyncio.sleep(0.02)
    while len(ready) < count:
        await asyncio.sleep(0.05)
    # What was printed before all were there is no delay.
    await asyncio.sleep(1)
    del delays[:]
    await asyncio.sleep(2)
    watched = resident(plane.process.pid)
    await asyncio.gather(*tasks)
    return delays, watched


def viewers(arguments, scratch):
    """W3: many live viewers of one log."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (16_384, 16_384))
    ticks = 10 * (arguments.seconds + 10)
    plane = plane_for(arguments, scratch, "viewers-server")
    try:
        plane.repository(scratch / "tick", TICK.format(ticks=ticks))
        run = plane.trigger("tick")
        look = lambda: next((job["id"] for job in plane.call(f"/api/runs/{run}")["jobs"] if job["attempt"]), None)
        job = wait_for(look)
        time.sleep(1)
        before = resident(plane.process.pid)
        delays, watched = asyncio.run(crowd(plane, job, arguments.viewers))
        row("viewers_lines", len(delays), "")
        row("viewers_p50", f"{percentile(delays, 0.5):.1f}", "ms")
        goal("viewers_p99", percentile(delays, 0.99), 250, "ms")
        goal("viewers_memory", watched - before, 30, "MB")
    finally:
        plane.stop()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--kiln", required=True)
    parser.add_argument("--runs", type=int, default=100_000)
    parser.add_argument("--seconds", type=int, default=20)
    parser.add_argument("--lines", type=int, default=1_000_000)
    parser.add_argument("--viewers", type=int, default=1_000)
    parser.add_argument("parts", nargs="+", choices=["pages", "log", "viewers"])
    arguments = parser.parse_args()
    for part in arguments.parts:
        with tempfile.TemporaryDirectory(prefix="kiln-web-") as scratch:
            globals()[part](arguments, pathlib.Path(scratch))


if __name__ == "__main__":
    main()
