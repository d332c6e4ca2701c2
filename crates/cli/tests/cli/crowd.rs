//! As many sessions as one process can hold.

use std::thread;

use seawall_measure::names;

use crate::support::{succeed, until};
use crate::watched::Watched;

/// Sessions, of one server and one load.
const CROWD: u32 = 10_000;

/// Rate and time of the load: some twenty requests for each session, as each goes to a session that
/// is drawn at random.
const LOAD: [&str; 3] = ["--rate=8000", "--warm-up=4s", "--time=20s"];

/// Memory that a session may cost the server: several times what it does.
const SESSION_MAX: u64 = 16 << 10;

#[test]
#[ignore = "long: ten thousand sessions, and all of them send"]
fn ten_thousand_sessions_send() {
    let watched = Watched::start(&["synthetic", "--service=const:10us"]);
    let (address, before) = (watched.server.address(), watched.server.memory());
    let load = thread::spawn(move || {
        let crowd = format!("--sessions={CROWD}");
        succeed(&[&["load", &address, "--json", &crowd], &LOAD[..]].concat()).json()
    });
    // A session is registered once it has sent something.
    until("all sessions have sent", || {
        watched.value(&names::SESSIONS_REGISTERED) == Some(f64::from(CROWD))
    });
    let memory = watched.server.memory().saturating_sub(before) / u64::from(CROWD);
    println!("{memory} bytes a session");
    assert!(memory < SESSION_MAX, "{memory} bytes a session");

    let summary = load.join().unwrap();
    assert_eq!(summary["sessions"], CROWD);
    assert_eq!((&summary["failed"], &summary["unanswered"]), (&0.into(), &0.into()), "{summary}");
    assert!(summary["goodput"].as_f64() > Some(0.0), "{summary}");
    until("everybody has left", || watched.value(&names::SESSIONS) == Some(0.0));
}
