//! Tests of `rpc` as a program: demonstrations, organisations, generated agents, shells. This program is also the stand-in for the daemon.

#[cfg(test)]
mod demo;
#[cfg(test)]
mod org;
#[cfg(test)]
mod plugin;
#[cfg(test)]
mod shell;
