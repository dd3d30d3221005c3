//! The machine behind `System`: what the real and the in-memory one have in common, and what only one of them has.

#[cfg(test)]
mod contract;
#[cfg(test)]
mod fake;
#[cfg(test)]
mod run;
