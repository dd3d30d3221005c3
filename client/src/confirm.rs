//! Confirmation of changes to many nodes: decides whether to prompt or refuse. Pure; programs prompt.

use serde::{Deserialize, Serialize};

/// Confirmation mode of the configuration.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ConfirmMode {
    /// Prompt at a terminal if more nodes than the threshold are changed.
    #[default]
    Auto,
    /// Prompt before every change; without a terminal only `--yes` allows it.
    Always,
    /// Never prompt.
    Never,
}

/// Input of the decision.
#[derive(Debug, Clone, Copy)]
pub struct ConfirmContext {
    /// The action is read-only.
    pub read_only: bool,
    /// Number of target nodes.
    pub nodes: usize,
    /// The user passed `--yes`.
    pub yes: bool,
    /// There is an interactive terminal.
    pub terminal: bool,
}

/// The decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConfirmDecision {
    /// Proceed without a prompt.
    Go,
    /// Prompt first.
    Ask,
    /// Refuse: confirmation is required, and there is no terminal.
    Refuse,
}

impl ConfirmMode {
    /// Decides whether to prompt. Never prompts without a terminal.
    pub fn decide(self, threshold: usize, context: ConfirmContext) -> ConfirmDecision {
        let ConfirmContext { read_only, nodes, yes, terminal } = context;
        if read_only || yes || nodes == 0 {
            return ConfirmDecision::Go;
        }
        match (self, terminal) {
            (Self::Always, false) => ConfirmDecision::Refuse,
            (Self::Always, true) => ConfirmDecision::Ask,
            (Self::Auto, true) if nodes > threshold => ConfirmDecision::Ask,
            (Self::Auto | Self::Never, _) => ConfirmDecision::Go,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{ConfirmContext, ConfirmDecision, ConfirmMode};

    #[test]
    fn confirmation_depends_on_mode_nodes_and_terminal() {
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
            let occasion = ConfirmContext { read_only, nodes, yes, terminal };
            assert_eq!(when.decide(25, occasion), first, "{when:?} {occasion:?}");
        }
    }
}
