//! The `tollgate` binary: installs the one TLS crypto provider, reads the command line, hands over to the library.

use std::process::ExitCode;

/// A call makes some hundred small allocations on whichever worker is free, which this one is made for.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    // The only failure is that one is installed already, which is as good.
    rustls::crypto::ring::default_provider().install_default().ok();
    ExitCode::from(tollgate::cli::main())
}
