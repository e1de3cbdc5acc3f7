//! The journal from outside: writing and recovering on real and on failing disks, and the verifier against every way
//! of tampering. Sizes are those of a quick run; `TOLLGATE_AUDIT_TIMES=N` multiplies
//! them, `TOLLGATE_AUDIT_FULL=1` has those of a release.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, clippy::print_stdout)]

mod corpus;
mod disk;
mod faults;
mod format;
mod kill;
mod log;
mod oddities;
mod pace;
mod power;
mod proofs;
mod support;
mod tamper;
mod verdicts;
