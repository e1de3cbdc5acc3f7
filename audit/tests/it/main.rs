//! The journal from outside: writing and recovering on real and on failing disks, and the verifier against every way
//! of tampering. Sizes are those of a quick run; `TOLLGATE_AUDIT_FULL=1` has those of a release.

mod corpus;
mod disk;
mod faults;
mod format;
mod kill;
mod log;
mod power;
mod proofs;
mod support;
mod tamper;
mod verdicts;
