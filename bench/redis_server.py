"""A Redis of Debian's, taken from the packages into the benches' cache if the machine has none, as
an append-only log that is synced before every answer."""

import os
import pathlib
import shutil
import subprocess
import tempfile
import time

from report import progress

PRIVATE = pathlib.Path(os.environ["BUTTRESS_BENCH_CACHE"]) / "redis"
PACKAGES = ["redis-server", "redis-tools", "liblzf1", "libjemalloc2", "liblua5.1-0"]

# What a coordinator on Redis does for a group: the fence of its lease, at most once per group, the
# entry, collapse and history counted.
ACCEPT = """
local id = redis.call('INCR', 'next')
if redis.call('HGET', 'leases', id) ~= ARGV[1] then return 'stale' end
if redis.call('HSETNX', 'accepted', id, ARGV[2]) == 0 then return 'duplicate' end
redis.call('XADD', 'groups', '*', 'group', id, 'payload', ARGV[4])
redis.call('HINCRBY', 'collapse', 'groups', 1)
redis.call('HINCRBY', 'collapse', ARGV[3], 1)
redis.call('HINCRBY', 'correct', id, 4)
redis.call('HINCRBY', 'scored', id, 8)
redis.call('HDEL', 'leases', id)
return 'accepted'
"""


def binaries():
    """Folder of redis-server and redis-benchmark, and the environment that they run in."""
    found = shutil.which("redis-server")
    if found and shutil.which("redis-benchmark"):
        return pathlib.Path(found).parent, dict(os.environ)
    folder = PRIVATE / "usr/bin"
    if not (folder / "redis-server").exists():
        progress(f"fetching {' '.join(PACKAGES)} into {PRIVATE}")
        PRIVATE.mkdir(parents=True, exist_ok=True)
        subprocess.run(["apt-get", "download", "-qq", *PACKAGES],
                       cwd=PRIVATE,
                       check=True,
                       stdout=subprocess.DEVNULL,
                      )
        for package in PRIVATE.glob("*.deb"):
            subprocess.run(["dpkg", "-x", package, PRIVATE], check=True)
    return folder, dict(os.environ, LD_LIBRARY_PATH=str(PRIVATE / "usr/lib/x86_64-linux-gnu"))


class Redis:
    def __init__(self):
        self.bin, self.environment = binaries()
        self.folder = tempfile.TemporaryDirectory(
            ignore_cleanup_errors=True)  # a rewrite of the log may still be writing
        command = [
            self.bin / "redis-server", "--port", "0", "--bind", "127.0.0.1", "--save", "",
            "--appendonly", "yes", "--appendfsync", "always", "--dir", self.folder.name,
            "--maxclients", "4000",
        ]
        self.port = None
        for port in range(20000 + os.getpid() % 20000, 60000):
            command[2] = str(port)
            self.process = subprocess.Popen(command,
                                            env=self.environment,
                                            stdout=subprocess.DEVNULL,
                                            stderr=subprocess.DEVNULL)
            for _ in range(100):
                if self.process.poll() is not None or self.answers(port):
                    break
                time.sleep(0.05)
            if self.process.poll() is None:
                self.port = port
                return
        raise SystemExit("redis-server does not start")

    def answers(self, port):
        command = [self.bin / "redis-cli", "-p", str(port), "ping"]
        return (subprocess.run(command, env=self.environment, capture_output=True,
                               text=True).stdout.strip() == "PONG")

    def append(self, clients, count, payload):
        """`count` entries of `payload` to one stream by `clients`, one at a time each: entries/s
        and the 99th percentile in ms. `payload` has no zero byte, where redis-benchmark would cut
        it."""
        return self.benchmark(clients, count, payload, ["XADD", "groups", "*", "payload"])

    def accept(self, clients, count, payload):
        """The same through ACCEPT: an entry is appended only under its lease, only once, and
        counted."""
        sha = self.cli("SCRIPT", "LOAD", ACCEPT)
        self.cli("EVAL",
                 "for i = 1, tonumber(ARGV[1]) do redis.call('HSET', 'leases', i, 'epoch') end",
                 "0", str(count),
                )
        result = self.benchmark(clients, count, payload,
                                ["EVALSHA", sha, "0", "epoch", "digest", "mixed"])
        accepted = int(self.cli("XLEN", "groups"))
        if accepted != count:
            raise SystemExit(f"Redis accepted {accepted} of {count} groups")
        return result

    def benchmark(self, clients, count, payload, request):
        command = [
            self.bin / "redis-benchmark", "-p",
            str(self.port), "-c",
            str(clients), "-n",
            str(count), "--csv", "-x", *request,
        ]
        done = subprocess.run(command,
                              env=self.environment,
                              input=payload,
                              capture_output=True,
                              check=True)
        # The first field shows the payload; then: requests per second, average, minimum, 50th, 95th
        # and 99th percentile, maximum.
        rate, _, _, _, _, p99, _ = [
            float(field.strip(b'"\n')) for field in done.stdout.split(b",")[-7:]
        ]
        return rate, p99

    def cli(self, *request):
        command = [self.bin / "redis-cli", "-p", str(self.port), *request]
        return subprocess.run(command,
                              env=self.environment,
                              capture_output=True,
                              text=True,
                              check=True).stdout.strip()

    def close(self):
        self.process.kill()
        self.process.wait()
        self.folder.cleanup()
