#!python
"""Becomes the program `buttress` of the package; does not import it, to start at once."""
import os
import sys

for folder in sys.path:
    program = os.path.join(folder, "buttress", "bin", "buttress")
    if os.path.exists(program):
        os.execv(program, [program, *sys.argv[1:]])
sys.exit("buttress: no buttress/bin/buttress in Python's path; install the wheel again")
