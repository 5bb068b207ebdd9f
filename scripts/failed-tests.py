#!/usr/bin/env python3
"""Names of the tests that failed, if all of them have a label: failed-tests.py BUILD_DIRECTORY JUNIT_XML LABEL.

Prints nothing where one of them has not, or none failed.
"""

from __future__ import annotations

import json
import subprocess
import sys
import xml.etree.ElementTree as ElementTree


def main() -> int:
    if len(sys.argv) != 4:
        print(__doc__, file=sys.stderr)
        return 2
    build, junit, label = sys.argv[1:]
    listing = subprocess.run(
        ["ctest", "--test-dir", build, "--show-only=json-v1", "-L", f"^{label}$"],
        check=True, capture_output=True, text=True)
    labelled = {test["name"] for test in json.loads(listing.stdout)["tests"]}
    failed = [case.get("name", "") for case in ElementTree.parse(junit).getroot().iter("testcase")
              if case.get("status") == "fail"]
    if set(failed) <= labelled:
        print("\n".join(failed), end="\n" if failed else "")
    return 0


if __name__ == "__main__":
    sys.exit(main())
