"""Makes packages and container images from packaging/packages.toml."""
