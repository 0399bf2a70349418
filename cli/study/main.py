"""Studies: arms of settings over tasks and seeds, and what their results say about a claim.

    buttress study run FILE        make the runs that are missing
    buttress study status FILE     how many there are, and the time left
    buttress study size FILE       how many seeds each comparison needs, by the spread alone
    buttress study report FILE...  verdicts, a page of each study, and a table of all claims
"""

import argparse
import pathlib
import signal
import sys

from failure import Failure

PACKAGES = {"yaml": "PyYAML", "numpy": "numpy", "scipy": "scipy"}


def parse(arguments):
    parser = argparse.ArgumentParser(prog="buttress study", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run", help="make the runs that are missing")
    run.add_argument("file")
    run.add_argument("--jobs", type=int, default=0, help="runs at once; default: the cores")
    run.add_argument("--work", help="folder for what may be lost: data, start models, runs under "
                     "way; default: runs/studies/NAME")
    run.add_argument("--nice", type=int, choices=range(20), default=19, metavar="N",
                     help="priority of the runs, 0 to 19; default: 19, the lowest")
    run.add_argument("--keep-runs", action="store_true", help="keep the folders of finished runs")
    status = commands.add_parser("status", help="how many runs there are, and the time left")
    status.add_argument("file")
    size = commands.add_parser("size", help="how many seeds each comparison needs, by the spread "
                               "of its pairs and without a look at effects")
    size.add_argument("file")
    report = commands.add_parser("report", help="verdicts, and a page next to the results")
    report.add_argument("file", nargs="+")
    report.add_argument("--out", type=pathlib.Path, help="write the table of all claims to this "
                        "Markdown file")
    report.add_argument("--readme", type=pathlib.Path, help="write the comparisons with readme: "
                        "true to the table of claims in this file")
    options = parser.parse_args(arguments)
    if options.command == "run" and options.jobs < 0:
        parser.error("--jobs: expected 1 or more")
    return options


def run(options, programs_folder):
    from execution import Executor, Programs
    from study_file import read_study
    import schedule

    study = read_study(options.file)
    work = options.work or pathlib.Path("runs/studies") / study.path.stem
    with schedule.owned(study.folder), schedule.work_folder(work) as folder:
        programs = Programs(programs_folder, options.nice)
        executor = Executor(study, programs, folder, options.keep_runs)
        jobs = options.jobs or schedule.cores()
        schedule.run_study(study, executor, jobs)


def status(options):
    from study_file import read_study
    import schedule

    print(schedule.status_text(read_study(options.file)))


def size(options):
    from study_file import read_study
    import evidence
    import sizing

    study = read_study(options.file)
    print(sizing.size_text(study, evidence.results_for(study)))


def report(options):
    from study_file import read_study
    import evidence

    print(evidence.report([read_study(file) for file in options.file], options.out,
                          options.readme), end="")


def main(programs_folder, *arguments):
    # Also where the shell has a job in the background ignore Ctrl-C.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    options = parse(arguments)
    try:
        if options.command == "run":
            run(options, programs_folder)
        else:
            {"status": status, "size": size, "report": report}[options.command](options)
    except ImportError as error:
        if error.name not in PACKAGES:
            raise
        name = PACKAGES[error.name]
        print(f"study: the Python package {name} is missing; run: {sys.executable} -m pip install "
              f"{name}, or name a Python that has it: buttress study --python PATH",
              file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("study: interrupted; the same command continues", file=sys.stderr)
        return 130
    except Failure as error:
        print(f"study: {error}", file=sys.stderr)
        return error.status
    return 0
