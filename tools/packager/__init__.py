"""Makes packages, a tarball and container images from packaging/packages.toml."""
