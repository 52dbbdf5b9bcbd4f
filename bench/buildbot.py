"""A Buildbot master with one worker on loopback, for the harnesses that put it beside Kiln."""

import contextlib
import json
import os
import pathlib
import signal
import subprocess
import time
import urllib.error
import urllib.request

MASTER = """
from buildbot.plugins import *
factory = util.BuildFactory([steps.ShellCommand(command=["sh", "-c", {command!r}])])
c = BuildmasterConfig = dict(
    workers=[worker.Worker("w", "secret")],
    protocols={{"pb": {{"port": "tcp:{wire}:interface=127.0.0.1"}}}},
    db=dict(db_url="sqlite:///state.sqlite"),
    collapseRequests=False,
    buildbotNetUsageData=None,
    www=dict(port="tcp:{http}:interface=127.0.0.1", plugins={{}}),
    buildbotURL="http://127.0.0.1:{http}/",
    title="bench",
    titleURL="http://127.0.0.1",
    builders=[util.BuilderConfig(name="one", workernames=["w"], factory=factory)],
    schedulers=[schedulers.ForceScheduler(name="force", builderNames=["one"])],
)
"""


class Buildbot:
    """One builder whose only step is a shell command, forced over Buildbot's own interface."""

    def __init__(self, programs, http):
        self.programs, self.api = pathlib.Path(programs) / "bin", f"http://127.0.0.1:{http}/api/v2/"
        self.builder = None

    def call(self, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.api + path, data, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.load(answer)

    def force(self):
        params = {"builderid": self.builder, "reason": "bench"}
        self.call("forceschedulers/force", {"jsonrpc": "2.0", "id": 1, "method": "force", "params": params})

    def builds_done(self):
        return len(self.call(f"builders/{self.builder}/builds?complete=true")["builds"])

    def connected(self):
        with contextlib.suppress(OSError, urllib.error.URLError):
            return any(known["connected_to"] for known in self.call("workers")["workers"])
        return False


@contextlib.contextmanager
def running(programs, scratch, command, http=18_710, wire=18_711):
    """Starts both, waits until they know each other, and ends them."""
    bot = Buildbot(programs, http)
    master, worker = scratch / "master", scratch / "worker"
    quiet = {"check": True, "stdout": subprocess.DEVNULL, "stderr": subprocess.STDOUT, "timeout": 120}
    subprocess.run([bot.programs / "buildbot", "create-master", "-r", master], **quiet)
    (master / "master.cfg").write_text(MASTER.format(command=command, http=http, wire=wire))
    pids = []
    try:
        subprocess.run([bot.programs / "buildbot", "start", master], **quiet)
        pids.append(int((master / "twistd.pid").read_text()))
        create = [bot.programs / "buildbot-worker", "create-worker", worker, f"127.0.0.1:{wire}", "w", "secret"]
        subprocess.run(create, **quiet)
        subprocess.run([bot.programs / "buildbot-worker", "start", worker], **quiet)
        pids.append(int((worker / "twistd.pid").read_text()))
        end = time.monotonic() + 60
        while not bot.connected():
            if time.monotonic() > end:
                raise SystemExit("bench: Buildbot's worker did not come")
            time.sleep(0.1)
        bot.builder = str(bot.call("builders")["builders"][0]["builderid"])
        yield bot
    finally:
        for pid in reversed(pids):
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGTERM)
        time.sleep(2)
