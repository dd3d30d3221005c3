//! A scripted interactive program.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::FakeSystem;
use crate::command::CancelFlag;
use crate::interactive::InteractiveProcess;
use crate::{Command, SystemError, SystemResult};

/// Handler for one line of a scripted program; `None` ends the program.
pub(super) type FakeLineHandler = Arc<dyn Fn(&FakeSystem, &str) -> Option<String> + Send + Sync>;

/// A conversation with a scripted program.
pub(super) struct FakeInteractiveProcess {
    system: FakeSystem,
    handler: FakeLineHandler,
    lines: VecDeque<String>,
    is_over: bool,
    program: String,
}

impl FakeInteractiveProcess {
    pub(super) fn new(system: &FakeSystem, handler: FakeLineHandler, command: &Command) -> Self {
        Self {
            system: system.clone(),
            handler,
            lines: VecDeque::new(),
            is_over: false,
            program: command.program_name().to_owned(),
        }
    }
}

impl fmt::Debug for FakeInteractiveProcess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FakeTalk").field("program", &self.program).finish_non_exhaustive()
    }
}

impl InteractiveProcess for FakeInteractiveProcess {
    fn send_line(&mut self, line: &str) -> SystemResult<()> {
        if self.is_over {
            return Ok(());
        }
        match (self.handler)(&self.system, line) {
            Some(reply) => self.lines.push_back(reply),
            None => self.is_over = true,
        }
        Ok(())
    }

    /// If no line is queued and the program has not ended, it would never reply.
    fn receive_line(
        &mut self,
        timeout: Duration,
        cancel: &CancelFlag,
    ) -> SystemResult<Option<String>> {
        let program = || self.program.clone();
        if cancel.is_cancelled() {
            return Err(SystemError::Cancelled { program: program() });
        }
        match self.lines.pop_front() {
            Some(line) => Ok(Some(line)),
            None if self.is_over => Ok(None),
            None => Err(SystemError::Timeout { program: program(), after: timeout }),
        }
    }

    fn stderr_tail(&self) -> String {
        String::new()
    }
}
