"""k8s/base/scripts: restarts, final statuses and drains, with programs of the test for mpirun, sshd
and learner."""

import contextlib
import os
import pathlib
import signal
import subprocess
import tempfile
import time
import unittest

PATIENCE_SECONDS = 60
SCRIPTS = pathlib.Path(__file__).resolve().parents[2] / "k8s/base/scripts"
# Appends its arguments to `calls` and ends with the next line of `statuses`; `wait`: by a signal.
MPIRUN = """#!/bin/sh
trap 'echo USR1 >>calls; exit 3' USR1
echo "$@" >>calls
read -r status <statuses
sed -i 1d statuses
[ "$status" != wait ] || while :; do sleep 0.05; done
exit "$status"
"""


def end(launcher):
    """Leaves none of its processes."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(launcher.pid, signal.SIGKILL)
    launcher.wait()


class Launcher(unittest.TestCase):

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = pathlib.Path(folder.name)
        (self.path / "mpirun").write_text(MPIRUN)
        (self.path / "mpirun").chmod(0o755)
        (self.path / "hosts").write_text("a.learner.ns.svc slots=2\nb.learner.ns.svc slots=1\n")

    def start(self, statuses, job="1", pause="0"):
        (self.path / "statuses").write_text("\n".join(map(str, statuses)) + "\n")
        (self.path / "calls").write_text("")
        environment = {"PATH": f"{self.path}:{os.environ['PATH']}", "JOB_UID": job, "PAUSE": pause,
                       "OUT": str(self.path), "HOSTS": "hosts"}
        command = ["sh", SCRIPTS / "launcher.sh", "--bind-to", "none"]
        launcher = subprocess.Popen(command, cwd=self.path, env=environment,
                                    stderr=subprocess.DEVNULL, start_new_session=True)
        self.addCleanup(end, launcher)
        return launcher

    def status_of(self, *arguments):
        return self.start(*arguments).wait(timeout=PATIENCE_SECONDS)

    def calls(self):
        return (self.path / "calls").read_text().splitlines()

    def wait_for_call(self):
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not self.calls():
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.02)

    def test_one_rank_runs_on_every_slot(self):
        self.assertEqual(self.status_of([0]), 0)
        self.assertEqual(self.calls(), [
            "-np 3 --hostfile hosts --bind-to none /opt/buttress/bin/learner "
            "--config /etc/buttress/config/run.yaml --expect-world 3"])

    def test_a_failure_is_repeated_ten_times(self):
        self.assertEqual(self.status_of([3, 134, 137, 0]), 0)
        self.assertEqual(len(self.calls()), 4)
        self.assertEqual(self.status_of([3] * 20), 3)
        self.assertEqual(len(self.calls()), 11)

    def test_a_final_status_ends_every_pod_of_the_job(self):
        for status in (2, 4, 5, 6):
            self.assertEqual(self.status_of([status, 0], str(status)), status)
            self.assertEqual(len(self.calls()), 1)
            self.assertEqual(self.status_of([0], str(status)), status)
            self.assertEqual(self.calls(), [])
        self.assertEqual(self.status_of([0], "another job"), 0)

    def test_a_drain_checkpoints_and_fails_so_that_the_job_goes_on(self):
        launcher = self.start(["wait"])
        self.wait_for_call()
        launcher.send_signal(signal.SIGTERM)
        self.assertEqual(launcher.wait(timeout=PATIENCE_SECONDS), 143)
        self.assertEqual(self.calls()[1:], ["USR1"])

    def test_a_drain_before_the_ranks_start_is_not_lost(self):
        (self.path / "date").write_text("#!/bin/sh\nkill -TERM $PPID\nexec /bin/date \"$@\"\n")
        (self.path / "date").chmod(0o755)
        launcher = self.start(["wait"])
        self.assertEqual(launcher.wait(timeout=PATIENCE_SECONDS), 143)

    def test_a_drain_between_two_attempts_ends_at_once(self):
        launcher = self.start([3, 0], "1", "60")
        self.wait_for_call()
        launcher.send_signal(signal.SIGTERM)
        self.assertEqual(launcher.wait(timeout=PATIENCE_SECONDS), 143)
        self.assertEqual(len(self.calls()), 1)


class Node(unittest.TestCase):
    """In a process namespace, because the script signals every learner that it sees."""

    def test_ranks_leave_before_the_sshd_ends(self):
        namespace = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]
        if subprocess.run([*namespace, "true"], check=False, capture_output=True).returncode:
            self.skipTest("process namespaces may not be made")
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder)
            (path / "learner").write_text(
                "#!/bin/sh\ntrap 'sleep 1; echo rank >>left; exit 3' USR1\n"
                "touch ready\nwhile :; do sleep 0.05; done\n")
            (path / "sshd").write_text(
                "#!/bin/sh\n./learner &\ntrap 'echo sshd >>left; exit' TERM\n"
                "while :; do sleep 0.05; done\n")
            (path / "learner").chmod(0o755)
            (path / "sshd").chmod(0o755)
            script = (f"SSHD=./sshd sh {SCRIPTS / 'node.sh'} & until [ -e ready ]; do sleep 0.05; "
                      "done; kill $!; wait $!; echo $? >>left")
            subprocess.run([*namespace, "sh", "-c", script], cwd=path, timeout=PATIENCE_SECONDS,
                           check=False)
            self.assertEqual((path / "left").read_text().split(), ["rank", "sshd", "143"])


if __name__ == "__main__":
    unittest.main()
