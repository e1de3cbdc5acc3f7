//! Quick.
mod corpus;
mod disk;
mod faults;
mod log;
mod power;
mod support;
mod tamper;
