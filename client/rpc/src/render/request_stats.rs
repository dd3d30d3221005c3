//! Renders counts and times of a request for verbose output.

use muster_base::format_utc;
use muster_request::RequestStats;

use super::duration::format_duration;
use super::page::TextPage;

/// Renders the block, titles aligned at their colons.
pub fn render_request_stats(stats: &RequestStats) -> String {
    let rejected = stats.rejected.iter().map(|(reason, count)| format!("{count} ({reason})"));
    let rejected: Vec<String> = rejected.collect();
    let rows = [
        (
            "Request",
            match stats.requests.as_slice() {
                [] => "none sent".to_owned(),
                [request] => request.clone(),
                [first, others @ ..] => format!("{first} and {} more", others.len()),
            },
        ),
        ("Nodes", stats.discovered.to_string()),
        ("Pass / Fail", format!("{} / {}", stats.ok, stats.failed)),
        (
            "No Responses",
            format!("{} ({} not connected)", stats.missing.len(), stats.not_connected.len()),
        ),
        ("Not Sent", stats.not_asked.len().to_string()),
        ("Unexpected Responses", stats.unexpected.len().to_string()),
        (
            "Invalid Responses",
            if rejected.is_empty() { "0".to_owned() } else { rejected.join(", ") },
        ),
        ("Start Time", format_utc(stats.started / 1000)),
        ("Discovery Time", format_duration(stats.discovering)),
        ("Publish Time", format_duration(stats.publishing)),
        ("Agent Time", format_duration(stats.waiting)),
        ("Total Time", format_duration(stats.discovering + stats.call_duration())),
    ];
    let mut page = TextPage::default();
    page.push_line("---- request stats ----");
    for (title, value) in rows {
        page.push_line(format_args!("{title:>24}: {value}"));
    }
    page.into_text()
}
