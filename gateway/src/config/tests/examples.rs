//! Every shipped example is good, and the schema that is shipped agrees.

use std::fs;
use std::path::PathBuf;

use crate::config::{Options, Source, check_text, schema};

fn examples() -> Vec<PathBuf> {
    let folder = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../examples"));
    let mut files: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|ext| ext == "yaml"));
    files.sort();
    files
}

#[test]
fn every_example_is_good() {
    let files = examples();
    assert!(files.len() >= 4, "{files:?}");
    for file in files {
        let bytes = fs::read(&file).unwrap();
        let name = file.file_name().unwrap().to_string_lossy().into_owned();
        let source = Source { name: &name, bytes: &bytes, base: file.parent().unwrap() };
        let options = Options { elsewhere: true, ..Options::default() };
        if let Err(problems) = check_text(&source, &options, &|_| None) {
            panic!("{}", problems.iter().map(|problem| format!("{problem}\n")).collect::<String>());
        }
    }
}

/// The one that shows everything names every key of the schema, so that none is without an example.
#[test]
fn the_full_example_shows_every_key() {
    let text = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/full.yaml")).unwrap();
    let mut missing = Vec::new();
    keys(&schema(), &mut |key| {
        if !text.contains(&format!("{key}:")) {
            missing.push(key.to_owned());
        }
    });
    assert!(missing.is_empty(), "{missing:?}");
}

fn keys(schema: &serde_json::Value, found: &mut impl FnMut(&str)) {
    if let Some(members) = schema.get("properties").and_then(serde_json::Value::as_object) {
        members.iter().for_each(|(key, below)| {
            found(key);
            keys(below, found);
        });
    }
    if let Some(below) = schema.get("additionalProperties") {
        keys(below, found);
    }
}
