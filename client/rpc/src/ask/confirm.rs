//! Whether many nodes are changed without a further word: who is asked, who is refused, and the asking itself.

use std::io::{self, BufRead as _, IsTerminal as _, Read as _};

use tokio::sync::oneshot;

use super::error::FleetRequestError;
use crate::printer::OutputPrinter;

/// Longest answer that is read, in bytes.
const MAX_ANSWER_BYTES: u64 = 256;

/// When to ask, as the configuration says.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ConfirmMode {
    /// At a terminal, before more than so many nodes are changed.
    #[default]
    Auto,
    /// Before anything is changed; without a terminal only `--yes` lets it pass.
    Always,
    /// Never.
    Never,
}

/// What is known before nodes are asked.
#[derive(Debug, Clone, Copy)]
pub struct ConfirmContext {
    /// The action leaves nodes as they were.
    pub read_only: bool,
    /// How many nodes are meant.
    pub nodes: usize,
    /// The user said so beforehand.
    pub yes: bool,
    /// There is somebody to ask.
    pub terminal: bool,
}

/// What to do first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConfirmDecision {
    /// Nothing.
    Go,
    /// Ask.
    Ask,
    /// Refuse: it must be confirmed, and there is nobody to ask.
    Refuse,
}

impl ConfirmMode {
    /// Decides. Nobody is ever waited for who is not there.
    pub fn decide(self, above: usize, occasion: ConfirmContext) -> ConfirmDecision {
        let ConfirmContext {
            read_only,
            nodes,
            yes,
            terminal,
        } = occasion;
        if read_only || yes || nodes == 0 {
            return ConfirmDecision::Go;
        }
        match (self, terminal) {
            (Self::Always, false) => ConfirmDecision::Refuse,
            (Self::Always, true) => ConfirmDecision::Ask,
            (Self::Auto, true) if nodes > above => ConfirmDecision::Ask,
            (Self::Auto | Self::Never, _) => ConfirmDecision::Go,
        }
    }
}

/// Whether there is somebody who sees a question and can answer it.
pub fn is_terminal() -> bool {
    io::stdin().is_terminal() && io::stderr().is_terminal()
}

/// Asks at the terminal. Everything but a clear yes is a no.
pub async fn ask_confirmation(
    question: &str,
    printer: &OutputPrinter,
) -> Result<bool, FleetRequestError> {
    printer.print_question(question);
    let (sender, receiver) = oneshot::channel();
    // The thread may outlive us in its read; it ends with the process.
    std::thread::spawn(move || {
        let mut line = String::new();
        let read = io::stdin()
            .lock()
            .take(MAX_ANSWER_BYTES)
            .read_line(&mut line);
        drop(sender.send(read.map(|_| line)));
    });
    tokio::select! {
        line = receiver => Ok(matches!(line, Ok(Ok(line)) if matches!(line.trim(), "y" | "Y" | "yes"))),
        _ = tokio::signal::ctrl_c() => Err(FleetRequestError::Interrupted),
    }
}

#[cfg(test)]
mod tests {
    use super::{ConfirmContext, ConfirmDecision, ConfirmMode};

    #[test]
    fn who_is_asked_and_who_is_not() {
        use ConfirmDecision::{Ask, Go, Refuse};
        use ConfirmMode::{Always, Auto, Never};
        let table = [
            // when, nodes, read only, yes, terminal
            (Auto, 25, false, false, true, Go),
            (Auto, 26, false, false, true, Ask),
            (Auto, 26, false, false, false, Go),
            (Auto, 26, true, false, true, Go),
            (Auto, 26, false, true, true, Go),
            (Always, 1, false, false, true, Ask),
            (Always, 1, false, false, false, Refuse),
            (Always, 1, false, true, false, Go),
            (Always, 1, true, false, false, Go),
            (Always, 0, false, false, false, Go),
            (Never, 1000, false, false, true, Go),
        ];
        for (when, nodes, read_only, yes, terminal, first) in table {
            let occasion = ConfirmContext {
                read_only,
                nodes,
                yes,
                terminal,
            };
            assert_eq!(when.decide(25, occasion), first, "{when:?} {occasion:?}");
        }
    }
}
