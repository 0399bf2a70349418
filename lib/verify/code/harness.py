"""Runs a response inside the sandbox, each test in a process of its own.

The argument is a JSON object, and the standard input a file with the inputs of the tests, one after
the other:

  {"command": ["/work/program"], "sizes": [bytes of each input, ...], "cpu_seconds": of a test,
   "output_bytes": of a test}
              runs the command; without "command", /work/main.py as a program
  {"function": name, "sizes": ...}
              loads /work/main.py and calls a function of it; each input is a list of arguments
  {"serve": true, "before": code, "cpu_seconds": ...}
              loads the code and /work/main.py and does what asserts.py asks for over the standard
              streams

It reports each test in turn by a line of JSON and the output of the test, for a function its value
as JSON: {"bytes": of the output, "errors": the end of its standard error} with "exit": status,
"signal": number or "flood": true. A response that forges a report knows neither what is expected
nor what became of its reports, so it gains nothing.

A program that ends with sys.exit, whatever the status, is judged by its output, as the graders of
APPS and LiveCodeBench do; one that raises anything else has failed. It finds the names of those
libraries that these graders import for it.
"""

import atexit, gc, json, os, resource, select, signal, sys, threading, types

SOURCE = "/work/main.py"
ERROR_BYTES = 300  # of the standard error that a report has
PRELUDE = """
from string import *
from re import *
from datetime import *
from collections import *
from heapq import *
from bisect import *
from copy import *
from math import *
from random import *
from statistics import *
from itertools import *
from functools import *
from operator import *
from io import *
from json import *
from builtins import *
from typing import *
import string, re, datetime, collections, heapq, bisect, copy, math, random, statistics, itertools
import functools, operator, io, os, sys, time, json
"""
harness = sys.modules["__main__"]
prelude = {}

def compiled():
    with open(SOURCE, "rb") as file:
        return compile(file.read(), SOURCE, "exec", dont_inherit=True)

def load(code, name, before=""):
    """Runs the response as a module. Returns its own names."""
    module = types.ModuleType(name)
    module.__dict__.update(prelude)
    module.__file__ = SOURCE
    sys.modules[name] = module
    exec(before, module.__dict__)
    exec(code, module.__dict__)
    return {key: value for key, value in vars(module).items()
            if key not in prelude or prelude[key] is not value}

def why(error):
    return type(error).__name__ + ": " + str(error)[:200]

def finish(action):
    """Calls it and ends the process as the interpreter would, without the cost of clearing up."""
    status = 0
    for step in (action, threading._shutdown, atexit._run_exitfuncs):
        try:
            step()
        except SystemExit:
            pass
        except BaseException as error:
            os.write(2, why(error).encode(errors="replace"))
            status = 1
    try:
        main = sys.modules.get("__main__")
        if main is not harness:
            vars(main).clear()  # which closes, and so flushes, its files
        sys.stdout.flush()
    except BaseException:
        pass
    os._exit(status)

def write(fd, data):
    left = memoryview(data)
    while left:
        left = left[os.write(fd, left):]

def begin(action, cpu_seconds, ends, others):
    """Starts a process whose descriptors 0, 1 and 2 are `ends` and that has none of the others."""
    pid = os.fork()
    if pid:
        return pid
    os.setsid()
    resource.setrlimit(resource.RLIMIT_CPU, (cpu_seconds, cpu_seconds + 1))
    for fd, end in enumerate(ends):
        os.dup2(end, fd)
    for fd in (*ends, *others):
        os.close(fd)
    sys.stdin = open(0, errors="surrogateescape", closefd=False)
    finish(action)

def read_all(fd, text, bound):
    """Appends what is there. Returns whether more may come."""
    try:
        while len(text) <= bound:
            piece = os.read(fd, 65536)
            if not piece:
                return False
            text += piece
    except BlockingIOError:
        pass
    return True

def exchange(process, feed, data, sources, bound):
    """Writes `data` to `feed`, which it closes, and reads the sources until the process has ended.
    Returns what they gave; it stops once one gave more than `bound`."""
    texts = {source: bytearray() for source in sources}
    poll = select.poll()
    for fd in (process, *sources):
        poll.register(fd, select.POLLIN)
    poll.register(feed, select.POLLOUT)
    for fd in (feed, *sources):
        os.set_blocking(fd, False)
    left, ended = memoryview(data), False
    while not ended and max(map(len, texts.values())) <= bound:
        for fd, _ in poll.poll():
            if fd == feed:
                try:
                    left = left[os.write(feed, left):]
                except BrokenPipeError:
                    left = left[:0]
                if not left:
                    poll.unregister(feed)
                    os.close(feed)
                    feed = None
            elif fd == process:
                ended = True
            elif not read_all(fd, texts[fd], bound):
                poll.unregister(fd)
    for source, text in texts.items():
        read_all(source, text, bound)
    if feed is not None:
        os.close(feed)
    return texts.values()

def run(action, data, options, reports):
    """Runs one test and reports it."""
    (source, feed), (taken, output), (told, errors) = os.pipe(), os.pipe(), os.pipe()
    ends = source, output, errors
    pid = begin(action, options["cpu_seconds"], ends, (feed, taken, told, reports))
    for fd in ends:
        os.close(fd)
    process = os.pidfd_open(pid)
    bound = options["output_bytes"]
    given, said = exchange(process, feed, data, (taken, told), bound)
    try:
        os.killpg(pid, signal.SIGKILL)
    except OSError:
        pass
    status = os.waitpid(pid, 0)[1]
    for fd in (taken, told, process):
        os.close(fd)
    report = {"bytes": len(given), "errors": said[-ERROR_BYTES:].decode(errors="replace")}
    if max(len(given), len(said)) > bound:
        given.clear()
        report.update(bytes=0, flood=True)
    elif os.WIFSIGNALED(status):
        report["signal"] = os.WTERMSIG(status)
    else:
        report["exit"] = os.WEXITSTATUS(status)
    write(reports, json.dumps(report).encode() + b"\n" + given)

def silence(*fds):
    nothing = os.open(os.devnull, os.O_RDWR)
    for fd in fds:
        os.dup2(nothing, fd)
    os.close(nothing)

def program(code):
    return lambda: load(code, "__main__")

def command(line):
    def execute():
        for number in (signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_DFL)
        os.execv(line[0], line)
    return execute

def call(names, name):
    """Calls the function or, as the graders do, the method of a class Solution."""
    def execute():
        arguments = json.load(sys.stdin)
        result = os.dup(1)
        silence(0, 1)
        solution = names.get("Solution")
        function = getattr(solution(), name) if hasattr(solution, name) else names[name]
        value = function(*arguments)
        write(result, json.dumps(value).encode())
    return execute

DO = {"call": lambda function, *values, **named: function(*values, **named), "get": getattr,
      "set": setattr, "iter": iter, "next": next, "len": len, "item": lambda value, key: value[key],
      "put": lambda value, key, item: value.__setitem__(key, item), "text": str, "form": repr}

class Session:
    """What one assert asks of the response. `names` are those of the response."""

    def __init__(self, names, requests, replies):
        self.names, self.requests, self.replies = names, requests, replies
        self.kept = []

    def keep(self, value):
        self.kept.append(value)
        return len(self.kept) - 1

    def answer(self, request):
        if request["do"] == "names":
            return {"names": [[name, self.keep(value)] for name, value in self.names.items()
                              if callable(value)]}
        operands = decode(request["with"], self.kept.__getitem__)
        named = {name: decode(form, self.kept.__getitem__) for name, form in request["named"]}
        try:
            return {"value": encode(DO[request["do"]](*operands, **named), self.keep)}
        except Exception as error:
            return {"raised": type(error).__name__, "text": str(error)}

    def run(self):
        while True:
            request = json.loads(read_line(self.requests))
            if request["do"] == "end":
                return
            write(self.replies, json.dumps(self.answer(request)).encode() + b"\n")

def read_line(fd):
    """Reads a line. Nothing follows it before it is answered."""
    line = bytearray()
    while not line.endswith(b"\n"):
        piece = os.read(fd, 65536)
        if not piece:
            os._exit(0)
        line += piece
    return line

def serve(options):
    requests, replies = os.dup(0), os.dup(1)
    silence(0, 1)
    try:
        names = load(compiled(), "solution", options["before"])
        failure = None
    except BaseException as error:
        failure = why(error)
    while read_line(requests):
        if not failure:
            pid = os.fork()
            if pid == 0:
                resource.setrlimit(resource.RLIMIT_CPU,
                                   (options["cpu_seconds"], options["cpu_seconds"] + 1))
                write(replies, b"{}\n")
                finish(Session(names, requests, replies).run)
            status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        ended = failure or ("CPU time" if status == -signal.SIGXCPU else
                            "the program ended with status %d" % status)
        write(replies, json.dumps({"ended": ended}).encode() + b"\n")

def prepare():
    exec(PRELUDE, prelude)
    sys.setrecursionlimit(50000)

def main():
    options = json.loads(sys.argv[1])
    if "serve" in options:
        prepare()
        exec(compile(open("/work/values.py").read(), "values.py", "exec"), globals())
        serve(options)
    inputs = os.dup(0)
    reports = os.dup(1)
    if "command" in options:
        action = command(options["command"])
    else:
        prepare()
        code = compiled()
        if "function" in options:
            silence(0, 1)
            action = call(load(code, "solution"), options["function"])
        else:
            action = program(code)
    gc.freeze()
    offset = 0
    for size in options["sizes"]:
        run(action, os.pread(inputs, size, offset), options, reports)
        offset += size

try:
    main()
except Exception as error:  # of the response, before its first test
    sys.exit(why(error))
