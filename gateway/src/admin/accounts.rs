//! `/costs`, `/runs` and `/runs/{run}`: what the journal of this process adds up to. Each answer is bounded, and read
//! beside the requests' threads, since a look at the journal may wait for the disk.

use std::collections::HashMap;
use std::sync::Arc;

use http::StatusCode;
use policies::money::NanoUsd;
use serde_json::{Map, Value, json};
use url::form_urlencoded;

use crate::gate::Gate;
use crate::partials::{Partials, RunOf};
use crate::ports::accounts::{Accounts, By, Costs, CostsWanted, Document, Runs, RunsWanted, Sum};
use crate::wire::Full;

/// Rows of costs in one answer when nothing is said, and at most.
const ROWS: (usize, usize) = (1_000, 10_000);
/// Runs in one answer when nothing is said, and at most.
const RUNS: (usize, usize) = (100, 500);

/// The answer to a question about costs or runs.
pub(super) async fn answer(gate: &Arc<Gate>, path: &str, query: Option<&str>) -> Full {
    let query = match parameters(query.unwrap_or_default()) {
        Ok(query) => query,
        Err((status, why)) => return super::text(status, why + "\n"),
    };
    let (gate, path) = (Arc::clone(gate), path.to_owned());
    let asked = tokio::task::spawn_blocking(move || match gate.book.journal.accounts() {
        Some(accounts) => look(accounts, &gate.book.partials, &path, &query),
        None => Err((StatusCode::NOT_FOUND, "no journal is kept (audit: durability: off)".into())),
    });
    match asked.await {
        Ok(Ok(body)) => Full::new(StatusCode::OK, "application/json", body + "\n"),
        Ok(Err((status, why))) => super::text(status, why + "\n"),
        Err(_) => super::text(StatusCode::INTERNAL_SERVER_ERROR, "the question was not answered\n"),
    }
}

type Refusal = (StatusCode, String);

fn bad(why: impl Into<String>) -> Refusal {
    (StatusCode::BAD_REQUEST, why.into())
}

/// The parameters of a query. One that comes twice is refused: nobody could say which of them was meant.
fn parameters(query: &str) -> Result<HashMap<String, String>, Refusal> {
    let mut all = HashMap::new();
    for (name, value) in form_urlencoded::parse(query.as_bytes()).into_owned() {
        if let Some(name) = all.contains_key(&name).then_some(&name) {
            return Err(bad(format!("{name:?} is there more than once")));
        }
        all.insert(name, value);
    }
    Ok(all)
}

/// A part of a path with its escapes read. No other character means anything there, as it would in a query.
fn unescaped(part: &str) -> String {
    let part = part.replace('+', "%2B").replace('&', "%26").replace('=', "%3D");
    form_urlencoded::parse(part.as_bytes()).map(|(name, _)| name.into_owned()).collect()
}

fn look(
    accounts: &dyn Accounts,
    partials: &Partials,
    path: &str,
    query: &HashMap<String, String>,
) -> Result<String, Refusal> {
    match path.strip_prefix("/runs") {
        None => costs(accounts, query),
        Some("") => runs(accounts, None, query, |document| document.text),
        Some(rest) => {
            let run = rest.strip_prefix('/').map(unescaped);
            let run = run.filter(|run| !run.is_empty() && !run.contains('/'));
            let run = run.ok_or_else(|| bad("name one run: /runs/{run}"))?;
            runs(accounts, Some(run), query, |document| with_partials(document, partials))
        }
    }
}

/// Refuses what is not known: a filter that is misspelt must not show everything.
fn known(query: &HashMap<String, String>, names: &[&str]) -> Result<(), Refusal> {
    match query.keys().find(|name| !names.contains(&name.as_str())) {
        Some(name) => Err(bad(format!("unknown: {:?}; known: {}", name, names.join(", ")))),
        None => Ok(()),
    }
}

fn number(
    query: &HashMap<String, String>,
    name: &str,
    (usual, most): (usize, usize),
) -> Result<usize, Refusal> {
    match query.get(name).map(|text| text.parse::<usize>()) {
        None => Ok(usual),
        Some(Ok(number)) if number <= most => Ok(number),
        Some(_) => Err(bad(format!("{name}: a number up to {most}"))),
    }
}

fn costs(accounts: &dyn Accounts, query: &HashMap<String, String>) -> Result<String, Refusal> {
    known(query, &["by", "task", "server", "principal", "day", "limit", "skip"])?;
    let mut by = Vec::new();
    for name in query.get("by").map_or("task,server", String::as_str).split(',') {
        match By::ALL.into_iter().find(|by| by.name() == name) {
            Some(one) if !by.contains(&one) => by.push(one),
            Some(_) => {}
            None => return Err(bad("by: some of task,server,principal,day")),
        }
    }
    let (limit, skip) = (number(query, "limit", ROWS)?, number(query, "skip", (0, usize::MAX))?);
    let of = |name: &str| query.get(name).cloned();
    let wanted = CostsWanted {
        by,
        task: of("task"),
        server: of("server"),
        principal: of("principal"),
        day: of("day"),
    };
    Ok(table(&wanted.by, &accounts.costs(&wanted), limit, skip).to_string())
}

fn table(by: &[By], costs: &Costs, limit: usize, skip: usize) -> Value {
    let mut total = Sum::default();
    for (_, sum) in &costs.rows {
        total.calls = total.calls.saturating_add(sum.calls);
        total.nanousd = total.nanousd.saturating_add(sum.nanousd);
    }
    let rows: Vec<Value> =
        costs.rows.iter().skip(skip).take(limit).map(|(names, sum)| row(by, names, *sum)).collect();
    let left = costs.rows.len().saturating_sub(skip.saturating_add(rows.len()));
    let mut answer = json!({
        "log": costs.log,
        "by": by.iter().map(|by| by.name()).collect::<Vec<_>>(),
        "rows": rows,
        "left": left,
        "total": row(&[], &[], total),
    });
    if let (Some((until, sum)), Some(answer)) = (&costs.earlier, answer.as_object_mut()) {
        let mut earlier = amounts(*sum);
        earlier.insert("until".into(), until.as_str().into());
        answer.insert("earlier".into(), earlier.into());
    }
    answer
}

fn row(by: &[By], names: &[String], sum: Sum) -> Value {
    let mut row = amounts(sum);
    for (by, name) in by.iter().zip(names) {
        row.insert(by.name().into(), name.as_str().into());
    }
    row.into()
}

fn amounts(sum: Sum) -> Map<String, Value> {
    let mut row = Map::new();
    row.insert("calls".into(), sum.calls.into());
    row.insert("cost_nanousd".into(), sum.nanousd.into());
    // As a text: a reader that makes a float of it would not be exact.
    row.insert("cost_usd".into(), NanoUsd::from_nanos(sum.nanousd).to_string().into());
    row
}

/// A run's document, and behind what its hash covers what its cancelled calls had given, as long as that is remembered.
fn with_partials(document: Document, partials: &Partials) -> String {
    let Document { text, principal, task, run } = document;
    let given = partials.told(RunOf { principal: &principal, task: &task, run: &run });
    match (given, text.strip_suffix('}')) {
        (Some(given), Some(open)) => format!(r#"{open},"partials":{given}}}"#),
        _ => text,
    }
}

fn runs(
    accounts: &dyn Accounts,
    run: Option<String>,
    query: &HashMap<String, String>,
    shown: impl Fn(Document) -> String,
) -> Result<String, Refusal> {
    known(query, &["task", "principal", "pollToken", "after", "limit"])?;
    let of = |name: &str| query.get(name).cloned();
    let wanted = RunsWanted {
        run: run.clone(),
        task: of("task"),
        principal: of("principal"),
        token: of("pollToken"),
        after: of("after"),
        limit: number(query, "limit", RUNS)?.max(1),
    };
    let found =
        accounts.runs(&wanted).ok_or_else(|| bad("pollToken, after: tokens that were given out here"))?;
    let Runs { documents, next } = found;
    let documents: Vec<String> = documents.into_iter().map(shown).collect();
    let one = run.is_some() && next.is_none() && wanted.after.is_none();
    match (one, documents.as_slice()) {
        (true, [document]) => Ok(document.clone()),
        (true, []) => {
            let why = "no such run is known here; `tollgate audit run` reads the journal itself";
            Err((StatusCode::NOT_FOUND, why.into()))
        }
        _ => {
            let next = next.map_or(Value::Null, Value::String);
            Ok(format!(r#"{{"runs":[{}],"next":{next}}}"#, documents.join(",")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use policies::budget::past::Past;

    /// Has one run `r`, and costs that fill three rows.
    struct Three;

    impl Accounts for Three {
        fn costs(&self, wanted: &CostsWanted) -> Costs {
            let sum = Sum { calls: 1, nanousd: 2_000_000 };
            let rows =
                (0..3).map(|n| (wanted.by.iter().map(|by| format!("{}{n}", by.name())).collect(), sum));
            Costs { log: "log".into(), rows: rows.collect(), earlier: Some(("2026-01-01".into(), sum)) }
        }

        fn runs(&self, wanted: &RunsWanted) -> Option<Runs> {
            let known = wanted.run.as_deref().is_none_or(|run| run == "a:b");
            let text = r#"{"run":"a:b"}"#.to_owned();
            let documents = known.then(|| Document { text, ..Document::default() }).into_iter().collect();
            Some(Runs { documents, next: None })
        }

        fn spent(&self, _: &mut dyn FnMut(Past<'_>)) {}
    }

    fn ask(path: &str, query: &str) -> Result<Value, StatusCode> {
        let query = parameters(query).map_err(|(status, _)| status)?;
        let said = look(&Three, &Partials::default(), path, &query).map_err(|(status, _)| status)?;
        Ok(serde_json::from_str(&said).unwrap())
    }

    #[test]
    fn rows_are_paged_and_the_total_is_that_of_all() {
        let page = ask("/costs", "by=server&limit=2&skip=1").unwrap();
        assert_eq!(page["rows"][0]["server"], "server1");
        assert_eq!((page["rows"].as_array().unwrap().len(), &page["left"]), (2, &json!(0)));
        assert_eq!(page["total"]["cost_usd"], "0.006");
        assert_eq!(page["earlier"]["until"], "2026-01-01");
        assert_eq!(ask("/costs", "limit=1").unwrap()["left"], 2);
    }

    #[test]
    fn what_is_misspelt_is_refused() {
        for query in ["by=colour", "by=", "limit=x", "limit=10001", "tasks=a", "skip=-1", "by=task&by=day"] {
            assert_eq!(ask("/costs", query), Err(StatusCode::BAD_REQUEST), "{query}");
        }
        assert_eq!(ask("/runs", "by=task"), Err(StatusCode::BAD_REQUEST));
        for path in ["/runs/", "/runs/a/b", "/runsa"] {
            assert_eq!(ask(path, ""), Err(StatusCode::BAD_REQUEST), "{path}");
        }
    }

    #[test]
    fn a_run_is_named_with_its_escapes() {
        for path in ["/runs/a:b", "/runs/a%3Ab"] {
            assert_eq!(ask(path, "").unwrap()["run"], "a:b", "{path}");
        }
        for path in ["/runs/a+b", "/runs/a:b&x", "/runs/a:b=x", "/runs/a:b%00", "/runs/a:b%26", "/runs/%ff"] {
            assert_eq!(ask(path, ""), Err(StatusCode::NOT_FOUND), "{path}");
        }
        assert_eq!(ask("/runs", "").unwrap()["runs"][0]["run"], "a:b");
    }
}
