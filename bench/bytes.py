"""What `bench/bytes` measures. Prints rows of `name value unit`; the goals are those of bench/README.md."""

import argparse
import pathlib
import shutil
import socket
import subprocess
import sys
import tempfile
import time

from plane import Plane, completed, ended, goal, resident, row, wait_for

NGINX = """\
user root;  # Only root has workers of another user, who could not read what lies here.
daemon off;
pid {folder}/pid;
error_log {folder}/error.log;
events {{}}
http {{
  access_log off;
  sendfile on;
  client_body_temp_path {folder}/body;
  proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi;
  scgi_temp_path {folder}/scgi;
  server {{ listen 127.0.0.1:{port}; root {root}; }}
}}
"""


PASS = """\
on: workflow_dispatch
jobs:
  up:
    runs-on: self-hosted
    steps:
      - run: ln {file} artifact || cp {file} artifact
      - uses: actions/upload-artifact@v4
        with: {{ name: large, path: artifact, compression-level: 0 }}
  down:
    needs: up
    runs-on: self-hosted
    steps:
      - uses: actions/download-artifact@v4
        with: {{ name: large }}
      - run: cmp artifact {file}
"""


def noise(path, megabytes):
    """Bytes as archives have them: nothing more can be squeezed out of them."""
    key = ["-K", "0" * 32, "-iv", f"{time.time_ns():032x}"[-32:]]
    pipe = f"head -c {megabytes * 1_000_000} /dev/zero | openssl enc -aes-128-ctr -nosalt {' '.join(key)} > {path}"
    subprocess.run(pipe, shell=True, check=True)


def sha256(path):
    answer = subprocess.run(["openssl", "dgst", "-sha256", "-r", path], capture_output=True, text=True, check=True)
    return answer.stdout.split()[0]


def timed(work):
    began = time.perf_counter()
    found = work()
    return time.perf_counter() - began, found


def curl(*words):
    subprocess.run(["curl", "-sSf", "-H", "Expect:", *words], check=True, stdout=subprocess.DEVNULL)


def flushed(source, target):
    """The limit of the disk: the same bytes, copied and flushed."""
    subprocess.run(["dd", f"if={source}", f"of={target}", "bs=1M", "conv=fsync", "status=none"], check=True)
    target.unlink()


class Peak:
    """How much memory a process had at most, above what it had."""

    def __init__(self, pid):
        self.pid = pid
        pathlib.Path(f"/proc/{pid}/clear_refs").write_text("5")
        self.before = resident(pid)

    def above(self):
        status = pathlib.Path(f"/proc/{self.pid}/status").read_text()
        peak = next(int(line.split()[1]) / 1000 for line in status.splitlines() if line.startswith("VmHWM"))
        return peak - self.before


def send(plane, path, digest):
    """As a runner does: say what comes, send it, say that it is all."""
    size = path.stat().st_size
    upload = plane.call("/api/blobs/uploads", {"owner": plane.owner, "hash": digest, "size": size})
    for piece in upload["pieces"]:
        curl("-T", path, piece["url"])
    plane.call(f"/api/blobs/uploads/{upload['id']}/complete", {})


def server(arguments, scratch):
    plane = Plane(arguments.kiln, "server", scratch / "server").ready()
    plane.owner = plane.call("/api/repos")["items"][0]["owner"]
    return plane


def up(arguments, scratch):
    """B3, up: an artifact into the server, durable; beside it SHA-256 of the same bytes, and the disk alone."""
    plane = server(arguments, scratch)
    path, hashing, disk, sending = scratch / "artifact", [], [], []
    memory = Peak(plane.process.pid)
    for _ in range(arguments.rounds):
        noise(path, arguments.megabytes)
        took, digest = timed(lambda: sha256(path))
        hashing.append(took)
        disk.append(timed(lambda: flushed(path, scratch / "copy"))[0])
        sending.append(timed(lambda: send(plane, path, digest))[0])
    rate = lambda times: arguments.megabytes / min(times)
    row("up_openssl", f"{rate(hashing):.0f}", "MB/s")
    row("up_disk_flushed", f"{rate(disk):.0f}", "MB/s")
    row("up_server", f"{rate(sending):.0f}", "MB/s")
    goal("up_memory_above_idle", memory.above(), 64, "MB")
    goal("up_to_openssl", rate(sending) / rate(hashing), 0.5, "x", at_most=False)
    row("up_to_disk", f"{rate(sending) / rate(disk):.3f}", "x")
    plane.stop()


def nginx(folder, root):
    folder.mkdir()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    (folder / "conf").write_text(NGINX.format(folder=folder, root=root, port=port))
    process = subprocess.Popen(["nginx", "-e", folder / "error.log", "-c", folder / "conf"])
    wait_for(lambda: socket.create_connection(("127.0.0.1", port), 1).close() or True)
    return process, f"http://127.0.0.1:{port}"


def down(arguments, scratch):
    """B3, down: an artifact from the server, as it was sent and cut into chunks; beside it nginx."""
    plane = server(arguments, scratch)
    root = scratch / "root"
    root.mkdir()
    path = root / "artifact"
    noise(path, arguments.megabytes)
    digest = sha256(path)
    send(plane, path, digest)
    url = plane.call(f"/api/blobs/{digest}/link?owner={plane.owner}")["url"]
    times = {"whole": [], "chunked": [], "nginx": []}
    memory = Peak(plane.process.pid)
    peer, address = nginx(scratch / "nginx", root) if shutil.which("nginx") else (None, None)

    def turn(ours):
        for number in range(arguments.rounds + 1):
            took, _ = timed(lambda: curl("-o", "/dev/null", url))
            theirs = peer and timed(lambda: curl("-o", "/dev/null", f"{address}/artifact"))[0]
            if number > 0:
                times[ours].append(took)
                if theirs:
                    times["nginx"].append(theirs)

    recipes = plane.data / "bytes/recipes"
    turn("whole")
    if any(found.is_file() for found in recipes.glob("**/*")):
        sys.exit("bench/bytes: the archive was cut before it was measured; take a smaller one")
    wait_for(lambda: any(found.is_file() for found in recipes.glob("**/*")), 300, 0.2)
    time.sleep(2)
    turn("chunked")
    rate = lambda name: arguments.megabytes / min(times[name])
    row("down_server", f"{rate('whole'):.0f}", "MB/s")
    row("down_server_chunked", f"{rate('chunked'):.0f}", "MB/s")
    goal("down_memory_above_idle", memory.above(), 64, "MB")
    if peer:
        ended(peer)
        row("down_nginx", f"{rate('nginx'):.0f}", "MB/s")
        goal("down_to_nginx", rate("whole") / rate("nginx"), 0.8, "x", at_most=False)
        row("down_chunked_to_nginx", f"{rate('chunked') / rate('nginx'):.3f}", "x")
    else:
        row("down_nginx", "missing", "the program nginx, with which it is compared")
    plane.stop()


def job(arguments, scratch):
    """B4: an artifact of twice the size goes from a job to the server, and into another job."""
    megabytes = 2 * arguments.megabytes
    path = scratch / "artifact"
    noise(path, megabytes)
    plane = server(arguments, scratch)
    runner = plane.runner("one")
    plane.await_runners()
    plane.repository(scratch / "pass", PASS.format(file=path))
    memory = {"server": Peak(plane.process.pid), "runner": Peak(runner.pid)}
    took, _ = timed(lambda: completed(plane, plane.trigger("pass")))
    row("job_up_and_down", f"{megabytes / took:.0f}", "MB/s")
    for who, peak in memory.items():
        goal(f"job_{who}_above_idle", peak.above(), 64, "MB")
    plane.stop()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--kiln", required=True)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--megabytes", type=int, default=2_000)
    parser.add_argument("parts", nargs="*")
    arguments = parser.parse_args()
    for part in arguments.parts:
        with tempfile.TemporaryDirectory(prefix="kiln-bytes-") as scratch:
            {"up": up, "down": down, "job": job}[part](arguments, pathlib.Path(scratch))


if __name__ == "__main__":
    main()
