//! What strangers claim is struck out; what known senders claim is believed as far as agreed.

use bytes::Bytes;
use seawall_control::request::{Claims, Priority, Tenant};
use seawall_control::wire::{Hello, Request, RequestOp};
use seawall_rpc::{
    ClientConfig, ConnectError, Known, Router, Server, ServerConfig, Session, Trust,
};

use crate::support::raw::{Raw, frame};
use crate::support::{Bystander, ECHO, balanced, config, router};

const TOKEN: &str = "a token of thirty-two characters";

/// A server that tells what it believes of a call.
pub(crate) fn telling() -> Router {
    router().method(9, "tell", |ctx, _| async move {
        let Claims { priority, tenant, droppable, start_time_ns, upscale_hops, .. } = *ctx.claims();
        let told =
            format!("{} {} {droppable} {start_time_ns} {upscale_hops}", priority.0, tenant.0);
        Ok(Bytes::from(told))
    })
}

/// Claims everything, and gives what the handler was shown.
pub(crate) async fn claim_everything(client: &mut Raw) -> String {
    let mut request = Request::new(RequestOp::Call);
    request.claims = Claims {
        id: 1,
        method: 9,
        priority: Priority(3),
        tenant: Tenant(99),
        droppable: false,
        start_time_ns: 12_345,
        upscale_hops: 4,
        ..Claims::default()
    };
    client.send(&frame(request, b"")).await;
    client.reply(1).await.text()
}

fn known(name: &str, token: &str) -> Known {
    Known { name: name.into(), token: Some(token.into()), ..Known::default() }
}

fn trusting(identities: Vec<Known>) -> ServerConfig {
    ServerConfig { trust: Trust { identities, ..Trust::default() }, ..config("breakwater") }
}

async fn shown(server: &Server, token: Option<&str>) -> String {
    let token = token.map(|token| token.as_bytes().to_vec());
    let hello = Hello { name: "billing".into(), token, ..Hello::default() };
    let mut client = Raw::connect(server.address()).await.greet(&hello).await;
    claim_everything(&mut client).await
}

#[tokio::test]
async fn claims_are_believed_as_far_as_the_listener_says() {
    let privileged = Known { tenant: 7, not_droppable: true, ..known("billing", TOKEN) };
    let other = "another token, for somebody else";
    let modest = Known { tenant: 8, claims: false, ..known("batch", other) };
    let server = Server::start(trusting(vec![privileged, modest]), telling()).unwrap();
    let stranger = "128 0 true 0 0";
    assert_eq!(shown(&server, None).await, stranger);
    assert_eq!(shown(&server, Some("")).await, stranger);
    assert_eq!(shown(&server, Some(&TOKEN[..31])).await, stranger, "a part proves nothing");
    assert_eq!(shown(&server, Some("a token of thirty-two characterz")).await, stranger);
    assert_eq!(server.stats().privilege_violations, 4);
    assert_eq!(shown(&server, Some(TOKEN)).await, "3 7 false 12345 4");
    assert_eq!(server.stats().privilege_violations, 4);
    assert_eq!(shown(&server, Some(other)).await, "128 8 true 0 0");
    assert_eq!(server.stats().privilege_violations, 5);
    balanced(&server).await;
}

#[tokio::test]
async fn a_lab_may_believe_everybody() {
    let mut config = config("breakwater");
    config.trust.everybody = true;
    let server = Server::start(config, telling()).unwrap();
    assert_eq!(shown(&server, None).await, "3 99 false 12345 4");
}

#[tokio::test]
async fn what_is_not_said_about_a_known_sender_is_what_the_documentation_says() {
    let text = format!("[[trust.identities]]\nname = 'billing'\ntoken = '{TOKEN}'");
    let trust = toml::from_str::<ServerConfig>(&text).unwrap().trust;
    assert_eq!(trust.identities[0].weight, 1);
    let server = Server::start(ServerConfig { trust, ..config("breakwater") }, telling()).unwrap();
    assert_eq!(shown(&server, Some(TOKEN)).await, "3 0 true 12345 4");
}

#[tokio::test]
async fn a_listener_can_insist_on_knowing_its_clients() {
    let mut config = trusting(vec![known("billing", TOKEN)]);
    config.trust.require_identity = true;
    let server = Server::start(config, router()).unwrap();
    let connect = |token: Option<&str>| {
        let config = ClientConfig { token: token.map(Into::into), ..ClientConfig::default() };
        let address = server.address();
        async move { Session::connect(address, &config).await }
    };
    for (turn, token) in [None, Some("the wrong token, of some length")].into_iter().enumerate() {
        let error = connect(token).await.unwrap_err();
        let ConnectError::Refused(reason) = error else { panic!("{error}") };
        assert_eq!(reason, "this listener wants a known token or client certificate");
        assert_eq!(server.stats().closed["unidentified"], turn as u64 + 1);
    }
    let session = connect(Some(TOKEN)).await.unwrap();
    let reply = session.call(seawall_rpc::Request::new(ECHO, "known")).await.unwrap();
    assert_eq!(reply.payload, "known");
    drop(session);
    balanced(&server).await;
}

#[tokio::test]
async fn strangers_at_the_door_do_not_disturb_the_others() {
    let server = Server::start(trusting(vec![known("billing", TOKEN)]), telling()).unwrap();
    let bystander = Bystander::start(&server).await;
    for _ in 0..20 {
        assert_eq!(shown(&server, Some("wrong")).await, "128 0 true 0 0");
    }
    bystander.leave().await;
    balanced(&server).await;
}

/// What is wrong with these identities.
fn complaint(identities: Vec<Known>) -> String {
    trusting(identities).validate().unwrap_err().to_string()
}

#[test]
fn identities_that_cannot_be_proved_are_refused_by_name() {
    assert_eq!(
        complaint(vec![known("billing", "short")]),
        "trust.identities: the token of \"billing\" has 5 bytes; allowed is 16 to 4096"
    );
    assert_eq!(
        complaint(vec![known("billing", &"x".repeat(4_097))]),
        "trust.identities: the token of \"billing\" has 4097 bytes; allowed is 16 to 4096"
    );
    assert_eq!(
        complaint(vec![known("billing", TOKEN), known("batch", TOKEN)]),
        "trust.identities: \"billing\" and \"batch\" cannot be told apart; \
         give each a proof of its own"
    );
    assert_eq!(
        complaint(vec![Known { weight: 0, ..known("billing", TOKEN) }]),
        "trust.identities.weight: 0 is out of range; allowed is 1 to 65536"
    );
    let certified = Known { certificate: Some("billing.internal".into()), ..Known::default() };
    assert_eq!(
        complaint(vec![Known { name: "billing".into(), ..certified }]),
        "trust.identities: \"billing\" has a certificate only, which nobody can show; \
         set tls.client_authorities"
    );
    let mut nobody = config("breakwater");
    nobody.trust.require_identity = true;
    assert_eq!(nobody.validate().unwrap_err().field, "trust.require_identity");
    assert!(Server::start(nobody, Router::new()).is_err());
}
