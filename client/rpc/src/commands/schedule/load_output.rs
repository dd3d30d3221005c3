//! Renders the expected load of a schedule as a plot, and a simulated day.

use muster_contract::schedule::{ScheduleLoadRow, ScheduleStartRow};
use muster_display::screen::Screen;
use muster_display::time::format_time_millis;
use muster_display::{TextPage, count_text};
use muster_schedule::{LoadBin, ScheduleSimulation, SeatList, load_curve};
use muster_wire::Millis;
use serde::Serialize;

/// Height of the plot in lines.
const PLOT_HEIGHT: u32 = 8;
/// Columns left of the plot, for the numbers.
const LABEL_WIDTH: usize = 8;
const MAX_DOCUMENT_STARTS: usize = 10_000;
/// Most starts in the text.
const MAX_LISTED_STARTS: usize = 20;
/// Parts of the simulated time.
const LOAD_PARTS: usize = 72;

/// The document of a simulation.
#[derive(Debug, Serialize, schemars::JsonSchema)]
pub struct SimulationDocument {
    schema: &'static str,
    /// Begin, in milliseconds since the epoch.
    from: Millis,
    /// End; earlier than a day if there are too many starts.
    until: Millis,
    /// Number of nodes.
    nodes: usize,
    /// Number of starts.
    total: usize,
    /// Turns of nodes that could not start in time.
    missed: usize,
    /// Turns of nodes that still ran.
    still_running: usize,
    /// Most runs at once.
    peak: usize,
    /// The first starts.
    starts: Vec<ScheduleStartRow>,
    /// Expected number of runs in progress.
    load: Vec<ScheduleLoadRow>,
}

impl SimulationDocument {
    pub fn new(simulation: &ScheduleSimulation, seats: &SeatList, from: Millis) -> Self {
        let names: Vec<String> = seats.iter().map(|(_, seat)| seat.node.to_string()).collect();
        let starts = simulation.runs.iter().take(MAX_DOCUMENT_STARTS).filter_map(|run| {
            let node = names.get(usize::try_from(run.seat).ok()?)?.as_str().into();
            Some(ScheduleStartRow { node, at: run.at })
        });
        let curve = load_curve(&simulation.runs, from, simulation.until, LOAD_PARTS);
        let row = |bin: LoadBin| ScheduleLoadRow { at: bin.from, running: bin.running };
        Self {
            schema: "muster.schedule.simulation.v1",
            from,
            until: simulation.until,
            nodes: seats.len(),
            total: simulation.runs.len(),
            missed: simulation.missed,
            still_running: simulation.still_running,
            peak: simulation.peak,
            starts: starts.collect(),
            load: curve.into_iter().map(row).collect(),
        }
    }
}

/// Renders the numbers, the first starts and the load.
pub fn render_simulation(document: &SimulationDocument, screen: Screen) -> String {
    let SimulationDocument { total, nodes, missed, still_running, peak, .. } = document;
    let mut page = TextPage::default();
    let starts = count_text(*total, "start", "starts");
    let nodes = count_text(*nodes, "node", "nodes");
    let until = format_time_millis(document.until);
    page.push_line(format_args!("{starts} on {nodes} until {until}, at most {peak} at once"));
    if *missed > 0 {
        let turns = count_text(*missed, "turn", "turns");
        page.push_line(format_args!("{turns} missed: the limit was reached until the last start"));
    }
    if *still_running > 0 {
        let turns = count_text(*still_running, "turn", "turns");
        page.push_line(format_args!("{turns} skipped: the node still runs"));
    }
    page.push_gap();
    for start in document.starts.iter().take(MAX_LISTED_STARTS) {
        page.push_line(format_args!("{}  {}", format_time_millis(start.at), start.node.line()));
    }
    if *total > MAX_LISTED_STARTS {
        page.push_line(format_args!("and {} more", total - MAX_LISTED_STARTS));
    }
    page.push_text(render_load(&document.load, screen));
    page.into_text()
}

/// Plots the average number of runs in progress: time from left to right.
pub fn render_load(load: &[ScheduleLoadRow], screen: Screen) -> String {
    let (Some(first), Some(last)) = (load.first(), load.last()) else {
        return String::new();
    };
    let columns = screen.width.saturating_sub(LABEL_WIDTH + 2).clamp(1, load.len());
    let levels = resample(load, columns);
    let peak = levels.iter().copied().fold(0.0, f64::max);
    let mut page = TextPage::default();
    page.push_gap();
    page.push_line("");
    page.push_line("Expected runs in progress:");
    for height in (1..=PLOT_HEIGHT).rev() {
        let label = match height {
            PLOT_HEIGHT if peak > 0.0 && peak < 0.1 => format!("{peak:.3}"),
            PLOT_HEIGHT => format!("{peak:.1}"),
            _ => String::new(),
        };
        let bars: String = levels
            .iter()
            .map(|level| if is_filled(*level, peak, height) { '#' } else { ' ' })
            .collect();
        page.push_line(format_args!("{label:>LABEL_WIDTH$} |{bars}"));
    }
    page.push_line(format_args!("{:>LABEL_WIDTH$} +{}", "0", "-".repeat(columns)));
    // Each row is the begin of a part, and all parts are equally long.
    let part = load.get(1).map_or(0, |second| second.at.saturating_sub(first.at));
    let end = last.at.saturating_add(part);
    let (begin, end) = (format_time_millis(first.at), format_time_millis(end));
    page.push_line(format_args!("{:LABEL_WIDTH$}  from {begin} to {end}", ""));
    page.into_text()
}

/// Whether a column reaches a line of the plot. A load above zero always reaches the lowest line.
fn is_filled(level: f64, peak: f64, height: u32) -> bool {
    match height {
        1 => level > 0.0,
        _ => level > 0.0 && level * f64::from(PLOT_HEIGHT) >= peak * (f64::from(height) - 0.5),
    }
}

/// The highest load of each of `columns` parts.
fn resample(load: &[ScheduleLoadRow], columns: usize) -> Vec<f64> {
    let mut levels = vec![0.0_f64; columns];
    for (index, row) in load.iter().enumerate() {
        if let Some(level) = levels.get_mut(index * columns / load.len()) {
            *level = level.max(row.running);
        }
    }
    levels
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use muster_contract::schedule::ScheduleLoadRow;
    use muster_display::screen::Screen;
    use muster_schedule::{ScheduleSpec, SeatList, SimulationInput, simulate_schedule};
    use muster_wire::identity::Identity;

    use super::{SimulationDocument, render_load, render_simulation};

    const HOUR: u64 = 3_600_000;

    fn rows(running: &[f64]) -> Vec<ScheduleLoadRow> {
        let row =
            |(index, running): (u64, &f64)| ScheduleLoadRow { at: index * HOUR, running: *running };
        (0..).zip(running).map(row).collect()
    }

    #[test]
    fn plot_is_as_high_as_its_peak_and_as_wide_as_the_screen() {
        let text = render_load(&rows(&[0.0, 4.0, 2.0, 0.1]), Screen::default());
        assert_eq!(
            text,
            "\nExpected runs in progress:
     4.0 | #
         | #
         | #
         | #
         | ##
         | ##
         | ##
         | ###
       0 +----
          from 1970-01-01 00:00:00Z to 1970-01-01 04:00:00Z\n"
        );
        let wide = render_load(&rows(&vec![1.0; 500]), Screen::default());
        assert!(wide.lines().all(|line| line.chars().count() <= 80), "{wide}");
        assert_eq!(render_load(&[], Screen::default()), "");
        assert!(!render_load(&rows(&[0.0]), Screen::default()).contains('#'));
    }

    #[test]
    fn simulation_shows_first_starts_and_problems() {
        let nodes: BTreeSet<Identity> = (0..30)
            .map(|node| Identity::parse(&format!("web{node}.example.com")).unwrap())
            .collect();
        let mut seats = SeatList::default();
        seats.assign(&nodes, 0, 0);
        let spec =
            br#"{"agent":"puppet","action":"runonce","cron":"0 3 * * *","limit":5,"catch_up":600}"#;
        let schedule = ScheduleSpec::from_json(spec).unwrap().compile().unwrap();
        let input = SimulationInput {
            schedule: &schedule,
            seats: &seats,
            duration: &|_| 240_000,
            from: 0,
            until: 24 * HOUR,
        };
        let document = SimulationDocument::new(&simulate_schedule(&input), &seats, 0);
        assert_eq!(document.load.len(), 72);
        let text = render_simulation(&document, Screen::default());
        let mut lines = text.lines();
        assert_eq!(
            lines.next(),
            Some("15 starts on 30 nodes until 1970-01-02 00:00:00Z, at most 5 at once")
        );
        assert_eq!(
            lines.next(),
            Some("15 turns missed: the limit was reached until the last start")
        );
        assert_eq!(lines.nth(1), Some("1970-01-01 03:00:00Z  web0.example.com"));
        assert!(text.contains("Expected runs in progress:"), "{text}");
    }
}
