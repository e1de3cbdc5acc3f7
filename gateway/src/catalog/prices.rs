//! What the tools of one server cost: the first pattern that a tool's own name matches, found without looking at each.

use policies::glob::{Glob, GlobSet};
use policies::price::Price;

/// The prices of one server, compiled.
#[derive(Debug)]
pub(super) struct Prices {
    globs: GlobSet,
    /// For each pattern its price's place.
    places: Vec<usize>,
    /// The place of the price of all other tools.
    rest: Option<usize>,
}

impl Prices {
    /// Compiles a server's prices. Patterns that are too large together leave the price of all other tools.
    pub(super) fn new(prices: &[(Option<Glob>, Price)]) -> Prices {
        let numbered = || prices.iter().enumerate();
        let named: Vec<_> = numbered().filter_map(|(n, (glob, _))| Some((n, glob.as_ref()?))).collect();
        let globs = GlobSet::new(named.iter().map(|(_, glob)| *glob)).unwrap_or_else(|_| GlobSet::none());
        let rest = numbered().find(|(_, (glob, _))| glob.is_none()).map(|(n, _)| n);
        Prices { globs, places: named.iter().map(|(n, _)| *n).collect(), rest }
    }

    /// The place of a tool's price.
    pub(super) fn of(&self, tool: &str) -> Option<usize> {
        let mut first: Option<usize> = None;
        let known = self.globs.each(tool, |n| first = Some(first.map_or(n, |least| least.min(n))));
        let first = first.filter(|_| known).and_then(|n| self.places.get(n)).copied();
        match (first, self.rest) {
            (Some(one), Some(rest)) => Some(one.min(rest)),
            (one, rest) => one.or(rest),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_pattern_counts() {
        let glob = |text: &str| Some(Glob::parse(text).unwrap());
        let price = Price::default;
        let prices = Prices::new(&[
            (glob("search"), price()),
            (glob("s*"), price()),
            (glob("se*"), price()),
            (None, price()),
        ]);
        assert_eq!(prices.of("search"), Some(0));
        assert_eq!(prices.of("send"), Some(1));
        assert_eq!(prices.of("read"), Some(3));
        assert_eq!(Prices::new(&[(glob("a"), price())]).of("b"), None);
    }
}
