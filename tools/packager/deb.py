"""Makes .deb files with dpkg-deb. Dependencies on libraries come from dpkg-shlibdeps."""

import email.utils
import os
import re
import shutil

from .description import ROOT
from .stage import compress, set_times, stage, write

SCRIPTS = ("preinst", "postinst", "prerm", "postrm")


def architecture(builder, package):
    return "all" if package.architecture == "all" else builder.run("dpkg", "--print-architecture").strip()


def libraries(builder, package):
    """The packages of the libraries that the programs are linked with."""
    if not package.programs:
        return []
    # dpkg-shlibdeps reads a source package's control file.
    source = builder.work / "shlibdeps" / package.name
    write(source / "debian/control", f"Source: muster\n\nPackage: {package.name}\nArchitecture: any\n".encode())
    # It expects programs in the directory of the package, which it recognises by DEBIAN.
    installed = source / "debian" / package.name
    (installed / "DEBIAN").mkdir(parents=True)
    for name in package.programs:
        os.link(builder.program(name), installed / name)
    programs = [f"-e{installed / name}" for name in package.programs]
    # No warnings (4) about libpthread and libdl, which are empty in the glibc of this machine and needed with an older one.
    output = builder.run("dpkg-shlibdeps", "--warnings=3", "-O", *programs, cwd=source)
    found = output.strip().removeprefix("shlibs:Depends=").split(", ")
    return [glibc(builder, package) if library.startswith("libc6 ") else library for library in found]


def glibc(builder, package):
    """The dependency on glibc, from the versions of the symbols. dpkg-shlibdeps would require 2.34, where symbols of libpthread and libdl moved to
    libc, although programs for an older glibc find them in either library."""
    symbols = [builder.run("objdump", "-T", builder.program(name)) for name in package.programs]
    versions = {tuple(map(int, version.split("."))) for text in symbols for version in re.findall(r"GLIBC_([0-9.]+)", text)}
    return f"libc6 (>= {'.'.join(map(str, max(versions)))})"


def installed_kilobytes(root):
    """The size as dpkg-gencontrol counts it: files in whole kilobytes, and one for everything else."""
    return sum(-(-path.lstat().st_size // 1024) if path.is_file() else 1 for path in root.rglob("*"))


def control(builder, package, root):
    depends = libraries(builder, package) + package.depends + package.requires
    if package.requires_systemd:
        depends += ["init-system-helpers (>= 1.52)", "passwd", "systemd | systemd-standalone-sysusers | systemd-sysusers"]
    description = "\n".join(f" {line}" if line else " ." for line in package.description.splitlines())
    fields = {
        "Package": package.name,
        "Source": "muster" if package.name != "muster" else "",
        "Version": builder.version,
        "Architecture": architecture(builder, package),
        "Maintainer": package.maintainer,
        "Installed-Size": installed_kilobytes(root),
        "Depends": ", ".join(depends),
        "Recommends": ", ".join(package.recommends),
        "Suggests": ", ".join(package.suggests),
        "Conflicts": ", ".join(package.conflicts),
        "Section": "admin",
        "Priority": "optional",
        "Description": f"{package.summary}\n{description}",
    }
    return "".join(f"{name}: {value}\n" for name, value in fields.items() if value)


def changelog(builder, package):
    date = email.utils.formatdate(builder.epoch)
    return (
        f"{package.name} ({builder.version}) unstable; urgency=medium\n\n"
        "  * Release; CHANGELOG.md of the project lists the changes.\n\n"
        f" -- {package.maintainer}  {date}\n"
    ).encode()


def md5sums(builder, root):
    files = sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file())
    files = [file for file in files if not file.startswith(("DEBIAN/", "etc/"))]
    return builder.run("md5sum", *files, cwd=root).encode()


def build(builder, package, out):
    """Writes one package into the directory `out`, and returns its path."""
    root = builder.work / "deb" / package.name
    stage(builder, package, root)
    write(root / f"usr/share/doc/{package.name}/changelog.gz", compress(changelog(builder, package)))
    text = control(builder, package, root)
    data = root / "DEBIAN"
    write(data / "md5sums", md5sums(builder, root))
    write(data / "control", text.encode())
    conffiles = "".join(f"{file.path}\n" for file in package.files if file.config)
    if conffiles:
        write(data / "conffiles", conffiles.encode())
    for script in SCRIPTS:
        source = ROOT / "packaging/scripts/deb" / f"{package.name}.{script}"
        if source.exists():
            write(data / script, source.read_bytes(), 0o755)
    data.chmod(0o755)
    set_times(root, builder.epoch)
    target = out / f"{package.name}_{builder.version}_{architecture(builder, package)}.deb"
    compression = ["-Zgzip", "-z1"] if builder.fast else ["-Zxz"]
    # The number of threads changes the compressed bytes. Versions of dpkg without this setting use one.
    environment = builder.environment | {"DPKG_DEB_THREADS_MAX": "1"}
    builder.run("dpkg-deb", "--root-owner-group", *compression, "--build", root, target, env=environment)
    shutil.rmtree(root)
    return target
