//! Reads sensitive inputs that are given as `-` from the standard input, one line each, without echo: a secret on the command line would be in the
//! shell's history and visible to all users in `ps`.

use std::io::{self, BufRead, IsTerminal as _, Write as _};

use muster_ddl::ActionSchema;
use nix::sys::termios::{LocalFlags, SetArg, tcgetattr, tcsetattr};
use tokio::sync::oneshot;

use super::error::FleetRequestError;

/// Maximum length of a secret in bytes.
const MAX_SECRET_BYTES: u64 = 64 * 1024;

/// Replaces every `-` of a sensitive input with a line of the standard input.
pub async fn read_secrets(
    action: &ActionSchema,
    mut inputs: Vec<(String, String)>,
) -> Result<Vec<(String, String)>, FleetRequestError> {
    for (name, value) in &mut inputs {
        if value == "-" && action.is_sensitive(name) {
            *value = prompt_secret(name).await?;
        }
    }
    Ok(inputs)
}

/// Prompts, and reads on a separate thread, so that an interrupt can restore the terminal's echo.
async fn prompt_secret(name: &str) -> Result<String, FleetRequestError> {
    let failed = |source| FleetRequestError::Secret { input: name.to_owned(), source };
    let interactive = io::stdin().is_terminal();
    let _echo_guard = interactive.then(TerminalEchoGuard::new).transpose().map_err(failed)?;
    if interactive {
        let mut screen = io::stderr();
        let prompt = write!(screen, "{}: ", crate::render::printable::escape_to_line(name));
        prompt.and_then(|()| screen.flush()).map_err(failed)?;
    }
    let (sender, receiver) = oneshot::channel();
    // The thread may block in its read beyond this function; it ends with the process.
    std::thread::spawn(move || drop(sender.send(read_line(&mut io::stdin().lock()))));
    let line = tokio::select! {
        line = receiver => line.unwrap_or_else(|_| Err(io::ErrorKind::UnexpectedEof.into())),
        _ = tokio::signal::ctrl_c() => return Err(FleetRequestError::Interrupted),
    };
    if interactive {
        // The user's newline was not echoed either. A write error will show in later output.
        let _ = writeln!(io::stderr());
    }
    line.map_err(failed)
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
    fn a_line_is_taken_without_its_end_and_leaves_the_next_one() {
        let mut input = "$6$a b \r\nnext\nlast".as_bytes();
        assert_eq!(read_line(&mut input).unwrap(), "$6$a b ");
        assert_eq!(read_line(&mut input).unwrap(), "next");
        assert_eq!(read_line(&mut input).unwrap(), "last");
        assert!(read_line(&mut input).is_err());
    }

    #[test]
    fn an_endless_line_is_refused() {
        let limit = usize::try_from(MAX_SECRET_BYTES).unwrap();
        assert_eq!(read_line(&mut "x".repeat(limit).as_bytes()).unwrap().len(), limit);
        assert!(read_line(&mut "x".repeat(limit + 1).as_bytes()).is_err());
    }
}
