//! What a machine says about itself before anything is changed on it.

use muster_wire::identity::Identity;

/// A script for the shell of the machine. It prints lines of `KEY=VALUE` and changes nothing.
pub const PROBE_SCRIPT: &str = "\
echo machine=$(uname -m)
echo host=$(hostname -f 2>/dev/null || hostname)
if command -v dpkg >/dev/null && command -v apt-get >/dev/null; then echo packages=deb
elif command -v rpm >/dev/null; then echo packages=rpm
else echo packages=none; fi
if [ $(id -u) = 0 ] || sudo -n true 2>/dev/null; then echo root=yes; else echo root=no; fi
if command -v systemctl >/dev/null; then echo systemd=yes; else echo systemd=no; fi
";

/// The system's packages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PackageFormat {
    /// Debian's, with apt-get.
    Deb,
    /// RPM.
    Rpm,
    /// Neither.
    None,
}

/// What a machine said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MachineProbe {
    /// Its architecture, as `uname -m` prints it.
    pub architecture: String,
    /// Its full host name.
    pub host: Option<Identity>,
    /// Its packages.
    pub packages: PackageFormat,
}

/// Why a machine cannot become a node.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProbeError {
    /// A line is missing: it is no shell of a Unix system, or a start script printed something else.
    #[error("it did not answer as a Unix shell does: `{0}`")]
    NoShell(String),
    /// The user is not root, and has no sudo.
    #[error("its user is not root, and cannot use sudo without a password")]
    NoRoot,
    /// There is no systemd.
    #[error("it has no systemd, which starts the service")]
    NoSystemd,
}

impl MachineProbe {
    /// Reads the output of [`PROBE_SCRIPT`]. Other lines, such as those of start scripts, are ignored.
    pub fn parse(output: &str) -> Result<Self, ProbeError> {
        let find = |key: &str| {
            let mut values =
                output.lines().filter_map(|line| line.strip_prefix(key)?.strip_prefix('='));
            values.next_back().map(str::trim)
        };
        let require = |key: &str| {
            find(key).ok_or_else(|| ProbeError::NoShell(output.chars().take(100).collect()))
        };
        if require("root")? != "yes" {
            return Err(ProbeError::NoRoot);
        }
        if require("systemd")? != "yes" {
            return Err(ProbeError::NoSystemd);
        }
        Ok(Self {
            architecture: require("machine")?.chars().take(40).collect(),
            host: find("host").and_then(|host| Identity::parse(host).ok()),
            packages: match require("packages")? {
                "deb" => PackageFormat::Deb,
                "rpm" => PackageFormat::Rpm,
                _ => PackageFormat::None,
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machine_says_what_it_is() {
        let text =
            "Welcome!\nmachine=x86_64\nhost=web1.acme.net\npackages=deb\nroot=yes\nsystemd=yes\n";
        let probe = MachineProbe::parse(text).unwrap();
        assert_eq!(probe.architecture, "x86_64");
        assert_eq!(probe.host.unwrap().as_str(), "web1.acme.net");
        assert_eq!(probe.packages, PackageFormat::Deb);
        let without = |line: &str| MachineProbe::parse(&text.replace(line, ""));
        assert_eq!(
            MachineProbe::parse(&text.replace("root=yes", "root=no")),
            Err(ProbeError::NoRoot)
        );
        assert_eq!(MachineProbe::parse(&text.replace("d=yes", "d=no")), Err(ProbeError::NoSystemd));
        assert!(matches!(without("machine=x86_64\n"), Err(ProbeError::NoShell(_))));
        assert_eq!(without("host=web1.acme.net\n").unwrap().host, None);
    }
}
