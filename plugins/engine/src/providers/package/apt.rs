//! Packages by `dpkg-query`, `apt-get`, `apt-cache` and `apt-mark`. Nobody is ever asked a question; configuration files
//! that were changed on the machine stay.

use std::path::Path;
use std::time::Duration;

use muster_system::{Command, Output};

use super::{Action, Outdated, Package, Packages, Status};
use crate::error::EngineError;
use crate::resource::Resource;
use crate::resource_type::Cx;

const DATABASE: &str = "/var/lib/dpkg/status";
const FORMAT: &str = "${Status} ${Package} ${Version}\\n";
/// Longest run of one apt call: a big upgrade over a slow line.
const LIMIT: Duration = Duration::from_hours(1);
/// Enough for the list of every package of a big machine, in bytes.
const OUTPUT: usize = 16 * 1024 * 1024;

/// The provider.
#[derive(Debug)]
pub struct Apt;

impl Packages for Apt {
    fn query(&self, cx: &Cx<'_>, resource: &Resource) -> Result<Package, EngineError> {
        let name = resource.name.as_str();
        let output = dpkg_query(cx, resource, &["--", name])?;
        // 1: no package of that name is known. Anything else is trouble.
        if !matches!(output.code, 0 | 1) {
            return Err(refused(resource, "dpkg-query", &output));
        }
        let found = parse_all(&String::from_utf8_lossy(&output.stdout));
        let best = found
            .into_iter()
            .max_by_key(|package| matches!(package.status, Status::Installed(_)));
        Ok(best.map_or_else(
            || Package {
                name: name.to_owned(),
                status: Status::Purged,
                held: false,
            },
            |package| Package {
                name: name.to_owned(),
                ..package
            },
        ))
    }

    fn candidate(&self, cx: &Cx<'_>, resource: &Resource) -> Result<Option<String>, EngineError> {
        let output = run(cx, resource, &["apt-cache", "policy", "--", &resource.name])?;
        if !output.success() {
            return Err(refused(resource, "apt-cache policy", &output));
        }
        Ok(parse_candidate(&output.text()))
    }

    fn act(&self, cx: &Cx<'_>, resource: &Resource, action: Action<'_>) -> Result<(), EngineError> {
        let name = resource.name.clone();
        let mut argv = vec!["apt-get", "-q", "-y"];
        let wanted = match action {
            Action::Install | Action::InstallVersion(_) => {
                argv.extend(["-o", "DPkg::Options::=--force-confold"]);
                argv.extend(resource.list("install_options"));
                argv.push("install");
                match action {
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
        let output = run(cx, resource, &argv)?;
        if output.success() {
            Ok(())
        } else {
            Err(refused(resource, &argv.join(" "), &output))
        }
    }

    fn all(&self, cx: &Cx<'_>, resource: &Resource) -> Result<Vec<Package>, EngineError> {
        let output = dpkg_query(cx, resource, &[])?;
        if !output.success() {
            return Err(refused(resource, "dpkg-query", &output));
        }
        Ok(parse_all(&String::from_utf8_lossy(&output.stdout)))
    }

    fn outdated(&self, cx: &Cx<'_>, resource: &Resource) -> Result<Vec<Outdated>, EngineError> {
        must_have_database(cx, resource)?;
        // Only a simulation, which needs no lock: it must not be in the way of who really installs.
        let argv = [
            "apt-get",
            "-q",
            "-s",
            "-o",
            "Debug::NoLocking=true",
            "dist-upgrade",
        ];
        let output = run(cx, resource, &argv)?;
        if !output.success() {
            return Err(refused(resource, &argv.join(" "), &output));
        }
        Ok(parse_outdated(&String::from_utf8_lossy(&output.stdout)))
    }

    fn refresh(&self, cx: &Cx<'_>, resource: &Resource) -> Result<String, EngineError> {
        must_have_database(cx, resource)?;
        // Without the option apt ends with 0 when no source could be reached at all.
        let argv = [
            "apt-get",
            "-q",
            "-y",
            "-o",
            "APT::Update::Error-Mode=any",
            "update",
        ];
        let output = run(cx, resource, &argv)?;
        if output.success() {
            Ok(output.text())
        } else {
            Err(refused(resource, &argv.join(" "), &output))
        }
    }
}

fn dpkg_query(cx: &Cx<'_>, resource: &Resource, more: &[&str]) -> Result<Output, EngineError> {
    must_have_database(cx, resource)?;
    run(
        cx,
        resource,
        &[&["dpkg-query", "-W", "-f", FORMAT], more].concat(),
    )
}

fn must_have_database(cx: &Cx<'_>, resource: &Resource) -> Result<(), EngineError> {
    let found = cx.system.metadata(Path::new(DATABASE));
    if found
        .map_err(EngineError::during(
            resource,
            format!("looking at {DATABASE}"),
        ))?
        .is_none()
    {
        let problem = format!(
            "no package database at {DATABASE}; only machines with dpkg and apt have packages here"
        );
        return Err(EngineError::failed(resource, problem));
    }
    Ok(())
}

fn run(cx: &Cx<'_>, resource: &Resource, argv: &[&str]) -> Result<Output, EngineError> {
    let mut command = Command::new(argv.iter().copied());
    command
        .env
        .insert("DEBIAN_FRONTEND".to_owned(), "noninteractive".to_owned());
    command
        .env
        .insert("APT_LISTCHANGES_FRONTEND".to_owned(), "none".to_owned());
    command.timeout = Some(LIMIT);
    command.output_limit = OUTPUT;
    command.cancel = cx.cancel.clone();
    cx.system.run(&command).map_err(EngineError::during(
        resource,
        format!("running {}", argv.join(" ")),
    ))
}

/// The failure of a tool, with its own last words.
fn refused(resource: &Resource, what: &str, output: &Output) -> EngineError {
    let text = output.text();
    let locked = [
        "Could not get lock",
        "Unable to acquire the dpkg",
        "frontend lock was locked",
    ];
    if text
        .lines()
        .any(|line| locked.iter().any(|words| line.contains(words)))
    {
        let problem =
            "another process is installing packages and holds the lock; try again when it is done";
        return EngineError::failed(resource, problem);
    }
    let errors: Vec<&str> = text
        .lines()
        .filter(|line| line.starts_with("E: "))
        .collect();
    let said = if errors.is_empty() {
        text.lines().last().unwrap_or_default().to_owned()
    } else {
        errors.join("; ")
    };
    EngineError::failed(
        resource,
        format!("`{what}` ended with {}: {said}", output.code),
    )
}

/// Lines `want flag status name version`; names that dpkg only remembers are purged.
fn parse_all(text: &str) -> Vec<Package> {
    text.lines().filter_map(parse_line).collect()
}

fn parse_line(line: &str) -> Option<Package> {
    let mut fields = line.split_whitespace();
    let (want, _flag, status, name) = (
        fields.next()?,
        fields.next()?,
        fields.next()?,
        fields.next()?,
    );
    let status = match status {
        "not-installed" => Status::Purged,
        "installed" | "triggers-awaited" | "triggers-pending" => {
            Status::Installed(fields.next()?.to_owned())
        }
        // Only configuration is left; or unpacked, half configured: neither here nor there, and an install finishes it.
        _ => Status::Removed,
    };
    Some(Package {
        name: name.to_owned(),
        status,
        held: want == "hold",
    })
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
    use super::{Outdated, Package, Status, parse_all, parse_candidate, parse_outdated};

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
    fn the_status_of_each_line_is_understood() {
        let text = "install ok installed bash 5.2.15-2+b7\nhold ok installed curl 7.88.1-10\n\
                    deinstall ok config-files exim4 4.96-15\nunknown ok not-installed nano \n\
                    install reinstreq half-installed vim 2:9.0\n\nnonsense\n";
        let status: Vec<(String, Status, bool)> = parse_all(text)
            .into_iter()
            .map(|Package { name, status, held }| (name, status, held))
            .collect();
        let installed = |version: &str| Status::Installed(version.to_owned());
        assert_eq!(
            status,
            [
                ("bash".to_owned(), installed("5.2.15-2+b7"), false),
                ("curl".to_owned(), installed("7.88.1-10"), true),
                ("exim4".to_owned(), Status::Removed, false),
                ("nano".to_owned(), Status::Purged, false),
                ("vim".to_owned(), Status::Removed, false),
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
