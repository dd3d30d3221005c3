"""The cached base of the machines of tools/machines, and the layers above it. Built once, with debootstrap and apt from a mirror."""

import contextlib
import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(os.environ.get("MUSTER_MACHINES_DIR") or Path(os.environ.get("CARGO_TARGET_DIR") or Path(__file__).parent.parent / "target") / "machines")
SUITE = "bookworm"
PACKAGES = ("systemd systemd-sysv dbus cron openssh-server iproute2 nftables passwd adduser sudo ca-certificates procps logrotate netbase "
            "libfaketime").split()
LAYERS = {"puppet": ["puppet-agent", *(f"puppet-module-puppetlabs-{kind}-core" for kind in ("cron", "host", "mailalias", "mount", "sshkeys"))],
          "programs": ["zsh", "fish", "monitoring-plugins-basic", "nagios4-core", "icinga2-bin", "icinga2-common", "curl"]}
# A service that its test starts itself.
DISABLED_SERVICE = "icinga2.service"
MASKED = "apt-daily.timer apt-daily-upgrade.timer e2scrub_all.timer fstrim.timer systemd-networkd-wait-online.service".split()


def fail(message):
    sys.exit(f"machines: {message}")


def run(*command, **options):
    """Runs a command; its output is shown only if it fails."""
    result = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options)
    if result.returncode:
        fail(f"{' '.join(map(str, command))}: exit code {result.returncode}\n{result.stdout[-4000:]}")
    return result.stdout


def layer_path(name):
    content = [SUITE, *PACKAGES, *MASKED, *LAYERS.get(name, [])]
    return ROOT / f"{name}-{hashlib.sha256(' '.join(content).encode()).hexdigest()[:8]}"


@contextlib.contextmanager
def locked(name):
    ROOT.mkdir(parents=True, exist_ok=True)
    with open(ROOT / f"{name}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def mirror():
    for file in [*Path("/etc/apt/sources.list.d").glob("*.sources"), Path("/etc/apt/sources.list")]:
        found = re.search(r"^(?:URIs:|deb(?: \[.*?\])?)\s+(http\S+)", file.read_text() if file.exists() else "", re.M)
        if found:
            return found[1]
    return "http://deb.debian.org/debian"


def build_base():
    """Builds the base if it is not cached; returns its directory."""
    base = layer_path("base")
    with locked("base"):
        if not base.exists():
            print("machines: building the base, once", file=sys.stderr)
            part = base.with_suffix(".part")
            shutil.rmtree(part, ignore_errors=True)
            run("debootstrap", "--variant=minbase", f"--include={','.join(PACKAGES)}", SUITE, part, mirror())
            (part / "etc/resolv.conf").unlink(missing_ok=True)
            (part / "etc/machine-id").write_text("")
            (part / "etc/apt/sources.list").write_text("")
            for unit in MASKED:
                (part / "etc/systemd/system" / unit).symlink_to("/dev/null")
            (part / "etc/systemd/system/sysinit.target.wants").mkdir(exist_ok=True)
            (part / "etc/systemd/system/sysinit.target.wants/machine-network.service").symlink_to("../machine-network.service")
            run("chroot", part, "apt-get", "clean")
            part.rename(base)
    return base


def build_layer(name):
    """Builds a layer above the base if it is not cached; returns its directory."""
    base, layer = build_base(), layer_path(name)
    with locked(name):
        if not layer.exists():
            print(f"machines: building the layer {name}, once", file=sys.stderr)
            part, work, root = (layer.with_suffix(suffix) for suffix in (".part", ".work", ".root"))
            for directory in (part, work, root):
                shutil.rmtree(directory, ignore_errors=True)
                directory.mkdir()
            run("mount", "-t", "overlay", "overlay", "-o", f"lowerdir={base},upperdir={part},workdir={work}", root)
            try:
                (root / "etc/apt/sources.list").write_text(f"deb {mirror()} {SUITE} main\n")
                install = f"apt-get update -qq && apt-get install -qq --no-install-recommends {' '.join(LAYERS[name])} && apt-get clean"
                run("systemd-nspawn", "--register=no", "--keep-unit", "--quiet", "--pipe", "--resolv-conf=copy-host", "--as-pid2",
                    "--setenv=DEBIAN_FRONTEND=noninteractive", "-D", root, "sh", "-c", install, stdin=subprocess.DEVNULL)
                (root / "etc/systemd/system/multi-user.target.wants" / DISABLED_SERVICE).unlink(missing_ok=True)
                (root / "etc/resolv.conf").unlink(missing_ok=True)
                (root / "etc/apt/sources.list").write_text("")
            finally:
                run("umount", root)
            root.rmdir()
            shutil.rmtree(work)
            part.rename(layer)
    return layer
