//! What a task allows, what it asks for, and what that may cost. Pure decisions over plain values: no I/O, no clock, no
//! catalog, no file format. Specifications come in as plain structs, and all their problems are reported at once.

pub mod arguments;
pub mod budget;
pub mod caller;
pub mod caps;
pub mod compile;
pub mod confirm;
pub mod controls;
pub mod decide;
pub mod entry;
pub mod explain;
pub mod flaw;
pub mod glob;
pub mod money;
pub mod price;
pub mod rate;
pub mod reach;
pub mod redact;
pub mod review;
pub mod rule;
pub mod schema;
pub mod select;
mod splice;
pub mod task;

pub use splice::Malformed;

pub use decide::{Decision, Subject};
pub use entry::{Entry, Hints, Kind};
pub use task::{By, Task};
