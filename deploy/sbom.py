#!/usr/bin/env python3
"""Writes the software bill of materials of an image or a tarball as SPDX 2.3 JSON: Buttress itself,
Debian's packages, and the wheels that deploy/wheels*.txt pin.

    deploy/sbom.py --name NAME --version V --revision R --out FILE [--debian TSV] --wheels LIST...

TSV has the columns package, version, architecture and source package, as `dpkg-query` prints them.
"""
import argparse
import datetime
import hashlib
import json
import os
import pathlib
import re
import urllib.parse

WHEEL = re.compile(r"(?P<name>[\w.-]+)==(?P<version>\S+) --hash=sha256:(?P<sha256>[0-9a-f]{64})")
NAMESPACE = "https://spdx.org/spdxdocs/buttress"


def package(name, version, purl, supplier, **more):
    """One package of an SPDX document; what is not known is NOASSERTION."""
    return {
        "SPDXID": "SPDXRef-" + re.sub(r"[^A-Za-z0-9.-]", "-", purl.removeprefix("pkg:")),
        "name": name,
        "versionInfo": version,
        "supplier": supplier,
        "downloadLocation": "NOASSERTION",
        "filesAnalyzed": False,
        "licenseConcluded": "NOASSERTION",
        "licenseDeclared": "NOASSERTION",
        "copyrightText": "NOASSERTION",
        "externalRefs": [{"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl",
                          "referenceLocator": purl}],
        **more,
    }


def debian_packages(rows):
    for number, row in enumerate(rows, 1):
        if row.count("\t") != 3:
            raise SystemExit(f"sbom: line {number} of the packages is {row!r}; expected package, "
                             "version, architecture and source, separated by tabs")
        name, version, architecture, source = row.split("\t")
        purl = (f"pkg:deb/debian/{urllib.parse.quote(name)}@{urllib.parse.quote(version, safe='')}"
                f"?arch={architecture}&distro=debian-12")
        yield package(name, version, purl, "Organization: Debian",
                      sourceInfo=f"built from Debian's source package {source}")


def wheels(path):
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        match = WHEEL.fullmatch(line)
        if not match:
            raise SystemExit(f"sbom: {path}:{number}: {line!r}; expected NAME==VERSION "
                             "--hash=sha256:HASH")
        yield package(match["name"], match["version"],
                      f"pkg:pypi/{match['name']}@{match['version']}", "NOASSERTION",
                      checksums=[{"algorithm": "SHA256", "checksumValue": match["sha256"]}])


def created():
    """Now, or SOURCE_DATE_EPOCH, so that a build may be repeated bit for bit."""
    seconds = os.environ.get("SOURCE_DATE_EPOCH")
    now = datetime.datetime.now(datetime.timezone.utc)
    when = datetime.datetime.fromtimestamp(int(seconds), datetime.timezone.utc) if seconds else now
    return when.strftime("%Y-%m-%dT%H:%M:%SZ")


def document(name, version, revision, parts):
    own = package("buttress", version, f"pkg:generic/buttress@{version}", "NOASSERTION",
                  sourceInfo=f"git revision {revision}", licenseDeclared="Apache-2.0")
    parts = sorted(parts, key=lambda part: part["SPDXID"])
    relations = [("SPDXRef-DOCUMENT", "DESCRIBES", own)]
    relations += [(own["SPDXID"], "DEPENDS_ON", part) for part in parts]
    digest = hashlib.sha256(json.dumps([name, own, parts]).encode()).hexdigest()
    return {
        "spdxVersion": "SPDX-2.3",
        "dataLicense": "CC0-1.0",
        "SPDXID": "SPDXRef-DOCUMENT",
        "name": name,
        "documentNamespace": f"{NAMESPACE}-{version}-{digest}",
        "creationInfo": {"created": created(), "creators": ["Tool: buttress-sbom.py"]},
        "packages": [own, *parts],
        "relationships": [{"spdxElementId": source, "relationshipType": kind,
                           "relatedSpdxElement": target["SPDXID"]}
                          for source, kind, target in relations],
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    for name in ("name", "version", "revision", "out"):
        parser.add_argument("--" + name, required=True)
    parser.add_argument("--debian", type=pathlib.Path)
    parser.add_argument("--wheels", type=pathlib.Path, nargs="+", required=True)
    options = parser.parse_args()
    parts = [part for path in options.wheels for part in wheels(path)]
    if options.debian:
        parts += debian_packages(options.debian.read_text().splitlines())
    result = document(options.name, options.version, options.revision, parts)
    pathlib.Path(options.out).write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
