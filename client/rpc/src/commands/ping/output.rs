//! Renders the replies to a ping and their times.

use std::fmt;
use std::time::Duration;

use muster_base::format_millis;
use muster_client::NodeTrace;
use muster_display::duration::format_milliseconds;
use muster_display::page::{pad_node_name, pad_start};
use muster_display::printer::WARNING;
use muster_display::{TextPage, count_text, node_count_text};
use muster_wire::identity::Identity;
use serde::Serialize;

/// Clock differences below this are not reported, in milliseconds.
const NOTABLE_SKEW_MS: i64 = 1000;

#[derive(Debug, Clone, PartialEq)]
pub struct PingReply {
    pub node: Identity,
    /// Time from the request to the reply.
    pub after: Duration,
    /// The node's clock minus the local clock, in milliseconds; 0 if the round trip time explains the difference.
    pub skew: i64,
}

/// A node that replied that its policy denies the ping.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct PingDenial {
    /// The sender.
    #[serde(rename = "sender")]
    pub node: Identity,
    /// The rule of its policy, or the file that has an error.
    pub rule: String,
}

impl fmt::Display for PingDenial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} denies the ping: {}", self.node, self.rule)
    }
}

impl PingReply {
    /// Renders the line of this reply; verbose output shows every clock, otherwise only wrong ones are shown.
    pub fn render_line(&self, verbose: bool) -> String {
        let time = format!("time={}", format_milliseconds(self.after));
        let line = format!("{} {}", pad_node_name(self.node.as_str()), pad_start(&time, 16));
        if self.skew.unsigned_abs() < NOTABLE_SKEW_MS.unsigned_abs() {
            return if verbose { format!("{line}  clock {:+} ms", self.skew) } else { line };
        }
        let direction = if self.skew > 0 { "ahead" } else { "behind" };
        let skew = format_millis(self.skew.unsigned_abs());
        format!("{line}  {WARNING}clock {skew} {direction}{WARNING:#}")
    }
}

pub fn render_ping_statistics(pongs: &[PingReply]) -> String {
    let replies = count_text(pongs.len(), "reply", "replies");
    let heading = format!("\n---- ping statistics ----\n{replies}");
    let Some(times) = reply_times(pongs) else {
        return heading;
    };
    let [max, min, avg] = times.map(format_milliseconds);
    format!("{heading} max: {max} min: {min} avg: {avg}")
}

/// Minimum width of a bar of the graph, in milliseconds.
const MIN_BUCKET_MS: u128 = 50;
/// Bars by height; an empty bar is a space.
const BAR_HEIGHTS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// Renders the distribution of reply times as a line of bars that fits the width; `None` without replies. Each bar covers 50 ms, or a multiple of it
/// if there would be too many bars.
pub fn render_ping_graph(pongs: &[PingReply], width: usize) -> Option<String> {
    let [max, ..] = reply_times(pongs)?;
    let last = max.as_millis();
    let max_bars = u128::try_from(width).unwrap_or(u128::MAX).max(1);
    let bucket = MIN_BUCKET_MS * (last / MIN_BUCKET_MS + 1).div_ceil(max_bars);
    let mut counts = vec![0_usize; usize::try_from(last / bucket).ok()? + 1];
    for pong in pongs {
        let at = usize::try_from(pong.after.as_millis() / bucket).ok()?;
        *counts.get_mut(at)? += 1;
    }
    let max_count = counts.iter().copied().max()?;
    let bar = |count: &usize| match (count * BAR_HEIGHTS.len()).div_ceil(max_count) {
        0 => ' ',
        height => BAR_HEIGHTS.get(height - 1).copied().unwrap_or(' '),
    };
    let bars: String = counts.iter().map(bar).collect();
    let mut page = TextPage::default();
    page.push_line(bars);
    let (nodes, end) = (node_count_text(max_count), bucket * counts.len() as u128);
    page.push_text(format_args!("{bucket} ms per bar, 0 to {end} ms; the highest bar is {nodes}"));
    Some(page.into_text())
}

/// Maximum, minimum and mean of the reply times.
fn reply_times(pongs: &[PingReply]) -> Option<[Duration; 3]> {
    let times = || pongs.iter().map(|pong| pong.after);
    let count = u32::try_from(pongs.len()).ok()?;
    Some([times().max()?, times().min()?, times().sum::<Duration>().checked_div(count)?])
}

/// The document for programs.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct PingDocument<'a> {
    schema: &'static str,
    replies: Vec<PingReplyDocument<'a>>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    denied: &'a [PingDenial],
    statistics_ms: Option<PingStatistics>,
    incomplete: bool,
}

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct PingReplyDocument<'a> {
    sender: Identity,
    time_ms: f64,
    clock_skew_ms: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    trace: Option<&'a NodeTrace>,
}

/// In milliseconds.
#[derive(Debug, Serialize, schemars::JsonSchema)]
struct PingStatistics {
    max: f64,
    min: f64,
    avg: f64,
}

impl<'a> PingDocument<'a> {
    /// Creates the document of these replies; `incomplete` when some may have been lost.
    pub fn new(
        pongs: &[PingReply],
        denied: &'a [PingDenial],
        incomplete: bool,
        traces: &'a [(Identity, NodeTrace)],
    ) -> Self {
        let ms = |time: Duration| (time.as_secs_f64() * 1e6).round() / 1e3;
        let reply = |pong: &PingReply| {
            let trace = traces.iter().find(|(node, _)| *node == pong.node);
            PingReplyDocument {
                sender: pong.node.clone(),
                time_ms: ms(pong.after),
                clock_skew_ms: pong.skew,
                trace: trace.map(|(_, trace)| trace),
            }
        };
        let statistics_ms = reply_times(pongs).map(|times| {
            let [max, min, avg] = times.map(ms);
            PingStatistics { max, min, avg }
        });
        Self {
            schema: "muster.ping.v1",
            replies: pongs.iter().map(reply).collect(),
            denied,
            statistics_ms,
            incomplete,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{PingDocument, PingReply, render_ping_graph, render_ping_statistics};

    fn pong(name: &str, micros: u64, skew: i64) -> PingReply {
        PingReply { node: name.parse().unwrap(), after: Duration::from_micros(micros), skew }
    }

    #[test]
    fn lines_are_aligned_and_show_clock_skew() {
        let pongs = [
            pong("dev8", 126_190, 0),
            pong("dev6", 1_132_790, 999),
            pong("dev10", 133_570, 3_500),
            pong("dev11", 133_570, -7_199_866),
        ];
        let text: Vec<String> = pongs.iter().map(|pong| pong.render_line(false)).collect();
        let text = text.join("\n") + "\n" + &render_ping_statistics(&pongs);
        insta::assert_snapshot!(anstream::adapter::strip_str(&text).to_string(), @r"
        dev8                                       time=126.19 ms
        dev6                                      time=1132.79 ms
        dev10                                      time=133.57 ms  clock 3.50 s ahead
        dev11                                      time=133.57 ms  clock 2 h 00 m behind

        ---- ping statistics ----
        4 replies max: 1132.79 ms min: 126.19 ms avg: 381.53 ms
        ");
    }

    #[test]
    fn verbose_lines_show_every_clock() {
        let line = pong("dev6", 1_000, 999).render_line(true);
        assert!(line.ends_with("clock +999 ms"), "{line}");
        let line = pong("dev6", 1_000, 0).render_line(true);
        assert!(line.ends_with("clock +0 ms"), "{line}");
    }

    #[test]
    fn graph_fits_the_width() {
        let pongs: Vec<PingReply> = [1, 2, 3, 4, 60, 61, 260]
            .map(|milliseconds| pong("a", milliseconds * 1000, 0))
            .to_vec();
        assert_eq!(
            render_ping_graph(&pongs, 80).unwrap(),
            "█▄   ▂\n50 ms per bar, 0 to 300 ms; the highest bar is 4 nodes"
        );
        assert_eq!(
            render_ping_graph(&pongs, 4).unwrap(),
            "█ ▂\n100 ms per bar, 0 to 300 ms; the highest bar is 6 nodes"
        );
        assert_eq!(render_ping_graph(&[], 80), None);
    }

    #[test]
    fn statistics_without_replies_have_no_average() {
        assert_eq!(render_ping_statistics(&[]), "\n---- ping statistics ----\n0 replies");
        let document = serde_json::to_value(PingDocument::new(&[], &[], true, &[])).unwrap();
        assert!(document["statistics_ms"].is_null());
        assert_eq!(document["incomplete"], true);
    }
}
