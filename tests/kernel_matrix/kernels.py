"""Kernels of the distribution: found with apt, fetched into a cache, unpacked there and never installed.

A kernel is named by a version ("6.1": the newest package of it), a package, or .deb files ("image.deb,modules.deb").
Looked at are the suites of SUITES on the sites that this host's apt is configured for.
"""

from __future__ import annotations

import dataclasses
import os
import re
import shutil
import subprocess
from pathlib import Path

# Suites of an archive, by the last part of its address; other archives have those that are
# configured.
SUITES = {"debian": ["bullseye", "bookworm", "bookworm-backports", "trixie", "trixie-backports", "sid"],
          "debian-security": ["bullseye-security", "bookworm-security", "trixie-security"]}
KEYS = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
IMAGE = re.compile(r"linux-image-\d+\.\d+\.\d+\S*(?<!-cloud)(?<!-rt)-(amd64|generic)$")
# The packages that an image may consist of.
PARTS = re.compile(r"linux-(image|binary|modules)(-extra|-unsigned)?-\d")


class NoKernel(Exception):
    """There is none of that name here."""


@dataclasses.dataclass
class Kernel:
    release: str  # as uname -r says it
    image: Path
    tree: Path  # has lib/modules
    origin: str


class Kernels:
    def __init__(self, cache: Path) -> None:
        self.cache = cache
        self.apt = cache / "apt"

    def get(self, name: str) -> Kernel:
        if name.endswith(".deb"):
            files = [Path(part).resolve() for part in name.split(",")]
            missing = [str(file) for file in files if not file.is_file()]
            if missing:
                raise NoKernel(f"no file {', '.join(missing)}")
            return self._unpacked(files[0].stem, files)
        self._update()
        package = name if name.startswith("linux-image-") else self._newest(name)
        folder = self.cache / "debs" / package
        files = list(folder.glob("*.deb"))
        if not files:
            folder.mkdir(parents=True, exist_ok=True)
            self._run("apt-get", "download", *self._parts(package), cwd=folder)
            files = list(folder.glob("*.deb"))
        return self._unpacked(package, files)

    def _environment(self) -> dict[str, str]:
        return dict(os.environ, APT_CONFIG=str(self.apt / "apt.conf"), LC_ALL="C")

    def _run(self, *command: str, cwd: Path | None = None) -> str:
        done = subprocess.run(command, env=self._environment(), cwd=cwd, capture_output=True, text=True)
        if done.returncode:
            raise NoKernel(f"{' '.join(command[:2])}: {done.stderr.strip().splitlines()[-1:]}")
        return done.stdout

    def _update(self) -> None:
        """Package lists of their own, made once a cache."""
        if (self.apt / "updated").exists():
            return
        for folder in ("lists/partial", "archives/partial"):
            (self.apt / folder).mkdir(parents=True, exist_ok=True)
        targets = subprocess.run(["apt-get", "indextargets", "--format", "$(SITE) $(RELEASE)", "Created-By: Packages"],
                                 capture_output=True, text=True, check=True).stdout
        lines = set()
        for line in targets.splitlines():
            site, release = line.split()
            suites = SUITES.get(site.rstrip("/").rsplit("/", 1)[-1])
            if suites is None:
                lines.add(f"deb [arch=amd64] {site} {release} main")
            else:
                lines |= {f"deb [arch=amd64 signed-by={KEYS}] {site} {suite} main" for suite in suites}
        (self.apt / "sources.list").write_text("".join(f"{line}\n" for line in sorted(lines)))
        (self.apt / "none").mkdir(exist_ok=True)
        (self.apt / "apt.conf").write_text(
            f'Dir::State "{self.apt}"; Dir::State::lists "lists"; Dir::State::status "/dev/null"; Dir::Cache "{self.apt}";\n'
            f'Dir::Etc::sourcelist "{self.apt}/sources.list"; Dir::Etc::sourceparts "{self.apt}/none";\n'
            f'Dir::Etc::preferencesparts "{self.apt}/none"; Acquire::Languages "none"; Debug::NoLocking "1";\n'
            f'APT::Sandbox::User "root";\n')
        # A suite that is not there fails, and the others are read.
        subprocess.run(["apt-get", "update", "-qq"], env=self._environment(), capture_output=True)
        (self.apt / "updated").touch()

    def images(self) -> list[str]:
        return [line for line in self._run("apt-cache", "pkgnames", "linux-image-").splitlines()
                if IMAGE.match(line)]

    def _newest(self, version: str) -> str:
        found = [package for package in self.images() if re.match(rf"linux-image-{re.escape(version)}(?![\d])", package)]
        if not found:
            raise NoKernel(f"no linux-image of version {version} in the suites at hand")
        return max(found, key=lambda package: [int(number) for number in re.findall(r"\d+", package)])

    def _parts(self, package: str) -> list[str]:
        """The package and those that its image lies in (its modules may be packages of their own)."""
        parts = [package]
        for line in self._run("apt-cache", "depends", "--no-recommends", "--no-suggests", package).splitlines():
            said = re.match(r"\s*Depends: (\S+)$", line)
            if said and PARTS.match(said[1]):
                parts.append(said[1])
        return parts

    def _unpacked(self, name: str, files: list[Path]) -> Kernel:
        tree = self.cache / "kernels" / name
        if not (tree / "unpacked").exists():
            shutil.rmtree(tree, ignore_errors=True)
            tree.mkdir(parents=True)
            for file in files:
                subprocess.run(["dpkg-deb", "-x", str(file), str(tree)], check=True)
            if not (tree / "lib").exists() and (tree / "usr/lib").exists():
                (tree / "lib").symlink_to("usr/lib")
            release = next(iter((tree / "lib/modules").iterdir())).name
            subprocess.run(["/sbin/depmod", "-b", str(tree), release], check=True)
            (tree / "unpacked").touch()
        release = next(iter((tree / "lib/modules").iterdir())).name
        images = [*tree.glob("boot/vmlinuz*"), *tree.glob("usr/lib/modules/*/vmlinuz"), *tree.glob("lib/modules/*/vmlinuz")]
        if not images:
            raise NoKernel(f"no kernel image in {', '.join(file.name for file in files)}")
        return Kernel(release, images[0], tree, name)
