//! The `tollgate` binary: installs the one TLS crypto provider, reads the command line, hands over to the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    // The only failure is that one is installed already, which is as good.
    rustls::crypto::ring::default_provider().install_default().ok();
    ExitCode::from(tollgate::cli::main())
}
