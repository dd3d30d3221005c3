//! The archive that one ssh session receives, and the command that unpacks and runs it.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::write::GzEncoder;

use super::source::ChosenProgram;

/// The command of the ssh session. It reads a tar archive from standard input, and runs the script in it as root. It has no quote that ends its word,
/// and works in every login shell, because `sh` interprets it.
pub const UNPACK_COMMAND: &str = "sh -c 'umask 077; d=$(mktemp -d) || exit 1; trap \"rm -rf \\\"\\$d\\\"\" EXIT; tar -xf - -C \"$d\" || exit 1; \
    if [ $(id -u) = 0 ]; then sh \"$d/install\"; else sudo -n sh \"$d/install\"; fi'";

/// Name of the script in the archive.
const SCRIPT_NAME: &str = "install";

/// Writes the archive: the script, and the program beside it.
pub fn write_payload(out: impl Write, script: &str, program: &ChosenProgram) -> io::Result<()> {
    let mut archive = tar::Builder::new(out);
    if let Some(name) = program.kind.file_name() {
        append_program(&mut archive, name, &program.file)?;
    }
    let mut header = tar::Header::new_gnu();
    header.set_size(u64::try_from(script.len()).unwrap_or(u64::MAX));
    header.set_mode(0o600);
    archive.append_data(&mut header, SCRIPT_NAME, script.as_bytes())?;
    archive.into_inner().map(drop)
}

fn append_program(
    archive: &mut tar::Builder<impl Write>,
    name: &str,
    path: &Path,
) -> io::Result<()> {
    let mut file = File::open(path)?;
    let mut header = tar::Header::new_gnu();
    header.set_size(file.metadata()?.len());
    header.set_mode(0o644);
    archive.append_data(&mut header, name, &mut file)
}

/// A line for root's shell that runs the script.
pub fn paste_line(script: &str) -> io::Result<String> {
    let mut packed = GzEncoder::new(Vec::new(), Compression::best());
    packed.write_all(script.as_bytes())?;
    let packed = STANDARD.encode(packed.finish()?);
    // The script changes to its directory, so it needs one.
    Ok(format!(
        "d=$(mktemp -d) && echo {packed} | base64 -d | gunzip >\"$d/{SCRIPT_NAME}\" && sh \"$d/{SCRIPT_NAME}\"; rm -rf \"$d\""
    ))
}

#[cfg(test)]
#[expect(clippy::disallowed_types, reason = "runs the line and the command with the shell")]
mod tests {
    use std::process::{Command, Stdio};

    use super::super::script::InstalledProgram;
    use super::*;

    #[test]
    fn line_and_command_run_the_script_and_leave_nothing() {
        // The shell splits the name of the directory if it is not quoted.
        let home = tempfile::tempdir().unwrap();
        let place = home.path().join("with blank");
        std::fs::create_dir(&place).unwrap();
        let shell = |line: &str, input: Stdio| {
            let mut command = Command::new("sh");
            command.args(["-c", line]).env("TMPDIR", &place).stdin(input);
            String::from_utf8(command.output().unwrap().stdout).unwrap()
        };
        let script = "cd \"${0%/*}\"; echo 'it'\"'\"'s' $(ls)";
        assert_eq!(shell(&paste_line(script).unwrap(), Stdio::null()), "it's install\n");

        let program = home.path().join("rpcd");
        std::fs::write(&program, "program").unwrap();
        let chosen = ChosenProgram { kind: InstalledProgram::Program, file: program.clone() };
        let archive = home.path().join("archive");
        write_payload(File::create(&archive).unwrap(), script, &chosen).unwrap();
        // The test is no root on a developer's machine; the script is run without sudo.
        let command = UNPACK_COMMAND.replace("$(id -u) = 0", "1 = 1");
        let input = Stdio::from(File::open(&archive).unwrap());
        assert_eq!(shell(&command, input), "it's install program\n");
        assert_eq!(std::fs::read_dir(&place).unwrap().count(), 0);
    }
}
