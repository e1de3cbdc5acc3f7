//! Sections that the design has and this build has not: they are refused with a message that says so, because a
//! policy or a journal that is silently ignored is worse than none.

/// What to say about a key that is not there yet; `parent` is the JSON pointer of the mapping that holds it.
pub(super) fn section(parent: &str, key: &str) -> Option<&'static str> {
    let server = parent.strip_prefix("/servers/").is_some_and(|id| !id.contains('/'));
    match (parent, key) {
        (_, "quarantine" | "pin") if server => Some("remove it: nothing would act on it"),
        _ => None,
    }
}
