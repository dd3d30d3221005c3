//! Demonstrations with a real broker..

#[cfg(test)]
mod actor;
#[cfg(test)]
mod life;
