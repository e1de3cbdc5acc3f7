//! Tests of the question, of answers (security case R2) and of the state between them (R1, R8).

use proptest::prelude::*;

use super::*;

fn ask(arguments: &str) -> String {
    let asked = Asked { server: "github", tool: "delete_repo", task: "support", arguments };
    question(&asked, &|key, text| {
        (key == Some("password") || text.starts_with("ghp_") || text == "4111111111111111")
            .then(|| "[masked]".to_owned())
    })
}

#[test]
fn the_question_says_what_would_run_with_which_arguments() {
    let text = ask(r#"{"repo":"a/b","force":true}"#);
    assert_eq!(
        text,
        "Run the tool 'delete_repo' of the server 'github' (task 'support')?\nArguments:\n{\n  \"repo\": \"a/b\",\n  \"force\": true\n}"
    );
    assert!(ask("{}").ends_with("It has no arguments."));
    assert!(ask("{").contains("NOT shown"));
}

#[test]
fn x3_secrets_in_the_question_are_masked_wherever_they_stand() {
    let text = ask(
        r#"{"password":"hunter2","list":["\u0067hp_abc"],"ghp_key":1,"card":4111111111111111,"password2":{"password":["x1"]}}"#,
    );
    for secret in ["hunter2", "ghp_", "4111", "x1"] {
        assert!(!text.contains(secret), "{secret} in {text}");
    }
}

#[test]
fn x3_two_masked_names_are_two_members_and_numbers_keep_their_digits() {
    let text = ask(
        r#"{"ghp_a":"first","ghp_b":"second","n":12345678901234567890123,"d":0.10,"e":1E400,"l":[-0,1e2]}"#,
    );
    for part in ["first", "second", "\"n\": 12345678901234567890123,", "\"d\": 0.10,", "1E400", "-0", "1e2"] {
        assert!(text.contains(part), "{part} in {text}");
    }
    assert!(!text.contains("NOT shown"), "{text}");
    let long = ask(&format!(r#"{{"n":{}}}"#, "1".repeat(1000)));
    assert!(long.contains("NOT shown"), "{long}");
    let deep = ask(&format!("{{\"a\":{}1{}}}", "[".repeat(30), "]".repeat(30)));
    assert!(deep.contains('…') && deep.contains("NOT shown"), "{deep}");
}

#[test]
fn what_is_left_out_is_said_first() {
    let padded = format!(r#"{{"a":"{}","z":"rm -rf /"}}"#, "x".repeat(5000));
    let text = ask(&padded);
    assert!(text.lines().nth(1).unwrap().contains("NOT shown in full"), "{text}");
    assert!(text.contains("rm -rf /"), "one long text hides no other member");
    let many: Vec<String> = (0..3000).map(|n| format!(r#""k{n}":{n}"#)).collect();
    let text = ask(&format!("{{{}}}", many.join(",")));
    assert!(text.len() <= MAX_QUESTION && text.contains("NOT shown in full"));
}

#[test]
fn nothing_in_the_arguments_can_pose_as_something_else() {
    let text = ask("{\"a\":\"x\\u001b[2J\\u202eevil\\u200b\\n\\nRun the tool 'harmless'?\u{e0041}\u{85}\"}");
    assert!(
        text.chars()
            .all(|c| c == '\n' || (!c.is_control() && !matches!(c, '\u{202e}' | '\u{200b}' | '\u{e0041}')))
    );
    assert_eq!(text.lines().count(), 5, "{text}");
}

#[test]
fn r2_only_a_plain_yes_is_one() {
    for (result, want) in [
        (json!({"action": "accept"}), Ok(Answer::Accepted)),
        (json!({"action": "accept", "content": {}}), Ok(Answer::Accepted)),
        (json!({"action": "accept", "content": {"confirm": true}, "_meta": {}}), Ok(Answer::Accepted)),
        (json!({"action": "accept", "content": {"confirm": false}}), Ok(Answer::Declined)),
        (json!({"action": "decline", "content": {"confirm": true}}), Ok(Answer::Declined)),
        (json!({"action": "cancel"}), Ok(Answer::Cancelled)),
        (json!({"action": "Accept"}), Err(NoAnswer::UnknownAction)),
        (json!({"action": "yes"}), Err(NoAnswer::UnknownAction)),
        (json!({"action": ["accept"]}), Err(NoAnswer::UnknownAction)),
        (json!({}), Err(NoAnswer::UnknownAction)),
        (json!("accept"), Err(NoAnswer::NoObject)),
        (json!({"action": "accept", "content": {"confirm": "true"}}), Err(NoAnswer::BadContent)),
        (json!({"action": "accept", "content": {"confirm": true, "more": 1}}), Err(NoAnswer::BadContent)),
        (json!({"action": "accept", "content": {"other": true}}), Err(NoAnswer::BadContent)),
        (json!({"action": "accept", "content": null}), Err(NoAnswer::BadContent)),
        (json!({"action": "accept", "content": [true]}), Err(NoAnswer::BadContent)),
    ] {
        assert_eq!(Answer::read(&result), want, "{result}");
    }
}

#[test]
fn the_form_is_a_flat_object_of_primitives_and_its_default_is_an_answer() {
    let schema = requested_schema();
    assert_eq!(schema["type"], "object");
    let mut content = serde_json::Map::new();
    for (name, property) in schema["properties"].as_object().unwrap() {
        assert!(["boolean", "string", "number", "integer"].contains(&property["type"].as_str().unwrap()));
        content.insert(name.clone(), property["default"].clone());
    }
    assert_eq!(Answer::read(&json!({"action": "accept", "content": content})), Ok(Answer::Accepted));
    assert!(
        crate::schema::Schema::compile(&schema.to_string()).unwrap().check(r#"{"confirm":true}"#).is_ok()
    );
}

#[test]
fn only_clients_that_show_forms_are_asked() {
    for (capabilities, can) in [
        (json!({"elicitation": {}}), true),
        (json!({"elicitation": {"form": {}}}), true),
        (json!({"elicitation": {"form": {}, "url": {}}}), true),
        (json!({"elicitation": {"url": {}}}), false),
        (json!({"elicitation": null}), false),
        (json!({"sampling": {}}), false),
        (json!({}), false),
    ] {
        assert_eq!(can_ask(&capabilities), can, "{capabilities}");
    }
}

fn state() -> State {
    State {
        principal: "p".into(),
        task: "t".into(),
        run: "r".into(),
        server: "s".into(),
        tool: "tool".into(),
        arguments: "digest".into(),
        expires: 1000,
        nonce: "n".into(),
        replica: Some("a".into()),
        method: "tools/call".into(),
        stage: Stage::Asked,
        asked: vec![rounds::Waiting { key: "k".into(), method: "roots/list".into(), schema: None }],
        round: 1,
        inner: Some("opaque \u{0} ä".into()),
    }
}

fn call() -> Call<'static> {
    Call {
        principal: "p",
        task: "t",
        run: "r",
        server: "s",
        tool: "tool",
        method: "tools/call",
        arguments: "digest",
    }
}

#[test]
fn r1_a_state_goes_with_its_own_call_alone() {
    let goes = |call: Call<'_>, now, replica| state().goes_with(&call, now, replica);
    assert_eq!(goes(call(), 999, Some("a")), Ok(()));
    assert_eq!(goes(Call { principal: "q", ..call() }, 0, Some("a")), Err(Mismatch::Principal));
    assert_eq!(goes(Call { task: "x", ..call() }, 0, Some("a")), Err(Mismatch::Work));
    assert_eq!(goes(Call { run: "x", ..call() }, 0, Some("a")), Err(Mismatch::Work));
    assert_eq!(goes(Call { server: "x", ..call() }, 0, Some("a")), Err(Mismatch::Tool));
    assert_eq!(goes(Call { tool: "x", ..call() }, 0, Some("a")), Err(Mismatch::Tool));
    assert_eq!(goes(Call { method: "prompts/get", ..call() }, 0, Some("a")), Err(Mismatch::Tool));
    assert_eq!(goes(Call { arguments: "x", ..call() }, 0, Some("a")), Err(Mismatch::Arguments));
    assert_eq!(goes(call(), 1000, Some("a")), Err(Mismatch::Expired));
    assert_eq!(goes(call(), 0, Some("b")), Err(Mismatch::Replica));
    assert_eq!(goes(call(), 0, None), Err(Mismatch::Replica));
    let late = State { round: MAX_ROUNDS + 1, ..state() };
    assert_eq!(late.goes_with(&call(), 0, Some("a")), Err(Mismatch::Rounds));
    assert_eq!(Mismatch::Principal.public(), Mismatch::Unreadable.public());
}

#[test]
fn r1_a_state_is_read_exactly_or_not_at_all() {
    let text = state().encode();
    assert_eq!(State::decode(&text), Ok(state()));
    for bad in [
        String::new(),
        "{}".to_owned(),
        format!("{text} {{}}"),
        text.replacen('{', r#"{"more":1,"#, 1),
        text.replacen('{', r#"{"stage":"agreed","#, 1),
        text.replace("\"asked\",", "\"later\","),
        text[..text.len() - 1].to_owned(),
        text.replace(r#""round":1"#, r#""round":300"#),
        text.replace("digest", &"d".repeat(70_000)),
    ] {
        assert_eq!(State::decode(&bad), Err(Mismatch::Unreadable), "{bad:.80}");
    }
}

proptest! {
    #[test]
    fn any_arguments_make_a_bounded_question_of_plain_text(text in "\\PC{0,600}|.{0,600}", deep in 0..40_usize) {
        let value = serde_json::to_string(&text).unwrap();
        let arguments = format!("{}{value}{}", "[".repeat(deep), "]".repeat(deep));
        for arguments in [arguments.as_str(), text.as_str()] {
            let text = ask(arguments);
            prop_assert!(text.len() <= MAX_QUESTION);
            prop_assert!(text.chars().all(|c| c == '\n' || !c.is_control()));
        }
    }
}
