//! The fact `os`, from `os-release` and Debian's `debian_version`, with Facter's values.

use std::collections::BTreeMap;
use std::env::consts::ARCH;
use std::fs;
use std::path::Path;

use muster_system::System;
use serde_json::{Value, json};

/// The file with Debian's point release.
const DEBIAN_VERSION_PATH: &str = "/etc/debian_version";
const MAX_FILE_BYTES: u64 = 64 * 1024;

/// Reads below the machine's root; a root without these files, such as a scratch directory, gets the host's values.
pub(super) fn collect_os(system: &dyn System) -> Value {
    let own = |path: &str| read_text(system, path);
    let host = |path: &str| fs::read_to_string(path).ok();
    if let Some(release) = read_os_release(own) {
        os_facts(&release, own(DEBIAN_VERSION_PATH).as_deref(), ARCH)
    } else {
        os_facts(
            &read_os_release(host).unwrap_or_default(),
            host(DEBIAN_VERSION_PATH).as_deref(),
            ARCH,
        )
    }
}

/// The text of `os-release`, from the first of its two paths.
fn read_os_release(read: impl Fn(&str) -> Option<String>) -> Option<String> {
    read("/etc/os-release").or_else(|| read("/usr/lib/os-release"))
}

fn read_text(system: &dyn System, path: &str) -> Option<String> {
    let bytes = system.read_file(Path::new(path), MAX_FILE_BYTES).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// The fact, from the files' texts and the processor's architecture.
fn os_facts(release: &str, debian_version: Option<&str>, hardware: &str) -> Value {
    let fields = parse_os_release(release);
    let field = |name: &str| fields.get(name).map_or("", String::as_str);
    let (name, family) = name_and_family(field("ID"), field("ID_LIKE"));
    let full = match debian_version.map(str::trim) {
        // `12.4` on a release; Debian testing has `trixie/sid`, which is not a version.
        Some(version) if name == "Debian" && version.starts_with(|c: char| c.is_ascii_digit()) => {
            version
        }
        _ => field("VERSION_ID"),
    };
    let (major, minor) = match full.split_once('.') {
        // Ubuntu's major version is year and month together.
        _ if name == "Ubuntu" => (full, None),
        Some((major, minor)) => (major, Some(minor)),
        None => (full, None),
    };
    let architecture = match (hardware, family.as_str()) {
        ("x86_64", "Debian") => "amd64",
        ("aarch64", "Debian") => "arm64",
        (other, _) => other,
    };
    json!({
        "name": name,
        "family": family,
        "architecture": architecture,
        "hardware": hardware,
        "release": {"full": full, "major": major, "minor": minor},
        "distro": {
            "id": field("ID"),
            "codename": field("VERSION_CODENAME"),
            "description": field("PRETTY_NAME"),
        },
    })
}

/// `NAME=value` lines of os-release(5), quotes removed.
fn parse_os_release(release: &str) -> BTreeMap<&str, String> {
    let field = |line| -> Option<(&str, String)> {
        let (name, value) = str::split_once(line, '=')?;
        let value = value.trim();
        let inner = ['"', '\''].iter().find_map(|q| value.strip_prefix(*q)?.strip_suffix(*q));
        Some((name.trim(), inner.unwrap_or(value).replace('\\', "")))
    };
    release.lines().filter_map(field).collect()
}

/// Facter's names for os-release's `ID` and `ID_LIKE`.
fn name_and_family(id: &str, like: &str) -> (String, String) {
    let (name, family) = match id {
        "debian" => ("Debian", "Debian"),
        "ubuntu" => ("Ubuntu", "Debian"),
        "raspbian" => ("Raspbian", "Debian"),
        "linuxmint" => ("LinuxMint", "Debian"),
        "devuan" => ("Devuan", "Debian"),
        "rhel" => ("RedHat", "RedHat"),
        "centos" => ("CentOS", "RedHat"),
        "fedora" => ("Fedora", "RedHat"),
        "rocky" => ("Rocky", "RedHat"),
        "almalinux" => ("AlmaLinux", "RedHat"),
        "ol" => ("OracleLinux", "RedHat"),
        "amzn" => ("Amazon", "RedHat"),
        "sles" => ("SLES", "Suse"),
        "sled" => ("SLED", "Suse"),
        "opensuse" | "opensuse-leap" | "opensuse-tumbleweed" => ("OpenSuSE", "Suse"),
        "arch" => ("Archlinux", "Archlinux"),
        "manjaro" => ("Manjarolinux", "Archlinux"),
        "gentoo" => ("Gentoo", "Gentoo"),
        "alpine" => ("Alpine", "Linux"),
        _ => return unknown_distribution(id, like),
    };
    (name.to_owned(), family.to_owned())
}

/// An unknown distribution keeps its own name and gets the family of its parent.
fn unknown_distribution(id: &str, like: &str) -> (String, String) {
    let parents = [
        ("debian", "Debian"),
        ("ubuntu", "Debian"),
        ("rhel", "RedHat"),
        ("fedora", "RedHat"),
        ("suse", "Suse"),
        ("arch", "Archlinux"),
        ("gentoo", "Gentoo"),
    ];
    let parent = like.split_whitespace().find_map(|word| {
        parents.iter().find(|(parent, _)| *parent == word).map(|(_, family)| *family)
    });
    let mut letters = id.chars();
    let name: String =
        letters.next().map_or_else(|| "Linux".to_owned(), |c| c.to_ascii_uppercase().to_string())
            + letters.as_str();
    (name, parent.unwrap_or("Linux").to_owned())
}

#[cfg(test)]
mod tests {
    use super::os_facts;

    #[test]
    fn distributions_are_named_like_facter() {
        for (release, debian, expected) in [
            (
                "ID=debian\nVERSION_ID=\"12\"\nVERSION_CODENAME=bookworm",
                Some("12.4\n"),
                ["Debian", "Debian", "12.4", "12", "amd64"],
            ),
            (
                "ID=debian\nVERSION_ID=\"13\"",
                Some("trixie/sid\n"),
                ["Debian", "Debian", "13", "13", "amd64"],
            ),
            (
                "ID=ubuntu\nVERSION_ID=\"22.04\"",
                Some("bookworm/sid"),
                ["Ubuntu", "Debian", "22.04", "22.04", "amd64"],
            ),
            (
                "ID='rocky'\nID_LIKE=\"rhel centos fedora\"\nVERSION_ID='9.3'",
                None,
                ["Rocky", "RedHat", "9.3", "9", "x86_64"],
            ),
            (
                "ID=mycloud\nID_LIKE=\"x rhel\"\nVERSION_ID=2",
                None,
                ["Mycloud", "RedHat", "2", "2", "x86_64"],
            ),
            ("", None, ["Linux", "Linux", "", "", "x86_64"]),
        ] {
            let os = os_facts(release, debian, "x86_64");
            let told = ["/name", "/family", "/release/full", "/release/major", "/architecture"]
                .map(|pointer| os.pointer(pointer).unwrap().as_str().unwrap());
            assert_eq!(told, expected, "{release}");
        }
    }
}
