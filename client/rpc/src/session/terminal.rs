//! Questions at the terminal: confirmations and secrets.
//!
//! A sensitive input is read from the standard input, one line each, without echo: a secret on the command line would be in the shell's history and
//! visible to all users in `ps`.

use std::io::{self, BufRead, IsTerminal as _, Write as _};

use muster_client::{FleetRequestError, wait_for_ctrl_c};
use muster_display::printable::escape_to_line;
use muster_display::printer::OutputPrinter;
use nix::sys::termios::{LocalFlags, SetArg, tcgetattr, tcsetattr};
use tokio::sync::oneshot;

use crate::outcome::error::{CommandError, Error};
use crate::outcome::exit::CommandExitCode;

const MAX_ANSWER_BYTES: u64 = 256;
const MAX_SECRET_BYTES: u64 = 64 * 1024;

/// Why a question was not answered, or cannot be asked.
#[derive(Debug, thiserror::Error)]
pub enum PromptError {
    #[error("not confirmed; nothing was sent")]
    Declined,
    #[error(
        "the configuration requires confirmation of changes (`confirm = \"always\"`), and there is no terminal; nothing was sent"
    )]
    Unconfirmed,
    #[error("the approval needs confirmation: use a terminal, or pass `--yes`")]
    UnconfirmedApproval,
    /// Work that holds permits would be stopped, and there is no terminal to confirm it.
    #[error(
        "{} {} a permit of {pool} for a run in progress, which the release would stop; there is no terminal for the confirmation, and nothing was sent",
        nodes.join(", "), if nodes.len() == 1 { "holds" } else { "hold" }
    )]
    LiveHolders { pool: String, nodes: Vec<String> },
    #[error("the two passphrases differ; nothing was written")]
    PassphrasesDiffer,
    #[error("cannot read the input `{0}` from the standard input")]
    Secret(String, #[source] io::Error),
}

impl CommandError for PromptError {
    fn hints(&self) -> Vec<String> {
        match self {
            Self::Unconfirmed | Self::LiveHolders { .. } => {
                vec!["pass `--yes` to confirm in advance".to_owned()]
            }
            _ => Vec::new(),
        }
    }

    fn exit_code(&self) -> CommandExitCode {
        match self {
            Self::Unconfirmed | Self::LiveHolders { .. } => CommandExitCode::Usage,
            _ => CommandExitCode::Local,
        }
    }
}

/// Whether the terminal is interactive: prompts are visible and can be answered.
pub fn is_terminal() -> bool {
    io::stdin().is_terminal() && io::stderr().is_terminal()
}

/// Only an explicit yes counts as consent.
pub async fn ask_confirmation(question: &str, printer: &OutputPrinter) -> Result<bool, Error> {
    printer.print_question(question);
    let answer = read_on_thread(|input| {
        let mut line = String::new();
        io::Read::take(input, MAX_ANSWER_BYTES).read_line(&mut line).map(|_| line)
    });
    Ok(answer.await?.is_ok_and(|line| matches!(line.trim(), "y" | "Y" | "yes")))
}

/// Prompts for the value of a sensitive input. The terminal's echo is restored after an interrupt, too.
pub async fn prompt_secret(name: &str) -> Result<String, Error> {
    let failed = |source| PromptError::Secret(name.to_owned(), source);
    let interactive = io::stdin().is_terminal();
    let _echo_guard = interactive.then(TerminalEchoGuard::new).transpose().map_err(failed)?;
    if interactive {
        let mut screen = io::stderr();
        let prompt = write!(screen, "{}: ", escape_to_line(name));
        prompt.and_then(|()| screen.flush()).map_err(failed)?;
    }
    let line = read_on_thread(read_line).await?;
    if interactive {
        // The user's newline was not echoed either. A write error will show in later output.
        let _ = writeln!(io::stderr());
    }
    Ok(line.map_err(failed)?)
}

/// Reads the standard input on a separate thread, so that an interrupt can end the wait.
pub async fn read_on_thread<T: Send + 'static>(
    read: impl FnOnce(&mut io::StdinLock<'static>) -> io::Result<T> + Send + 'static,
) -> Result<io::Result<T>, FleetRequestError> {
    let (sender, receiver) = oneshot::channel();
    // The thread may block in its read beyond this function; it ends with the process.
    std::thread::spawn(move || drop(sender.send(read(&mut io::stdin().lock()))));
    tokio::select! {
        read = receiver => Ok(read.unwrap_or_else(|_| Err(io::ErrorKind::UnexpectedEof.into()))),
        () = wait_for_ctrl_c() => Err(FleetRequestError::Interrupted),
    }
}

/// Reads one line without its line end.
fn read_line(input: &mut impl BufRead) -> io::Result<String> {
    let mut line = String::new();
    if io::Read::take(input, MAX_SECRET_BYTES + 1).read_line(&mut line)? == 0 {
        return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "unexpected end of input"));
    }
    if line.len() as u64 > MAX_SECRET_BYTES {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            format!("the line is longer than {MAX_SECRET_BYTES} bytes"),
        ));
    }
    let line = line.strip_suffix('\n').unwrap_or(&line);
    Ok(line.strip_suffix('\r').unwrap_or(line).to_owned())
}

/// Disables the terminal's echo until dropped.
struct TerminalEchoGuard(nix::sys::termios::Termios);

impl TerminalEchoGuard {
    fn new() -> io::Result<Self> {
        let original = tcgetattr(io::stdin())?;
        let mut without_echo = original.clone();
        without_echo.local_flags.remove(LocalFlags::ECHO);
        tcsetattr(io::stdin(), SetArg::TCSAFLUSH, &without_echo)?;
        Ok(Self(original))
    }
}

impl Drop for TerminalEchoGuard {
    fn drop(&mut self) {
        // The error is ignored: a closed terminal needs no echo.
        let _ = tcsetattr(io::stdin(), SetArg::TCSANOW, &self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::{MAX_SECRET_BYTES, read_line};

    #[test]
    fn line_is_read_without_its_end_and_without_the_next_line() {
        let mut input = "$6$a b \r\nnext\nlast".as_bytes();
        assert_eq!(read_line(&mut input).unwrap(), "$6$a b ");
        assert_eq!(read_line(&mut input).unwrap(), "next");
        assert_eq!(read_line(&mut input).unwrap(), "last");
        assert!(read_line(&mut input).is_err());
    }

    #[test]
    fn overlong_line_is_refused() {
        let limit = usize::try_from(MAX_SECRET_BYTES).unwrap();
        assert_eq!(read_line(&mut "x".repeat(limit).as_bytes()).unwrap().len(), limit);
        assert!(read_line(&mut "x".repeat(limit + 1).as_bytes()).is_err());
    }
}
