//! Tables of settings, one laid over the other.

use toml::{Table, Value};

/// Why a key cannot be set.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// A part between two dots is empty.
    #[error("a part of the key is empty; write names with dots between them")]
    Empty,
    /// A part that should have keys is a plain value.
    #[error("{0} is a value, it has no key {1}")]
    NoTable(String, String),
}

/// Sets the value of a key such as `workload.clients`; tables on the way are made.
///
/// # Errors
///
/// When a part of the key is empty, or has a value that is no table.
pub fn insert(table: &mut Table, key: &str, value: Value) -> Result<(), KeyError> {
    let (head, rest) = match key.split_once('.') {
        None => (key, None),
        Some((head, rest)) => (head, Some(rest)),
    };
    if head.is_empty() {
        return Err(KeyError::Empty);
    }
    let Some(rest) = rest else {
        table.insert(head.to_owned(), value);
        return Ok(());
    };
    let entry = table.entry(head).or_insert_with(|| Value::Table(Table::new()));
    match entry {
        Value::Table(inner) => insert(inner, rest, value),
        _ => Err(KeyError::NoTable(head.to_owned(), rest.to_owned())),
    }
}

/// Lays `over` on `table`: tables are joined key by key, all else is replaced.
pub fn lay(table: &mut Table, over: &Table) {
    for (key, value) in over {
        match (table.get_mut(key), value) {
            (Some(Value::Table(inner)), Value::Table(over)) => lay(inner, over),
            _ => _ = table.insert(key.clone(), value.clone()),
        }
    }
}

/// A value as in TOML; what is none, such as `2ms`, is a string.
pub fn literal(text: &str) -> Value {
    let parsed = format!("value = {text}").parse::<Table>();
    let value = parsed.ok().and_then(|mut table| table.remove("value"));
    value.unwrap_or_else(|| Value::String(text.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_joined_and_values_replaced() {
        let mut table: Table = "a = 1\n[b]\nc = 2\nd = [1]".parse().unwrap();
        lay(&mut table, &"[b]\nd = [2, 3]\ne.f = 4".parse().unwrap());
        assert_eq!(table, "a = 1\n[b]\nc = 2\nd = [2, 3]\ne.f = 4".parse().unwrap());
    }

    #[test]
    fn keys_with_dots_reach_into_tables() {
        let mut table = Table::new();
        insert(&mut table, "a.b.c", literal("2ms")).unwrap();
        insert(&mut table, "a.n", literal("0.5")).unwrap();
        assert_eq!(table, "a.b.c = '2ms'\na.n = 0.5".parse().unwrap());
        assert_eq!(insert(&mut table, "a..c", literal("1")), Err(KeyError::Empty));
        let error = insert(&mut table, "a.n.x", literal("1")).unwrap_err();
        assert_eq!(error.to_string(), "n is a value, it has no key x");
    }
}
