//! The scheduler: real daemons, leaders that are killed, and requests with stolen keys. The names of the tests contain their acceptance points A3.1 to A3.7.

mod attacks;
mod commands;
mod fixture;
mod health;
mod leaders;
mod pauses;
mod requests;
