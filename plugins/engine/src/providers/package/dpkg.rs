//! Packages by `dpkg` alone, each from a file that `source` names; and what dpkg knows, which apt asks too.

use std::path::Path;
use std::sync::Arc;

use super::{Action, Package, Packages, Status, memo, tool};
use crate::error::EngineError;
use crate::resource::Resource;
use crate::resource_type::Cx;

/// What dpkg keeps its knowledge in.
pub(super) const DATABASE: &str = "/var/lib/dpkg/status";
const PROVIDES: &str = "${Status} ${Package} ${Version} [${Provides}]\\n";
const FORMAT: &str = "${Status} ${Package} ${Version} ${Architecture}\\n";

/// The provider.
#[derive(Debug)]
pub struct Dpkg;

impl Packages for Dpkg {
    fn query(&self, cx: &Cx<'_>, resource: &Resource) -> Result<Package, EngineError> {
        query(cx, resource)
    }

    /// The version of the file.
    fn candidate(&self, cx: &Cx<'_>, resource: &Resource) -> Result<Option<String>, EngineError> {
        let source = tool::source(resource, "dpkg")?;
        let output = tool::run(cx, resource, &["dpkg-deb", "--show", "--", source])?;
        if !output.success() {
            return Err(tool::refused(resource, "dpkg-deb --show", &output));
        }
        let text = String::from_utf8_lossy(&output.stdout);
        Ok(text
            .trim_end()
            .split_once('\t')
            .map(|(_, version)| version.to_owned()))
    }

    fn act(&self, cx: &Cx<'_>, resource: &Resource, action: Action<'_>) -> Result<(), EngineError> {
        let name = resource.name.as_str();
        let force = configuration(resource);
        match action {
            Action::Install | Action::InstallVersion(_) => {
                let source = tool::source(resource, "dpkg")?;
                tool::change(cx, resource, &["dpkg", force, "-i", "--", source])
            }
            Action::Remove => tool::change(cx, resource, &["dpkg", "-r", "--", name]),
            Action::Purge => tool::change(cx, resource, &["dpkg", "--purge", "--", name]),
            Action::Hold => select(cx, resource, "hold"),
            Action::Unhold => select(cx, resource, "install"),
        }
    }

    fn all(&self, cx: &Cx<'_>, resource: &Resource) -> Result<Vec<Package>, EngineError> {
        list(cx, resource).map(|list| bare(&list))
    }
}

/// What happens to configuration files that were changed on the machine.
pub(super) fn configuration(resource: &Resource) -> &'static str {
    if resource.text("configfiles") == Some("replace") {
        "--force-confnew"
    } else {
        "--force-confold"
    }
}

fn select(cx: &Cx<'_>, resource: &Resource, selection: &str) -> Result<(), EngineError> {
    let mut command = tool::command(cx, &["dpkg", "--set-selections"]);
    command.stdin = format!("{} {selection}\n", resource.name).into_bytes();
    tool::change_by(cx, resource, &command).map(drop)
}

/// Everything that dpkg knows; asked once as long as its database stays as it is.
pub(super) fn list(cx: &Cx<'_>, resource: &Resource) -> Result<Arc<Vec<Package>>, EngineError> {
    must_have_database(cx, resource)?;
    memo::list(cx, resource, "dpkg", Path::new(DATABASE), || {
        let output = tool::run(cx, resource, &["dpkg-query", "-W", "-f", FORMAT])?;
        // 1: no package at all is known.
        if !matches!(output.code, 0 | 1) {
            return Err(tool::refused(resource, "dpkg-query", &output));
        }
        Ok(parse_all(&String::from_utf8_lossy(&output.stdout)))
    })
}

/// The same with names only, without architectures.
pub(super) fn bare(list: &[Package]) -> Vec<Package> {
    let bare = |package: &Package| Package {
        name: package
            .name
            .split(':')
            .next()
            .unwrap_or_default()
            .to_owned(),
        ..package.clone()
    };
    list.iter().map(bare).collect()
}

/// What is known about one package; with `allow_virtual` also by what another one provides.
pub(super) fn query(cx: &Cx<'_>, resource: &Resource) -> Result<Package, EngineError> {
    let found = named(&list(cx, resource)?, &resource.name);
    if found.status != Status::Purged || !resource.flag("allow_virtual") {
        return Ok(found);
    }
    let provided = memo::list(cx, resource, "dpkg provides", Path::new(DATABASE), || {
        let output = tool::run(cx, resource, &["dpkg-query", "-W", "-f", PROVIDES])?;
        if !matches!(output.code, 0 | 1) {
            return Err(tool::refused(resource, "dpkg-query", &output));
        }
        Ok(parse_provides(&String::from_utf8_lossy(&output.stdout)))
    })?;
    Ok(named(&provided, &resource.name))
}

/// The package of that name, with or without its architecture; the installed one, where there are several.
pub(super) fn named(all: &[Package], name: &str) -> Package {
    let (bare, architecture) = name
        .split_once(':')
        .map_or((name, None), |(bare, architecture)| {
            (bare, Some(architecture))
        });
    let same = |package: &&Package| {
        let (own, its) = package
            .name
            .split_once(':')
            .unwrap_or((&package.name, "native"));
        own == bare && architecture.is_none_or(|wanted| wanted == its)
    };
    let best = all
        .iter()
        .filter(same)
        .max_by_key(|package| matches!(package.status, Status::Installed(_)));
    Package {
        name: name.to_owned(),
        ..best.cloned().unwrap_or(Package {
            name: String::new(),
            status: Status::Purged,
            held: false,
        })
    }
}

pub(super) fn must_have_database(cx: &Cx<'_>, resource: &Resource) -> Result<(), EngineError> {
    let found = cx.system.metadata(Path::new(DATABASE));
    let looking = EngineError::during(resource, format!("looking at {DATABASE}"));
    if found.map_err(looking)?.is_none() {
        let problem = format!(
            "no package database at {DATABASE}; on a machine without dpkg another `provider` must be named"
        );
        return Err(EngineError::failed(resource, problem));
    }
    Ok(())
}

/// Lines `want flag status name version architecture`; names that dpkg only remembers are purged.
fn parse_all(text: &str) -> Vec<Package> {
    text.lines().filter_map(parse_line).collect()
}

/// Lines `want flag status name version [provided, provided (= 2)]`: a package for each provided name.
fn parse_provides(text: &str) -> Vec<Package> {
    let line = |line: &str| {
        let (own, provided) = line.trim_end().strip_suffix(']')?.split_once(" [")?;
        let own = parse_line(own)?;
        let package = |name: &str| Package {
            name: name
                .split_whitespace()
                .next()
                .unwrap_or_default()
                .to_owned(),
            ..own.clone()
        };
        Some(provided.split(',').map(package).collect::<Vec<_>>())
    };
    text.lines().filter_map(line).flatten().collect()
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
        _ => {
            fields.next();
            Status::Removed
        }
    };
    // What is not installed has neither version nor architecture.
    let architecture = fields.next_back().filter(|_| status != Status::Purged);
    Some(Package {
        name: match architecture {
            Some(architecture) => format!("{name}:{architecture}"),
            None => name.to_owned(),
        },
        status,
        held: want == "hold",
    })
}

#[cfg(test)]
mod tests {
    use super::{Package, Status, named, parse_all, parse_provides};

    #[test]
    fn what_a_package_provides_is_there_with_it() {
        let text = "install ok installed exim4 4.96 [mail-transport-agent, smtpd (= 1)]\ninstall ok installed x 1 []\n";
        let all = parse_provides(text);
        for name in ["mail-transport-agent", "smtpd"] {
            assert_eq!(
                named(&all, name).status,
                Status::Installed("4.96".to_owned())
            );
        }
        assert_eq!(named(&all, "exim4").status, Status::Purged);
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
    fn a_name_finds_the_installed_one_of_its_architectures() {
        let text =
            "deinstall ok config-files libc6 2.36 i386\ninstall ok installed libc6 2.37 amd64\n";
        let all = parse_all(text);
        let status = |name| named(&all, name).status;
        assert_eq!(status("libc6"), Status::Installed("2.37".to_owned()));
        assert_eq!(status("libc6:i386"), Status::Removed);
        assert_eq!(status("libc6:arm64"), Status::Purged);
        assert_eq!(named(&all, "libc6:amd64").name, "libc6:amd64");
    }
}
