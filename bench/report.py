"""What every bench prints: a line or a JSON object for each case, unit and peer."""

import argparse
import json
import sys


def parser(description):
    made = argparse.ArgumentParser(prog="bench/run.sh", description=description)
    made.add_argument("--json", action="store_true", help="a JSON object a line")
    return made


def progress(text):
    print(text, file=sys.stderr, flush=True)


class Report:
    def __init__(self, bench, as_json):
        self.bench, self.as_json = bench, as_json
        if not as_json:
            print(
                f"{bench + ' ' + 'case':32s} {'unit':10s} {'ours':>10s} {'peer':>10s} "
                f" {'ratio':>6s}  peer",
                flush=True,
            )

    def measure(self, case, unit, ours):
        """A figure that no peer has."""
        if self.as_json:
            print(json.dumps({"bench": self.bench, "case": case, "ours": ours, "unit": unit}),
                  flush=True)
        else:
            print(f"{case:32s} {unit:15s} {ours:10.4g}", flush=True)

    def add(self, case, unit, ours, peer, peer_name, more_is_better):
        ratio = ours / peer if more_is_better else peer / ours
        if self.as_json:
            row = {
                "bench": self.bench, "case": case, "ours": ours, "peer": peer,
                "peer_name": peer_name, "unit": unit, "ratio": ratio,
            }
            print(json.dumps(row), flush=True)
        else:
            print(f"{case:32s} {unit:10s} {ours:10.4g} {peer:10.4g}  {ratio:6.2f}  {peer_name}",
                  flush=True,
                 )
