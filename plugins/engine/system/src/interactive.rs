//! A program that stays and is talked to: a line in, a line out. What the lines mean is the caller's business.

use std::fmt;
use std::time::Duration;

use crate::SystemError;
use crate::command::CancelFlag;

/// A program that was started to be talked to. It is killed, with all of its process group, when this is dropped.
pub trait InteractiveProcess: fmt::Debug + Send {
    /// Sends a line; its end is added. Does not wait until the program reads it.
    fn send_line(&mut self, line: &str) -> Result<(), SystemError>;

    /// The next line that it prints, without its end; `None` when it will print no more, and its complaints are in. Waits
    /// `within` at most: whoever gets an error here knows nothing of what the program still does, and should drop it.
    fn receive_line(
        &mut self,
        within: Duration,
        cancel: &CancelFlag,
    ) -> Result<Option<String>, SystemError>;

    /// The last that it wrote on standard error, for messages about its end.
    fn stderr_tail(&self) -> String;
}
