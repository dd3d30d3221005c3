//! Flags that limit the number of nodes and divide them into batches.

use std::time::Duration;

use clap::{ArgGroup, Args};
use muster_calls::{CountOrPercent, RolloutLimits};

use crate::flags::seconds::parse_pause;

pub const HELP_HEADING: &str = "Limits and batches";

/// Batches of a rollout, and when it stops. By default, all nodes are in one batch.
#[derive(Debug, Clone, Default, Args)]
pub struct BatchArgs {
    /// Send the request to N nodes at a time; the next batch starts when all of them have ended
    #[arg(long, value_name = "N|N%", value_parser = parse_nonzero_amount, help_heading = HELP_HEADING)]
    pub batch: Option<CountOrPercent>,
    /// Send the request to N nodes first; stop if more of them fail or do not reply than --max-failures allows
    #[arg(long, value_name = "N", value_parser = parse_canary, help_heading = HELP_HEADING)]
    pub canary: Option<u32>,
    /// Stop when more than N nodes, canaries included, failed or did not reply; a percentage is of the canaries first, then of all nodes [default: no canary may fail, then unlimited]
    #[arg(long, value_name = "N|N%", help_heading = HELP_HEADING)]
    pub max_failures: Option<CountOrPercent>,
}

impl BatchArgs {
    /// The limits, without a concurrency limit.
    pub fn limits(&self) -> RolloutLimits {
        let canary = self.canary.unwrap_or(0);
        RolloutLimits {
            concurrency: None,
            canary: usize::try_from(canary).unwrap_or(usize::MAX),
            batch: self.batch,
            max_failures: self.max_failures,
        }
    }
}

/// Number of nodes, and their batches. By default, all nodes at once.
#[derive(Debug, Clone, Default, Args)]
#[command(group = ArgGroup::new("limiting").args(["one", "limit"]))]
#[command(group = ArgGroup::new("rolling").args(["batch", "canary"]).multiple(true))]
#[command(group = ArgGroup::new("stopping").args(["max_failures"]).requires("rolling"))]
pub struct PaceArgs {
    /// Send the request to one node only, the first by name
    #[arg(short = '1', long, help_heading = HELP_HEADING)]
    pub one: bool,
    /// Send the request to N nodes only, the first by name
    #[arg(long, visible_alias = "limit-nodes", alias = "ln", value_name = "N|N%", value_parser = parse_nonzero_amount, help_heading = HELP_HEADING)]
    pub limit: Option<CountOrPercent>,
    /// Select the nodes at random with this seed, not by name
    #[arg(long, value_name = "NUMBER", requires = "limiting", help_heading = HELP_HEADING)]
    pub limit_seed: Option<u64>,
    /// Batches and stop conditions.
    #[command(flatten)]
    pub batches: BatchArgs,
    /// Pause between batches [default: 1, or that of the resumed job]
    #[arg(long, value_name = "SECONDS", value_parser = parse_pause, help_heading = HELP_HEADING)]
    pub batch_sleep: Option<Duration>,
}

/// Pause between batches of a new request.
const DEFAULT_BATCH_SLEEP: Duration = Duration::from_secs(1);

impl PaceArgs {
    pub fn pause(&self) -> Duration {
        self.batch_sleep.unwrap_or(DEFAULT_BATCH_SLEEP)
    }

    /// Number of discovered nodes to use; all when absent.
    pub fn node_limit(&self) -> Option<CountOrPercent> {
        self.one.then_some(CountOrPercent::Count(1)).or(self.limit)
    }
}

fn parse_canary(text: &str) -> Result<u32, String> {
    text.parse().ok().filter(|number| *number > 0).ok_or_else(|| {
        "expected a number of nodes from 1; --batch and --max-failures take percentages, too"
            .to_owned()
    })
}

fn parse_nonzero_amount(text: &str) -> Result<CountOrPercent, String> {
    let amount: CountOrPercent = text.parse().map_err(|error| format!("{error}"))?;
    if amount.is_zero() {
        return Err("this selects no node; use 1 or more".to_owned());
    }
    Ok(amount)
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use muster_calls::{CountOrPercent, RolloutLimits};

    use super::PaceArgs;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        pace: PaceArgs,
    }

    fn read(line: &str) -> Option<PaceArgs> {
        let line = std::iter::once("rpc").chain(line.split_whitespace());
        Line::try_parse_from(line).ok().map(|line| line.pace)
    }

    #[test]
    fn parses_limits_and_batches() {
        let pace =
            read("--limit 10% --limit-seed 7 --batch 5 --canary 2 --max-failures 0").unwrap();
        assert_eq!(pace.node_limit(), Some(CountOrPercent::Percent(10)));
        let rollout = RolloutLimits {
            concurrency: None,
            canary: 2,
            batch: Some(CountOrPercent::Count(5)),
            max_failures: Some(CountOrPercent::Count(0)),
        };
        assert_eq!((pace.batches.limits(), pace.pause().as_secs()), (rollout, 1));
        assert_eq!(read("-1").unwrap().node_limit(), Some(CountOrPercent::Count(1)));
        assert_eq!(read("").unwrap().batches.limits(), RolloutLimits::default());
        let sleepless = read("--batch 2 --batch-sleep 0").unwrap();
        assert!(sleepless.pause().is_zero());
    }

    #[test]
    fn refuses_meaningless_values_and_combinations() {
        for line in [
            "--limit 0",
            "--batch 0%",
            "--canary 0",
            "-1 --limit 2",
            "--limit-seed 3",
            "--max-failures 3",
            "--batch-sleep -1",
        ] {
            assert!(read(line).is_none(), "{line}");
        }
    }
}
