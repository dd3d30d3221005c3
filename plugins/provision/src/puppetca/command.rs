//! The `puppetserver ca` backend, for an authority without a usable HTTP API. Requests are read from the authority's directory.

use std::time::Duration;

use muster_api::system::command::CancelFlag;
use muster_api::system::{Command, System, SystemResult};

use crate::certificate::MAX_PEM_BYTES;
use serde::Deserialize;

use crate::puppetca::authority::{CaError, CertAuthority, CertEntry, CertState};
use crate::puppetca::name::CertName;
use crate::puppetca::options::Options;

const MAX_OUTPUT_BYTES: usize = 16 * 1024 * 1024;
/// Most characters of the output that an error shows.
const MAX_SHOWN_CHARS: usize = 2000;

pub(crate) struct CaCommandLine<'a> {
    options: &'a Options,
    system: &'a dyn System,
    timeout: Duration,
    cancel: CancelFlag,
}

/// The JSON output of `list --all --format json`.
#[derive(Debug, Default, Deserialize)]
struct CertEntryLists {
    #[serde(default)]
    requested: Vec<CertEntry>,
    #[serde(default)]
    signed: Vec<CertEntry>,
    #[serde(default)]
    revoked: Vec<CertEntry>,
}

impl<'a> CaCommandLine<'a> {
    pub(crate) fn new(
        options: &'a Options,
        system: &'a dyn System,
        timeout: Duration,
        cancel: CancelFlag,
    ) -> Self {
        Self { options, system, timeout, cancel }
    }

    /// Returns exit code, standard output, and all output as one line.
    fn run_command(&self, action: &[&str]) -> Result<(i32, Vec<u8>, String), CaError> {
        let action = action.iter().map(|argument| (*argument).to_owned());
        let argv = self.options.command.iter().cloned().chain(action);
        let mut command = Command::configured(argv.chain(self.options.arguments.iter().cloned()));
        command.killed_with_parent = true;
        command.timeout = Some(self.timeout);
        command.cancel = self.cancel.clone();
        command.output_limit = MAX_OUTPUT_BYTES;
        let output = self.system.run_command(&command)?;
        let lines = output.combined_text();
        let words: Vec<&str> = lines.split_whitespace().collect();
        let text: String =
            words.join(" ").chars().filter(|c| !c.is_control()).take(MAX_SHOWN_CHARS).collect();
        Ok((output.code, output.stdout, text))
    }

    /// Every exit code other than 0 is an error.
    fn run_checked(&self, action: &[&str]) -> Result<(), CaError> {
        match self.run_command(action)? {
            (0, _, _) => Ok(()),
            (_, _, text) => Err(CaError::Conflict { text }),
        }
    }

    fn list_certificates(&self, args: &[&str]) -> Result<CertEntryLists, CaError> {
        let (code, stdout, text) =
            self.run_command(&[&["list", "--format", "json"], args].concat())?;
        match serde_json::from_slice(&stdout) {
            Ok(list) => Ok(list),
            Err(source) if code == 0 => {
                Err(CaError::Answer { endpoint: self.display_command(), source })
            }
            Err(_) => Err(CaError::Refused {
                endpoint: self.display_command(),
                status: format!("exit code {code}"),
                text,
            }),
        }
    }

    fn display_command(&self) -> String {
        format!("`{}`", self.options.command.join(" "))
    }

    fn read_pem(&self, directory: &str, name: &CertName) -> Result<Option<String>, CaError> {
        let path = self.options.cadir.join(directory).join(format!("{name}.pem"));
        match self.system.read_file(&path, MAX_PEM_BYTES) {
            Ok(bytes) => Ok(Some(String::from_utf8_lossy(&bytes).into_owned())),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(CaError::System(error)),
        }
    }

    fn remove_pem(&self, directory: &str, name: &CertName) -> SystemResult<()> {
        let path = self.options.cadir.join(directory).join(format!("{name}.pem"));
        self.system.remove_file(&path)
    }
}

impl CertAuthority for CaCommandLine<'_> {
    fn list_entries(&self, state: Option<CertState>) -> Result<Vec<CertEntry>, CaError> {
        let all = self.list_certificates(&["--all"])?;
        Ok(match state {
            Some(CertState::Requested) => all.requested,
            Some(CertState::Signed) => all.signed,
            Some(CertState::Revoked) => all.revoked,
            None => [all.requested, all.signed, all.revoked].concat(),
        })
    }

    fn find_entry(&self, name: &CertName) -> Result<Option<CertEntry>, CaError> {
        let found = self.list_certificates(&["--certname", name.as_str()])?;
        let mut entries = [found.requested, found.signed, found.revoked].concat().into_iter();
        Ok(entries.find(|entry| entry.name == name.as_str()))
    }

    fn read_request(&self, name: &CertName) -> Result<Option<String>, CaError> {
        self.read_pem("requests", name)
    }

    fn read_certificate(&self, name: &CertName) -> Result<Option<String>, CaError> {
        self.read_pem("signed", name)
    }

    fn sign_request(&self, name: &CertName, ttl: Option<u64>) -> Result<(), CaError> {
        let ttl = ttl.map(|seconds| format!("{seconds}s"));
        let mut args = vec!["sign", "--certname", name.as_str()];
        if let Some(ttl) = &ttl {
            args.extend(["--ttl", ttl]);
        }
        self.run_checked(&args)
    }

    fn revoke_certificate(&self, name: &CertName) -> Result<(), CaError> {
        self.run_checked(&["revoke", "--certname", name.as_str()])
    }

    /// Deletes the files directly, because no command does this: `clean` fails for a request that is not signed.
    fn delete_entry(&self, name: &CertName) -> Result<(), CaError> {
        self.remove_pem("requests", name)?;
        self.remove_pem("signed", name)?;
        Ok(())
    }
}
