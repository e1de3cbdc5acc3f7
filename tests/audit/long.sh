#!/usr/bin/env bash
# The journal's cases at the sizes of a release, and its figures: hours, where `tests/run` takes minutes.
#
#   tests/audit/long.sh            everything
#   tests/audit/long.sh quick      ten times the usual sizes
#
# Kill cycles 20,000 (a writer) and 1,000 (a gateway), every operation failing, 2,000,000 states after power cuts, the
# whole tamper corpus; then 10 million records are written, verified and opened. Linux; root for the small file system.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/../.."
case ${1:-} in
  quick) export TOLLGATE_AUDIT_TIMES=10 records=1600000 ;;
  '') export TOLLGATE_AUDIT_FULL=1 records=10000000 ;;
  *) sed -n '2,/^set/p' "${BASH_SOURCE[0]}" | sed '$d; s/^# \{0,1\}//' && exit 2 ;;
esac

target=$(cargo metadata --locked --no-deps --format-version 1 | sed -n 's/.*"target_directory":"\([^"]*\)".*/\1/p')
cargo build --locked --bin tollgate
export TOLLGATE_BIN=$target/debug/tollgate
cargo test --locked -p tollgate-audit
cargo test --locked -p tollgate-tests --test it journal
cargo run --release --locked -p tollgate-audit --example figures -- "$records"
