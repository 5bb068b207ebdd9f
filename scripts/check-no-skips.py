#!/usr/bin/env python3
"""Fails when a test that must run was skipped: check-no-skips.py BUILD_DIRECTORY JUNIT_XML LABEL...

For each label at least one test must exist, and none may have been skipped, disabled or not run.
"""

from __future__ import annotations

import json
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from typing import Any


def labels_by_test(listing: dict[str, Any]) -> dict[str, set[str]]:
    """From `ctest --show-only=json-v1`."""
    found: dict[str, set[str]] = {}
    for test in listing["tests"]:
        properties = {entry["name"]: entry["value"] for entry in test.get("properties", [])}
        found[test["name"]] = set(properties.get("LABELS", []))
    return found


def not_run(junit: ElementTree.Element) -> dict[str, str]:
    """Test name: why, for each test case that did not run to its end."""
    found: dict[str, str] = {}
    for case in junit.iter("testcase"):
        skipped = case.find("skipped")
        if skipped is not None:
            output = (case.findtext("system-out") or "").strip().splitlines()
            found[case.get("name", "")] = output[-1] if output else skipped.get("message", "skipped")
        elif case.get("status") not in ("run", "fail"):
            found[case.get("name", "")] = f"status {case.get('status')}"
    return found


def complaints(labels: dict[str, set[str]], junit: ElementTree.Element, required: list[str]) -> list[str]:
    ran = {case.get("name", "") for case in junit.iter("testcase")}
    skipped = not_run(junit)
    found = []
    for label in required:
        tests = sorted(name for name, names in labels.items() if label in names)
        if not tests:
            found.append(f"there is no test with the label {label}")
        for name in tests:
            if name in skipped:
                found.append(f"{name} ({label}) was skipped: {skipped[name]}")
            elif name not in ran:
                found.append(f"{name} ({label}) did not run")
    return found


def main() -> int:
    if len(sys.argv) < 4:
        print(__doc__, file=sys.stderr)
        return 2
    build, junit_path, *required = sys.argv[1:]
    listing = subprocess.run(
        ["ctest", "--test-dir", build, "--show-only=json-v1"], check=True, capture_output=True, text=True)
    found = complaints(labels_by_test(json.loads(listing.stdout)), ElementTree.parse(junit_path).getroot(), required)
    for text in found:
        print(f"check-no-skips: {text}", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
