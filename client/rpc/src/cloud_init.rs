//! Generates user data for cloud-init on new machines: files, installation of the daemon, and its start.
//!
//! Pure: no file is read, no prompt is shown. Only block literals and double-quoted texts are used, so that content cannot be parsed as YAML
//! structure.

use std::fmt::Write as _;

/// Directory of the daemon's configuration on a machine.
pub const CONFIG_DIRECTORY: &str = "/etc/muster";
/// Path of the unit file when the daemon is installed as a bare program.
const UNIT_FILE_PATH: &str = "/etc/systemd/system/rpcd.service";
/// The unit file.
const UNIT_TEXT: &str = include_str!(concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../packaging/rpcd.service"
));

/// A file on the machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CloudInitFile {
    /// Its path.
    pub path: String,
    /// Its permission bits.
    pub mode: u32,
    /// Its content.
    pub content: String,
}

/// How the daemon is installed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DaemonInstallMethod {
    /// It is part of the image.
    Image,
    /// From the image's package sources.
    Package(String),
    /// Downloaded and verified by checksum.
    Fetch(PackageDownload),
}

/// A package, or the bare program, at a URL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PackageDownload {
    url: String,
    sha256: String,
    kind: PackageFileKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PackageFileKind {
    Deb,
    Rpm,
    Program,
}

/// Why a download is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PackageDownloadError {
    /// A URL that is invalid or unsafe in a shell command.
    #[error(
        "`{0}` is no address to fetch from; it begins with https:// or http://, and has no spaces or quotes"
    )]
    Url(String),
    /// An invalid checksum.
    #[error("`{0}` is no SHA-256 checksum: 64 hexadecimal digits, as sha256sum prints them")]
    Checksum(String),
}

impl PackageDownload {
    /// Creates a download with this checksum. The checksum protects against modification, whatever the URL's scheme.
    pub fn new(url: &str, sha256: &str) -> Result<Self, PackageDownloadError> {
        let belongs = |c: char| c.is_ascii_alphanumeric() || "-._~:/?&=%+@,".contains(c);
        let known = url.starts_with("https://") || url.starts_with("http://");
        if !known || !url.chars().all(belongs) {
            return Err(PackageDownloadError::Url(url.chars().take(200).collect()));
        }
        let hexadecimal = |byte: u8| byte.is_ascii_hexdigit();
        if sha256.len() != 64 || !sha256.bytes().all(hexadecimal) {
            return Err(PackageDownloadError::Checksum(
                sha256.chars().take(80).collect(),
            ));
        }
        let path = url.split('?').next().unwrap_or_default();
        let kind = match path.rsplit_once('.').map(|(_, extension)| extension) {
            Some("deb") => PackageFileKind::Deb,
            Some("rpm") => PackageFileKind::Rpm,
            _ => PackageFileKind::Program,
        };
        Ok(Self {
            url: url.to_owned(),
            sha256: sha256.to_ascii_lowercase(),
            kind,
        })
    }
}

/// Renders the document. It is a secret if one of the files is.
pub fn render_user_data(files: &[CloudInitFile], install: &DaemonInstallMethod) -> String {
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = write_document(&mut text, files, install);
    text
}

fn write_document(
    text: &mut String,
    files: &[CloudInitFile],
    install: &DaemonInstallMethod,
) -> std::fmt::Result {
    text.push_str(
        "#cloud-config\n\
         # Made by `rpc provision user-data`. It holds a bootstrap token: whoever reads it can ask to be enrolled.\n\
         write_files:\n",
    );
    let unit = CloudInitFile {
        path: UNIT_FILE_PATH.to_owned(),
        mode: 0o644,
        content: UNIT_TEXT.to_owned(),
    };
    let bare = matches!(install, DaemonInstallMethod::Fetch(fetch) if fetch.kind == PackageFileKind::Program);
    for file in files.iter().chain(bare.then_some(&unit)) {
        writeln!(text, "  - path: {}", quote_yaml(&file.path))?;
        writeln!(text, "    owner: \"root:root\"")?;
        writeln!(text, "    permissions: \"{:04o}\"", file.mode)?;
        writeln!(text, "    content: |")?;
        write_block_literal(text, &file.content, 6);
    }
    if let DaemonInstallMethod::Package(name) = install {
        writeln!(
            text,
            "package_update: true\npackages:\n  - {}",
            quote_yaml(name)
        )?;
    }
    writeln!(text, "runcmd:\n  - - \"sh\"\n    - \"-c\"\n    - |")?;
    write_block_literal(text, &boot_script(install), 6);
    Ok(())
}

/// The commands at the end of the first boot. The daemon starts only if all previous commands have succeeded.
fn boot_script(install: &DaemonInstallMethod) -> String {
    let mut script = "set -eu\n".to_owned();
    if let DaemonInstallMethod::Fetch(fetch) = install {
        let PackageDownload { url, sha256, kind } = fetch;
        let (name, install) = match kind {
            PackageFileKind::Deb => ("rpcd.deb", "apt-get install -y \"$there/rpcd.deb\""),
            PackageFileKind::Rpm => ("rpcd.rpm", "dnf install -y \"$there/rpcd.rpm\""),
            PackageFileKind::Program => (
                "rpcd",
                "install -m 0755 \"$there/rpcd\" /usr/local/sbin/rpcd",
            ),
        };
        let _ = write!(
            script,
            "there=$(mktemp -d)\n\
             trap 'rm -rf \"$there\"' EXIT\n\
             for pause in 2 5 15 30 60; do\n\
             \x20 curl -fsSL -o \"$there/{name}\" '{url}' && break\n\
             \x20 sleep \"$pause\"\n\
             done\n\
             echo \"{sha256}  $there/{name}\" | sha256sum -c -\n\
             {install}\n"
        );
    }
    script.push_str(
        "systemctl daemon-reload\n\
         systemctl enable rpcd\n\
         systemctl restart --no-block rpcd\n",
    );
    script
}

/// Writes the lines of a block literal. Blank lines get no indentation.
fn write_block_literal(text: &mut String, content: &str, indent: usize) {
    for line in content.lines() {
        if !line.is_empty() {
            text.extend(std::iter::repeat_n(' ', indent));
            text.push_str(line);
        }
        text.push('\n');
    }
}

/// Quotes a text; JSON strings are valid in YAML.
fn quote_yaml(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::{CloudInitFile, DaemonInstallMethod, PackageDownload, render_user_data};

    const SUM: &str = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08";

    fn files() -> Vec<CloudInitFile> {
        let file = |path: &str, mode, content: &str| CloudInitFile {
            path: path.to_owned(),
            mode,
            content: content.to_owned(),
        };
        vec![
            file(
                "/etc/muster/rpcd.toml",
                0o644,
                "[broker]\nurls = [\"tls://b:4222\"]\n\n[trust]\noperator = \"O\"\n",
            ),
            file(
                "/etc/muster/bootstrap.creds",
                0o600,
                "-----BEGIN-----\nsecret: # - {}\n",
            ),
        ]
    }

    fn parsed(text: &str) -> Value {
        assert!(text.starts_with("#cloud-config\n"));
        serde_saphyr::from_str(text).unwrap()
    }

    fn installs() -> Vec<(&'static str, DaemonInstallMethod)> {
        let fetch = |url: &str| DaemonInstallMethod::Fetch(PackageDownload::new(url, SUM).unwrap());
        vec![
            ("image", DaemonInstallMethod::Image),
            ("package", DaemonInstallMethod::Package("rpcd".to_owned())),
            (
                "deb",
                fetch("https://pkg.acme.net/rpcd_0.1.0_amd64.deb?x=1"),
            ),
            ("rpm", fetch("https://pkg.acme.net/rpcd-0.1.0.rpm")),
            ("program", fetch("http://pkg.acme.net/rpcd")),
        ]
    }

    #[test]
    fn every_file_comes_back_from_the_document_with_its_mode() {
        for (name, install) in installs() {
            let text = render_user_data(&files(), &install);
            let written = parsed(&text)["write_files"].as_array().unwrap().clone();
            for file in files() {
                let found = written
                    .iter()
                    .find(|found| found["path"] == *file.path)
                    .unwrap();
                assert_eq!(found["content"], *file.content, "{name}");
                assert_eq!(found["permissions"], format!("{:04o}", file.mode));
                assert_eq!(found["owner"], "root:root");
            }
            assert_eq!(written.len(), if name == "program" { 3 } else { 2 });
            assert!(!text.lines().any(|line| line.ends_with(' ')), "{text}");
        }
    }

    #[test]
    fn the_document_is_this() {
        for (name, install) in installs() {
            insta::assert_snapshot!(
                format!("cloud_init_{name}"),
                render_user_data(&files(), &install)
            );
        }
    }

    #[test]
    fn what_could_leave_its_quotes_is_not_fetched() {
        for url in [
            "ftp://x/y.deb",
            "https://x/y.deb' && rm -rf /",
            "https://x/$(id).deb",
            "https://x/`id`.deb",
            "https://x/a b.deb",
            "rpcd.deb",
            "https://x/\n.deb",
        ] {
            assert!(PackageDownload::new(url, SUM).is_err(), "{url}");
        }
        for sum in ["", "abc", &SUM.replace('9', "g"), &format!("{SUM}0")] {
            assert!(
                PackageDownload::new("https://x/y.deb", sum).is_err(),
                "{sum}"
            );
        }
    }
}
