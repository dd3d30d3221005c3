//! Parses the options of a discovery method, from `--do KEY=VALUE` or a table in the configuration file. Opens no file.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::document::DiscoveryFileFormat;
use super::method::DiscoveryMethod;
use super::puppetdb;

/// Maximum configurable timeout of a discovery program or server.
const MAX_TIMEOUT: Duration = Duration::from_hours(1);

/// Options as given, not yet validated.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DiscoveryOptions(BTreeMap<String, DiscoveryOptionValue>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum DiscoveryOptionValue {
    Text(String),
    List(Vec<String>),
}

/// A discovery method with its validated options.
#[derive(Debug, Clone, PartialEq)]
pub enum DiscoverySource {
    /// The directory if one answers, otherwise a broadcast.
    Automatic,
    /// The directory.
    Directory,
    /// Broadcast request to all nodes.
    Broadcast,
    /// A list in a file.
    Flat {
        /// The file.
        file: PathBuf,
        /// The format; detected when absent.
        form: Option<DiscoveryFileFormat>,
    },
    /// A list on the standard input.
    Stdin {
        /// The format; detected when absent.
        form: Option<DiscoveryFileFormat>,
    },
    /// An external program.
    External {
        /// The program and its arguments.
        command: Vec<String>,
        /// Time limit for the program.
        timeout: Duration,
        /// Options that are passed to the program with the filter.
        options: BTreeMap<String, String>,
    },
    /// An inventory document that describes every node.
    Inventory {
        /// The file.
        file: PathBuf,
    },
    /// `PuppetDB`.
    PuppetDb(puppetdb::PuppetDbServer),
}

/// A result of parsing the options.
type Result<T, E = DiscoveryOptionError> = std::result::Result<T, E>;

/// Why options are invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DiscoveryOptionError {
    /// Not `KEY=VALUE`.
    #[error("{0:?} is not a discovery option; use KEY=VALUE")]
    NoPair(String),
    /// An option that is given twice.
    #[error("the discovery option `{0}` is given twice")]
    Duplicate(String),
    /// An option that the method does not have.
    #[error("the discovery method {method} has no option `{name}`; it has {known}")]
    Unknown {
        /// The method.
        method: DiscoveryMethod,
        /// The option.
        name: String,
        /// Its options.
        known: &'static str,
    },
    /// A required option is missing.
    #[error("the discovery method {method} needs the option `{name}`, as in {example}")]
    Missing {
        /// The method.
        method: DiscoveryMethod,
        /// The option.
        name: &'static str,
        /// An example value.
        example: &'static str,
    },
    /// An invalid value.
    #[error("the discovery option `{name}` is {value:?}; it must be {expected}")]
    Value {
        /// The option.
        name: &'static str,
        /// The given value.
        value: String,
        /// The expected form.
        expected: &'static str,
    },
}

impl DiscoveryOptions {
    /// Adds `KEY=VALUE`.
    pub fn add_pair(&mut self, text: &str) -> Result<()> {
        match text.split_once('=') {
            Some((name, value)) if !name.is_empty() => {
                self.insert_option(name, DiscoveryOptionValue::Text(value.to_owned()))
            }
            _ => Err(DiscoveryOptionError::NoPair(text.to_owned())),
        }
    }

    /// Adds an option with one value.
    pub fn add_text(&mut self, name: &str, value: String) -> Result<()> {
        self.insert_option(name, DiscoveryOptionValue::Text(value))
    }

    /// Adds an option that is a list, such as the arguments of a command.
    pub fn add_list(&mut self, name: &str, values: Vec<String>) -> Result<()> {
        self.insert_option(name, DiscoveryOptionValue::List(values))
    }

    fn insert_option(&mut self, name: &str, value: DiscoveryOptionValue) -> Result<()> {
        match self.0.insert(name.to_owned(), value) {
            None => Ok(()),
            Some(_) => Err(DiscoveryOptionError::Duplicate(name.to_owned())),
        }
    }

    fn remove_text(&mut self, name: &str) -> Option<String> {
        self.0.remove(name).map(DiscoveryOptionValue::into_text)
    }

    /// Removes the arguments of a command. A single text is split at white space: there is no shell and no quoting.
    fn remove_words(&mut self, name: &str) -> Vec<String> {
        match self.0.remove(name) {
            Some(DiscoveryOptionValue::List(words)) => words,
            Some(DiscoveryOptionValue::Text(text)) => {
                text.split_whitespace().map(str::to_owned).collect()
            }
            None => Vec::new(),
        }
    }
}

impl DiscoveryOptionValue {
    fn into_text(self) -> String {
        match self {
            Self::Text(text) => text,
            Self::List(words) => words.join(" "),
        }
    }
}

impl DiscoverySource {
    /// Validates these options for this method; relative paths are resolved against `base`.
    pub fn from_options(
        method: DiscoveryMethod,
        options: &DiscoveryOptions,
        base: &Path,
    ) -> Result<Self> {
        let mut remaining = options.clone();
        let source = match method {
            DiscoveryMethod::Automatic => Self::Automatic,
            DiscoveryMethod::Directory => Self::Directory,
            DiscoveryMethod::Broadcast => Self::Broadcast,
            DiscoveryMethod::Flat => Self::Flat {
                file: base.join(take_required(
                    &mut remaining,
                    method,
                    "file",
                    "--do file=nodes.txt",
                )?),
                form: take_format(&mut remaining)?,
            },
            DiscoveryMethod::Stdin => Self::Stdin { form: take_format(&mut remaining)? },
            DiscoveryMethod::Inventory => Self::Inventory {
                file: base.join(take_required(
                    &mut remaining,
                    method,
                    "file",
                    "--do file=fleet.json",
                )?),
            },
            DiscoveryMethod::External => external_source(&mut remaining, base)?,
            DiscoveryMethod::PuppetDb => Self::PuppetDb(puppetdb_server(&mut remaining, base)?),
        };
        match remaining.0.into_keys().next() {
            Some(name) => {
                Err(DiscoveryOptionError::Unknown { method, name, known: known_options(method) })
            }
            None => Ok(source),
        }
    }

    /// The method.
    pub fn method(&self) -> DiscoveryMethod {
        match self {
            Self::Automatic => DiscoveryMethod::Automatic,
            Self::Directory => DiscoveryMethod::Directory,
            Self::Broadcast => DiscoveryMethod::Broadcast,
            Self::Flat { .. } => DiscoveryMethod::Flat,
            Self::Stdin { .. } => DiscoveryMethod::Stdin,
            Self::External { .. } => DiscoveryMethod::External,
            Self::Inventory { .. } => DiscoveryMethod::Inventory,
            Self::PuppetDb(_) => DiscoveryMethod::PuppetDb,
        }
    }
}

fn known_options(method: DiscoveryMethod) -> &'static str {
    match method {
        DiscoveryMethod::Automatic | DiscoveryMethod::Directory | DiscoveryMethod::Broadcast => {
            "none"
        }
        DiscoveryMethod::Flat => "file and format",
        DiscoveryMethod::Stdin => "format",
        DiscoveryMethod::Inventory => "file",
        DiscoveryMethod::External => "command, timeout and those of the program",
        DiscoveryMethod::PuppetDb => "url, ca, cert, key and timeout",
    }
}

fn take_required(
    options: &mut DiscoveryOptions,
    method: DiscoveryMethod,
    name: &'static str,
    example: &'static str,
) -> Result<String> {
    options
        .remove_text(name)
        .filter(|value| !value.is_empty())
        .ok_or(DiscoveryOptionError::Missing { method, name, example })
}

fn take_format(options: &mut DiscoveryOptions) -> Result<Option<DiscoveryFileFormat>> {
    let parse = |value: String| {
        DiscoveryFileFormat::parse(&value).ok_or(DiscoveryOptionError::Value {
            name: "format",
            value,
            expected: "text, json or yaml",
        })
    };
    options.remove_text("format").map(parse).transpose()
}

fn take_timeout(options: &mut DiscoveryOptions, default: Duration) -> Result<Duration> {
    let Some(value) = options.remove_text("timeout") else {
        return Ok(default);
    };
    let seconds = value.strip_suffix('s').unwrap_or(&value).parse().ok();
    seconds
        .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
        .filter(|time| !time.is_zero() && *time <= MAX_TIMEOUT)
        .ok_or(DiscoveryOptionError::Value {
            name: "timeout",
            value,
            expected: "a number of seconds, more than 0 and at most 3600",
        })
}

fn external_source(options: &mut DiscoveryOptions, base: &Path) -> Result<DiscoverySource> {
    let mut command = options.remove_words("command");
    let Some(program) = command.first_mut() else {
        return Err(DiscoveryOptionError::Missing {
            method: DiscoveryMethod::External,
            name: "command",
            example: "--do command=/usr/local/bin/find-nodes",
        });
    };
    // A bare program name is searched for in PATH; a relative path is resolved against the base directory.
    if program.contains('/') {
        *program = base.join(&*program).display().to_string();
    }
    let timeout = take_timeout(options, Duration::from_secs(10))?;
    let rest = std::mem::take(&mut options.0).into_iter();
    let options = rest.map(|(name, value)| (name, value.into_text())).collect();
    Ok(DiscoverySource::External { command, timeout, options })
}

fn puppetdb_server(
    options: &mut DiscoveryOptions,
    base: &Path,
) -> Result<puppetdb::PuppetDbServer> {
    let example = "--do url=https://puppetdb.acme.net:8081";
    let url = take_required(options, DiscoveryMethod::PuppetDb, "url", example)?;
    let expected =
        "an address such as https://puppetdb.acme.net:8081; plain http only to a loopback address";
    let [ca, cert, key] =
        ["ca", "cert", "key"].map(|name| options.remove_text(name).map(|path| base.join(path)));
    let method = DiscoveryMethod::PuppetDb;
    if cert.is_some() != key.is_some() {
        let (name, example) = match cert {
            Some(_) => ("key", "--do key=/etc/puppetlabs/puppet/ssl/private_keys/NAME.pem"),
            None => ("cert", "--do cert=/etc/puppetlabs/puppet/ssl/certs/NAME.pem"),
        };
        return Err(DiscoveryOptionError::Missing { method, name, example });
    }
    let pair = cert.zip(key);
    let timeout = take_timeout(options, Duration::from_secs(30))?;
    puppetdb::PuppetDbServer::new(&url, ca, pair, timeout).ok_or(DiscoveryOptionError::Value {
        name: "url",
        value: url,
        expected,
    })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{DiscoveryOptions, DiscoverySource};
    use crate::discovery::DiscoveryMethod;

    fn read(method: DiscoveryMethod, pairs: &[&str]) -> Result<DiscoverySource, String> {
        let mut options = DiscoveryOptions::default();
        for pair in pairs {
            options.add_pair(pair).map_err(|error| error.to_string())?;
        }
        DiscoverySource::from_options(method, &options, Path::new("/base"))
            .map_err(|error| error.to_string())
    }

    #[test]
    fn relative_paths_start_at_the_base_directory() {
        let Ok(DiscoverySource::Inventory { file }) =
            read(DiscoveryMethod::Inventory, &["file=fleet.yaml"])
        else {
            panic!()
        };
        assert_eq!(file, Path::new("/base/fleet.yaml"));
        let external = read(
            DiscoveryMethod::External,
            &["command=bin/find  --all", "timeout=0.5", "site=lhr=1"],
        );
        let Ok(DiscoverySource::External { command, timeout, options }) = external else {
            panic!()
        };
        assert_eq!(command, ["/base/bin/find", "--all"]);
        assert_eq!(timeout.as_millis(), 500);
        assert_eq!(options["site"], "lhr=1");
    }

    #[test]
    fn invalid_options_are_refused_with_the_valid_ones() {
        for (method, pairs, expected) in [
            (DiscoveryMethod::Flat, &["fiel=x"][..], "needs the option `file`"),
            (
                DiscoveryMethod::Flat,
                &["file=x", "fromat=json"],
                "has no option `fromat`; it has file and format",
            ),
            (DiscoveryMethod::Flat, &["file=x", "format=xml"], "must be text, json or yaml"),
            (DiscoveryMethod::Broadcast, &["file=x"], "broadcast has no option `file`"),
            (DiscoveryMethod::Inventory, &["file"], "use KEY=VALUE"),
            (DiscoveryMethod::Inventory, &["file=a", "file=b"], "`file` is given twice"),
            (DiscoveryMethod::External, &["command= "], "needs the option `command`"),
            (DiscoveryMethod::External, &["command=x", "timeout=-1"], "`timeout` is \"-1\""),
            (DiscoveryMethod::PuppetDb, &[], "needs the option `url`"),
            (
                DiscoveryMethod::PuppetDb,
                &["url=http://puppetdb:8080"],
                "plain http only to a loopback",
            ),
            (DiscoveryMethod::PuppetDb, &["url=https://rip:x@puppetdb:8081"], "must be an address"),
            (DiscoveryMethod::PuppetDb, &["url=https://p", "cert=a"], "needs the option `key`"),
        ] {
            let refusal = read(method, pairs).unwrap_err();
            assert!(refusal.contains(expected), "{pairs:?}: {refusal}");
        }
    }
}
