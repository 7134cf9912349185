"""Looks for known vulnerabilities in what the images install: `python images/audit.py`.

pip-audit asks PyPI, and where that does not answer OSV. A package index that is a mirror knows no vulnerabilities: then
this says that nobody was asked, and never that nothing was found.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping
from itertools import chain
from pathlib import Path
from typing import Any

IMAGES = Path(__file__).resolve().parent
LOCKS = sorted(IMAGES.rglob("*.lock"))
SERVICES = ("pypi", "osv")
PINNED = re.compile(r"^([A-Za-z0-9._-]+)={2,3}([^\s;+\\]+)", re.MULTILINE)
"""A locked package; the local part of a version, such as +cpu, is in no list of vulnerabilities."""
ACCEPTED: Mapping[str, str] = {}
"""Vulnerabilities that do not concern the images, by their ids, with the reason."""


def locked(file: Path) -> list[str]:
    """Returns the packages of a lock, as `name==version`."""
    pins = PINNED.finditer(file.read_text(encoding="utf-8"))
    return sorted(f"{match[1].lower()}=={match[2]}" for match in pins)


def ask(service: str, pins: Iterable[str]) -> list[dict[str, Any]] | None:
    """Returns what pip-audit says of each package; None where the service does not answer for any of them.

    pip-audit takes one version of a package only, so it is asked lock by lock.
    """
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        file.write("\n".join(pins) + "\n")
        file.flush()
        command = [sys.executable, "-m", "pip_audit", "--disable-pip", "--no-deps", "--format", "json"]
        options = ["--progress-spinner", "off", "--timeout", "5", "-s", service, "-r", file.name]
        done = subprocess.run([*command, *options], capture_output=True, text=True)
    try:
        found = json.loads(done.stdout)["dependencies"]
    except (ValueError, KeyError, TypeError):
        return None
    return found if any("vulns" in package for package in found) else None


def report(packages: Iterable[Mapping[str, Any]], service: str) -> tuple[list[str], bool]:
    """Returns the lines about some packages, and whether a vulnerability is among them."""
    packages = list(packages)
    skipped = [package["name"] for package in packages if "vulns" not in package]
    found = [
        f"{package['name']} {package['version']}: {flaw['id']}"
        + (f", mended in {' or '.join(flaw['fix_versions'])}" if flaw["fix_versions"] else "")
        for package in packages
        for flaw in package.get("vulns", ())
        if not ACCEPTED.keys() & {flaw["id"], *flaw.get("aliases", ())}
    ]
    lines = found or [
        f"images/*/requirements.lock: {service} knows no vulnerability of {len(packages) - len(skipped)} packages"
    ]
    if skipped:
        lines.append(f"not known there, and not looked at: {', '.join(skipped)}")
    return lines, bool(found)


def main() -> int:
    locks = [locked(file) for file in LOCKS]
    for service in SERVICES:
        # One package tells in a second or two whether the service answers.
        answers = [ask(service, pins) for pins in locks] if ask(service, locks[0][:1]) else [None]
        if None not in answers:
            packages = {(each["name"], each.get("version")): each for each in chain(*filter(None, answers))}
            lines, vulnerable = report(packages.values(), service)
            print(*lines, sep="\n", file=sys.stderr if vulnerable else sys.stdout)
            return int(vulnerable)
    services = " nor ".join(SERVICES)
    print(
        f"{len({*chain(*locks)})} locked packages: neither {services} answers, so vulnerabilities were not looked for",
        file=sys.stderr,
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
