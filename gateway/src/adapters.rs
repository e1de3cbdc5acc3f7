//! What stands behind the ports: real servers and child processes.

pub mod child;
pub mod pipe;
pub mod upstream;
