#!/usr/bin/env python3
"""What scripts/pack-release.py makes of an installed program: release_test.py BUILD."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import unittest
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
PACK = ROOT / "scripts/pack-release.py"
CAPTURE = ROOT / "tests/golden/mlp/capture.ptrec"
BUILD = Path()
VERSION = "1.2.3"
EPOCH = 1_700_000_000


def run(*command: object, **more: object) -> str:
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False, **more)  # type: ignore[call-overload]
    if done.returncode != 0:
        raise AssertionError(f"{command} ended with {done.returncode}: {done.stdout}{done.stderr}")
    return str(done.stdout)


def pack(stage: Path, out: Path) -> str:
    return run(sys.executable, PACK, stage, out, "--contents", BUILD / "static_contents.txt", "--version", VERSION, "--epoch", EPOCH)


def sums(folder: Path) -> dict[str, str]:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(folder.iterdir())}


class SmallStageTest(unittest.TestCase):
    """With a stand-in for the program: an ELF file of a header alone."""

    def setUp(self) -> None:
        self.folder = Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)

    def stage(self, name: str, program: bytes = b"\x7fELF" + b"\0" * 60) -> Path:
        stage = self.folder / name
        files = {"bin/proftrace": program, "lib/proftrace/libproftrace_agent.so": b"agent", "share/doc/proftrace/LICENSE": b"terms",
                 "share/man/man1/proftrace.1": b".TH"}
        for path, content in (files if name < "m" else dict(reversed(files.items()))).items():
            (stage / path).parent.mkdir(parents=True, exist_ok=True)
            (stage / path).write_bytes(content)
        (stage / "bin/proftrace").chmod(0o755)
        return stage

    def test_the_same_input_gives_the_same_bytes(self) -> None:
        first, second = self.stage("a"), self.stage("z")
        for path in second.rglob("*"):
            os.utime(path, (1, 1))
        if os.geteuid() == 0:
            os.chown(second / "bin/proftrace", 1234, 1234)
        pack(first, self.folder / "out1")
        pack(second, self.folder / "out2")
        self.assertEqual(sums(self.folder / "out1"), sums(self.folder / "out2"))

    def test_a_program_that_needs_libraries_is_refused(self) -> None:
        with self.assertRaisesRegex(AssertionError, "needs shared libraries"):
            pack(self.stage("a", (BUILD / "bin/proftrace").read_bytes()), self.folder / "out")
        self.assertFalse((self.folder / "out").exists())

    def test_what_is_linked_in_without_a_known_licence_is_refused(self) -> None:
        contents = self.folder / "contents"
        contents.write_text("/bin/sh\n", encoding="ascii")
        with self.assertRaisesRegex(AssertionError, "does not know its licence"):
            run(sys.executable, PACK, self.stage("a"), self.folder / "out", "--contents", contents, "--version", VERSION)


class ReleaseTest(unittest.TestCase):
    folder: Path
    out: Path

    @classmethod
    def setUpClass(cls) -> None:
        cls.folder = Path(tempfile.mkdtemp())
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        cls.out = cls.folder / "out"
        run("cmake", "--install", BUILD, "--prefix", cls.folder / "stage", "--strip")
        pack(cls.folder / "stage", cls.out)

    def only(self, pattern: str) -> Path:
        found = list(self.out.glob(pattern))
        self.assertEqual(len(found), 1, pattern)
        return found[0]

    def check_program(self, program: Path) -> None:
        """It gives the table that the dynamic build gives."""
        expected = run(BUILD / "bin/proftrace", "report", CAPTURE)
        self.assertEqual(run(program, "report", CAPTURE), expected)

    def test_sums(self) -> None:
        run("sha256sum", "--check", "--strict", "SHA256SUMS", cwd=self.out)
        self.assertEqual(len((self.out / "SHA256SUMS").read_text(encoding="ascii").splitlines()), len(list(self.out.iterdir())) - 1)

    def test_archive(self) -> None:
        with tarfile.open(self.only("*.tar.gz")) as archive:
            entries = archive.getmembers()
            archive.extractall(self.folder / "tar")
        self.assertEqual({(entry.uid, entry.gid, entry.mtime) for entry in entries}, {(0, 0, EPOCH)})
        top = self.folder / "tar" / f"proftrace-{VERSION}"
        self.check_program(top / "bin/proftrace")
        for place in ("man/man1/proftrace-record.1", "bash-completion/completions/proftrace", "zsh/vendor-completions/_proftrace"):
            self.assertTrue((top / "share" / place).is_file(), place)
        texts = "".join(path.read_text(encoding="utf-8", errors="replace") for path in (top / "share/doc/proftrace/licences").iterdir())
        for words in ("Apache License", "Alexei Starovoitov", "Capstone", "GNU LESSER GENERAL PUBLIC LICENSE", "zstd"):
            self.assertIn(words.lower(), texts.lower())
        self.assertIn((top / "lib/proftrace/libproftrace_agent.so").read_bytes(), (top / "bin/proftrace").read_bytes())
        parts = run("readelf", "--wide", "--file-header", "--program-headers", top / "bin/proftrace")
        self.assertRegex(parts, r"Type: +DYN")  # at a random place, though static
        self.assertIn("GNU_RELRO", parts)
        self.assertRegex(parts, r"GNU_STACK .* RW ")

    def test_debian_package(self) -> None:
        package = self.only("*.deb")
        fields = run("dpkg-deb", "--field", package)
        self.assertIn(f"Version: {VERSION}", fields)
        self.assertNotIn("Depends", fields)
        run("dpkg-deb", "--extract", package, self.folder / "deb")
        run("dpkg-deb", "--control", package, self.folder / "control")
        run("md5sum", "--check", "--strict", "--quiet", self.folder / "control/md5sums", cwd=self.folder / "deb")
        self.check_program(self.folder / "deb/usr/bin/proftrace")
        # Unpacking alone makes folders that the package does not name; installing does not.
        place = self.folder / "root"
        for name in ("info", "updates"):
            (place / "var/lib/dpkg" / name).mkdir(parents=True)
        (place / "var/lib/dpkg/status").touch()
        run("dpkg", "--root", place, "--force-not-root", "--log", self.folder / "log", "--install", package,
            env={**os.environ, "PATH": os.environ["PATH"] + ":/usr/sbin:/sbin"})
        self.check_program(place / "usr/bin/proftrace")
        self.assertTrue((place / "usr/lib/proftrace/libproftrace_agent.so").is_file())

    def test_wheel(self) -> None:
        venv.create(self.folder / "venv", with_pip=True)
        python = self.folder / "venv/bin/python"
        run(python, "-m", "pip", "install", "--no-index", "--disable-pip-version-check", self.only("*.whl"))
        self.check_program(self.folder / "venv/bin/proftrace")
        self.assertIn(f"Version: {VERSION}", run(python, "-m", "pip", "show", "proftrace"))
        self.assertTrue((self.folder / "venv/lib/proftrace/libproftrace_agent.so").is_file())
        self.assertEqual(run(python, "-c", "import proftrace; print(proftrace.find_program())").strip(), str(self.folder / "venv/bin/proftrace"))
        self.assertTrue(run(python, "-m", "proftrace", "--version").startswith("proftrace "))
        run(python, "-m", "pip", "uninstall", "-y", "proftrace")
        self.assertFalse((self.folder / "venv/bin/proftrace").exists())

    def test_image(self) -> None:
        """Each blob is named by its sum, and the layer is all that a root file system needs."""
        layout = self.folder / "layout"
        with tarfile.open(self.only("*-oci.tar")) as archive:
            archive.extractall(layout)
        blob = {path.name: path.read_bytes() for path in (layout / "blobs/sha256").iterdir()}
        for name, content in blob.items():
            self.assertEqual(hashlib.sha256(content).hexdigest(), name)
        index = json.loads((layout / "index.json").read_text(encoding="ascii"))
        manifest = json.loads(blob[index["manifests"][0]["digest"].split(":")[1]])
        config = json.loads(blob[manifest["config"]["digest"].split(":")[1]])
        self.assertEqual(config["config"]["Entrypoint"], ["/usr/bin/proftrace"])
        layer = manifest["layers"][0]
        self.assertEqual(len(blob[layer["digest"].split(":")[1]]), layer["size"])
        root = self.folder / "root"
        with tarfile.open(layout / "blobs/sha256" / layer["digest"].split(":")[1]) as archive:
            archive.extractall(root)
        if os.geteuid() != 0:
            return
        shutil.copy(CAPTURE, root)
        self.assertEqual(run("chroot", root, "/usr/bin/proftrace", "report", "/capture.ptrec"), run(BUILD / "bin/proftrace", "report", CAPTURE))

    def test_bill_of_materials(self) -> None:
        bill = json.loads(self.only("*.spdx.json").read_text(encoding="ascii"))
        identities = {package["SPDXID"] for package in bill["packages"]}
        self.assertLess({"SPDXRef-proftrace", "SPDXRef-libbpf-dev", "SPDXRef-libc6-dev", "SPDXRef-libelf-dev"}, identities)
        for relation in bill["relationships"]:
            self.assertIn(relation["relatedSpdxElement"], identities)
        for package in bill["packages"]:
            self.assertTrue(re.fullmatch(r"[\w.+:~-]+", package["versionInfo"]), package)


if __name__ == "__main__":
    BUILD = Path(sys.argv.pop(1)).resolve()
    unittest.main()
