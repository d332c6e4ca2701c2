//! Whom a listener believes, whatever protocol it speaks.
//!
//! Priority, tenant, the not-droppable mark, start time and upscale hints are claims of the sender.
//! What is not believed is struck out when a request arrives, so that nothing behind the listener
//! has to ask.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

use serde::{Deserialize, Serialize};

use crate::config::ConfigError;
use crate::request::{Claims, Identity, Priority, Tenant};
use crate::secret::Secret;
use crate::wire::Hello;

/// Shortest token, in bytes: shorter ones can be guessed.
const TOKEN_MIN: usize = 16;

/// Trust of one listener.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Trust {
    /// Believe whatever anybody claims. Default false. For a lab, or where only trusted peers can
    /// connect.
    pub everybody: bool,
    /// Close sessions that do not prove who they are. Default false: they get default priority and
    /// no privileges.
    pub require_identity: bool,
    /// Known senders.
    pub identities: Vec<Known>,
}

/// A sender that proves itself by a token or a client certificate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Known {
    /// What it is called in logs.
    pub name: String,
    /// The token that it sends in its hello.
    pub token: Option<Secret>,
    /// A DNS name, or the common name, in its client certificate (mutual TLS).
    pub certificate: Option<String>,
    /// Whom its requests are charged to.
    pub tenant: u32,
    /// Its tenant's share of the pool relative to others. Default 1.
    pub weight: u32,
    /// Believe its priorities and its start times and upscale hints. Default true.
    pub claims: bool,
    /// Believe that a request may not be dropped. Default false.
    pub not_droppable: bool,
}

impl Default for Known {
    fn default() -> Self {
        Self {
            name: String::new(),
            token: None,
            certificate: None,
            tenant: 0,
            weight: 1,
            claims: true,
            not_droppable: false,
        }
    }
}

/// Which claims were not believed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct StruckOut {
    /// A priority, or the privilege of not being refused.
    pub privilege: bool,
    /// An upscale hint.
    pub hint: bool,
}

/// What a session proved.
#[derive(Clone, Debug)]
pub struct Peer {
    /// What it is called in logs.
    pub name: String,
    /// What its session is told to the controller as.
    pub identity: Identity,
    claims: bool,
    not_droppable: bool,
    any_tenant: bool,
}

impl Trust {
    /// Checks that every identity can be proved, and is told apart from the others.
    ///
    /// # Errors
    ///
    /// Names the field and what is wrong.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let field = "trust.identities";
        for (index, known) in self.identities.iter().enumerate() {
            let name = &known.name;
            if known.token.is_none() && known.certificate.is_none() {
                let problem = format!("\"{name}\" has neither a token nor a certificate; give one");
                return Err(ConfigError::new(field, problem));
            }
            let len = known.token.as_ref().map_or(TOKEN_MIN, |token| token.as_bytes().len());
            if !(TOKEN_MIN..=Hello::MAX_LEN).contains(&len) {
                let (least, most) = (TOKEN_MIN, Hello::MAX_LEN);
                let problem = format!(
                    "the token of \"{name}\" has {len} bytes; allowed is {least} to {most}"
                );
                return Err(ConfigError::new(field, problem));
            }
            let twin = self.identities[..index].iter().find(|other| {
                (other.token.is_some() && other.token == known.token)
                    || (other.certificate.is_some() && other.certificate == known.certificate)
            });
            if let Some(twin) = twin {
                let problem = format!(
                    "\"{}\" and \"{name}\" cannot be told apart; give each a proof of its own",
                    twin.name
                );
                return Err(ConfigError::new(field, problem));
            }
            ConfigError::check_range("trust.identities.weight", known.weight, 1..=1 << 16)?;
        }
        if self.require_identity && self.identities.is_empty() {
            return Err(ConfigError::new(
                "trust.require_identity",
                "nobody could connect; add entries to trust.identities",
            ));
        }
        Ok(())
    }

    /// Who a session is, by what it showed; `None` when it must be closed.
    pub fn identify(&self, token: Option<&[u8]>, certificate: &[String]) -> Option<Peer> {
        self.peer(self.find(token, certificate))
    }

    /// Which of the known senders showed that; `None` if nobody known did.
    pub fn find(&self, token: Option<&[u8]>, certificate: &[String]) -> Option<usize> {
        self.identities.iter().position(|known| {
            let by_token = match (&known.token, token) {
                (Some(expected), Some(shown)) => expected.matches(shown),
                _ => false,
            };
            let by_certificate =
                known.certificate.as_ref().is_some_and(|name| certificate.contains(name));
            by_token || by_certificate
        })
    }

    /// What the listener makes of that [known](Self::find) sender, or of one that is unknown;
    /// `None` when it must be closed.
    pub fn peer(&self, known: Option<usize>) -> Option<Peer> {
        match known.and_then(|index| self.identities.get(index)) {
            Some(known) => Some(Peer {
                name: known.name.clone(),
                identity: Identity {
                    tenant: Tenant(known.tenant),
                    weight: known.weight,
                    ..Identity::default()
                },
                claims: known.claims,
                not_droppable: known.not_droppable,
                any_tenant: false,
            }),
            None if self.require_identity => None,
            None => Some(Peer {
                name: "unknown".into(),
                identity: Identity::default(),
                claims: self.everybody,
                not_droppable: self.everybody,
                any_tenant: self.everybody,
            }),
        }
    }
}

impl Peer {
    /// Strikes out what is not believed.
    pub fn strike_out(&self, claims: &mut Claims) -> StruckOut {
        let before = *claims;
        if !self.any_tenant {
            claims.tenant = self.identity.tenant;
        }
        if !self.not_droppable {
            claims.droppable = true;
        }
        if !self.claims {
            claims.priority = Priority::default();
            claims.start_time_ns = 0;
            claims.upscale_hops = 0;
            claims.upstream_exec = Duration::ZERO;
        }
        StruckOut {
            privilege: before.priority != claims.priority || before.droppable != claims.droppable,
            hint: before.upscale_hops != claims.upscale_hops,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    fn trust() -> Trust {
        let known = Known {
            name: "billing".into(),
            token: Some("0123456789abcdef".into()),
            tenant: 7,
            claims: true,
            not_droppable: true,
            ..Known::default()
        };
        Trust { identities: vec![known], ..Trust::default() }
    }

    fn bold_claims() -> Claims {
        let tenant = Tenant(99);
        Claims {
            priority: Priority(0),
            droppable: false,
            tenant,
            upscale_hops: 3,
            start_time_ns: 5,
            upstream_exec: Duration::from_secs(1),
            ..Claims::default()
        }
    }

    #[test]
    fn strangers_get_no_privileges() {
        let stranger = trust().identify(Some(b"0123456789abcdeX"), &[]).unwrap();
        let mut claims = bold_claims();
        assert_eq!(stranger.strike_out(&mut claims), StruckOut { privilege: true, hint: true });
        assert_eq!(claims, Claims::default());
    }

    #[test]
    fn a_token_brings_what_the_listener_says() {
        let peer = trust().identify(Some(b"0123456789abcdef"), &[]).unwrap();
        let mut claims = bold_claims();
        assert_eq!(peer.strike_out(&mut claims), StruckOut::default());
        assert_eq!((claims.upscale_hops, claims.start_time_ns), (3, 5));
        assert_eq!(
            (claims.priority, claims.droppable, claims.tenant),
            (Priority(0), false, Tenant(7))
        );
    }

    #[test]
    fn strangers_can_be_shut_out() {
        let trust = Trust { require_identity: true, ..trust() };
        assert!(trust.identify(None, &[]).is_none());
        assert!(trust.identify(Some(b"0123456789abcdef"), &[]).is_some());
    }

    #[test]
    fn an_identity_that_nobody_can_prove_is_refused() {
        let known = Known { name: "ghost".into(), ..Known::default() };
        let trust = Trust { identities: vec![known], ..Trust::default() };
        assert_eq!(trust.validate().unwrap_err().field, "trust.identities");
    }
}
