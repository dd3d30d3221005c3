"""Makes the tarball that packaging/install.sh installs: the files of a package for each role, with a list of them.

A role is a directory with the files below `root`, and a list in FILES: a line `KIND MODE PATH` for each file and each directory that the package has
even if it is empty. KIND is `file`; `template`, in which the script replaces the paths of programs; `config`, which it never replaces; or `directory`.
"""

from .description import ROOT
from .stage import compress, replace_words, stage, tar, write

ROLES = {"client": "muster", "node": "muster-node", "broker": "muster-broker"}
# Paths of programs in units and examples.
PROGRAMS = (b"/usr/sbin/rpcd", b"/usr/bin/nats-server")
UNIT = "usr/lib/systemd/system/muster-broker.service"
# What the unit of the broker runs if the server is not part of its package, and if it is.
SERVER_LINES = {
    "# The first nats-server in /usr/local/sbin, /usr/local/bin, /usr/sbin, /usr/bin.\nExecStart=nats-server ": "ExecStart=/usr/bin/nats-server "
}


def add_server(server, root):
    """Adds nats-server and its licence, which must be in the directory `server`, to the files of the broker."""
    for name in ("nats-server", "LICENSE"):
        if not (server / name).is_file():
            raise FileNotFoundError(f"{server / name} does not exist; nats-server is only distributed together with its licence")
    write(root / "usr/bin/nats-server", (server / "nats-server").read_bytes(), 0o755)
    write(root / "usr/share/doc/nats-server/LICENSE", (server / "LICENSE").read_bytes())
    write(root / UNIT, replace_words((root / UNIT).read_bytes(), SERVER_LINES))


def list_files(package, root):
    """The lines of FILES."""
    described = {file.path: file for file in package.files}
    lines = []
    for path in sorted(root.rglob("*")):
        name, mode = f"/{path.relative_to(root)}", path.stat().st_mode & 0o7777
        file = described.get(name)
        if path.is_dir():
            if file and file.kind == "directory":
                lines.append(f"directory {mode:04o} {name}")
            continue
        kind = "config" if file and file.config else "file"
        if not mode & 0o111 and any(program in path.read_bytes() for program in PROGRAMS):
            kind = "template"
        lines.append(f"{kind} {mode:04o} {name}")
    return "".join(f"{line}\n" for line in lines)


def build(builder, packages, out):
    """Writes the tarball of these packages, by name, into the directory `out`, and returns its path."""
    name = f"muster_{builder.version}_{builder.run('uname', '-m').strip()}"
    top = builder.work / "tarball" / name
    for role, package_name in ROLES.items():
        package, root = packages[package_name], top / role / "root"
        stage(builder, package, root)
        write(root / f"usr/share/doc/{package_name}/LICENSE", (ROOT / "LICENSE").read_bytes())
        if role == "broker" and builder.server:
            add_server(builder.server, root)
        write(top / role / "FILES", list_files(package, root).encode())
    entries = [
        (str(path.relative_to(top.parent)), None if path.is_dir() else path.read_bytes(), path.stat().st_mode & 0o7777, 0)
        for path in [top, *top.rglob("*")]
    ]
    target = out / f"{name}.tar.gz"
    target.write_bytes(compress(tar(entries, builder.epoch), 1 if builder.fast else 9))
    return target
