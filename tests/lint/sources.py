"""Source files of the project, for the lint tests."""
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(sys.argv[1])
FOLDERS = ("lib", "coordinator", "rollout_worker", "learner", "cli", "bench", "tests")


def sources(folders=FOLDERS, suffixes=(".h", ".cc")):
    """Tracked and new files, not ignored ones, below `folders`."""
    try:
        listed = subprocess.run(["git", "-C", ROOT, "ls-files", "-co", "--exclude-standard", *folders],
                                capture_output=True, text=True, check=True).stdout.split("\n")
    except (subprocess.CalledProcessError, FileNotFoundError):
        listed = [str(p.relative_to(ROOT)) for f in folders for p in (ROOT / f).rglob("*")]
    return sorted(p for p in listed if p.endswith(suffixes) and (ROOT / p).is_file())


def finish(problems, what):
    """Prints the problems and leaves with 1, or says what holds."""
    for problem in problems:
        print(problem)
    if problems:
        sys.exit(f"{len(problems)} problems")
    print(what)
