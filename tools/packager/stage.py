"""Copies the files of a package into a directory, with the modes and times of the package."""

import gzip
import io
import os
import shutil
import subprocess
import tarfile
from pathlib import Path

from .description import ROOT


class Builder:
    """What all packages of one run share: programs, version, time, and generated files. `server` is a directory with nats-server and its licence."""

    def __init__(self, binaries, version, epoch, work, fast=False, server=None):
        self.binaries, self.version, self.epoch = Path(binaries).resolve(), version, epoch
        self.work, self.fast, self.server = Path(work), fast, server
        self.environment = os.environ | {"SOURCE_DATE_EPOCH": str(epoch), "LC_ALL": "C.UTF-8", "TZ": "UTC"}

    def run(self, *words, **options):
        """Runs a command; its failure ends the tool."""
        options = {"check": True, "env": self.environment, "stdout": subprocess.PIPE, "text": True} | options
        return subprocess.run([str(word) for word in words], **options).stdout

    def program(self, name):
        """A copy of the program without debug information."""
        stripped = self.work / "programs" / name
        if not stripped.exists():
            stripped.parent.mkdir(parents=True, exist_ok=True)
            source = self.binaries / name
            if not source.is_file():
                raise FileNotFoundError(f"{source} does not exist; build the programs first, or set --binaries")
            self.run("strip", "--strip-unneeded", "--remove-section=.comment", "-o", stripped, source)
        return stripped

    def manuals(self, name):
        """The directory of the manual pages that the program writes."""
        pages = self.work / "manuals" / name
        if not pages.exists():
            pages.mkdir(parents=True)
            self.run(self.program(name), "man", pages)
        return pages

    def completion(self, shell):
        return self.run(self.program("rpc"), "completion", shell)


def write(path, data, mode=0o644):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    path.chmod(mode)


def compress(data, level=9):
    """gzip without a name and a time, so that the same data has the same bytes."""
    return gzip.compress(data, compresslevel=level, mtime=0)


def tar(entries, epoch):
    """A tar archive. Entries are (path, data or None for a directory, mode, owner), and sorted, so that parents come first."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for path, data, mode, owner in sorted(entries, key=lambda entry: entry[0]):
            info = tarfile.TarInfo(path.lstrip("/"))
            info.mode, info.mtime, info.uid, info.gid = mode, epoch, owner, owner
            if data is None:
                info.type = tarfile.DIRTYPE
                archive.addfile(info)
            else:
                info.size = len(data)
                archive.addfile(info, io.BytesIO(data))
    return buffer.getvalue()


def replace_words(data, words):
    text = data.decode()
    for old, new in words.items():
        if old not in text:
            raise ValueError(f"packages.toml replaces {old!r}, which the file does not contain")
        text = text.replace(old, new)
    return text.encode()


def stage_file(builder, file, root):
    """Writes one entry of the description below `root`."""
    target = root / file.path.lstrip("/")
    match file.kind:
        case "program":
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(builder.program(file.value), target)
            target.chmod(file.mode)
        case "source":
            write(target, replace_words((ROOT / file.value).read_bytes(), file.replace), file.mode)
        case "completion":
            write(target, builder.completion(file.value).encode(), file.mode)
        case "manuals":
            for page in builder.manuals(file.value).iterdir():
                write(target / f"{page.name}.gz", compress(page.read_bytes()), file.mode)
        case "tree":
            tree = ROOT / file.value
            for source in tree.rglob("*"):
                if source.is_file():
                    write(target / source.relative_to(tree), source.read_bytes(), file.mode)
        case "link":
            target.parent.mkdir(parents=True, exist_ok=True)
            target.symlink_to(file.value)
        case "directory":
            target.mkdir(parents=True, exist_ok=True)


def stage(builder, package, root):
    """Writes all files of the package below `root`."""
    root.mkdir(parents=True)
    for file in package.files:
        stage_file(builder, file, root)
    for file in package.files:
        if file.kind == "directory":
            (root / file.path.lstrip("/")).chmod(file.mode)
    write(root / f"usr/share/doc/{package.name}/copyright", (ROOT / "packaging/copyright").read_bytes())


def set_times(root, epoch):
    """Sets the time of every file, children before their directories."""
    for path in sorted(root.rglob("*"), reverse=True):
        os.utime(path, (epoch, epoch), follow_symlinks=False)
    os.utime(root, (epoch, epoch))
