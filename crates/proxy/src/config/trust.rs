//! Whom to believe: a word, or the table that all listeners of Seawall have.

use std::fmt;

use seawall_control::trust::Trust;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, MapAccess, Unexpected, Visitor};
use serde::{Deserialize, Deserializer};

/// Reads either.
pub(super) fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Trust, D::Error> {
    deserializer.deserialize_any(Either)
}

struct Either;

impl<'de> Visitor<'de> for Either {
    type Value = Trust;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("\"nobody\", \"everybody\", or a table of identities")
    }

    fn visit_str<E: Error>(self, word: &str) -> Result<Trust, E> {
        match word {
            "nobody" => Ok(Trust::default()),
            "everybody" => Ok(Trust { everybody: true, ..Trust::default() }),
            other => Err(E::invalid_value(Unexpected::Str(other), &self)),
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, table: A) -> Result<Trust, A::Error> {
        Trust::deserialize(MapAccessDeserializer::new(table))
    }
}

#[cfg(test)]
mod tests {
    use crate::config::{Config, from_layers};

    fn read(trust: &str) -> Result<Config, String> {
        let text = format!("{trust}\nupstreams.one = {{ replicas = ['http://127.0.0.1:1'] }}\n");
        from_layers(Some(("proxy.toml", &text)), &[]).map_err(|error| error.to_string())
    }

    #[test]
    fn a_word_or_a_table_says_whom_to_believe() {
        let trust = |text| read(text).unwrap().trust;
        assert!(!trust("").everybody && !trust("trust = 'nobody'").everybody);
        assert!(trust("trust = 'everybody'").everybody);
        let known = "trust.identities = [{ name = 'billing', token = '0123456789abcdef' }]";
        assert_eq!(trust(known).identities[0].name, "billing");
    }

    #[test]
    fn what_is_neither_is_named() {
        for (text, problem) in [
            ("trust = 'friends'", "\"nobody\", \"everybody\", or a table of identities"),
            ("trust = 5", "\"nobody\", \"everybody\", or a table of identities"),
            ("trust.friends = true", "require_identity"),
            ("trust.require_identity = true", "trust.require_identity: nobody could connect"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.contains(problem), "{text}: {error}");
        }
    }
}
