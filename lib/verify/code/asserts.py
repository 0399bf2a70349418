"""Runs asserts about a response inside the sandbox, in a process that the response cannot read.

Reads a JSON object from its standard input: {"asserts": [code, ...], "setup": code that runs before
each, "entry": name of the function that they are about, if it is known, "before": code that the
response continues, "tolerance", "cpu_seconds"}.

The response runs in another process (harness.py). What it defines is here a handle, whose calls go
to that process as JSON and come back so, and of whose values nothing but plain data arrives. So the
expected values never reach the response, and its objects decide nothing. Each assert has a response
of its own. Where an assert says that two values are equal, numbers of which both are floating-point
may differ by the tolerance, and True is not 1.

It reports each assert in turn: {"bytes": 0, "exit": 0}, or 1 with "errors", or "unusable" with why
the assert cannot be judged.
"""

import ast, builtins, ctypes, json, os, sys

exec(compile(open("/work/values.py").read(), "values.py", "exec"))
MODULES = """
import bisect, collections, copy, datetime, functools, heapq, itertools, json, math, operator, os
import random, re, statistics, string, sys, time
"""
PR_SET_DUMPABLE = 4
SHOWN = 200  # bytes of a message

class Ended(BaseException):
    """The response has ended its process."""

class Unusable(BaseException):
    """The assert cannot be judged."""

class Handle:
    """An object of the response."""
    __slots__ = ("_number",)

    def __init__(self, number):
        object.__setattr__(self, "_number", number)

    def __call__(self, *arguments, **named):
        return ask("call", self, *arguments, **named)

    def __getattr__(self, name):
        if name.startswith("__") and name not in ("__name__", "__doc__"):
            raise AttributeError(name)
        return ask("get", self, name)

    def __setattr__(self, name, value):
        ask("set", self, name, value)

    def __iter__(self):
        return ask("iter", self)

    def __next__(self):
        return ask("next", self)

    def __len__(self):
        return ask("len", self)

    def __getitem__(self, key):
        return ask("item", self, key)

    def __setitem__(self, key, value):
        ask("put", self, key, value)

    def __str__(self):
        return ask("text", self)

    def __repr__(self):
        return ask("form", self)

def number_of(value):
    if type(value) is not Handle:
        raise Unusable("an assert gives a %s to the response" % type(value).__name__)
    return object.__getattribute__(value, "_number")

def raise_again(name, text):
    kind = getattr(builtins, name, None)
    if not isinstance(kind, type) or not issubclass(kind, Exception):
        kind = RuntimeError
    try:
        error = kind(text)
    except TypeError:
        error = RuntimeError(name + ": " + text)
    raise error

def tell(request):
    data = json.dumps(request).encode() + b"\n"
    while data:
        data = data[os.write(requests, data):]
    line = replies.readline()
    if not line:
        raise Ended("the program ended")
    reply = json.loads(line)
    if "ended" in reply:
        raise Ended(str(reply["ended"])[:SHOWN])
    return reply

def ask(what, *operands, **named):
    reply = tell({"do": what, "with": encode(list(operands), number_of),
                  "named": [[name, encode(value, number_of)] for name, value in named.items()]})
    if "raised" in reply:
        raise_again(str(reply["raised"]), str(reply["text"])[:SHOWN])
    return decode(reply["value"], Handle)

def same(a, b):
    if isinstance(a, float) and isinstance(b, float):
        return a == b or abs(a - b) <= tests["tolerance"] * max(1, abs(b))
    if isinstance(a, bool) != isinstance(b, bool):
        return False
    if type(a) is type(b) and isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    return a == b

class Asserts(ast.NodeTransformer):
    """Lets asserts compare with same() and say what does not hold."""

    def visit_Assert(self, node):
        node.msg = node.msg or ast.Constant(ast.unparse(node.test)[:SHOWN])
        node.test = self.compared(node.test)
        return node

    def compared(self, node):
        if isinstance(node, ast.Compare) and [type(op) for op in node.ops] == [ast.Eq]:
            return ast.Call(ast.Name("__same__", ast.Load()), [node.left, *node.comparators], [])
        if isinstance(node, ast.BoolOp):
            node.values = [self.compared(value) for value in node.values]
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            node.operand = self.compared(node.operand)
        return node

def parsed(text):
    try:
        return ast.fix_missing_locations(Asserts().visit(ast.parse(text)))
    except (SyntaxError, ValueError) as error:
        raise Unusable("an assert is no Python: " + str(error))

def owned(tree):
    """The built-in names that the response may define: the function that the assert is about."""
    called = {node.func.id for node in ast.walk(tree)
              if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)} - {"__same__"}
    return {tests.get("entry")} | (called if len(called) == 1 else set())

def check(text):
    """Runs one assert with a response of its own."""
    setup, tree = parsed(tests["setup"]), parsed(text)
    tell({"do": "begin"})
    try:
        space = {"__name__": "asserts"}
        exec(MODULES, space)
        hidden = set(space) | (set(dir(builtins)) - owned(tree))
        for name, number in tell({"do": "names"})["names"]:
            if name not in hidden:
                space[str(name)] = Handle(number)
        space["__same__"] = same
        exec(compile(setup, "setup", "exec"), space)
        exec(compile(tree, "assert", "exec"), space)
    except Ended:
        raise
    except BaseException:
        end()
        raise
    end()

def end():
    try:
        tell({"do": "end"})
    except Ended:
        pass

def report(text):
    try:
        check(text)
        outcome = {"exit": 0}
    except Unusable as error:
        outcome = {"unusable": str(error)}
    except Ended as error:
        outcome = {"exit": 1, "errors": str(error)}
    except BaseException as error:
        outcome = {"exit": 1, "errors": type(error).__name__ + ": " + str(error)[:SHOWN]}
    line = json.dumps({"bytes": 0, **outcome}).encode() + b"\n"
    os.write(1, line)

# From here on other processes of the same user can read neither memory nor descriptors.
ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)
sys.setrecursionlimit(10000)
tests = json.load(sys.stdin)
source, requests = os.pipe()
taken, answers = os.pipe()
options = {"serve": True, "before": tests["before"], "cpu_seconds": tests["cpu_seconds"]}
os.posix_spawn(sys.executable, [sys.executable, "-I", "/work/harness.py", json.dumps(options)],
               os.environ, file_actions=[(os.POSIX_SPAWN_DUP2, source, 0),
                                         (os.POSIX_SPAWN_DUP2, answers, 1),
                                         (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0)])
os.close(source)
os.close(answers)
replies = os.fdopen(taken, "rb")
for text in tests["asserts"]:
    report(text)
