//! Which package manager manages a package.

use std::path::Path;

use super::{PACKAGE_PROVIDERS, PackageProvider, apt, dpkg, gem, npm, pip, rpm};
use crate::error::{DescribeOperation as _, Result};
use crate::resource_type::BoundResource;

static PIP_PROVIDER: pip::PipPackageProvider = pip::PipPackageProvider(&["pip3", "pip"]);
static PIP3_PROVIDER: pip::PipPackageProvider = pip::PipPackageProvider(&["pip3"]);

/// The provider named by the resource, or else the native one of the machine; with its name.
pub fn choose_provider(
    resource: &BoundResource<'_>,
) -> Result<(&'static str, &'static dyn PackageProvider)> {
    let named = resource.get_text("provider");
    let word = match named.and_then(|name| PACKAGE_PROVIDERS.iter().find(|known| **known == name)) {
        Some(known) => known,
        None => native_provider_name(resource)?,
    };
    let provider: &'static dyn PackageProvider = match word {
        "dpkg" => &dpkg::DpkgPackageProvider,
        "dnf" => &rpm::RpmPackageProvider::Dnf,
        "yum" => &rpm::RpmPackageProvider::Yum,
        "zypper" => &rpm::RpmPackageProvider::Zypper,
        "pip" => &PIP_PROVIDER,
        "pip3" => &PIP3_PROVIDER,
        "gem" => &gem::GemPackageProvider,
        "npm" => &npm::NpmPackageProvider,
        _ => &apt::AptPackageProvider,
    };
    Ok((word, provider))
}

/// The provider of the machine's own package system. Falls back to apt, whose error names the missing program.
fn native_provider_name(resource: &BoundResource<'_>) -> Result<&'static str> {
    for (path, word) in [
        (dpkg::DPKG_STATUS_FILE, "apt"),
        ("/usr/bin/dnf", "dnf"),
        ("/usr/bin/yum", "yum"),
        ("/usr/bin/zypper", "zypper"),
    ] {
        if resource
            .cx
            .system
            .metadata(Path::new(path))
            .during(resource, format_args!("looking for {word}"))?
            .is_some()
        {
            return Ok(word);
        }
    }
    Ok("apt")
}
