//! A run as its records tell it: status, calls, cost, degraded servers, and the hashes that prove that these follow from
//! the journal. Frozen at the run's last record: whoever holds the same logs computes the same bytes.

use std::collections::{BTreeMap, BTreeSet};

use base64::{Engine, prelude::BASE64_URL_SAFE_NO_PAD};
use serde::{Deserialize, Serialize};

use crate::costs::{Principal, RunKey, Spent, Total};
use crate::entry::{Entry, Int, Kind, Text};
use crate::hash::Digest;

/// First line of what [`Projection::journal_head`] is the SHA-256 of.
const JOURNAL_LABEL: &str = "dev.tollgate/audit/run/v1";
/// First line of what the receipt hash is the SHA-256 of.
const RECEIPT_LABEL: &str = "dev.tollgate/audit/run-receipt/v1";
/// Longest poll token that is read: the texts of a record are bounded too.
const MAX_TOKEN: usize = 32 * 1024;

/// Where a run stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// A call is under way.
    Working,
    /// A person was asked, and nothing came after.
    InputRequired,
    /// The last call ended with an answer.
    #[default]
    Completed,
    /// The last call failed, or nobody knows how it ended.
    Failed,
    /// The last call was cancelled.
    Cancelled,
}

/// What is known of a run from one log.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunTotals {
    /// Calls that ended, by server.
    pub servers: BTreeMap<Text, Total>,
    /// Servers whose last call failed.
    pub degraded: BTreeSet<Text>,
    /// Calls that were sent.
    pub calls: u64,
    /// Refusals.
    pub refused: u64,
    /// Calls under way.
    pub open: u64,
    /// The index that the next call gets.
    pub next_index: u64,
    /// What the last record that decides says, and its `ts`; none when no record decides.
    pub decided: Option<(Text, Status)>,
    /// What budgets count.
    pub spent: Spent,
    /// Hash over the leaf hashes of its records.
    pub head: Digest,
    /// `seq` of its last record.
    pub seq: u64,
    /// That record's leaf hash.
    pub leaf: Digest,
    /// That record's `ts`.
    pub last: Text,
    /// There were records before that are not known any more: only a reader of all records can tell of the run.
    #[serde(default)]
    pub partial: bool,
}

impl RunTotals {
    /// Adds a record of the run.
    pub fn add(&mut self, entry: &Entry, leaf: &Digest) {
        match entry.kind {
            Kind::Intent => {
                let next = entry.index.map_or(self.next_index, |index| index.0).saturating_add(1);
                self.next_index = self.next_index.max(next);
                self.calls += 1;
                self.open += 1;
            }
            Kind::Outcome => self.ended(entry),
            Kind::Denied => self.refused += 1,
            Kind::Question => self.decided = Some((entry.ts.clone(), Status::InputRequired)),
            _ => {}
        }
        self.head = Digest::sha256(&[&self.head.0, &leaf.0]);
        (self.seq, self.leaf, self.last) = (entry.seq.0, *leaf, entry.ts.clone());
    }

    fn ended(&mut self, entry: &Entry) {
        self.open = self.open.saturating_sub(1);
        let server = entry.server.clone().unwrap_or_default();
        let status = match entry.outcome.as_deref() {
            Some("ok" | "tool_error" | "refused") => Status::Completed,
            Some("cancelled") => Status::Cancelled,
            _ => Status::Failed,
        };
        match status {
            Status::Failed => drop(self.degraded.insert(server.clone())),
            Status::Completed => drop(self.degraded.remove(&server)),
            _ => {}
        }
        let cost = entry.cost_nanousd.map_or(0, |cost| cost.0);
        self.servers.entry(server).or_default().add(cost);
        self.spend(entry);
        self.decided = Some((entry.ts.clone(), status));
    }
}

/// A run over the logs that hold records of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Projection {
    /// Which run.
    pub key: RunKey,
    /// What each log knows of it, by the log's id.
    pub logs: BTreeMap<Text, RunTotals>,
}

#[derive(Serialize)]
struct Canonical<'a> {
    calls: Int,
    #[serde(rename = "chainHead")]
    chain_head: BTreeMap<&'a str, Head>,
    cost_nanousd: Int,
    degraded: BTreeSet<&'a str>,
    #[serde(rename = "journalHead")]
    journal_head: Digest,
    principal: Named<'a>,
    refused: Int,
    run: &'a str,
    servers: BTreeMap<&'a str, Cost>,
    status: Status,
    task: &'a str,
    updated: &'a str,
    v: u8,
}

#[derive(Serialize)]
struct Head {
    leaf: Digest,
    seq: Int,
}

#[derive(Serialize)]
struct Cost {
    calls: Int,
    cost_nanousd: Int,
}

/// A principal with its known members alone.
#[derive(Serialize)]
struct Named<'a> {
    #[serde(skip_serializing_if = "str::is_empty")]
    client: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    iss: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    sub: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    tenant: &'a str,
}

/// What a poll token carries: which run, and nothing else.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Identity {
    #[serde(default, skip_serializing_if = "str::is_empty")]
    client: Text,
    #[serde(default, skip_serializing_if = "str::is_empty")]
    iss: Text,
    run: Text,
    #[serde(default, skip_serializing_if = "str::is_empty")]
    sub: Text,
    #[serde(default, skip_serializing_if = "str::is_empty")]
    task: Text,
    #[serde(default, skip_serializing_if = "str::is_empty")]
    tenant: Text,
}

impl RunKey {
    /// The poll token: names the run, and is no secret.
    pub fn token(&self) -> String {
        let Principal { iss, sub, client, tenant } = self.principal.clone();
        let identity = Identity { client, iss, run: self.run.clone(), sub, task: self.task.clone(), tenant };
        BASE64_URL_SAFE_NO_PAD.encode(serde_json::to_vec(&identity).unwrap_or_default())
    }

    /// The run that a poll token names.
    pub fn from_token(token: &str) -> Option<RunKey> {
        let bytes = BASE64_URL_SAFE_NO_PAD.decode(Some(token).filter(|t| t.len() <= MAX_TOKEN)?).ok()?;
        let Identity { client, iss, run, sub, task, tenant } = serde_json::from_slice(&bytes).ok()?;
        Some(RunKey { run, task, principal: Principal { iss, sub, client, tenant } })
    }
}

impl Projection {
    /// Where the run stands.
    pub fn status(&self) -> Status {
        if self.logs.values().any(|log| log.open > 0) {
            return Status::Working;
        }
        let decided = self.logs.iter().filter_map(|(id, log)| {
            let (ts, status) = log.decided.as_ref()?;
            Some(((ts, id), *status))
        });
        let refused = self.logs.values().any(|log| log.refused > 0);
        let none = if refused { Status::Failed } else { Status::Completed };
        decided.max_by_key(|(at, _)| *at).map_or(none, |(_, status)| status)
    }

    /// Calls that were sent.
    pub fn calls(&self) -> u64 {
        self.logs.values().map(|log| log.calls).fold(0, u64::saturating_add)
    }

    /// By server.
    pub fn servers(&self) -> BTreeMap<&str, Total> {
        let mut servers: BTreeMap<&str, Total> = BTreeMap::new();
        for (server, total) in self.logs.values().flat_map(|log| &log.servers) {
            servers.entry(server).or_default().plus(*total);
        }
        servers
    }

    /// What the calls cost together, in 10^-9 dollars.
    pub fn nanousd(&self) -> u64 {
        self.servers().values().map(|total| total.nanousd).fold(0, u64::saturating_add)
    }

    /// `ts` of the last record.
    pub fn updated(&self) -> &str {
        self.logs.values().map(|log| &*log.last).max().unwrap_or_default()
    }

    /// The hash over the leaf hashes of all its records.
    pub fn journal_head(&self) -> Digest {
        let mut parts: Vec<&[u8]> = vec![JOURNAL_LABEL.as_bytes(), b"\n"];
        for (id, log) in &self.logs {
            parts.extend([id.as_bytes(), b"\n", &log.head.0]);
        }
        Digest::sha256(&parts)
    }

    /// The canonical form that the receipt hash covers.
    pub fn canonical(&self) -> String {
        let RunKey { run, task, principal } = &self.key;
        let logs = self.logs.values();
        let servers = self.servers().into_iter().map(|(server, total)| {
            (server, Cost { calls: Int(total.calls), cost_nanousd: Int(total.nanousd) })
        });
        let heads = self.logs.iter().map(|(id, log)| (&**id, Head { leaf: log.leaf, seq: Int(log.seq) }));
        let form = Canonical {
            calls: Int(self.calls()),
            chain_head: heads.collect(),
            cost_nanousd: Int(self.nanousd()),
            degraded: logs.clone().flat_map(|log| log.degraded.iter().map(|s| &**s)).collect(),
            journal_head: self.journal_head(),
            principal: Named {
                client: &principal.client,
                iss: &principal.iss,
                sub: &principal.sub,
                tenant: &principal.tenant,
            },
            refused: Int(logs.map(|log| log.refused).fold(0, u64::saturating_add)),
            run,
            servers: servers.collect(),
            status: self.status(),
            task,
            updated: self.updated(),
            v: 1,
        };
        serde_json::to_string(&form).unwrap_or_default()
    }

    /// The canonical form with `pollToken` and `receiptHash` behind it.
    pub fn document(&self) -> String {
        let mut text = self.canonical();
        let hash = Digest::sha256(&[RECEIPT_LABEL.as_bytes(), b"\n", text.as_bytes()]);
        text.pop();
        text.push_str(&format!(r#","pollToken":"{}","receiptHash":"{hash}"}}"#, self.key.token()));
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(kind: Kind, seq: u64, outcome: Option<&'static str>) -> Entry {
        Entry {
            seq: Int(seq),
            ts: format!("2026-11-30T12:00:00.{seq:03}Z").into(),
            run: Some("r1".into()),
            server: Some("docs".into()),
            outcome: outcome.map(Text::Borrowed),
            cost_nanousd: outcome.map(|_| Int(5)),
            ..Entry::new(kind)
        }
    }

    fn run(records: &[(Kind, Option<&'static str>)]) -> Projection {
        let mut log = RunTotals::default();
        for (seq, (kind, outcome)) in (0..).zip(records) {
            log.add(&record(*kind, seq, *outcome), &Digest::sha256(&[&[seq as u8]]));
        }
        let principal = Principal { sub: "u1".into(), ..Principal::default() };
        let key = RunKey { run: "r1".into(), task: "support".into(), principal };
        Projection { key, logs: [("log".into(), log)].into() }
    }

    #[test]
    fn a_status_follows_from_the_records() {
        use Kind::{Denied, Intent, List, Outcome, Question};
        let ended = |outcome| run(&[(Intent, None), (Outcome, Some(outcome))]).status();
        assert_eq!(run(&[(Intent, None)]).status(), Status::Working);
        assert_eq!(["ok", "tool_error"].map(ended), [Status::Completed; 2]);
        assert_eq!(["failed", "unknown"].map(ended), [Status::Failed; 2]);
        assert_eq!(ended("cancelled"), Status::Cancelled);
        assert_eq!(run(&[(Question, None)]).status(), Status::InputRequired);
        assert_eq!(
            run(&[(Question, None), (Intent, None), (Outcome, Some("ok"))]).status(),
            Status::Completed
        );
        assert_eq!(run(&[(List, None)]).status(), Status::Completed);
        assert_eq!(run(&[(Denied, None)]).status(), Status::Failed);
        assert_eq!(run(&[(Intent, None), (Outcome, Some("ok")), (Denied, None)]).status(), Status::Completed);
    }

    #[test]
    fn a_server_is_degraded_until_it_answers_again() {
        use Kind::{Intent, Outcome};
        let degraded = |records: &[_]| run(records).canonical().contains(r#""degraded":["docs"]"#);
        let failed = [(Intent, None), (Outcome, Some("failed"))];
        assert!(degraded(&failed));
        assert!(!degraded(&[failed, [(Intent, None), (Outcome, Some("ok"))]].concat()));
        assert!(degraded(&[failed, [(Intent, None), (Outcome, Some("cancelled"))]].concat()));
    }

    #[test]
    fn every_record_changes_the_receipt_and_members_are_sorted() {
        let (one, two) = (run(&[(Kind::List, None)]), run(&[(Kind::List, None), (Kind::List, None)]));
        assert_ne!(one.journal_head(), two.journal_head());
        assert_ne!(one.document(), two.document());
        let text = two.canonical();
        let value: BTreeMap<String, serde_json::Value> = serde_json::from_str(&text).unwrap();
        let at: Vec<usize> = value.keys().map(|name| text.find(&format!("\"{name}\":")).unwrap()).collect();
        assert!(value.len() == 13 && at.is_sorted(), "{text}");
        let document: serde_json::Value = serde_json::from_str(&two.document()).unwrap();
        assert_eq!(document["receiptHash"].as_str().map(str::len), Some(64));
    }

    #[test]
    fn a_poll_token_carries_the_runs_identity_alone() {
        let key = run(&[]).key;
        assert_eq!(RunKey::from_token(&key.token()), Some(key.clone()));
        let json = BASE64_URL_SAFE_NO_PAD.decode(key.token()).unwrap();
        assert_eq!(json, br#"{"run":"r1","sub":"u1","task":"support"}"#);
        for bad in ["", "%", "e30", "bnVsbA"] {
            assert_eq!(RunKey::from_token(bad), None, "{bad}");
        }
    }
}
