//! `puppetserver ca`, for an authority that has no API, or whose API is not for us. Requests are read in its own directory.

use std::time::Duration;

use muster_api::system::command::Cancel;
use muster_api::system::{Command, System, SystemError};
use muster_certificate::LARGEST;
use serde::Deserialize;

use crate::authority::{Authority, CaError, Entry, State};
use crate::name::CertName;
use crate::options::Options;

/// Bytes of output that are read.
const OUTPUT: usize = 16 * 1024 * 1024;
/// So much of what it printed is shown, in characters.
const SHOWN: usize = 2000;

/// The command line, on a machine.
pub(crate) struct CommandLine<'a> {
    options: &'a Options,
    system: &'a dyn System,
    timeout: Duration,
    cancel: Cancel,
}

/// What `list --all --format json` prints.
#[derive(Debug, Default, Deserialize)]
struct List {
    #[serde(default)]
    requested: Vec<Entry>,
    #[serde(default)]
    signed: Vec<Entry>,
    #[serde(default)]
    revoked: Vec<Entry>,
}

impl<'a> CommandLine<'a> {
    pub(crate) fn new(
        options: &'a Options,
        system: &'a dyn System,
        timeout: Duration,
        cancel: Cancel,
    ) -> Self {
        Self {
            options,
            system,
            timeout,
            cancel,
        }
    }

    /// Exit code, standard output, and all that was printed as one line.
    fn run(&self, action: &[&str]) -> Result<(i32, Vec<u8>, String), CaError> {
        let words = action.iter().map(|word| (*word).to_owned());
        let argv = self.options.command.iter().cloned().chain(words);
        let mut command = Command::new(argv.chain(self.options.arguments.iter().cloned()));
        command.timeout = Some(self.timeout);
        command.cancel = self.cancel.clone();
        command.output_limit = OUTPUT;
        let output = self.system.run(&command)?;
        let lines = output.text();
        let said: Vec<&str> = lines.split_whitespace().collect();
        let said: String = said
            .join(" ")
            .chars()
            .filter(|c| !c.is_control())
            .take(SHOWN)
            .collect();
        Ok((output.code, output.stdout, said))
    }

    /// An action on one name: whatever is not 0 is a refusal.
    fn act(&self, action: &[&str]) -> Result<(), CaError> {
        match self.run(action)? {
            (0, _, _) => Ok(()),
            (_, _, text) => Err(CaError::Conflict { text }),
        }
    }

    fn lists(&self, words: &[&str]) -> Result<List, CaError> {
        let (code, stdout, said) = self.run(&[&["list", "--format", "json"], words].concat())?;
        match serde_json::from_slice(&stdout) {
            Ok(list) => Ok(list),
            Err(source) if code == 0 => Err(CaError::Answer {
                place: self.place(),
                source,
            }),
            Err(_) => Err(CaError::Refused {
                place: self.place(),
                status: format!("exit code {code}"),
                text: said,
            }),
        }
    }

    fn place(&self) -> String {
        format!("`{}`", self.options.command.join(" "))
    }

    fn file(&self, directory: &str, name: &CertName) -> Result<Option<String>, CaError> {
        let path = self
            .options
            .cadir
            .join(directory)
            .join(format!("{name}.pem"));
        match self.system.read(&path, LARGEST) {
            Ok(bytes) => Ok(Some(String::from_utf8_lossy(&bytes).into_owned())),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(CaError::System(error)),
        }
    }

    fn remove(&self, directory: &str, name: &CertName) -> Result<(), SystemError> {
        let path = self
            .options
            .cadir
            .join(directory)
            .join(format!("{name}.pem"));
        self.system.remove_file(&path)
    }
}

impl Authority for CommandLine<'_> {
    fn list(&self, state: Option<State>) -> Result<Vec<Entry>, CaError> {
        let all = self.lists(&["--all"])?;
        Ok(match state {
            Some(State::Requested) => all.requested,
            Some(State::Signed) => all.signed,
            Some(State::Revoked) => all.revoked,
            None => [all.requested, all.signed, all.revoked].concat(),
        })
    }

    fn status(&self, name: &CertName) -> Result<Option<Entry>, CaError> {
        let found = self.lists(&["--certname", name.as_str()])?;
        let mut entries = [found.requested, found.signed, found.revoked]
            .concat()
            .into_iter();
        Ok(entries.find(|entry| entry.name == name.as_str()))
    }

    fn request(&self, name: &CertName) -> Result<Option<String>, CaError> {
        self.file("requests", name)
    }

    fn certificate(&self, name: &CertName) -> Result<Option<String>, CaError> {
        self.file("signed", name)
    }

    fn sign(&self, name: &CertName, ttl: Option<u64>) -> Result<(), CaError> {
        let ttl = ttl.map(|seconds| format!("{seconds}s"));
        let mut words = vec!["sign", "--certname", name.as_str()];
        if let Some(ttl) = &ttl {
            words.extend(["--ttl", ttl]);
        }
        self.act(&words)
    }

    fn revoke(&self, name: &CertName) -> Result<(), CaError> {
        self.act(&["revoke", "--certname", name.as_str()])
    }

    /// The command line has no word for it: `clean` fails for what is not signed. The files are its own.
    fn forget(&self, name: &CertName) -> Result<(), CaError> {
        self.remove("requests", name)?;
        self.remove("signed", name)?;
        Ok(())
    }
}
