//! Packages by `dpkg-query`, `apt-get`, `apt-cache` and `apt-mark`. Nobody is ever asked a question; configuration files
//! that were changed on the machine stay.

use super::{Action, Outdated, Package, Packages, dpkg, tool};
use crate::error::EngineError;
use crate::resource::Resource;
use crate::resource_type::Cx;

/// The provider.
#[derive(Debug)]
pub struct Apt;

impl Packages for Apt {
    fn query(&self, cx: &Cx<'_>, resource: &Resource) -> Result<Package, EngineError> {
        dpkg::query(cx, resource)
    }

    fn candidate(&self, cx: &Cx<'_>, resource: &Resource) -> Result<Option<String>, EngineError> {
        let output = tool::run(cx, resource, &["apt-cache", "policy", "--", &resource.name])?;
        if !output.success() {
            return Err(tool::refused(resource, "apt-cache policy", &output));
        }
        Ok(parse_candidate(&output.text()))
    }

    fn act(&self, cx: &Cx<'_>, resource: &Resource, action: Action<'_>) -> Result<(), EngineError> {
        let name = resource.name.clone();
        let force = format!("DPkg::Options::={}", dpkg::configuration(resource));
        preseed(cx, resource, action)?;
        let mut argv = vec!["apt-get", "-q", "-y"];
        let wanted = match action {
            Action::Install | Action::InstallVersion(_) => {
                argv.extend(["-o", &force]);
                argv.extend(resource.list("install_options"));
                argv.push("install");
                match action {
                    _ if resource.text("source").is_some() => {
                        resource.text("source").unwrap_or_default().to_owned()
                    }
                    Action::InstallVersion(version) => {
                        argv.push("--allow-downgrades");
                        format!("{name}={version}")
                    }
                    _ => name,
                }
            }
            Action::Remove => {
                argv.push("remove");
                name
            }
            Action::Purge => {
                argv.extend(["remove", "--purge"]);
                name
            }
            Action::Hold => {
                argv = vec!["apt-mark", "hold"];
                name
            }
            Action::Unhold => {
                argv = vec!["apt-mark", "unhold"];
                name
            }
        };
        argv.push(&wanted);
        tool::change(cx, resource, &argv)
    }

    fn all(&self, cx: &Cx<'_>, resource: &Resource) -> Result<Vec<Package>, EngineError> {
        dpkg::list(cx, resource).map(|list| dpkg::bare(&list))
    }

    fn outdated(&self, cx: &Cx<'_>, resource: &Resource) -> Result<Vec<Outdated>, EngineError> {
        dpkg::must_have_database(cx, resource)?;
        // Only a simulation, which needs no lock: it must not be in the way of who really installs.
        let argv = [
            "apt-get",
            "-q",
            "-s",
            "-o",
            "Debug::NoLocking=true",
            "dist-upgrade",
        ];
        let output = tool::run(cx, resource, &argv)?;
        if !output.success() {
            return Err(tool::refused(resource, &argv.join(" "), &output));
        }
        Ok(parse_outdated(&String::from_utf8_lossy(&output.stdout)))
    }

    fn refresh(&self, cx: &Cx<'_>, resource: &Resource) -> Result<String, EngineError> {
        dpkg::must_have_database(cx, resource)?;
        // Without the option apt ends with 0 when no source could be reached at all.
        let argv = [
            "apt-get",
            "-q",
            "-y",
            "-o",
            "APT::Update::Error-Mode=any",
            "update",
        ];
        let output = tool::run(cx, resource, &argv)?;
        if output.success() {
            Ok(output.text())
        } else {
            Err(tool::refused(resource, &argv.join(" "), &output))
        }
    }
}

/// Answers the questions of the package before it asks them.
fn preseed(cx: &Cx<'_>, resource: &Resource, action: Action<'_>) -> Result<(), EngineError> {
    match resource.text("responsefile") {
        Some(file) if !matches!(action, Action::Hold | Action::Unhold) => {
            tool::change(cx, resource, &["debconf-set-selections", "--", file])
        }
        _ => Ok(()),
    }
}

fn parse_candidate(text: &str) -> Option<String> {
    let line = text
        .lines()
        .find_map(|line| line.trim().strip_prefix("Candidate:"))?;
    Some(line.trim().to_owned()).filter(|version| version != "(none)")
}

/// Lines `Inst name [installed] (newest source...)`. What would only come along has no installed version.
fn parse_outdated(text: &str) -> Vec<Outdated> {
    let line = |line: &str| {
        let (name, rest) = line.strip_prefix("Inst ")?.split_once(" [")?;
        let (installed, rest) = rest.split_once("] (")?;
        Some(Outdated {
            name: name.to_owned(),
            installed: installed.to_owned(),
            newest: rest.split_whitespace().next()?.to_owned(),
        })
    };
    let mut outdated: Vec<Outdated> = text.lines().filter_map(line).collect();
    outdated.sort_by(|one, other| one.name.cmp(&other.name));
    outdated
}

#[cfg(test)]
mod tests {
    use super::{Outdated, parse_candidate, parse_outdated};

    #[test]
    fn only_what_is_there_is_outdated() {
        let text = "NOTE: This is only a simulation!\nReading package lists...\n\
                    Inst zlib1g [1:1.2.13] (1:1.3.0 Debian:12.5/stable [amd64])\n\
                    Inst linux-image-6 (6.1.4 Debian-Security:12/stable-security [amd64])\n\
                    Inst libc6 [2.36-9] (2.36-10 Debian:12.5/stable [amd64]) []\n\
                    Conf libc6 (2.36-10 Debian:12.5/stable [amd64])\nInst [] ()\nInst x [1] (\n";
        let outdated = |name: &str, installed: &str, newest: &str| Outdated {
            name: name.to_owned(),
            installed: installed.to_owned(),
            newest: newest.to_owned(),
        };
        assert_eq!(
            parse_outdated(text),
            [
                outdated("libc6", "2.36-9", "2.36-10"),
                outdated("zlib1g", "1:1.2.13", "1:1.3.0"),
            ]
        );
    }

    #[test]
    fn the_candidate_is_a_version_or_nothing() {
        let text = "bash:\n  Installed: 5.2.15-2+b7\n  Candidate: 5.2.15-2+b8\n  Version table:\n";
        assert_eq!(parse_candidate(text), Some("5.2.15-2+b8".to_owned()));
        assert_eq!(
            parse_candidate("x:\n  Installed: (none)\n  Candidate: (none)\n"),
            None
        );
        assert_eq!(parse_candidate(""), None);
    }
}
