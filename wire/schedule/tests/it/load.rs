//! Simulation and load: what `rpc schedule simulate` and `show --load` print.

use muster_schedule::{
    MAX_SIMULATED_STARTS, ScheduleSimulation, SeatList, SimulationInput, load_curve,
    simulate_schedule,
};
use muster_wire::Millis;
use muster_wire::identity::Identity;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::fleet::{Fleet, HOUR, MINUTE, MONDAY, SECOND, members, node, schedule};

const INTERVAL: Millis = 30 * MINUTE;

fn simulate(fields: Value, nodes: usize, duration: Millis, hours: u64) -> ScheduleSimulation {
    let mut seats = SeatList::default();
    seats.assign(&members(0..nodes), MONDAY, 0);
    simulate_schedule(&SimulationInput {
        schedule: &schedule(fields),
        seats: &seats,
        duration: &|_| duration,
        from: MONDAY,
        until: MONDAY + hours * HOUR,
    })
}

/// The simulation makes the decisions of the planner.
#[test]
fn simulation_agrees_with_the_planner() {
    for fields in [
        json!({"every": 1800}),
        json!({"every": 1800, "limit": 3}),
        json!({"every": 7200, "windows": ["01:00-02:30"]}),
        json!({"every": 86_400, "windows": ["00:30-02:30"], "time_zone": "Asia/Kolkata"}),
        json!({"every": 86_400, "windows": ["22:00-04:00"], "time_zone": "Europe/Berlin"}),
        json!({"cron": "0 */2 * * *", "spread": 600, "limit": 4}),
        json!({"cron": "30 1 * * *", "limit": 2}),
    ] {
        let mut fleet = Fleet::new(schedule(fields.clone()), 20, MONDAY);
        fleet.duration = 3 * MINUTE;
        fleet.run_until(MONDAY + 6 * HOUR);
        let planned: Vec<_> =
            fleet.starts.iter().map(|start| (start.at, start.node.clone())).collect();
        let simulated = simulate(fields.clone(), 20, 3 * MINUTE, 6);
        let seats: Vec<_> = fleet.seats.iter().map(|(_, seat)| seat.node.clone()).collect();
        let simulated: Vec<_> = simulated
            .runs
            .iter()
            .map(|run| (run.at, seats[usize::try_from(run.seat).unwrap()].clone()))
            .collect();
        assert_eq!(simulated, planned, "{fields}");
    }
}

#[test]
fn simulation_is_bounded() {
    let large = simulate(json!({"every": 60}), 1000, MINUTE, 24);
    assert_eq!(large.runs.len(), MAX_SIMULATED_STARTS);
    assert_eq!(large.until, MONDAY + 200 * MINUTE);
}

#[test]
fn simulation_counts_what_cannot_start() {
    let narrow =
        simulate(json!({"cron": "0 3 * * *", "limit": 1, "catch_up": 600}), 3, 8 * MINUTE, 24);
    assert_eq!((narrow.runs.len(), narrow.missed, narrow.peak), (2, 1, 1));
    let many =
        simulate(json!({"cron": "0 3 * * *", "limit": 5, "catch_up": 600}), 30, 4 * MINUTE, 24);
    assert_eq!((many.runs.len(), many.missed, many.peak), (15, 15, 5));
    let slow = simulate(json!({"every": 1800}), 1, 31 * MINUTE, 3);
    assert_eq!((slow.runs.len(), slow.still_running), (3, 3));
}

#[test]
fn load_is_the_average_number_of_runs() {
    let hourly = simulate(json!({"every": 1800}), 60, 3 * MINUTE, 2);
    let load = load_curve(&hourly.runs, MONDAY, MONDAY + 2 * HOUR, 8);
    assert_eq!(load.len(), 8);
    assert_eq!(load[1].from, MONDAY + 15 * MINUTE);
    // 60 nodes of 3 minutes in 30 minutes: 6 at once.
    for bin in &load[1..] {
        assert!((bin.running - 6.0).abs() < 0.5, "{bin:?}");
    }
    let total: f64 = load.iter().map(|bin| bin.running * 15.0).sum();
    assert!(
        (total - 4.0 * 60.0 * 3.0).abs() < 10.0,
        "{total} minutes of 720, less what ends after the range"
    );
}

fn duration(node: &Identity, seed: u64) -> Millis {
    let number: u64 = node
        .as_str()
        .bytes()
        .map(u64::from)
        .fold(seed, |hash, byte| (hash ^ byte).wrapping_mul(0x0100_0000_01b3));
    // One in eight takes ten to twenty minutes, the others 20 to 80 seconds.
    if (number >> 20).is_multiple_of(8) {
        (600 + (number >> 30) % 600) * SECOND
    } else {
        (20 + (number >> 30) % 60) * SECOND
    }
}

/// The peak of 400 nodes of very different durations. On average of ten fleets 35 run at once; the peak is 46 in the order of names, and 40 by expected load.
#[test]
fn seats_by_load_lower_the_peak() {
    let (mut plain_sum, mut balanced_sum) = (0, 0);
    for seed in 0..10 {
        let known = |node: &Identity| Some(duration(node, seed));
        let mut plain = SeatList::default();
        let mut changes = plain.assign(&members(0..400), MONDAY, 0);
        let mut balanced = plain.clone();
        balanced.balance_joined(&mut changes.joined, INTERVAL, &known);
        for (node, seat) in &changes.joined {
            assert_eq!(balanced.seat_of(node), Some(*seat));
        }
        let (plain, balanced) =
            (plain.expected_peak(INTERVAL, &known), balanced.expected_peak(INTERVAL, &known));
        assert!(balanced <= plain, "seed {seed}: {balanced} > {plain}");
        plain_sum += plain;
        balanced_sum += balanced;
    }
    assert!(balanced_sum * 100 < plain_sum * 90, "{balanced_sum} of {plain_sum}");
}

/// Nodes that join by load move no other node; only `rebalance` does, and reports it.
#[test]
fn only_rebalance_moves_nodes() {
    let known = |node: &Identity| Some(duration(node, 1));
    let mut seats = SeatList::default();
    seats.assign(&members(0..200), MONDAY, 0);
    let before = seats.clone();
    let mut changes = seats.assign(&members(0..220), MONDAY + HOUR, 0);
    seats.balance_joined(&mut changes.joined, INTERVAL, &known);
    for (number, seat) in before.iter() {
        assert_eq!(seats.seat_of(&seat.node), Some(number));
    }
    let before = seats.clone();
    let moves = seats.rebalance(INTERVAL, &known);
    assert!(!moves.is_empty());
    assert!(seats.expected_peak(INTERVAL, &known) < before.expected_peak(INTERVAL, &known));
    for moved in &moves {
        assert_eq!(before.seat_of(&moved.node), Some(moved.from));
        assert_eq!(seats.seat_of(&moved.node), Some(moved.to));
    }
    let stayed = (0..220).map(node).filter(|node| moves.iter().all(|moved| moved.node != *node));
    for node in stayed {
        assert_eq!(before.seat_of(&node), seats.seat_of(&node));
    }
    assert!(seats.rebalance(INTERVAL, &known).is_empty(), "a balanced list stays");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    /// Whatever the durations, rebalancing keeps each node and its join time, and never raises the peak.
    #[test]
    fn rebalance_never_raises_the_peak(
        durations in prop::collection::vec(0_u64..4000, 1..80),
    ) {
        let mut seats = SeatList::default();
        seats.assign(&members(0..durations.len()), MONDAY, 0);
        let known = |wanted: &Identity| {
            (0..durations.len()).find(|number| node(*number) == *wanted).map(|number| durations[number] * SECOND)
        };
        let before = seats.clone();
        seats.rebalance(INTERVAL, &known);
        prop_assert!(seats.expected_peak(INTERVAL, &known) <= before.expected_peak(INTERVAL, &known));
        prop_assert_eq!(seats.len(), before.len());
        for (_, seat) in before.iter() {
            prop_assert!(seats.iter().any(|(_, other)| other == seat));
        }
    }
}
