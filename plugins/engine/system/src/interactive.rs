//! Line-based interaction with a resident program. The caller defines the meaning of the lines.

use std::fmt;
use std::time::Duration;

use crate::SystemResult;
use crate::command::CancelFlag;

/// An interactive program. Its process group is killed on drop.
pub trait InteractiveProcess: fmt::Debug + Send {
    /// Sends a line and adds the line end. Does not wait for the program to read it.
    fn send_line(&mut self, line: &str) -> SystemResult<()>;

    /// The next output line without its line end; `None` at end of output, once standard error has been collected. Waits
    /// at most `timeout`. After an error the state of the program is unknown, so drop it.
    fn receive_line(
        &mut self,
        timeout: Duration,
        cancel: &CancelFlag,
    ) -> SystemResult<Option<String>>;

    /// Last part of its standard error, for messages about its end.
    fn stderr_tail(&self) -> String;
}
