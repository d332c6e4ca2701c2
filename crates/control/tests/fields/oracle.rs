//! Another implementation of structured fields, which must think the same of any dictionary.

use proptest::prelude::*;
use seawall_control::fields::{Reading, Request};
use sfv::{BareItem, Dictionary, ListEntry, Parser};

/// What `sfv` says of a number in a dictionary.
fn number(dictionary: &Dictionary, key: &str) -> Option<u32> {
    let ListEntry::Item(item) = dictionary.get(key)? else { return None };
    let BareItem::Integer(number) = item.bare_item else { return None };
    u32::try_from(i64::from(number)).ok()
}

fn text(dictionary: &Dictionary, key: &str) -> Option<String> {
    let ListEntry::Item(item) = dictionary.get(key)? else { return None };
    let BareItem::String(text) = &item.bare_item else { return None };
    let text = text.as_str().to_owned();
    (1..=64).contains(&text.len()).then_some(text)
}

fn compare(line: &str) -> Result<(), TestCaseError> {
    let Reading { fields, malformed, .. } = Request::read([line.as_bytes()]);
    match Parser::new(line).parse::<Dictionary>() {
        Err(error) => prop_assert!(malformed, "{line:?}: {error}"),
        Ok(dictionary) => {
            prop_assert!(!malformed, "{line:?}");
            prop_assert_eq!(fields.demand, number(&dictionary, "demand"), "{:?}", line);
            let client = fields.client.map(|client| client.as_str().to_owned());
            prop_assert_eq!(client, text(&dictionary, "client"), "{:?}", line);
        }
    }
    Ok(())
}

fn key() -> impl Strategy<Value = String> {
    prop_oneof![Just("demand".into()), Just("client".into()), "[a-z*][a-z0-9_.*-]{0,5}"]
}

/// Items of all types. The inside of byte sequences and display strings is not looked at here.
fn item() -> impl Strategy<Value = String> {
    prop_oneof![
        "-?[0-9]{1,16}",
        "-?[0-9]{1,13}\\.[0-9]{0,4}",
        "\"([ !#-\\[\\]-~]|\\\\[\"\\\\]){0,70}\"",
        "[A-Za-z*][A-Za-z0-9!#$%&'*+.^_`|~:/-]{0,8}",
        Just(":AQIDBA==:".into()),
        "\\?[0-2]",
        "@-?[0-9]{1,16}",
        Just("%\"caf%c3%a9\"".into()),
    ]
}

fn parameters() -> impl Strategy<Value = String> {
    let parameter = (key(), prop::option::of(item())).prop_map(|(key, value)| match value {
        Some(value) => format!("; {key}={value}"),
        None => format!(";{key}"),
    });
    prop::collection::vec(parameter, 0..2).prop_map(|all| all.concat())
}

fn value() -> impl Strategy<Value = String> {
    let list = prop::collection::vec((item(), parameters()), 0..3).prop_map(|items| {
        let items: Vec<_> = items.into_iter().map(|(item, more)| item + &more).collect();
        format!("({})", items.join("  "))
    });
    prop_oneof![4 => item(), 1 => list]
}

fn dictionary() -> impl Strategy<Value = String> {
    let member =
        (key(), prop::option::of(value()), parameters()).prop_map(
            |(key, value, more)| match value {
                Some(value) => format!("{key}={value}{more}"),
                None => key + &more,
            },
        );
    let separator = prop_oneof![Just(", "), Just(","), Just(" ,\t ")];
    (prop::collection::vec(member, 0..6), separator)
        .prop_map(|(members, separator)| members.join(separator))
}

proptest! {
    #[test]
    fn dictionaries_mean_the_same(line in dictionary()) {
        compare(&line)?;
    }

    /// One character of a dictionary is another, or gone.
    #[test]
    fn what_is_almost_a_dictionary_is_judged_alike(
        line in dictionary(),
        at in any::<prop::sample::Index>(),
        with in "[ -~\t]?",
    ) {
        // What sfv decodes, and nobody needs, is passed over here.
        prop_assume!(!line.is_empty() && !line.contains([':', '%']));
        prop_assume!(!with.contains([':', '%']));
        let at = at.index(line.len());
        compare(&format!("{}{with}{}", &line[..at], &line[at + 1..]))?;
    }
}
