//! Packages of the RPM family by `dnf`, `yum` and `zypper`; what is installed is asked of `rpm`. Nothing is ever asked of
//! anybody.

use std::cmp::Ordering;
use std::path::Path;
use std::sync::Arc;

use super::{Action, Package, Packages, Status, memo, rpm_version, tool};
use crate::error::EngineError;
use crate::resource::Resource;
use crate::resource_type::Cx;

/// What rpm keeps its knowledge in.
const DATABASE: &str = "/var/lib/rpm";
const FORMAT: &str = "%{NAME} %|EPOCH?{%{EPOCH}}:{0}| %{VERSION} %{RELEASE} %{ARCH}\\n";

/// The provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rpm {
    /// Fedora's and Red Hat's.
    Dnf,
    /// The older one of Red Hat.
    Yum,
    /// SUSE's.
    Zypper,
}

impl Packages for Rpm {
    fn query(&self, cx: &Cx<'_>, resource: &Resource) -> Result<Package, EngineError> {
        Ok(named(&installed(cx, resource)?, &resource.name))
    }

    /// The newer version that is offered, or the one that is there; for a package that is not there, the tool will find
    /// the newest when it installs it.
    fn candidate(&self, cx: &Cx<'_>, resource: &Resource) -> Result<Option<String>, EngineError> {
        let updates = self.updates(cx, resource)?;
        if let Status::Installed(version) = named(&updates, &resource.name).status {
            return Ok(Some(version));
        }
        Ok(match self.query(cx, resource)?.status {
            Status::Installed(version) => Some(version),
            Status::Removed | Status::Purged => Some("latest".to_owned()),
        })
    }

    fn act(&self, cx: &Cx<'_>, resource: &Resource, action: Action<'_>) -> Result<(), EngineError> {
        match action {
            Action::Install => self.install(cx, resource, None),
            Action::InstallVersion(version) => self.install(cx, resource, Some(version)),
            Action::Remove if *self == Self::Zypper => {
                let mut argv = vec!["zypper", "remove", "--no-confirm"];
                argv.extend(resource.list("uninstall_options"));
                argv.push(&resource.name);
                tool::change(cx, resource, &argv)
            }
            Action::Remove => {
                let mut argv = vec!["rpm", "-e"];
                argv.extend(resource.list("uninstall_options"));
                argv.push(&resource.name);
                tool::change(cx, resource, &argv)
            }
            Action::Purge if *self == Self::Zypper => {
                let problem = "zypper has no way to purge; use `ensure => absent`";
                Err(EngineError::failed(resource, problem))
            }
            Action::Purge => {
                tool::change(cx, resource, &[self.word(), "-y", "erase", &resource.name])
            }
            Action::Hold | Action::Unhold => Err(tool::not_held(resource, self.word())),
        }
    }

    fn all(&self, cx: &Cx<'_>, resource: &Resource) -> Result<Vec<Package>, EngineError> {
        let bare = |package: &Package| Package {
            name: without_architecture(&package.name).to_owned(),
            ..package.clone()
        };
        Ok(installed(cx, resource)?.iter().map(bare).collect())
    }
}

impl Rpm {
    fn word(self) -> &'static str {
        match self {
            Self::Dnf => "dnf",
            Self::Yum => "yum",
            Self::Zypper => "zypper",
        }
    }

    fn install(
        self,
        cx: &Cx<'_>,
        resource: &Resource,
        version: Option<&str>,
    ) -> Result<(), EngineError> {
        let name = &resource.name;
        let found = self.query(cx, resource)?.status;
        let source = resource.text("source").filter(|_| self != Self::Zypper);
        let wanted = match (source, version) {
            (Some(source), _) => source.to_owned(),
            (None, Some(version)) => format!("{name}-{version}"),
            (None, None) => name.clone(),
        };
        if self == Self::Zypper {
            let mut argv = vec!["zypper", "--quiet", "install", "--auto-agree-with-licenses"];
            argv.push("--no-confirm");
            argv.extend(resource.list("install_options"));
            if version.is_some() {
                argv.push("--oldpackage");
            }
            argv.push(&wanted);
            return tool::change(cx, resource, &argv);
        }
        let verb = match (&found, version) {
            (Status::Installed(found), Some(version)) => {
                if rpm_version::compare(version, found) == Ordering::Less {
                    "downgrade"
                } else {
                    self.upgrade()
                }
            }
            (Status::Installed(_), None) => self.upgrade(),
            _ => "install",
        };
        let mut argv = vec![self.word(), "-q", "-y"];
        argv.extend(resource.list("install_options"));
        argv.extend([verb, &wanted]);
        tool::change(cx, resource, &argv)?;
        // They end with 0 when there is no such version.
        let after = self.query(cx, resource)?.status;
        match (after, version) {
            (Status::Installed(found), Some(version))
                if rpm_version::compare(version, &found) != Ordering::Equal =>
            {
                let problem =
                    format!("Failed to update to version {version}, got version {found} instead");
                Err(EngineError::failed(resource, problem))
            }
            (Status::Installed(_), _) => Ok(()),
            _ => Err(EngineError::failed(
                resource,
                format!("Could not find package {name}"),
            )),
        }
    }

    fn upgrade(self) -> &'static str {
        if self == Self::Yum {
            "update"
        } else {
            "upgrade"
        }
    }

    /// What could be newer; asked once in a run.
    fn updates(self, cx: &Cx<'_>, resource: &Resource) -> Result<Arc<Vec<Package>>, EngineError> {
        let key = format!("{} updates", self.word());
        memo::list(cx, resource, &key, Path::new(DATABASE), || {
            let argv = match self {
                Self::Zypper => ["zypper", "--quiet", "list-updates"],
                _ => [self.word(), "-q", "check-update"],
            };
            let output = tool::run(cx, resource, &argv)?;
            // 100: there are some.
            if !matches!(output.code, 0 | 100) {
                return Err(tool::refused(resource, &argv.join(" "), &output));
            }
            let text = String::from_utf8_lossy(&output.stdout);
            Ok(match self {
                Self::Zypper => parse_zypper(&text),
                _ => parse_updates(&text),
            })
        })
    }
}

/// Everything that rpm knows; asked once as long as nothing was changed.
fn installed(cx: &Cx<'_>, resource: &Resource) -> Result<Arc<Vec<Package>>, EngineError> {
    memo::list(cx, resource, "rpm", Path::new(DATABASE), || {
        let output = tool::run(cx, resource, &["rpm", "-qa", "--qf", FORMAT])?;
        if !output.success() {
            return Err(tool::refused(resource, "rpm -qa", &output));
        }
        let text = String::from_utf8_lossy(&output.stdout);
        Ok(text.lines().filter_map(parse_line).collect())
    })
}

/// The package of that name, with or without its architecture.
fn named(all: &[Package], name: &str) -> Package {
    let same =
        |package: &&Package| package.name == name || without_architecture(&package.name) == name;
    let found = all.iter().find(same).cloned();
    Package {
        name: name.to_owned(),
        ..found.unwrap_or_else(|| Package::absent(name))
    }
}

fn without_architecture(name: &str) -> &str {
    name.rsplit_once('.').map_or(name, |(bare, _)| bare)
}

/// `name epoch version release architecture`.
fn parse_line(line: &str) -> Option<Package> {
    let fields: Vec<&str> = line.split_whitespace().collect();
    let [name, epoch, version, release, architecture] = fields.as_slice() else {
        return None;
    };
    let epoch = match *epoch {
        "0" => String::new(),
        epoch => format!("{epoch}:"),
    };
    Some(Package {
        name: format!("{name}.{architecture}"),
        status: Status::Installed(format!("{epoch}{version}-{release}")),
        held: false,
    })
}

/// Lines `name.architecture version repository`, which long names break; what obsoletes something comes last, and is another
/// matter.
fn parse_updates(text: &str) -> Vec<Package> {
    let body = ["\nObsoleting", "\nSecurity:", "\nUpdate"]
        .iter()
        .filter_map(|mark| text.find(mark))
        .min()
        .and_then(|end| text.get(..end))
        .unwrap_or(text);
    let words: Vec<&str> = body.split_whitespace().collect();
    let package = |words: &[&str]| {
        let [name, version, ..] = words else {
            return None;
        };
        (name.contains('.') && version.contains('-')).then(|| Package {
            name: (*name).to_owned(),
            status: Status::Installed(version.trim_start_matches("0:").to_owned()),
            held: false,
        })
    };
    words.chunks(3).filter_map(package).collect()
}

/// Lines `v | repository | name | found | offered | architecture`.
fn parse_zypper(text: &str) -> Vec<Package> {
    let line = |line: &str| {
        let fields: Vec<&str> = line.split('|').map(str::trim).collect();
        let ["v", _, name, _, offered, architecture, ..] = fields.as_slice() else {
            return None;
        };
        Some(Package {
            name: format!("{name}.{architecture}"),
            status: Status::Installed((*offered).to_owned()),
            held: false,
        })
    };
    text.lines().filter_map(line).collect()
}
