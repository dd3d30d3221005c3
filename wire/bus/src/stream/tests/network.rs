//! A simulated network between both ends of a stream. The same seed gives the same run.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;

use super::states;
use crate::stream::{StreamEnd, StreamSettings, StreamState};

/// What the network does to messages; each is a share of 100.
#[derive(Debug, Clone, Copy)]
pub(super) struct Weather {
    pub(super) loss: u64,
    pub(super) repeat: u64,
    pub(super) delay: u64,
}

/// A simulated network with both ends. The same seed gives the same run.
pub(super) struct Network {
    pub(super) ends: [StreamState; 2],
    weather: Weather,
    /// Messages on the way: to which end, by arrival.
    flying: BTreeMap<(Duration, u64), (usize, Vec<u8>)>,
    pub(super) seen: Vec<(usize, Vec<u8>)>,
    pub(super) now: Duration,
    random: u64,
    count: u64,
    pub(super) received: [Vec<u8>; 2],
    pub(super) largest: usize,
}

impl Network {
    pub(super) fn new(settings: StreamSettings, weather: Weather, seed: u64) -> Self {
        Self {
            ends: states(settings),
            weather,
            flying: BTreeMap::new(),
            seen: Vec::new(),
            now: Duration::ZERO,
            random: seed | 1,
            count: 0,
            received: [Vec::new(), Vec::new()],
            largest: 0,
        }
    }

    fn chance(&mut self, of: u64) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random % of
    }

    fn send_all(&mut self) {
        for end in 0..2 {
            while let Some(message) = self.ends[end].next_message(self.now) {
                self.largest = self.largest.max(message.len());
                let copies = if self.chance(100) < self.weather.repeat { 2 } else { 1 };
                for _ in 0..copies {
                    if self.chance(100) < self.weather.loss {
                        continue;
                    }
                    let extra =
                        if self.chance(100) < self.weather.delay { self.chance(400) } else { 0 };
                    let arrival = self.now + Duration::from_millis(5 + extra);
                    self.count += 1;
                    self.flying.insert((arrival, self.count), (1 - end, message.clone()));
                }
                if self.seen.len() < 50 {
                    self.seen.push((1 - end, message));
                }
            }
        }
    }

    pub(super) fn take_all(&mut self) {
        for end in 0..2 {
            while let Some(bytes) = self.ends[end].take_bytes(self.now) {
                self.received[end].extend_from_slice(&bytes);
            }
        }
    }

    /// Goes to the next event: an arrival or a deadline.
    pub(super) fn step(&mut self) {
        self.send_all();
        // The deadline of an end that is over stays in the past, and would hold the time of the other end.
        let waiting = self.ends.iter().filter(|end| end.ended(self.now).is_none());
        let deadline = waiting.map(StreamState::next_deadline).min();
        let arrival = self.flying.first_key_value().map(|(key, _)| key.0);
        let next = arrival.into_iter().chain(deadline).min().unwrap_or(self.now);
        self.now = next.max(self.now + Duration::from_micros(100));
        while let Some(entry) = self.flying.first_entry()
            && entry.key().0 <= self.now
        {
            let (end, message) = entry.remove();
            let _ = self.ends[end].receive_message(&message, self.now);
        }
        self.take_all();
    }

    /// Carries both contents to completion, and returns how the ends ended.
    pub(super) fn carry(&mut self, contents: [&[u8]; 2]) -> [StreamEnd; 2] {
        let mut offsets = [0; 2];
        for _ in 0..200_000 {
            for end in 0..2 {
                let rest = &contents[end][offsets[end]..];
                let length = rest.len().min(self.ends[end].send_capacity());
                if length > 0 {
                    let bytes = Bytes::copy_from_slice(&rest[..length]);
                    self.ends[end].queue_bytes(bytes, self.now);
                    offsets[end] += length;
                }
                if offsets[end] == contents[end].len() {
                    self.ends[end].end_sending();
                }
            }
            self.step();
            let now = self.now;
            if let [Some(caller), Some(node)] = self.ends.each_ref().map(|end| end.ended(now)) {
                return [caller, node];
            }
        }
        panic!("the stream did not end: {:?}", self.ends);
    }
}
