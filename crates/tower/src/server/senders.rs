//! Who sends requests, and what of theirs is believed.

use http::{HeaderMap, HeaderValue};
use seawall_control::trust::{Peer, Trust};

use crate::headers::TOKEN;

/// Whom a server believes, worked out once for all requests.
#[derive(Clone, Debug)]
pub struct Senders {
    trust: Trust,
    /// What is believed of those who are known, in the order of the configuration, and of others.
    known: Vec<Peer>,
    unknown: Option<Peer>,
}

/// Who sent a request: its number among those who are known, if it is, and what is believed of it.
pub type Sender<'a> = (Option<usize>, &'a Peer);

impl Senders {
    /// Believes as `trust` says, which is valid.
    pub fn new(trust: &Trust) -> Self {
        let peer = |index| trust.peer(Some(index));
        Self {
            known: (0..trust.identities.len()).filter_map(peer).collect(),
            unknown: trust.peer(None),
            trust: trust.clone(),
        }
    }

    /// Who sent a request, by the token in its headers or by the names in a `certificate` that was
    /// verified; `None` if it must be somebody known and is not. Where anybody is known, a token is
    /// taken out: it is nobody else's business.
    pub fn identify(&self, headers: &mut HeaderMap, certificate: &[String]) -> Option<Sender<'_>> {
        let known = if self.known.is_empty() {
            None
        } else {
            let token = headers.remove(TOKEN);
            self.trust.find(token.as_ref().map(HeaderValue::as_bytes), certificate)
        };
        let peer = match known {
            Some(index) => self.known.get(index),
            None => self.unknown.as_ref(),
        };
        peer.map(|peer| (known, peer))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use seawall_control::trust::Known;

    const PROOF: &str = "0123456789abcdef";

    fn trust() -> Trust {
        let known = |name: &str, token: Option<&str>| Known {
            name: name.into(),
            token: token.map(Into::into),
            certificate: token.is_none().then(|| name.into()),
            ..Known::default()
        };
        let identities = vec![known("web", None), known("billing", Some(PROOF))];
        Trust { identities, ..Trust::default() }
    }

    #[test]
    fn a_token_or_a_certificate_proves_who_it_is_and_the_token_stays_here() {
        let senders = Senders::new(&trust());
        let identify = |token: Option<&str>, names: &[String]| {
            let token = token.map(|token| (TOKEN, HeaderValue::from_str(token).unwrap()));
            let mut headers: HeaderMap = token.into_iter().collect();
            let (number, peer) = senders.identify(&mut headers, names).unwrap();
            assert!(headers.is_empty());
            (number, peer.name.clone())
        };
        assert_eq!(identify(Some(PROOF), &[]), (Some(1), "billing".into()));
        assert_eq!(identify(Some("another-one-1234"), &[]), (None, "unknown".into()));
        assert_eq!(identify(None, &["web".into()]), (Some(0), "web".into()));
        assert_eq!(identify(None, &[]), (None, "unknown".into()));
    }

    #[test]
    fn where_nobody_is_known_tokens_are_somebody_else_s() {
        let mut headers: HeaderMap =
            [(TOKEN, HeaderValue::from_static(PROOF))].into_iter().collect();
        let senders = Senders::new(&Trust::default());
        assert_eq!(senders.identify(&mut headers, &[]).map(|(number, _)| number), Some(None));
        assert!(headers.contains_key(TOKEN));
    }

    #[test]
    fn strangers_can_be_sent_away() {
        let senders = Senders::new(&Trust { require_identity: true, ..trust() });
        assert!(senders.identify(&mut HeaderMap::new(), &[]).is_none());
    }
}
