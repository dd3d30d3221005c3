//! Demonstrations with a real broker. This test program also serves as the stand-in for the daemon.

#[cfg(test)]
mod actor;
#[cfg(test)]
mod life;
