//! External facts, compatible with Facter: the files of one directory, by name, and the output of its executables.
//!
//! `*.json`, `*.yaml`, `*.yml` and `*.txt` are read; other executable files are run; all other files and hidden files are ignored. The directory
//! belongs to the daemon's configuration, so it is not below the machine's root.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use muster_filter::state::facts::MAX_FACTS_BYTES;
use muster_system::{Command, System};
use serde_json::{Map, Value};

use super::error::FactError;
use super::parse::{FactFormat, parse_facts};
use crate::ground::files;

const FACT_PROGRAM_TIMEOUT: Duration = Duration::from_secs(10);
/// Timeout of Facter, which collects many facts.
const FACTER_TIMEOUT: Duration = Duration::from_mins(1);
/// Maximum size of one source before parsing, in bytes. JSON text is larger than the values in it.
const MAX_SOURCE_BYTES: usize = 2 * MAX_FACTS_BYTES;
/// Maximum number of characters of a failed program's output in an error.
const MAX_ERROR_CHARS: usize = 200;

/// The name of a source and its result.
pub(super) type GatheredFacts = (String, Result<Map<String, Value>, FactError>);

/// All sources of the directory, sorted by name; none if the directory does not exist.
pub(super) fn gather_directory(
    system: &dyn System,
    directory: &Path,
) -> Result<Vec<GatheredFacts>, FactError> {
    let read_error = |source| FactError::Read { path: directory.to_owned(), source };
    let paths = files::list_entries(directory).map_err(read_error)?;
    let sources = paths.into_iter().filter_map(|path| {
        let name = path.display().to_string();
        read_source(system, path).transpose().map(|facts| (name, facts))
    });
    Ok(sources.collect())
}

pub(super) fn run_facter(system: &dyn System, program: &Path) -> GatheredFacts {
    let name = program.display().to_string();
    let argv = [name.clone(), "--json".to_owned()];
    let facts = run_program(system, argv, FACTER_TIMEOUT)
        .and_then(|out| parse_facts(FactFormat::Json, &out));
    (name, facts)
}

/// The facts of one entry; `None` if it is not a source.
fn read_source(
    system: &dyn System,
    path: PathBuf,
) -> Result<Option<Map<String, Value>>, FactError> {
    if path.file_name().is_none_or(|name| name.as_encoded_bytes().starts_with(b".")) {
        return Ok(None);
    }
    let metadata = match fs::metadata(&path) {
        Ok(metadata) => metadata,
        Err(source) => return Err(FactError::Read { path, source }),
    };
    if !metadata.is_file() {
        return Ok(None);
    }
    let extension = path.extension().map(|extension| extension.to_string_lossy().to_lowercase());
    if let Some(format) = extension.as_deref().and_then(FactFormat::from_extension) {
        return read_fact_file(&path, format).map(Some);
    }
    if metadata.mode() & 0o111 == 0 {
        return Ok(None);
    }
    muster_files::check_protected_below(Path::new("/"), &path)
        .map_err(|error| FactError::Run(error.into()))?;
    let output = run_program(system, [path.to_string_lossy()], FACT_PROGRAM_TIMEOUT)?;
    let text = String::from_utf8_lossy(&output);
    match text.trim() {
        // A program may have no facts for this machine.
        "" => Ok(Some(Map::new())),
        trimmed => parse_facts(FactFormat::detect_output(trimmed), &output).map(Some),
    }
}

fn read_fact_file(path: &Path, format: FactFormat) -> Result<Map<String, Value>, FactError> {
    let bytes = files::read_bytes(path, MAX_SOURCE_BYTES as u64).map_err(|source| {
        if source.kind() == io::ErrorKind::FileTooLarge {
            return FactError::TooLarge { limit: MAX_SOURCE_BYTES };
        }
        FactError::Read { path: path.to_owned(), source }
    })?;
    if bytes.trim_ascii().is_empty() {
        return Err(FactError::Empty);
    }
    parse_facts(format, &bytes)
}

fn run_program<S: Into<String>>(
    system: &dyn System,
    argv: impl IntoIterator<Item = S>,
    timeout: Duration,
) -> Result<Vec<u8>, FactError> {
    let mut command = Command::configured(argv);
    command.timeout = Some(timeout);
    command.output_limit = MAX_SOURCE_BYTES;
    let output = system.run_command(&command).map_err(FactError::Run)?;
    if !output.is_success() {
        let text = output.combined_text();
        let first = text.lines().find(|line| !line.trim().is_empty()).unwrap_or("no output");
        let first_line = first.chars().take(MAX_ERROR_CHARS).collect();
        return Err(FactError::Failed { code: output.code, output: first_line });
    }
    if output.truncated {
        return Err(FactError::TooLarge { limit: MAX_SOURCE_BYTES });
    }
    Ok(output.stdout)
}
