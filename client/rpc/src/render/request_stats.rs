//! Counts and times of a request for people who asked for details.

use super::page::Page;
use super::span::span;
use crate::clock;
use crate::report::RequestStats;

/// The block, titles aligned at their colons.
pub fn request_stats(stats: &RequestStats) -> String {
    let disbelieved = stats
        .disbelieved
        .iter()
        .map(|(word, count)| format!("{count} ({word})"));
    let disbelieved: Vec<String> = disbelieved.collect();
    let rows = [
        (
            "Request",
            match stats.requests.as_slice() {
                [] => "none was sent".to_owned(),
                [request] => request.clone(),
                [first, others @ ..] => format!("{first} and {} more", others.len()),
            },
        ),
        ("Nodes", stats.discovered.to_string()),
        ("Pass / Fail", format!("{} / {}", stats.ok, stats.failed)),
        (
            "No Responses",
            format!(
                "{} ({} not connected)",
                stats.missing.len(),
                stats.not_connected.len()
            ),
        ),
        ("Not Asked", stats.not_asked.len().to_string()),
        ("Unexpected Responses", stats.unexpected.len().to_string()),
        (
            "Disbelieved Responses",
            if disbelieved.is_empty() {
                "0".to_owned()
            } else {
                disbelieved.join(", ")
            },
        ),
        ("Start Time", clock::written(stats.started / 1000)),
        ("Discovery Time", span(stats.discovering)),
        ("Publish Time", span(stats.publishing)),
        ("Agent Time", span(stats.waiting)),
        ("Total Time", span(stats.discovering + stats.calling())),
    ];
    let mut page = Page::default();
    page.line("---- request stats ----");
    for (title, value) in rows {
        page.line(format_args!("{title:>24}: {value}"));
    }
    page.text()
}
