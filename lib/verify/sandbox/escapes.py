"""Attempts to escape from the sandbox. The arguments are the namespaces outside of it.

Prints a line for each attempt that succeeds although it must fail, then "done".
"""

import ctypes, mmap, os, socket, sys
libc = ctypes.CDLL(None, use_errno=True)

def attempt(what, action):
    try:
        if action() is not False:
            print(what)
    except OSError:
        pass

attempt("reads /etc/passwd", lambda: open("/etc/passwd").read())
attempt("reads /root", lambda: os.listdir("/root"))
attempt("reads /home", lambda: os.listdir("/home"))
attempt("writes to /", lambda: open("/x", "w"))
attempt("writes to /usr", lambda: open("/usr/x", "w"))
attempt("writes to /dev", lambda: open("/dev/shm/x", "w"))
attempt("follows a link out",
        lambda: (os.symlink("/etc/shadow", "/tmp/link"), open("/tmp/link").read()))
attempt("opens a socket", lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
attempt("opens a local socket", lambda: socket.socket(socket.AF_UNIX))
for namespace in sys.argv[1:]:
    name = namespace.split(":")[0]
    attempt("shares a namespace: " + name,
            lambda: os.readlink("/proc/self/ns/" + name) == namespace)
attempt("sees processes outside", lambda: len([p for p in os.listdir("/proc") if p.isdigit()]) > 4)
attempt("makes a user namespace", lambda: libc.unshare(0x10000000) == 0)
attempt("mounts", lambda: libc.mount(b"none", b"/tmp", b"tmpfs", 0, None) == 0)
attempt("traces a process", lambda: libc.ptrace(0, 0, 0, 0) == 0)
attempt("makes a file in memory", lambda: libc.memfd_create(b"x", 0) >= 0)
attempt("shares memory", lambda: mmap.mmap(-1, 4096))
attempt("maps /dev/zero", lambda: mmap.mmap(open("/dev/zero", "r+b").fileno(), 4096))
attempt("changes the kernel", lambda: open("/proc/sys/kernel/hostname", "w"))
attempt("writes to the first process", lambda: open("/proc/1/mem", "r+b"))
attempt("sees bubblewrap", lambda: any(open("/proc/%s/comm" % p).read() == "bwrap\n"
                                       for p in os.listdir("/proc") if p.isdigit()
                                       and os.path.exists("/proc/%s/comm" % p)))
attempt("outlives its parent", lambda: libc.prctl(1, 0, 0, 0, 0) == 0)
attempt("has a variable of the environment",
        lambda: bool(set(os.environ) - {"PATH", "HOME", "LANG", "PWD", "LC_CTYPE"}))
attempt("has a descriptor", lambda: bool([f for f in os.listdir("/proc/self/fd") if int(f) > 3]))
children = []
try:
    for _ in range(200):
        pid = os.fork()
        if pid == 0:
            libc.pause()
            os._exit(0)
        children.append(pid)
    print("starts 200 processes")
except OSError:
    pass
for pid in children:
    os.kill(pid, 9)
print("done")
