#!/usr/bin/env python3
"""Packs an installed proftrace: pack-release.py STAGE OUT --contents FILE [--version V] [--epoch SECONDS].

STAGE is what `cmake --install --prefix STAGE` made with PROFTRACE_STATIC; FILE is the build's static_contents.txt. OUT gets
    proftrace-V-x86_64.tar.gz        to unpack anywhere
    proftrace_V_amd64.deb            needs no other package
    proftrace-V-py3-none-….whl       for every Python; its script is the program itself
    proftrace-V-oci.tar              an image with nothing else in it, as an OCI layout
    proftrace-V.spdx.json            what the program is made of, and the licences
    SHA256SUMS
The same input gives the same bytes: names are sorted, times are SECONDS, owners are root."""

from __future__ import annotations

import argparse
import base64
import gzip
import hashlib
import io
import json
import lzma
import os
import re
import subprocess
import sys
import tarfile
import time
import zipfile
from pathlib import Path

SUMMARY = "Attaches to running PyTorch jobs and tells what they do"
DESCRIPTION = """proftrace records what a running PyTorch job does: operators with shapes and stacks, autograd, system calls, waits and GPU work, without a
change of the job's code, a restart or an environment variable."""
TAGS = ("manylinux_2_17_x86_64", "manylinux2014_x86_64", "musllinux_1_1_x86_64")
PROGRAM, AGENT, PACKAGE = "bin/proftrace", "lib/proftrace/libproftrace_agent.so", "lib/proftrace/python/"

# By Debian's package of what is linked in: project, licence as SPDX writes it.
PARTS = {
    "libabsl-dev": ("abseil-cpp", "Apache-2.0"),
    "libbpf-dev": ("libbpf", "LGPL-2.1-only OR BSD-2-Clause"),
    "libbz2-dev": ("bzip2", "bzip2-1.0.6"),
    "libc6-dev": ("glibc", "LGPL-2.1-or-later"),
    "libcapstone-dev": ("capstone", "BSD-3-Clause"),
    "libcli11-dev": ("CLI11", "BSD-3-Clause"),
    "libdw-dev": ("elfutils libdw", "LGPL-3.0-or-later OR GPL-2.0-or-later"),
    "libelf-dev": ("elfutils libelf", "LGPL-3.0-or-later OR GPL-2.0-or-later"),
    "libgcc-dev": ("libgcc", "GPL-3.0-or-later WITH GCC-exception-3.1"),
    "liblzma-dev": ("xz liblzma", "LicenseRef-public-domain"),
    "libseccomp-dev": ("libseccomp", "LGPL-2.1-only"),
    "libsqlite3-dev": ("SQLite", "blessing"),
    "libstdc++-dev": ("libstdc++", "GPL-3.0-or-later WITH GCC-exception-3.1"),
    "libxxhash-dev": ("xxHash", "BSD-2-Clause"),
    "libzstd-dev": ("zstd", "BSD-3-Clause OR GPL-2.0-only"),
    "nlohmann-json3-dev": ("JSON for Modern C++", "MIT"),
    "zlib1g-dev": ("zlib", "Zlib"),
}

Entry = tuple[str, bytes, int]  # path, content, mode


class PackError(Exception):
    """What to print and end with."""


class Part:
    """A library that is linked in, or a header whose code is."""

    def __init__(self, package: str) -> None:
        known = re.sub(r"-\d+-dev$", "-dev", package)
        if known not in PARTS:
            raise PackError(f"{package} is linked in, but PARTS in pack-release.py does not know its licence")
        self.package = package
        self.name, self.licence = PARTS[known]
        self.version = ask("dpkg-query", "-W", "-f", "${Version}", package)
        self.copyright = Path(f"/usr/share/doc/{package}/copyright").read_bytes()


def ask(*command: str) -> str:
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError) as error:
        raise PackError(f"{' '.join(command[:2])} failed: {getattr(error, 'stderr', '') or error}; "
                        "releases are made on Debian, whose packages tell versions and licences") from error


def linked_parts(contents: Path) -> list[Part]:
    packages = set()
    for line in contents.read_text(encoding="utf-8").split():
        for path in dict.fromkeys((os.path.realpath(line), os.path.normpath(line))):
            found = subprocess.run(["dpkg-query", "-S", path], capture_output=True, text=True, check=False).stdout
            if found:
                packages.add(found.split(":")[0])
                break
        else:
            raise PackError(f"{line} is of no installed package")
    return [Part(package) for package in sorted(packages)]


def bill_of_materials(version: str, epoch: int, parts: list[Part], program: bytes) -> bytes:
    def package(identity: str, name: str, number: str, licence: str, **more: object) -> dict:
        return {"SPDXID": f"SPDXRef-{identity}", "name": name, "versionInfo": number, "downloadLocation": "NOASSERTION", "filesAnalyzed": False,
                "licenseConcluded": licence, "licenseDeclared": licence, "copyrightText": "NOASSERTION", **more}

    digest = hashlib.sha256(program).hexdigest()
    packages = [package("proftrace", "proftrace", version, "Apache-2.0", checksums=[{"algorithm": "SHA256", "checksumValue": digest}])]
    relations = [{"spdxElementId": "SPDXRef-DOCUMENT", "relationshipType": "DESCRIBES", "relatedSpdxElement": "SPDXRef-proftrace"}]
    for part in parts:
        identity = re.sub(r"[^A-Za-z0-9.-]", "-", part.package)
        purl = f"pkg:deb/debian/{part.package.replace('+', '%2B')}@{part.version.replace(':', '%3A')}?arch=amd64"
        packages.append(package(identity, part.name, part.version, part.licence, externalRefs=[
            {"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl", "referenceLocator": purl}]))
        relations.append({"spdxElementId": "SPDXRef-proftrace", "relationshipType": "STATIC_LINK", "relatedSpdxElement": f"SPDXRef-{identity}"})
    document = {
        "spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT", "name": f"proftrace-{version}",
        "documentNamespace": f"urn:proftrace:{version}:{digest}",
        "creationInfo": {"created": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(epoch)), "creators": ["Tool: proftrace-pack-release"]},
        "hasExtractedLicensingInfos": [{"licenseId": "LicenseRef-public-domain", "extractedText": "Its authors gave it to the public domain."}],
        "packages": packages, "relationships": relations}
    return json.dumps(document, indent=1, sort_keys=True).encode() + b"\n"


def licences(parts: list[Part], own: bytes) -> list[Entry]:
    """One file for each project whose code is in the program, under share/doc/proftrace/licences."""
    table = "".join(f"{part.name:22} {part.version:28} {part.licence}\n" for part in parts)
    intro = ("proftrace is licensed under Apache-2.0 (LICENSE). The program contains code of these projects, whose terms are beside this file.\n"
             "Whoever wants to change one that is under the LGPL can link the program anew: scripts/release.sh of its source does that.\n\n")
    entries = [("LICENSE", own, 0o644), ("licences/README", (intro + table).encode(), 0o644)]
    return entries + [(f"licences/{part.package}", part.copyright, 0o644) for part in parts]


def staged(stage: Path) -> list[Entry]:
    files = sorted(path for path in stage.rglob("*") if path.is_file())
    return [(str(path.relative_to(stage)), path.read_bytes(), 0o755 if path.stat().st_mode & 0o100 else 0o644) for path in files]


def tar_bytes(entries: list[Entry], epoch: int, top: str = "") -> bytes:
    """`top`: is put before each name. The folders on the way are entries, too, before what is in them: dpkg makes no others."""
    files = {top + name: (content, mode) for name, content, mode in entries}
    folders = {top + str(parent) for name, *_ in entries for parent in Path(name).parents if str(parent) != "."}
    if top not in ("", "./"):
        folders.add(top.rstrip("/"))
    output = io.BytesIO()
    with tarfile.open(fileobj=output, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for name in sorted([*files, *folders]):
            entry = tarfile.TarInfo(name)
            entry.mtime, entry.uname, entry.gname = epoch, "root", "root"
            if name in files:
                content, entry.mode = files[name]
                entry.size = len(content)
                archive.addfile(entry, io.BytesIO(content))
            else:
                entry.type, entry.mode = tarfile.DIRTYPE, 0o755
                archive.addfile(entry)
    return output.getvalue()


def ar_bytes(entries: list[tuple[str, bytes]], epoch: int) -> bytes:
    output = b"!<arch>\n"
    for name, content in entries:
        output += f"{name:<16}{epoch:<12}{0:<6}{0:<6}{'100644':<8}{len(content):<10}`\n".encode() + content + b"\n" * (len(content) % 2)
    return output


def gzipped(content: bytes) -> bytes:
    return gzip.compress(content, 9, mtime=0)


def debian_package(entries: list[Entry], version: str, epoch: int, copyright_text: bytes) -> bytes:
    files = []
    for name, content, mode in entries:
        if "/man/" in name:
            name, content = name + ".gz", gzipped(content)
        files.append((f"usr/{name}", content, mode))
    files.append(("usr/share/doc/proftrace/copyright", copyright_text, 0o644))
    sums = "".join(f"{hashlib.md5(content).hexdigest()}  {name}\n" for name, content, _ in sorted(files))
    control = (f"Package: proftrace\nVersion: {version}\nArchitecture: amd64\nMaintainer: The maintainers of proftrace\nSection: devel\nPriority: optional\n"
               f"Installed-Size: {sum(len(content) for _, content, _ in files) // 1024}\nDescription: {SUMMARY}\n"
               + "".join(f" {line}\n" for line in DESCRIPTION.splitlines()))
    inner = tar_bytes([("control", control.encode(), 0o644), ("md5sums", sums.encode(), 0o644)], epoch, "./")
    return ar_bytes([("debian-binary", b"2.0\n"), ("control.tar.gz", gzipped(inner)),
                     ("data.tar.xz", lzma.compress(tar_bytes(files, epoch, "./"), preset=6))], epoch)


def wheel(entries: list[Entry], documents: list[Entry], bill: bytes, version: str, epoch: int) -> bytes:
    """The script that an installer lays into the environment's bin is the program; no Python runs when it starts."""
    info, data = f"proftrace-{version}.dist-info", f"proftrace-{version}.data"
    metadata = (f"Metadata-Version: 2.4\nName: proftrace\nVersion: {version}\nSummary: {SUMMARY}\nLicense-Expression: Apache-2.0\n"
                + "".join(f"License-File: {name}\n" for name, _, _ in documents) + f"Requires-Python: >=3.9\n\n{DESCRIPTION}\n")
    about = ("Wheel-Version: 1.0\nGenerator: proftrace-pack-release\nRoot-Is-Purelib: false\n" + "".join(f"Tag: py3-none-{tag}\n" for tag in TAGS))

    def place(name: str) -> str:
        if name.startswith(PACKAGE):
            return name.removeprefix(PACKAGE)
        return f"{data}/scripts/proftrace" if name == PROGRAM else f"{data}/data/{name}"

    files = [(place(name), content, mode) for name, content, mode in entries if not name.startswith("share/doc/")]
    files += [(f"{info}/licenses/{name}", content, mode) for name, content, mode in documents]
    files += [(f"{info}/METADATA", metadata.encode(), 0o644), (f"{info}/WHEEL", about.encode(), 0o644), (f"{info}/sboms/proftrace.spdx.json", bill, 0o644)]
    files.sort()
    record = "".join(f"{name},sha256={base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b'=').decode()},{len(content)}\n"
                     for name, content, _ in files)
    files.append((f"{info}/RECORD", (record + f"{info}/RECORD,,\n").encode(), 0o644))
    output = io.BytesIO()
    with zipfile.ZipFile(output, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, content, mode in files:
            entry = zipfile.ZipInfo(name, time.gmtime(max(epoch, 315532800))[:6])  # zip begins in 1980
            entry.external_attr, entry.compress_type, entry.create_system = (0o100000 | mode) << 16, zipfile.ZIP_DEFLATED, 3
            archive.writestr(entry, content, compresslevel=9)
    return output.getvalue()


def oci_layout(entries: list[Entry], version: str, epoch: int) -> bytes:
    layer = tar_bytes([(f"usr/{name}", content, mode) for name, content, mode in entries if name in (PROGRAM, AGENT) or "/doc/" in name], epoch)
    packed = gzipped(layer)
    blobs = {}

    def add(kind: str, content: bytes) -> dict:
        digest = hashlib.sha256(content).hexdigest()
        blobs[digest] = content
        return {"mediaType": f"application/vnd.oci.image.{kind}", "digest": f"sha256:{digest}", "size": len(content)}

    created = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(epoch))
    config = add("config.v1+json", json.dumps({
        "architecture": "amd64", "os": "linux", "created": created, "rootfs": {"type": "layers", "diff_ids": ["sha256:" + hashlib.sha256(layer).hexdigest()]},
        "config": {"Entrypoint": ["/usr/bin/proftrace"], "Env": ["PATH=/usr/bin"], "WorkingDir": "/",
                   "Labels": {"org.opencontainers.image.title": "proftrace", "org.opencontainers.image.version": version,
                              "org.opencontainers.image.licenses": "Apache-2.0"}}}, sort_keys=True).encode())
    manifest = add("manifest.v1+json", json.dumps({
        "schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json", "config": config,
        "layers": [add("layer.v1.tar+gzip", packed)]}, sort_keys=True).encode())
    index = {"schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json", "manifests": [
        {**manifest, "platform": {"architecture": "amd64", "os": "linux"}, "annotations": {"org.opencontainers.image.ref.name": version}}]}
    return tar_bytes([("oci-layout", b'{"imageLayoutVersion":"1.0.0"}', 0o644), ("index.json", json.dumps(index, sort_keys=True).encode(), 0o644),
                      *((f"blobs/sha256/{digest}", content, 0o644) for digest, content in blobs.items())], epoch)


def check_program(program: bytes) -> None:
    """No shared library, or it is no program for every machine: an ELF file has a PT_INTERP (3) for those that need some."""
    if program[:4] != b"\x7fELF":
        raise PackError("the staged program is no ELF file")
    offset, size, count = (int.from_bytes(program[at:at + width], "little") for at, width in ((32, 8), (54, 2), (56, 2)))
    if any(int.from_bytes(program[offset + i * size:offset + i * size + 4], "little") == 3 for i in range(count)):
        raise PackError("the staged program needs shared libraries: build with -DPROFTRACE_STATIC=ON")


def pack(stage: Path, out: Path, contents: Path, version: str, epoch: int) -> None:
    entries = staged(stage)
    by_name = {name: content for name, content, _ in entries}
    program = by_name.get(PROGRAM, b"")
    check_program(program)
    parts = linked_parts(contents)
    documents = licences(parts, by_name["share/doc/proftrace/LICENSE"])
    bill = bill_of_materials(version, epoch, parts, program)
    copyright_text = b"\n".join(content for name, content, _ in documents if name != "LICENSE")
    whole = [entry for entry in entries if entry[0] != "share/doc/proftrace/LICENSE"]
    whole += [(f"share/doc/proftrace/{name}", content, mode) for name, content, mode in documents]
    whole.append(("share/doc/proftrace/proftrace.spdx.json", bill, 0o644))
    results = {
        f"proftrace-{version}-x86_64.tar.gz": gzipped(tar_bytes(whole, epoch, f"proftrace-{version}/")),
        f"proftrace_{version}_amd64.deb": debian_package(whole, version, epoch, copyright_text),
        f"proftrace-{version}-py3-none-{'.'.join(TAGS)}.whl": wheel(entries, documents, bill, version, epoch),
        f"proftrace-{version}-oci.tar": oci_layout(whole, version, epoch),
        f"proftrace-{version}.spdx.json": bill}
    out.mkdir(parents=True, exist_ok=True)
    sums = ""
    for name, content in sorted(results.items()):
        (out / name).write_bytes(content)
        sums += f"{hashlib.sha256(content).hexdigest()}  {name}\n"
        print(f"{len(content):>10}  {out / name}")
    (out / "SHA256SUMS").write_text(sums, encoding="ascii")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("stage", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--contents", type=Path, required=True)
    parser.add_argument("--version", required=True)
    parser.add_argument("--epoch", type=int, default=int(os.environ.get("SOURCE_DATE_EPOCH", "0")))
    arguments = parser.parse_args()
    try:
        pack(arguments.stage, arguments.out, arguments.contents, arguments.version, arguments.epoch)
    except (PackError, OSError, KeyError) as error:
        print(f"pack-release: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
