//! A method's options, `--do KEY=VALUE` or a table in the configuration: which there are, and what they mean. Opens no file.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::document::Form;
use super::method::Method;
use super::puppetdb;

/// Longest time that a source may be given.
const LONGEST: Duration = Duration::from_hours(1);

/// Options as they were given, not looked at yet.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Options(BTreeMap<String, Value>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Value {
    Text(String),
    List(Vec<String>),
}

/// A method with its options, understood.
#[derive(Debug, Clone, PartialEq)]
pub enum Source {
    /// Everybody is asked.
    Broadcast,
    /// A list in a file.
    Flat {
        /// The file.
        file: PathBuf,
        /// How it is written; found out when absent.
        form: Option<Form>,
    },
    /// A list on the standard input.
    Stdin {
        /// How it is written; found out when absent.
        form: Option<Form>,
    },
    /// A program.
    External {
        /// The program and its arguments.
        command: Vec<String>,
        /// How long it may take.
        timeout: Duration,
        /// What it is told besides the filter.
        options: BTreeMap<String, String>,
    },
    /// A document that describes every node.
    Inventory {
        /// The file.
        file: PathBuf,
    },
    /// `PuppetDB`.
    PuppetDb(puppetdb::Server),
}

/// Why options cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OptionError {
    /// Not `KEY=VALUE`.
    #[error("{text:?} is no discovery option; write it as KEY=VALUE")]
    NoPair {
        /// What was given.
        text: String,
    },
    /// The same option again.
    #[error("the discovery option `{name}` is given twice")]
    Twice {
        /// Its name.
        name: String,
    },
    /// The method has no such option.
    #[error("the discovery method {method} has no option `{name}`; it has {known}")]
    Unknown {
        /// The method.
        method: Method,
        /// The option.
        name: String,
        /// What it has.
        known: String,
    },
    /// The method cannot do without.
    #[error("the discovery method {method} needs the option `{name}`, as in {example}")]
    Missing {
        /// The method.
        method: Method,
        /// The option.
        name: &'static str,
        /// How it may look.
        example: &'static str,
    },
    /// A value that cannot be.
    #[error("the discovery option `{name}` is {value:?}; it must be {expected}")]
    Value {
        /// The option.
        name: &'static str,
        /// What was given.
        value: String,
        /// What it should be.
        expected: &'static str,
    },
}

impl Options {
    /// Adds `KEY=VALUE`.
    pub fn pair(&mut self, text: &str) -> Result<(), OptionError> {
        match text.split_once('=') {
            Some((name, value)) if !name.is_empty() => {
                self.add(name, Value::Text(value.to_owned()))
            }
            _ => Err(OptionError::NoPair {
                text: text.to_owned(),
            }),
        }
    }

    /// Adds an option with one value.
    pub fn text(&mut self, name: &str, value: String) -> Result<(), OptionError> {
        self.add(name, Value::Text(value))
    }

    /// Adds an option that is a list, as the words of a command.
    pub fn list(&mut self, name: &str, values: Vec<String>) -> Result<(), OptionError> {
        self.add(name, Value::List(values))
    }

    fn add(&mut self, name: &str, value: Value) -> Result<(), OptionError> {
        match self.0.insert(name.to_owned(), value) {
            None => Ok(()),
            Some(_) => Err(OptionError::Twice {
                name: name.to_owned(),
            }),
        }
    }

    fn take(&mut self, name: &str) -> Option<String> {
        self.0.remove(name).map(|value| match value {
            Value::Text(text) => text,
            Value::List(words) => words.join(" "),
        })
    }

    /// The words of a command. In one text they are what white space separates: there is no shell, and there are no quotes.
    fn words(&mut self, name: &str) -> Vec<String> {
        match self.0.remove(name) {
            Some(Value::List(words)) => words,
            Some(Value::Text(text)) => text.split_whitespace().map(str::to_owned).collect(),
            None => Vec::new(),
        }
    }
}

impl Source {
    /// What these options mean to this method; relative paths are relative to `base`.
    pub fn read(method: Method, options: &Options, base: &Path) -> Result<Self, OptionError> {
        let mut left = options.clone();
        let source = match method {
            Method::Broadcast => Self::Broadcast,
            Method::Flat => Self::Flat {
                file: required(&mut left, method, "file", "--do file=nodes.txt")
                    .map(|file| base.join(file))?,
                form: form(&mut left)?,
            },
            Method::Stdin => Self::Stdin {
                form: form(&mut left)?,
            },
            Method::Inventory => Self::Inventory {
                file: required(&mut left, method, "file", "--do file=fleet.json")
                    .map(|file| base.join(file))?,
            },
            Method::External => external(&mut left, base)?,
            Method::PuppetDb => Self::PuppetDb(puppetdb_server(&mut left, base)?),
        };
        match left.0.into_keys().next() {
            Some(name) => Err(OptionError::Unknown {
                method,
                name,
                known: known(method).to_owned(),
            }),
            None => Ok(source),
        }
    }

    /// The method.
    pub fn method(&self) -> Method {
        match self {
            Self::Broadcast => Method::Broadcast,
            Self::Flat { .. } => Method::Flat,
            Self::Stdin { .. } => Method::Stdin,
            Self::External { .. } => Method::External,
            Self::Inventory { .. } => Method::Inventory,
            Self::PuppetDb(_) => Method::PuppetDb,
        }
    }
}

fn known(method: Method) -> &'static str {
    match method {
        Method::Broadcast => "none",
        Method::Flat => "file and format",
        Method::Stdin => "format",
        Method::Inventory => "file",
        Method::External => "command, timeout and those of the program",
        Method::PuppetDb => "url, ca, cert, key and timeout",
    }
}

fn required(
    options: &mut Options,
    method: Method,
    name: &'static str,
    example: &'static str,
) -> Result<String, OptionError> {
    options
        .take(name)
        .filter(|value| !value.is_empty())
        .ok_or(OptionError::Missing {
            method,
            name,
            example,
        })
}

fn form(options: &mut Options) -> Result<Option<Form>, OptionError> {
    let read = |value: String| {
        Form::parse(&value).ok_or(OptionError::Value {
            name: "format",
            value,
            expected: "text, json or yaml",
        })
    };
    options.take("format").map(read).transpose()
}

fn timeout(options: &mut Options, default: Duration) -> Result<Duration, OptionError> {
    let Some(value) = options.take("timeout") else {
        return Ok(default);
    };
    let seconds = value.strip_suffix('s').unwrap_or(&value).parse().ok();
    seconds
        .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
        .filter(|time| !time.is_zero() && *time <= LONGEST)
        .ok_or(OptionError::Value {
            name: "timeout",
            value,
            expected: "seconds, more than 0 and at most 3600",
        })
}

fn external(options: &mut Options, base: &Path) -> Result<Source, OptionError> {
    let mut command = options.words("command");
    let Some(program) = command.first_mut() else {
        return Err(OptionError::Missing {
            method: Method::External,
            name: "command",
            example: "--do command=/usr/local/bin/find-nodes",
        });
    };
    // A bare name is looked for in PATH; a relative path is relative to whoever wrote it.
    if program.contains('/') {
        *program = base.join(&*program).display().to_string();
    }
    let timeout = timeout(options, Duration::from_secs(10))?;
    let names: Vec<String> = options.0.keys().cloned().collect();
    let rest = names
        .into_iter()
        .filter_map(|name| options.take(&name).map(|value| (name, value)));
    let rest = rest.collect();
    Ok(Source::External {
        command,
        timeout,
        options: rest,
    })
}

fn puppetdb_server(options: &mut Options, base: &Path) -> Result<puppetdb::Server, OptionError> {
    let example = "--do url=https://puppetdb.acme.net:8081";
    let url = required(options, Method::PuppetDb, "url", example)?;
    let expected =
        "an address such as https://puppetdb.acme.net:8081; plain http only to a loopback address";
    let path = |value: Option<String>| value.map(|path| base.join(path));
    let (ca, cert, key) = (
        path(options.take("ca")),
        path(options.take("cert")),
        path(options.take("key")),
    );
    let pair = match (cert, key) {
        (Some(cert), Some(key)) => Some((cert, key)),
        (None, None) => None,
        (cert, _) => {
            let (name, example) = match cert {
                Some(_) => (
                    "key",
                    "--do key=/etc/puppetlabs/puppet/ssl/private_keys/NAME.pem",
                ),
                None => (
                    "cert",
                    "--do cert=/etc/puppetlabs/puppet/ssl/certs/NAME.pem",
                ),
            };
            return Err(OptionError::Missing {
                method: Method::PuppetDb,
                name,
                example,
            });
        }
    };
    let timeout = timeout(options, Duration::from_secs(30))?;
    puppetdb::Server::new(&url, ca, pair, timeout).ok_or(OptionError::Value {
        name: "url",
        value: url,
        expected,
    })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{Options, Source};
    use crate::discovery::Method;

    fn read(method: Method, pairs: &[&str]) -> Result<Source, String> {
        let mut options = Options::default();
        for pair in pairs {
            options.pair(pair).map_err(|error| error.to_string())?;
        }
        Source::read(method, &options, Path::new("/base")).map_err(|error| error.to_string())
    }

    #[test]
    fn paths_are_relative_to_who_wrote_them() {
        let Ok(Source::Inventory { file }) = read(Method::Inventory, &["file=fleet.yaml"]) else {
            panic!()
        };
        assert_eq!(file, Path::new("/base/fleet.yaml"));
        let external = read(
            Method::External,
            &["command=bin/find  --all", "timeout=0.5", "site=lhr=1"],
        );
        let Ok(Source::External {
            command,
            timeout,
            options,
        }) = external
        else {
            panic!()
        };
        assert_eq!(command, ["/base/bin/find", "--all"]);
        assert_eq!(timeout.as_millis(), 500);
        assert_eq!(options["site"], "lhr=1");
    }

    #[test]
    fn slips_are_told_with_what_there_is() {
        for (method, pairs, expected) in [
            (Method::Flat, &["fiel=x"][..], "needs the option `file`"),
            (
                Method::Flat,
                &["file=x", "fromat=json"],
                "has no option `fromat`; it has file and format",
            ),
            (
                Method::Flat,
                &["file=x", "format=xml"],
                "must be text, json or yaml",
            ),
            (
                Method::Broadcast,
                &["file=x"],
                "broadcast has no option `file`",
            ),
            (Method::Inventory, &["file"], "write it as KEY=VALUE"),
            (
                Method::Inventory,
                &["file=a", "file=b"],
                "`file` is given twice",
            ),
            (
                Method::External,
                &["command= "],
                "needs the option `command`",
            ),
            (
                Method::External,
                &["command=x", "timeout=-1"],
                "`timeout` is \"-1\"",
            ),
            (Method::PuppetDb, &[], "needs the option `url`"),
            (
                Method::PuppetDb,
                &["url=http://puppetdb:8080"],
                "plain http only to a loopback",
            ),
            (
                Method::PuppetDb,
                &["url=https://rip:x@puppetdb:8081"],
                "must be an address",
            ),
            (
                Method::PuppetDb,
                &["url=https://p", "cert=a"],
                "needs the option `key`",
            ),
        ] {
            let refusal = read(method, pairs).unwrap_err();
            assert!(refusal.contains(expected), "{pairs:?}: {refusal}");
        }
    }
}
