//! Reads the values of inputs that are given as `@FILE` or `-`.
//!
//! A sensitive input that is given as `-` is one line of the standard input, without echo at a terminal. Any other is the whole standard input.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use muster_client::InputSource;
use muster_ddl::ActionSchema;
use muster_display::printer::OutputPrinter;
use muster_wire::limits::MAX_REQUEST_BYTES;

use crate::outcome::error::{CommandError, Error};
use crate::outcome::exit::CommandExitCode;
use crate::session::terminal::{is_terminal, prompt_secret, read_on_thread};

#[derive(Debug, thiserror::Error)]
pub enum InputValueError {
    #[error("the value of the input `{0}` is `@` without the name of a file")]
    NoFile(String),
    #[error("cannot read the input `{input}` from {}", describe_path(path))]
    Read {
        input: String,
        /// The file; `-` is the standard input.
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error(
        "the input `{input}` from {} has {size}; a request holds at most {MAX_REQUEST_BYTES} bytes",
        describe_path(path)
    )]
    TooLarge {
        input: String,
        /// The file; `-` is the standard input.
        path: PathBuf,
        /// The size, in words.
        size: String,
    },
    #[error(
        "the input `{input}` from {} is not text: {problem} at byte {offset}; inputs are UTF-8 text",
        describe_path(path)
    )]
    NotText {
        input: String,
        /// The file; `-` is the standard input.
        path: PathBuf,
        /// What the bytes are instead: `a NUL byte`, or bytes that are not UTF-8.
        problem: &'static str,
        /// The position, from 0.
        offset: usize,
    },
    /// There is no standard input, as in a job of cron.
    #[error("cannot read the input `{0}`: the standard input is empty")]
    EmptyStdin(String),
    #[error("cannot read both {first} and `{second}` from the standard input")]
    StdinUsedTwice {
        /// What reads it first, as a phrase.
        first: String,
        /// The input that would read it, too.
        second: String,
    },
}

fn describe_path(path: &Path) -> String {
    if path.as_os_str() == "-" {
        "the standard input".to_owned()
    } else {
        path.display().to_string()
    }
}

impl CommandError for InputValueError {
    fn hints(&self) -> Vec<String> {
        let hint = match self {
            Self::NoFile(input) => format!("write `{input}=@@` for the value `@`"),
            Self::Read { input, path, source } if source.kind() == io::ErrorKind::NotFound => {
                format!("write `{input}=@@{}` for a value that begins with `@`", path.display())
            }
            Self::NotText { .. } => {
                "only an action that decodes base64 can receive other files, for example `key=\"$(base64 -w0 FILE)\"`".to_owned()
            }
            Self::TooLarge { .. } => {
                "copy large files by other means, for example from a package or a web server".to_owned()
            }
            Self::StdinUsedTwice { second, .. } => {
                format!("write one of them to a file, as in `{second}=@FILE`; `{second}='\\-'` is the text `-`")
            }
            Self::EmptyStdin(input) => {
                format!("write `{input}=` for an empty value, or `{input}='\\-'` for the text `-`")
            }
            Self::Read { .. } => return Vec::new(),
        };
        vec![hint]
    }

    fn exit_code(&self) -> CommandExitCode {
        match self {
            Self::NoFile(_) | Self::StdinUsedTwice { .. } => CommandExitCode::Usage,
            _ => CommandExitCode::Local,
        }
    }
}

/// The readers of the standard input besides the inputs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StdinUse {
    Free,
    /// The list of nodes.
    Nodes,
    /// None, and sensitive inputs are not read, because they are not used.
    WithoutSecrets,
}

/// Reads every value that is given as `@FILE` or `-`.
pub async fn read_input_values(
    action: &ActionSchema,
    inputs: Vec<(String, String)>,
    stdin_use: StdinUse,
    printer: &OutputPrinter,
) -> Result<Vec<(String, String)>, Error> {
    let mut sources = Vec::with_capacity(inputs.len());
    for (name, value) in inputs {
        let source =
            InputSource::parse(&value).ok_or_else(|| InputValueError::NoFile(name.clone()))?;
        sources.push((name, source));
    }
    check_stdin_readers(action, &sources, stdin_use)?;
    let mut values = Vec::with_capacity(sources.len());
    for (name, source) in sources {
        let value = match source {
            InputSource::Text(text) => text,
            InputSource::File(path) => {
                let bytes = read_file(&name, &path)?;
                input_text(action, &name, &path, bytes)?
            }
            InputSource::Stdin if is_secret(action, &name) => match stdin_use {
                StdinUse::WithoutSecrets => "-".to_owned(),
                StdinUse::Free | StdinUse::Nodes => prompt_secret(&name).await?,
            },
            InputSource::Stdin => {
                if is_terminal() {
                    let message = format!("reading the input `{name}`; end it with Ctrl-D");
                    printer.print_message(message);
                }
                let path = PathBuf::from("-");
                let bytes = read_on_thread(read_limited).await?;
                let failed = |source| InputValueError::Read {
                    input: name.clone(),
                    path: path.clone(),
                    source,
                };
                let bytes = bytes.map_err(failed)?;
                if bytes.is_empty() {
                    return Err(InputValueError::EmptyStdin(name).into());
                }
                input_text(action, &name, &path, bytes)?
            }
        };
        values.push((name, value));
    }
    Ok(values)
}

/// Whether the value is sensitive; an entry of a hash is as sensitive as an input with its name.
fn is_secret(action: &ActionSchema, name: &str) -> bool {
    action.is_sensitive(name)
        || name
            .split_once('.')
            .is_some_and(|(hash, key)| action.is_sensitive(hash) || action.is_sensitive(key))
}

/// The standard input is either one list of nodes, one input, or any number of secrets, one per line.
fn check_stdin_readers(
    action: &ActionSchema,
    sources: &[(String, InputSource)],
    stdin_use: StdinUse,
) -> Result<(), InputValueError> {
    let readers = sources.iter().filter(|(_, source)| *source == InputSource::Stdin);
    let mut readers = readers.map(|(name, _)| (name, is_secret(action, name)));
    let nodes = (stdin_use == StdinUse::Nodes).then(|| ("the list of nodes".to_owned(), false));
    let Some((first, first_is_secret)) =
        nodes.or_else(|| readers.next().map(|(name, is_secret)| (format!("`{name}`"), is_secret)))
    else {
        return Ok(());
    };
    match readers.find(|(_, is_secret)| !(first_is_secret && *is_secret)) {
        Some((second, _)) => Err(InputValueError::StdinUsedTwice { first, second: second.clone() }),
        None => Ok(()),
    }
}

fn read_file(input: &str, path: &Path) -> Result<Vec<u8>, InputValueError> {
    let failed =
        |source| InputValueError::Read { input: input.to_owned(), path: path.to_owned(), source };
    let mut file = File::open(path).map_err(failed)?;
    let size = file.metadata().map_err(failed)?.len();
    if size > MAX_REQUEST_BYTES as u64 {
        let size = format!("{size} bytes");
        return Err(InputValueError::TooLarge {
            input: input.to_owned(),
            path: path.to_owned(),
            size,
        });
    }
    read_limited(&mut file).map_err(failed)
}

/// Reads one byte more than a request can hold, to recognise more.
fn read_limited(reader: &mut impl Read) -> io::Result<Vec<u8>> {
    muster_files::read_prefix(reader, MAX_REQUEST_BYTES as u64 + 1)
}

fn input_text(
    action: &ActionSchema,
    input: &str,
    path: &Path,
    bytes: Vec<u8>,
) -> Result<String, InputValueError> {
    let (input_name, path_name) = (input.to_owned(), path.to_owned());
    if bytes.len() > MAX_REQUEST_BYTES {
        let size = format!("more than {MAX_REQUEST_BYTES} bytes");
        return Err(InputValueError::TooLarge { input: input_name, path: path_name, size });
    }
    let not_text = |problem, offset| InputValueError::NotText {
        input: input_name.clone(),
        path: path_name.clone(),
        problem,
        offset,
    };
    if let Some(offset) = bytes.iter().position(|byte| *byte == 0) {
        return Err(not_text("NUL", offset));
    }
    let mut text = String::from_utf8(bytes)
        .map_err(|error| not_text("invalid UTF-8", error.utf8_error().valid_up_to()))?;
    if !action.is_whole_text(input) && text.ends_with('\n') {
        text.pop();
        if text.ends_with('\r') {
            text.pop();
        }
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use muster_client::InputSource;
    use muster_ddl::AgentDdl;

    use super::{InputValueError, StdinUse, check_stdin_readers, input_text};

    fn puppetral() -> AgentDdl {
        let document = muster_ddl::builtin_agent("puppetral").unwrap();
        AgentDdl::from_slice(document.as_bytes()).unwrap()
    }

    #[test]
    fn only_whole_texts_keep_their_last_line_end() {
        let ddl = puppetral();
        let action = ddl.find_action("do").unwrap();
        let text = |input: &str, bytes: &[u8]| {
            input_text(action, input, Path::new("file"), bytes.to_vec())
        };
        assert_eq!(text("content", b"a\nb\n").unwrap(), "a\nb\n");
        assert_eq!(text("name", b"rip\n").unwrap(), "rip");
        assert_eq!(text("type", b"user\r\n").unwrap(), "user");
        assert_eq!(text("password", b"$6$x\n").unwrap(), "$6$x");
        assert_eq!(text("groups", b"a\nb\n").unwrap(), "a\nb");
        let error = text("content", b"ab\xff").unwrap_err();
        assert!(matches!(error, InputValueError::NotText { offset: 2, .. }), "{error}");
        assert!(text("content", b"a\0").is_err());
    }

    #[test]
    fn standard_input_is_read_once() {
        let ddl = puppetral();
        let action = ddl.find_action("do").unwrap();
        let check = |names: &[&str], stdin_use| {
            let source = |name: &&str| ((*name).to_owned(), InputSource::Stdin);
            let sources: Vec<_> = names.iter().map(source).collect();
            check_stdin_readers(action, &sources, stdin_use).is_ok()
        };
        assert!(check(&["content"], StdinUse::Free) && check(&[], StdinUse::Nodes));
        assert!(check(&["password", "params.password"], StdinUse::Free));
        assert!(!check(&["content", "comment"], StdinUse::Free));
        assert!(!check(&["password", "content"], StdinUse::Free));
        assert!(!check(&["password"], StdinUse::Nodes) && !check(&["content"], StdinUse::Nodes));
    }
}
