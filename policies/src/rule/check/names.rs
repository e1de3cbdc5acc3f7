//! The names that conditions may use: variables with their fields, types and functions. Tables, and what to say of a name
//! that is in none.

/// Variables.
pub(super) const ROOTS: &[&str] = &["principal", "task", "run", "tool", "args", "time"];

/// Types, as values of `type(x)`.
pub(super) const TYPES: &[&str] =
    &["int", "uint", "double", "bool", "string", "bytes", "list", "map", "null_type", "type"];

/// Whether the call is a method, and with how many arguments.
type Form = (bool, usize);

const BOTH: &[Form] = &[(false, 1), (true, 0)];
const ONE: &[Form] = &[(false, 1)];
const METHOD: &[Form] = &[(true, 1)];
const ZONED: &[Form] = &[(true, 0), (true, 1)];

/// Functions.
pub(super) const FUNCTION_NAMES: &[&str] = &[
    "size",
    "contains",
    "startsWith",
    "endsWith",
    "matches",
    "string",
    "int",
    "uint",
    "double",
    "bool",
    "bytes",
    "type",
    "dyn",
    "timestamp",
    "duration",
    "getFullYear",
    "getMonth",
    "getDate",
    "getDayOfMonth",
    "getDayOfWeek",
    "getDayOfYear",
    "getHours",
    "getMinutes",
    "getSeconds",
    "getMilliseconds",
    "orValue",
    "hasValue",
    "has",
    "all",
    "exists",
    "exists_one",
    "map",
    "filter",
];

/// The forms in which a function is called; none: it does not exist, or is a macro that was not written as one.
pub(super) fn function(name: &str) -> Option<&'static [Form]> {
    Some(match name {
        "size" => BOTH,
        "contains" | "startsWith" | "endsWith" | "orValue" => METHOD,
        "matches" => METHOD,
        "string" | "int" | "uint" | "double" | "bool" | "bytes" | "type" | "dyn" | "timestamp"
        | "duration" => ONE,
        "getFullYear" | "getMonth" | "getDate" | "getDayOfMonth" | "getDayOfWeek" | "getDayOfYear"
        | "getHours" | "getMinutes" | "getSeconds" | "getMilliseconds" => ZONED,
        "hasValue" => &[(true, 0)],
        "has" | "all" | "exists" | "exists_one" | "map" | "filter" => &[],
        _ => return None,
    })
}

/// Whether a function is an operator, such as `_+_`: no function that can be written is called like that.
pub(super) fn is_operator(name: &str) -> bool {
    !name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

/// The fields of something.
pub(super) enum Fields {
    /// Not known beforehand.
    Any,
    /// It has none.
    None,
    /// These.
    These(&'static [&'static str]),
}

/// The fields of a dotted path that begins with a variable.
pub(super) fn fields(path: &str) -> Fields {
    match path {
        "principal" => {
            Fields::These(&["iss", "sub", "client", "token", "tenant", "scopes", "groups", "claims"])
        }
        "tool" => Fields::These(&["name", "own", "server", "annotations"]),
        "tool.annotations" => {
            Fields::These(&["readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"])
        }
        "task" | "run" | "time" => Fields::None,
        _ if path.starts_with("args") || path.starts_with("principal.claims") => Fields::Any,
        _ => Fields::None,
    }
}

/// A hint for a name that is not among the known ones.
pub(super) fn among(name: &str, known: &[&str]) -> String {
    let near = known.iter().filter(|k| distance(name, k) <= 2).min_by_key(|k| distance(name, k));
    near.map_or_else(|| format!("known are: {}", known.join(", ")), |near| format!("did you mean '{near}'?"))
}

/// How a function is called.
pub(super) fn forms(name: &str, forms: &[Form]) -> String {
    let show = |(method, count): &Form| {
        let arguments = ["a", "b", "c"].get(..*count).unwrap_or_default().join(", ");
        format!("{}{name}({arguments})", if *method { "x." } else { "" })
    };
    match forms {
        [] if name == "has" => "write has(x.field)".to_owned(),
        [] => format!("write list.{name}(x, …)"),
        _ => format!("write {}", forms.iter().map(show).collect::<Vec<_>>().join(" or ")),
    }
}

/// Edits between two short names; long ones are far from everything.
fn distance(a: &str, b: &str) -> usize {
    if a.len().max(b.len()) > 32 {
        return usize::MAX;
    }
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.bytes().enumerate() {
        let mut left = i + 1;
        let mut next = vec![left];
        for ((y, above), diagonal) in b.bytes().zip(row.iter().skip(1)).zip(&row) {
            left = (diagonal + usize::from(x != y)).min(above + 1).min(left + 1);
            next.push(left);
        }
        row = next;
    }
    row.last().copied().unwrap_or(usize::MAX)
}
