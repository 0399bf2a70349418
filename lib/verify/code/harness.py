"""Runs a response inside the sandbox.

Reads one JSON object from stdin, {"function", "calls": [[...], ...]} or {"setup", "asserts": [...],
"word"}, and runs /work/main.py. Then it writes one line for each call, {"value": ...} or
{"error": ...}, or the word and a number for each assert that holds. Output of the response is
discarded. If the response ends the interpreter, the lines are missing.
"""

import json, os, sys

def main():
    lines = os.fdopen(os.dup(1), "w")
    request = json.load(sys.stdin)
    nothing = os.open("/dev/null", os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(nothing, fd)
    space = {"__name__": "solution"}
    exec(request.get("setup", ""), space)
    with open("/work/main.py") as file:
        exec(compile(file.read(), "/work/main.py", "exec"), space)
    if "function" in request:
        name = request["function"]
        function = space[name] if name in space else getattr(space["Solution"](), name)
        for arguments in request["calls"]:
            try:
                line = json.dumps({"value": function(*arguments)})
            except Exception as error:
                line = json.dumps({"error": type(error).__name__ + ": " + str(error)[:200]})
            print(line, file=lines, flush=True)
    for i, text in enumerate(request.get("asserts", [])):
        exec(text, space)
        print(request["word"], i, file=lines, flush=True)

sys.setrecursionlimit(10000)
main()
