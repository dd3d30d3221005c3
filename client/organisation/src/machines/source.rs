//! The packages and programs of this machine that others get.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::probe::{MachineProbe, PackageFormat};
use super::script::InstalledProgram;

/// Where packages and programs are.
#[derive(Debug, Clone, Default)]
pub struct ProgramSource {
    /// A directory with packages, such as that of a release.
    pub directory: Option<PathBuf>,
    /// The program, for this machine's architecture.
    pub program: Option<PathBuf>,
}

/// The file that a machine gets, and how it is installed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChosenProgram {
    /// How it is installed.
    pub kind: InstalledProgram,
    /// The file.
    pub file: PathBuf,
}

/// Why there is no package and no program for a machine.
#[derive(Debug, thiserror::Error)]
pub enum ProgramSourceError {
    /// The directory cannot be read.
    #[error("cannot read {}", .0.display())]
    Directory(PathBuf, #[source] io::Error),
    /// Neither a package nor a program is for this machine.
    #[error("{place} has no package {package} for {architecture}, and there is no program for it")]
    NotFound {
        /// The directory.
        place: String,
        /// The package.
        package: &'static str,
        /// The machine's architecture.
        architecture: String,
    },
}

impl ProgramSource {
    /// Chooses the newest package of the machine's own format, otherwise the program.
    pub fn choose(
        &self,
        package: &'static str,
        probe: &MachineProbe,
    ) -> Result<ChosenProgram, ProgramSourceError> {
        let wanted = match probe.packages {
            PackageFormat::Deb => Some((InstalledProgram::Deb, "deb", '_')),
            PackageFormat::Rpm => Some((InstalledProgram::Rpm, "rpm", '-')),
            PackageFormat::None => None,
        };
        if let (Some(directory), Some((kind, extension, separator))) = (&self.directory, wanted) {
            let prefix = format!("{package}{separator}");
            let names = file_names(directory)?;
            let newest = newest_package(&names, &prefix, extension, &probe.architecture);
            if let Some(name) = newest {
                return Ok(ChosenProgram { kind, file: directory.join(name) });
            }
        }
        // A program runs on machines of its own architecture, which is this one's.
        let program =
            self.program.as_ref().filter(|_| probe.architecture == std::env::consts::ARCH);
        match program {
            Some(file) => Ok(ChosenProgram { kind: InstalledProgram::Program, file: file.clone() }),
            None => Err(ProgramSourceError::NotFound {
                place: self.directory.as_ref().map_or_else(
                    || "this machine".to_owned(),
                    |directory| directory.display().to_string(),
                ),
                package,
                architecture: probe.architecture.clone(),
            }),
        }
    }
}

fn file_names(directory: &Path) -> Result<Vec<String>, ProgramSourceError> {
    let failed = |error| ProgramSourceError::Directory(directory.to_owned(), error);
    let entries = fs::read_dir(directory).map_err(failed)?;
    let names = entries.map(|entry| Ok(entry?.file_name().into_string().ok()));
    Ok(names.collect::<io::Result<Vec<_>>>().map_err(failed)?.into_iter().flatten().collect())
}

/// The package with the highest version among files named `NAME_VERSION_ARCHITECTURE.deb` or `NAME-VERSION-RELEASE.ARCHITECTURE.rpm`.
fn newest_package<'a>(
    names: &'a [String],
    prefix: &str,
    extension: &str,
    architecture: &str,
) -> Option<&'a String> {
    let debian_name = match architecture {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    let ends = match extension {
        "deb" => [format!("_{debian_name}.deb"), "_all.deb".to_owned()],
        _ => [format!(".{architecture}.rpm"), ".noarch.rpm".to_owned()],
    };
    let version = |name: &str| {
        let rest = name.strip_prefix(prefix)?;
        let version = ends.iter().find_map(|end| rest.strip_suffix(end))?;
        // `muster-node` is not the package `muster` with the version `node`.
        version.starts_with(|c: char| c.is_ascii_digit()).then(|| version_key(version))
    };
    names.iter().filter_map(|name| Some((version(name)?, name))).max().map(|(_, name)| name)
}

/// Numbers compare as numbers, so that 0.10 is later than 0.9.
fn version_key(version: &str) -> Vec<(u64, String)> {
    let parts = version.split(|c: char| !c.is_ascii_alphanumeric());
    parts.map(|part| (part.parse().unwrap_or(0), part.to_owned())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn probe(packages: PackageFormat) -> MachineProbe {
        MachineProbe { architecture: "x86_64".to_owned(), host: None, packages }
    }

    #[test]
    fn newest_package_of_the_machine_is_chosen_and_else_the_program() {
        let directory = tempfile::tempdir().unwrap();
        for name in [
            "muster_0.9.0_amd64.deb",
            "muster-node_0.9.0_amd64.deb",
            "muster-node_0.10.0_amd64.deb",
            "muster-node_0.11.0_arm64.deb",
            "muster-node-0.9.0-1.x86_64.rpm",
            "muster-node_0.9.0_amd64.deb.sig",
        ] {
            fs::write(directory.path().join(name), "").unwrap();
        }
        let source = ProgramSource {
            directory: Some(directory.path().to_owned()),
            program: Some("/usr/sbin/rpcd".into()),
        };
        let chosen = |packages| source.choose("muster-node", &probe(packages)).unwrap();
        let name = |chosen: &ChosenProgram| {
            chosen.file.file_name().unwrap().to_string_lossy().into_owned()
        };
        assert_eq!(name(&chosen(PackageFormat::Deb)), "muster-node_0.10.0_amd64.deb");
        assert_eq!(name(&chosen(PackageFormat::Rpm)), "muster-node-0.9.0-1.x86_64.rpm");
        let found = source.choose("muster", &probe(PackageFormat::Deb)).unwrap();
        assert_eq!(name(&found), "muster_0.9.0_amd64.deb");
        let program = chosen(PackageFormat::None);
        assert_eq!((program.kind, name(&program)), (InstalledProgram::Program, "rpcd".to_owned()));
        let other =
            MachineProbe { architecture: "riscv64".to_owned(), ..probe(PackageFormat::Deb) };
        let error = source.choose("muster-node", &other).unwrap_err().to_string();
        assert!(error.contains("muster-node for riscv64"), "{error}");
    }
}
