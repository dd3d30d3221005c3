//! The flags that say how many of the found nodes are asked, and how many of them at a time.

use std::time::Duration;

use clap::{ArgGroup, Args};
use muster_client::{Amount, Rollout};

use super::seconds::pause;

const HEADING: &str = "Limits and batches";

/// How many are asked, and how fast; all of them at once when nothing is given.
#[derive(Debug, Clone, Default, Args)]
#[command(group = ArgGroup::new("limiting").args(["one", "limit"]))]
#[command(group = ArgGroup::new("rolling").args(["batch", "canary"]).multiple(true))]
pub struct Pace {
    /// Ask one of the nodes only, the first by name
    #[arg(short = '1', long, help_heading = HEADING)]
    pub one: bool,
    /// Ask so many of the nodes only, the first by name
    #[arg(long, visible_alias = "limit-nodes", alias = "ln", value_name = "N|N%", value_parser = some, help_heading = HEADING)]
    pub limit: Option<Amount>,
    /// Ask those that this number draws instead of the first
    #[arg(long, value_name = "NUMBER", requires = "limiting", help_heading = HEADING)]
    pub limit_seed: Option<u64>,
    /// Ask so many at a time, and wait for them
    #[arg(long, value_name = "N|N%", value_parser = some, help_heading = HEADING)]
    pub batch: Option<Amount>,
    /// Pause between batches
    #[arg(long, value_name = "SECONDS", value_parser = pause, default_value = "1", help_heading = HEADING)]
    pub batch_sleep: Duration,
    /// Ask so many first, and nobody else unless all succeed
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), help_heading = HEADING)]
    pub canary: Option<u32>,
    /// Ask nobody else once more than so many failed or did not answer
    #[arg(long, value_name = "N|N%", requires = "rolling", help_heading = HEADING)]
    pub max_failures: Option<Amount>,
}

impl Pace {
    /// How many of the found nodes are meant; all when absent.
    pub fn limit(&self) -> Option<Amount> {
        self.one.then_some(Amount::Count(1)).or(self.limit)
    }

    /// In which batches they are asked.
    pub fn rollout(&self) -> Rollout {
        let canary = self.canary.unwrap_or(0);
        Rollout {
            canary: usize::try_from(canary).unwrap_or(usize::MAX),
            batch: self.batch,
            max_failures: self.max_failures,
        }
    }
}

/// An amount of at least something.
fn some(text: &str) -> Result<Amount, String> {
    let amount: Amount = text.parse().map_err(|error| format!("{error}"))?;
    if amount.is_nothing() {
        return Err("nobody would be asked; give 1 or more".to_owned());
    }
    Ok(amount)
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use muster_client::{Amount, Rollout};

    use super::Pace;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        pace: Pace,
    }

    fn read(line: &str) -> Option<Pace> {
        let line = std::iter::once("rpc").chain(line.split_whitespace());
        Line::try_parse_from(line).ok().map(|line| line.pace)
    }

    #[test]
    fn limits_and_batches_are_read() {
        let pace =
            read("--limit 10% --limit-seed 7 --batch 5 --canary 2 --max-failures 0").unwrap();
        assert_eq!(pace.limit(), Some(Amount::Percent(10)));
        let rollout = Rollout {
            canary: 2,
            batch: Some(Amount::Count(5)),
            max_failures: Some(Amount::Count(0)),
        };
        assert_eq!((pace.rollout(), pace.batch_sleep.as_secs()), (rollout, 1));
        assert_eq!(read("-1").unwrap().limit(), Some(Amount::Count(1)));
        assert_eq!(read("").unwrap().rollout(), Rollout::default());
        let sleepless = read("--batch 2 --batch-sleep 0").unwrap();
        assert!(sleepless.batch_sleep.is_zero());
    }

    #[test]
    fn what_would_mean_nothing_is_refused() {
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
