"""Makes container images as OCI archives: a program, the libraries that it is linked with, and nothing else. Needs no container engine.

glibc finds hosts without further files: since 2.34 its `files` and `dns` services are part of libc.so.6.
"""

import hashlib
import json
import re
from datetime import UTC, datetime
from pathlib import Path

from .stage import compress, tar

# A user without privileges, which no distribution assigns.
USER = 65532
# Files that are not programs or libraries.
FILES = {
    "/etc/passwd": f"root:x:0:0:root:/:/nologin\nmuster:x:{USER}:{USER}:Muster:/home/muster:/nologin\n",
    "/etc/group": f"root:x:0:\nmuster:x:{USER}:\n",
    "/etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\n",
}
# Directories, and whether the user owns them.
DIRECTORIES = {"/etc/muster": False, "/home/muster": True, "/run/muster": True, "/tmp": True,
               "/var/lib/muster": True, "/var/log/muster": True}  # fmt: skip
# The machines of OCI, by the names of `uname -m`.
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
# A line of ldd: `libm.so.6 => /lib/libm.so.6 (0x...)`, or the loader's `/lib64/ld.so (0x...)`.
LIBRARY = re.compile(r"^\s*(?:\S+ => )?(/\S+) \(0x[0-9a-f]+\)$", re.MULTILINE)


def libraries(builder, program):
    """The path in the image and the data of each library."""
    found = LIBRARY.findall(builder.run("ldd", program))
    return {path: Path(path).resolve().read_bytes() for path in found}


def layer(builder, image):
    """The only layer: all files, with the directories above them."""
    program = builder.program(image["program"])
    files = {path: (text.encode(), 0o644) for path, text in FILES.items()}
    files |= {path: (data, 0o755) for path, data in libraries(builder, program).items()}
    files[image["path"]] = (program.read_bytes(), 0o755)
    owners = {path: USER if owned else 0 for path, owned in DIRECTORIES.items()}
    above = {str(parent) for path in [*files, *owners] for parent in Path(path).parents} - {"/"}
    directories = {path: 0 for path in above} | owners
    entries = [(path, None, 0o755, owner) for path, owner in directories.items()]
    entries += [(path, data, mode, 0) for path, (data, mode) in files.items()]
    return tar(entries, builder.epoch)


class Archive:
    """The blobs of an image, by digest."""

    def __init__(self):
        self.blobs = {}

    def add(self, data, media_type):
        digest = hashlib.sha256(data).hexdigest()
        self.blobs[digest] = data
        return {"mediaType": f"application/vnd.oci.image.{media_type}", "digest": f"sha256:{digest}", "size": len(data)}

    def add_json(self, document, media_type):
        return self.add(json.dumps(document, sort_keys=True).encode(), media_type)


def build(builder, image, out):
    """Writes one image into the directory `out`, and returns its path."""
    machine = builder.run("uname", "-m").strip()
    architecture = ARCHITECTURES.get(machine, machine)
    created = datetime.fromtimestamp(builder.epoch, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    archive, files = Archive(), layer(builder, image)
    blob = archive.add(compress(files, 1 if builder.fast else 6), "layer.v1.tar+gzip")
    labels = {
        "org.opencontainers.image.title": image["name"],
        "org.opencontainers.image.description": image["summary"],
        "org.opencontainers.image.version": builder.version,
        "org.opencontainers.image.licenses": image["license"],
        "org.opencontainers.image.created": created,
    }
    config = {
        "architecture": architecture,
        "os": "linux",
        "created": created,
        "config": {
            "User": f"{USER}:{USER}",
            "Env": ["PATH=/usr/bin:/usr/sbin", "HOME=/home/muster"],
            "Entrypoint": [image["path"], *image["arguments"]],
            "Cmd": image["default_arguments"],
            "WorkingDir": "/home/muster",
            "Labels": labels,
        },
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(files).hexdigest()}"]},
        "history": [{"created": created, "created_by": "tools/package image"}],
    }
    manifest = {
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": archive.add_json(config, "config.v1+json"),
        "layers": [blob],
        "annotations": labels,
    }
    entry = archive.add_json(manifest, "manifest.v1+json") | {
        "platform": {"architecture": architecture, "os": "linux"},
        "annotations": {"org.opencontainers.image.ref.name": builder.version},
    }
    index = {"schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json", "manifests": [entry]}
    contents = {
        "oci-layout": json.dumps({"imageLayoutVersion": "1.0.0"}).encode(),
        "index.json": json.dumps(index, sort_keys=True).encode(),
    } | {f"blobs/sha256/{digest}": data for digest, data in archive.blobs.items()}
    entries = [(path, None, 0o755, 0) for path in ("blobs", "blobs/sha256")]
    entries += [(path, data, 0o644, 0) for path, data in contents.items()]
    target = out / f"{image['name']}_{builder.version}_{architecture}.oci.tar"
    target.write_bytes(tar(entries, builder.epoch))
    return target
