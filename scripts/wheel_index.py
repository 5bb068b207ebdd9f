"""Finds wheels in a package index and reads single members of them, without fetching the rest: a wheel of PyTorch has some 0.9 GB.

The index answers in JSON (PEP 691), and to requests for a range of bytes. Fails with urllib.error.URLError where it cannot be asked, or with
ValueError where it sends whole files only.
"""

from __future__ import annotations

import io
import json
import re
import shutil
import urllib.request
import zipfile
from dataclasses import dataclass
from pathlib import Path

READ_AHEAD = 4 << 20


@dataclass(frozen=True)
class Wheel:
    name: str  # of its file: "torch-2.11.0-cp312-cp312-manylinux_2_28_x86_64.whl"
    url: str

    @property
    def version(self) -> str:
        return self.name.split("-")[1]

    @property
    def abi(self) -> str:
        """"cp312", and "cp313t" without the GIL"""
        return self.name.split("-")[-2]

    def is_for_this_platform(self) -> bool:
        return self.name.endswith("-any.whl") or ("linux" in self.name and self.name.endswith("x86_64.whl"))


def wheels_of(index: str, project: str) -> list[Wheel]:
    """Returns the project's wheels for this platform."""
    request = urllib.request.Request(f"{index.rstrip('/')}/{project}/", headers={"Accept": "application/vnd.pypi.simple.v1+json"})
    with urllib.request.urlopen(request) as response:
        files = json.load(response)["files"]
    wheels = [Wheel(file["filename"], file["url"]) for file in files if not file.get("yanked")]
    return [wheel for wheel in wheels if wheel.is_for_this_platform()]


class RemoteFile(io.RawIOBase):
    """A file behind a URL, of which only what is asked for is fetched."""

    def __init__(self, url: str) -> None:
        super().__init__()
        self.url = url
        self.at = 0
        with urllib.request.urlopen(urllib.request.Request(url, method="HEAD")) as response:
            self.size = int(response.headers["Content-Length"])

    def seekable(self) -> bool:
        return True

    def readable(self) -> bool:
        return True

    def tell(self) -> int:
        return self.at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self.at = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self.at, io.SEEK_END: self.size}[whence]
        return self.at

    def readinto(self, buffer) -> int:
        count = min(len(buffer), self.size - self.at)
        if count <= 0:
            return 0
        request = urllib.request.Request(self.url, headers={"Range": f"bytes={self.at}-{self.at + count - 1}"})
        with urllib.request.urlopen(request) as response:
            if response.status != 206:
                raise ValueError(f"{self.url}: the server sends whole files only")
            got = response.readinto(buffer)
        self.at += got
        return got


def opened(wheel: Wheel) -> zipfile.ZipFile:
    return zipfile.ZipFile(io.BufferedReader(RemoteFile(wheel.url), READ_AHEAD))


def size_of_member(wheel: Wheel, ending: str) -> int | None:
    """Returns the size of the member whose path ends so, unpacked; None: there is none."""
    with opened(wheel) as archive:
        return next((member.file_size for member in archive.infolist() if member.filename.endswith(ending)), None)


def pinned(wheel: Wheel, pattern: str) -> tuple[str, str] | None:
    """Returns the project and version that the wheel asks for ("project==version", also with ".*"), where the project matches; None: no such."""
    with opened(wheel) as archive:
        metadata = next(name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        found = re.search(rf"^Requires-Dist: ({pattern})(?:\[.*\])?\s*\(?==\s*([0-9.]*[0-9])", archive.read(metadata).decode(), re.MULTILINE)
    return (found[1], found[2]) if found else None


def fetch_member(wheel: Wheel, ending: str, folder: Path) -> Path | None:
    """Writes the member of the wheel whose path ends so into the folder; None: it has no such member."""
    with opened(wheel) as archive:
        members = [name for name in archive.namelist() if name.endswith(ending)]
        if not members:
            return None
        path = folder / Path(members[0]).name
        with archive.open(members[0]) as member, path.open("wb") as file:
            shutil.copyfileobj(member, file, READ_AHEAD)
    return path
