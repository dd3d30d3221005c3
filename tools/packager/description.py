"""Reads packaging/packages.toml. Pure except for that file."""

import tomllib
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
SOURCES = {"source", "program", "manuals", "completion", "directory", "tree", "link"}


@dataclass(frozen=True)
class PackageFile:
    """One entry: a file, a directory, or a group of files."""

    path: str
    kind: str
    value: str
    mode: int
    config: bool = False
    replace: dict = field(default_factory=dict)


@dataclass(frozen=True)
class Package:
    """One package. `family` is `deb` or `rpm`, because a few paths differ."""

    name: str
    summary: str
    description: str
    license: str
    maintainer: str
    unit: str
    architecture: str
    requires_systemd: bool
    depends: list
    requires: list
    conflicts: list
    recommends: list
    suggests: list
    files: list

    @property
    def programs(self):
        return [file.value for file in self.files if file.kind == "program"]


def parse_file(path, entry, family):
    kinds = SOURCES & entry.keys()
    if len(kinds) != 1:
        raise ValueError(f"packages.toml: {path} needs exactly one of {', '.join(sorted(SOURCES))}")
    kind = kinds.pop()
    default = "0755" if kind in ("program", "directory") else "0644"
    return PackageFile(
        path=entry.get(family, path),
        kind=kind,
        value=entry[kind],
        mode=int(entry.get("mode", default), 8),
        config=entry.get("config", False),
        replace=entry.get("replace", {}),
    )


def load_images():
    """The container images, as in the description, with their names."""
    text = tomllib.loads((ROOT / "packaging/packages.toml").read_text())
    return [image | {"name": name, "license": text["license"]} for name, image in text["images"].items()]


def load_packages(family, maintainer=None):
    """All packages, for one family of package managers."""
    text = tomllib.loads((ROOT / "packaging/packages.toml").read_text())
    return [
        Package(
            name=name,
            summary=entry["summary"],
            description=entry["description"].strip(),
            license=text["license"],
            maintainer=maintainer or text["maintainer"],
            unit=entry.get("unit", ""),
            architecture=entry.get("architecture", "any"),
            requires_systemd=entry.get("requires_systemd", False),
            depends=entry.get("depends", []),
            requires=entry.get("requires", []),
            conflicts=entry.get("conflicts", []),
            recommends=entry.get("recommends", []),
            suggests=entry.get("suggests", []),
            files=[parse_file(path, file, family) for path, file in entry["files"].items() if file.get("only", family) == family],
        )
        for name, entry in text["packages"].items()
    ]
