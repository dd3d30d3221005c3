"""Makes .rpm files with rpmbuild. Dependencies on libraries come from rpmbuild."""

import shutil
from datetime import UTC, datetime
from pathlib import PurePosixPath

from .description import ROOT
from .stage import set_times, stage, write

SCRIPTS = ("pre", "post", "preun", "postun")
RELEASE = "1"


def is_owned(directory, package):
    """Whether the package owns the directory: it has the name of the project, or is below one that has."""
    parts = PurePosixPath(directory).parts
    return any(part == "muster" or part == package.name for part in parts)


def list_files(package, root):
    """The lines of %files. All attributes are explicit, because files belong to the user who runs rpmbuild."""
    config = {file.path for file in package.files if file.config}
    lines = []
    for path in sorted(root.rglob("*")):
        name, mode = f"/{path.relative_to(root)}", path.lstat().st_mode & 0o7777
        if path.is_symlink():
            lines.append(name)
            continue
        if path.is_dir():
            if is_owned(name, package):
                # The service gives its directory of secrets to its group.
                verify = "%verify(not group) " if mode != 0o755 else ""
                lines.append(f"%dir {verify}%attr({mode:04o}, root, root) {name}")
            continue
        kind = "%config(noreplace) " if name in config else ""
        if name.startswith("/usr/share/licenses/"):
            kind = "%license "
        elif name.startswith("/usr/share/doc/"):
            kind = "%doc "
        lines.append(f"{kind}%attr({mode:04o}, root, root) {name}")
    return "\n".join(lines)


def scripts(package):
    parts = []
    for script in SCRIPTS:
        source = ROOT / "packaging/scripts/rpm" / f"{package.name}.{script}"
        if source.exists():
            parts.append(f"%{script}\n{source.read_text()}")
    return "\n".join(parts)


def spec(builder, package, root):
    """The spec file. It compiles nothing: %install copies the staged files."""
    requires = ["Requires(post): systemd", "Requires(preun): systemd", "Requires(postun): systemd"]
    tags = [
        f"Name: {package.name}",
        f"Version: {builder.version}",
        f"Release: {RELEASE}",
        f"Summary: {package.summary[0].upper()}{package.summary[1:]}",
        f"License: {package.license}",
        f"Packager: {package.maintainer}",
        *(["BuildArch: noarch"] if package.architecture == "all" else []),
        *(requires if package.requires_systemd else []),
        *[f"Requires: {name}" for name in package.requires],
        *[f"Conflicts: {name}" for name in package.conflicts],
        *[f"Recommends: {name}" for name in package.recommends],
        *[f"Suggests: {name}" for name in package.suggests],
    ]
    day = datetime.fromtimestamp(builder.epoch, UTC).strftime("%a %b %d %Y")
    return (
        "\n".join(tags)
        + f"\n\n%description\n{package.description}\n\n%prep\n\n%build\n\n"
        + f"%install\nmkdir -p '%{{buildroot}}'\ncp -a '{root}/.' '%{{buildroot}}/'\n\n"
        + f"{scripts(package)}\n%files\n{list_files(package, root)}\n\n"
        + f"%changelog\n* {day} {package.maintainer} - {builder.version}-{RELEASE}\n"
        + "- Release; CHANGELOG.md of the project lists the changes\n"
    )


def settings(builder, directory):
    """Macros: no changes of the files, no name of the machine, times from SOURCE_DATE_EPOCH."""
    return {
        "_topdir": directory,
        "_rpmfilename": "%{NAME}-%{VERSION}-%{RELEASE}.%{ARCH}.rpm",
        "_buildhost": "localhost",
        "_build_id_links": "none",
        # rpm of distributions with glibc 2.17 reads xz, not zstd.
        "_binary_payload": "w1.gzdio" if builder.fast else "w6.xzdio",
        "__os_install_post": "%{nil}",
        "debug_package": "%{nil}",
        "use_source_date_epoch_as_buildtime": "1",
        "clamp_mtime_to_source_date_epoch": "1",
        "source_date_epoch_from_changelog": "0",
    }


def build(builder, package, out):
    """Writes one package into the directory `out`, and returns its path."""
    directory = builder.work / "rpm" / package.name
    root = directory / "stage"
    stage(builder, package, root)
    # The licence has a place of its own in these packages.
    notice = root / "usr/share/doc" / package.name / "copyright"
    notice.unlink()
    if not any(notice.parent.iterdir()):
        notice.parent.rmdir()
    write(root / f"usr/share/licenses/{package.name}/LICENSE", (ROOT / "LICENSE").read_bytes())
    set_times(root, builder.epoch)
    file = directory / f"{package.name}.spec"
    write(file, spec(builder, package, root).encode())
    defines = [f"--define={name} {value}" for name, value in settings(builder, directory).items()]
    builder.run("rpmbuild", "-bb", "--quiet", *defines, file, stderr=None)
    (made,) = (directory / "RPMS").rglob("*.rpm")
    target = out / made.name
    shutil.move(made, target)
    shutil.rmtree(directory)
    return target
