//! What the journal's totals say, for the admin listener and for budgets at the start. The totals are looked at under the
//! journal's lock, a bounded piece at a time; everything else is done without it.

use std::collections::BTreeMap;
use std::ops::Bound;

use audit::costs::{DayKey, Periods, Principal, RunKey, Spent, Total, Totals};
use audit::runs::{Projection, RunTotals};
use policies::budget::Amounts;
use policies::budget::past::Past;
use policies::caller::{Caller, Proof};
use policies::money::NanoUsd;
use policies::rate::Who;

use super::OnDisk;
use crate::ports::accounts::{Accounts, By, Costs, CostsWanted, Document, Runs, RunsWanted, Sum};

/// Sums that are copied under the lock at once.
const CHUNK: usize = 1_024;
/// Runs that one question looks at.
const LOOK: usize = 4_096;

impl Accounts for OnDisk {
    fn costs(&self, wanted: &CostsWanted) -> Costs {
        let mut groups: BTreeMap<Vec<String>, Sum> = BTreeMap::new();
        let mut add = |key: &DayKey, total: Total| {
            let is = |want: &Option<String>, is: &str| want.as_deref().is_none_or(|want| want == is);
            let taken = is(&wanted.task, &key.task)
                && is(&wanted.server, &key.server)
                && is(&wanted.day, &key.day)
                && is(&wanted.principal, &key.principal.sub);
            if taken {
                let names = wanted.by.iter().map(|by| named(*by, key)).collect();
                let sum = groups.entry(names).or_default();
                sum.calls = sum.calls.saturating_add(total.calls);
                sum.nanousd = sum.nanousd.saturating_add(total.nanousd);
            }
        };
        let kept_whole = |by: &By| matches!(by, By::Task | By::Server);
        let whole = wanted.by.iter().all(kept_whole) && wanted.day.is_none() && wanted.principal.is_none();
        let mut earlier = None;
        if whole {
            // As many as there are names in configurations.
            let tasks = self.journal.totals(|totals| totals.tasks.clone());
            for ((task, server), total) in tasks {
                add(&DayKey { task, server, ..DayKey::default() }, total);
            }
        } else {
            let mut after = None;
            loop {
                let (rows, folded) = self.journal.totals(|totals| days(totals, after.as_ref()));
                rows.iter().for_each(|(key, total)| add(key, *total));
                earlier = folded;
                match rows.into_iter().nth(CHUNK - 1) {
                    Some((last, _)) => after = Some(last),
                    None => break,
                }
            }
        }
        Costs { log: self.journal.log().to_string(), rows: groups.into_iter().collect(), earlier }
    }

    fn runs(&self, wanted: &RunsWanted) -> Option<Runs> {
        let key = |token: &Option<String>| match token {
            None => Some(None),
            Some(token) => RunKey::from_token(token).map(Some),
        };
        let (only, after) = (key(&wanted.token)?, key(&wanted.after)?);
        let (found, next) = match only {
            Some(only) if !fits(wanted, &only) => return Some(Runs::default()),
            Some(only) => {
                let run = self.journal.totals(|totals| totals.runs.get(&only).cloned());
                let run = run.filter(|run| !run.partial);
                (run.map(|run| (only, run)).into_iter().collect(), None)
            }
            None => self.journal.totals(|totals| page(totals, wanted, after)),
        };
        let log = self.journal.log();
        let document = |(key, run): (RunKey, RunTotals)| Document {
            principal: counted_as(&key.principal),
            task: key.task.to_string(),
            run: key.run.to_string(),
            text: Projection { key, logs: [(log.to_string().into(), run)].into() }.document(),
        };
        let documents = found.into_iter().map(document).collect();
        Some(Runs { documents, next: next.map(|key| key.token()) })
    }

    fn spent(&self, each: &mut dyn FnMut(Past<'_>)) {
        self.journal.totals(|totals| {
            for (task, periods) in &totals.spent_tasks {
                by_period(periods, |period, spent| each(Past::Task { task, period, spent }));
            }
            for ((task, principal), periods) in &totals.spent {
                let key = counted_as(principal);
                let who = Who { task, principal: &key, run: "" };
                by_period(periods, |period, spent| each(Past::Principal { who, period, spent }));
            }
            let kept = totals.runs.iter().map(|(key, run)| (key, &run.last, &run.spent));
            let gone = totals.past.runs.iter().map(|(key, run)| (key, &run.last, &run.spent));
            for (RunKey { run, task, principal }, last, spent) in kept.chain(gone) {
                let Ok(last) = last.parse::<jiff::Timestamp>() else { continue };
                let key = counted_as(principal);
                let who = Who { task, principal: &key, run };
                each(Past::Run { who, last: last.as_second(), spent: amounts(spent) });
            }
        });
    }
}

fn named(by: By, key: &DayKey) -> String {
    match by {
        By::Task => key.task.to_string(),
        By::Server => key.server.to_string(),
        By::Principal => key.principal.to_string(),
        By::Day => key.day.to_string(),
    }
}

/// Days that are not kept: the last of them, and what they add up to.
type Earlier = Option<(String, Sum)>;

/// The next sums by day, and what stands for the days that are not kept.
fn days(totals: &Totals, after: Option<&DayKey>) -> (Vec<(DayKey, Total)>, Earlier) {
    let from = after.map_or(Bound::Unbounded, Bound::Excluded);
    let rows = totals.days.range((from, Bound::Unbounded)).take(CHUNK);
    let rows = rows.map(|(key, total)| (key.clone(), *total)).collect();
    let Total { calls, nanousd } = totals.earlier;
    let until = &totals.earlier_until;
    (rows, (!until.is_empty()).then(|| (until.to_string(), Sum { calls, nanousd })))
}

/// Whether a run is one that is wanted.
fn fits(wanted: &RunsWanted, key: &RunKey) -> bool {
    let is = |want: &Option<String>, is: &str| want.as_deref().is_none_or(|want| want == is);
    is(&wanted.run, &key.run) && is(&wanted.task, &key.task) && is(&wanted.principal, &key.principal.sub)
}

/// The next runs that are wanted, and behind which run there are more, or may be.
fn page(
    totals: &Totals,
    wanted: &RunsWanted,
    after: Option<RunKey>,
) -> (Vec<(RunKey, RunTotals)>, Option<RunKey>) {
    let first = wanted.run.as_ref().map(|run| RunKey { run: run.clone().into(), ..RunKey::default() });
    let from = match (after, first) {
        (Some(after), _) => Bound::Excluded(after),
        (None, Some(first)) => Bound::Included(first),
        (None, None) => Bound::Unbounded,
    };
    let mut found: Vec<(RunKey, RunTotals)> = Vec::new();
    for (looked, (key, run)) in totals.runs.range((from, Bound::Unbounded)).enumerate() {
        if wanted.run.as_ref().is_some_and(|run| key.run != *run) {
            break;
        }
        // Of one that was forgotten meanwhile only the records tell everything.
        let fits = !run.partial && fits(wanted, key);
        if fits && found.len() >= wanted.limit {
            let last = found.last().map(|(key, _)| key.clone());
            return (found, last);
        }
        if fits {
            found.push((key.clone(), run.clone()));
        }
        if looked + 1 >= LOOK {
            return (found, Some(key.clone()));
        }
    }
    (found, None)
}

fn by_period(periods: &Periods, mut each: impl FnMut(&str, Amounts)) {
    for (name, spent) in periods.days.iter().chain(&periods.months) {
        each(name, amounts(spent));
    }
}

fn amounts(spent: &Spent) -> Amounts {
    Amounts { usd: NanoUsd::from_nanos(spent.nanousd), calls: spent.calls, bytes: spent.bytes }
}

/// The name under which budgets count a principal of the journal: the way back from `super::principal`.
fn counted_as(Principal { iss, sub, client, tenant }: &Principal) -> Box<str> {
    let some = |text: &str| (!text.is_empty()).then(|| Box::<str>::from(text));
    let proof = match (&**iss, &**sub) {
        ("", _) => Proof::Anonymous,
        ("token", name) => Proof::Token(name.into()),
        ("certificate", name) => Proof::Certificate(vec![name.into()]),
        (issuer, subject) => {
            Proof::Issuer { issuer: issuer.into(), subject: subject.into(), client: some(client) }
        }
    };
    Caller { tenant: some(tenant), ..Caller::new(proof) }.key()
}

#[cfg(test)]
mod tests {
    use auth::Principal as Proven;

    use super::*;

    #[test]
    fn a_page_names_a_next_one_only_if_there_is_another_run() {
        let key = |run: &'static str, task: &'static str| RunKey {
            run: run.into(),
            task: task.into(),
            principal: Principal { sub: "u".into(), ..Principal::default() },
        };
        let mut totals = Totals::default();
        for (run, task) in [("a", "s"), ("a", "t"), ("b", "t"), ("c", "s")] {
            totals.runs.insert(key(run, task), RunTotals::default());
        }
        let ask = |run: Option<&str>, task: Option<&str>, limit| {
            let own = |text: Option<&str>| text.map(str::to_owned);
            let wanted = RunsWanted { run: own(run), task: own(task), limit, ..RunsWanted::default() };
            let (found, next) = page(&totals, &wanted, None);
            (found.len(), next)
        };
        assert_eq!(ask(Some("a"), None, 1), (1, Some(key("a", "s"))));
        assert_eq!(ask(Some("a"), None, 2), (2, None));
        assert_eq!(ask(Some("b"), None, 1), (1, None));
        assert_eq!(ask(Some("a"), Some("t"), 1), (1, None));
        assert_eq!(ask(None, Some("t"), 1), (1, Some(key("a", "t"))));
        assert_eq!(ask(None, Some("t"), 2), (2, None));
        assert_eq!(ask(None, None, 4), (4, None));
    }

    #[test]
    fn l4_a_principal_of_the_journal_is_counted_under_its_own_name() {
        let name = |text: &str| auth::Identifier::new(text).unwrap();
        let proven = [
            Proven::Anonymous,
            Proven::Token { name: name("ci") },
            Proven::Certificate { name: auth::CertificateName::Dns(name("ci.example")) },
        ];
        for principal in proven {
            let who = crate::who::Who::new(principal, None);
            assert_eq!(counted_as(&super::super::principal(&who)), who.key);
        }
        let full =
            Principal { iss: "https://idp".into(), sub: "u1".into(), client: "c".into(), tenant: "t".into() };
        let proof =
            Proof::Issuer { issuer: "https://idp".into(), subject: "u1".into(), client: Some("c".into()) };
        let caller = Caller { tenant: Some("t".into()), ..Caller::new(proof) };
        assert_eq!(counted_as(&full), caller.key());
        let bare = Principal { client: "".into(), tenant: "".into(), ..full };
        assert_ne!(counted_as(&bare), caller.key());
    }
}
