//! What policies need to know of a server: prices, limits that all its callers share, trust. Plain values.

use policies::price::Price;
use policies::rate::Quota;

use super::tools::ByTool;

/// What policies need to know of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerPolicy {
    /// Whether its tools' hints may loosen what a task asks for; else they can only tighten it.
    pub trusted_hints: bool,
    /// Whether arguments are checked against the tools' input schemas before a call.
    pub check_arguments: bool,
    /// Calls of all callers under all tasks.
    pub calls: Option<Quota>,
    /// Calls of all callers at the same time.
    pub concurrency: Option<u32>,
    /// What its calls cost, where no tool says otherwise.
    pub price: Option<Price>,
    /// What calls of single tools cost.
    pub prices: ByTool<Price>,
}

impl Default for ServerPolicy {
    fn default() -> Self {
        Self {
            trusted_hints: false,
            check_arguments: true,
            calls: None,
            concurrency: None,
            price: None,
            prices: ByTool::default(),
        }
    }
}

impl ServerPolicy {
    /// What a call of this tool costs, given by the server's own name: by the exact name, else by the longest glob, else
    /// what the server's calls cost. None: nothing.
    pub fn price(&self, tool: &str) -> Option<&Price> {
        self.prices.first(tool, Some).or(self.price.as_ref())
    }
}
