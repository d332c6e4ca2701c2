//! Processes that end with the test, and what they said.

use std::io::{BufRead, BufReader, Read};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, geteuid};
use serde_json::Value;
use tempfile::TempDir;

/// How long anything may take before a test gives up: far longer than it ever takes.
const PATIENCE: Duration = Duration::from_secs(120);

/// What a command said.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) status: ExitStatus,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Said {
    /// Standard output as JSON.
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_seawall"));
    command.args(arguments).env_remove("SEAWALL_LOG").env_remove("SEAWALL_TOKEN");
    command
}

/// Runs `seawall` to its end, which must come.
#[track_caller]
pub(crate) fn run(arguments: &[&str]) -> Said {
    ended(command(arguments).stdout(Stdio::piped()), arguments)
}

/// The same with nobody left to read its standard output.
#[track_caller]
pub(crate) fn run_unread(arguments: &[&str]) -> Said {
    let (reader, writer) = std::io::pipe().expect("the system has pipes");
    drop(reader);
    ended(command(arguments).stdout(writer), arguments)
}

/// The same in a shell that has done `first`.
#[track_caller]
pub(crate) fn run_after(first: &str, arguments: &[&str]) -> Said {
    let mut shell = Command::new("sh");
    shell.args(["-c", &format!("{first} && exec \"$0\" \"$@\"")]);
    shell.arg(env!("CARGO_BIN_EXE_seawall")).args(arguments);
    ended(shell.stdout(Stdio::piped()), arguments)
}

#[track_caller]
fn ended(command: &mut Command, arguments: &[&str]) -> Said {
    let child =
        command.stdin(Stdio::null()).stderr(Stdio::piped()).spawn().expect("the command starts");
    let pid = pid(&child);
    let (tell, ended) = mpsc::channel();
    thread::spawn(move || tell.send(child.wait_with_output()));
    let Ok(output) = ended.recv_timeout(PATIENCE) else {
        let _ = kill(pid, Signal::SIGKILL);
        panic!("seawall {} does not end", arguments.join(" "));
    };
    let output = output.expect("a child can be waited for");
    let text = |bytes| String::from_utf8(bytes).expect("it speaks UTF-8");
    Said { status: output.status, stdout: text(output.stdout), stderr: text(output.stderr) }
}

/// Runs `seawall`, which must succeed.
#[track_caller]
pub(crate) fn succeed(arguments: &[&str]) -> Said {
    let said = run(arguments);
    assert!(said.status.success(), "seawall {}: {said:?}", arguments.join(" "));
    said
}

/// Runs `seawall`, which must fail, print nothing, and say all of `expected`.
#[track_caller]
pub(crate) fn fail(arguments: &[&str], expected: &[&str]) {
    has_failed(&run(arguments), arguments, expected);
}

#[track_caller]
fn has_failed(said: &Said, arguments: &[&str], expected: &[&str]) {
    let command = format!("seawall {}", arguments.join(" "));
    assert!(matches!(said.status.code(), Some(1 | 2)), "{command}: {said:?}");
    // What it was about to do may stand before it.
    let errors = said.stderr.lines().filter(|line| line.starts_with("error: "));
    assert_eq!(errors.count(), 1, "{command}: {said:?}");
    assert_eq!(said.stdout, "", "{command}");
    for text in expected {
        assert!(said.stderr.contains(text), "{command} does not say \"{text}\":\n{}", said.stderr);
    }
}

/// A user who may nothing: without capabilities and without real-time priority.
pub(crate) struct Nobody {
    /// Holds the program, where this user can read it.
    folder: TempDir,
}

impl Nobody {
    /// The number that most systems give to the user `nobody`.
    const ID: u32 = 65_534;

    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().expect("there is space for temporary files");
        let open = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(folder.path(), open).expect("it is ours");
        let (built, copy) = (env!("CARGO_BIN_EXE_seawall"), folder.path().join("seawall"));
        if std::fs::hard_link(built, &copy).is_err() {
            std::fs::copy(built, &copy).expect("there is space for the program");
        }
        Self { folder }
    }

    /// Runs `seawall`, which must fail, print nothing, and say all of `expected`.
    #[track_caller]
    pub(crate) fn fails(&self, arguments: &[&str], expected: &[&str]) {
        let said = ended(self.command(arguments).stdout(Stdio::piped()), arguments);
        has_failed(&said, arguments, expected);
    }

    /// Starts a server with these arguments and waits until it is ready.
    #[track_caller]
    pub(crate) fn serves(&self, arguments: &[&str]) -> Served {
        Served::spawn(&mut self.command(arguments), arguments)
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut shell = Command::new("sh");
        shell.args(["-c", "ulimit -r 0 && exec \"$0\" \"$@\""]);
        shell.arg(self.folder.path().join("seawall")).args(arguments).env_remove("SEAWALL_LOG");
        if geteuid().is_root() {
            shell.uid(Self::ID).gid(Self::ID); // and capabilities end with the next program
        }
        shell
    }
}

/// A server on a port of its own, with an SLO that no machine is too slow for. It ends when this is
/// dropped.
pub(crate) struct Served {
    child: Child,
    /// Kept open: a server may have more to say.
    output: BufReader<ChildStdout>,
    ready: Value,
}

impl Served {
    /// Starts `seawall serve` with these arguments and waits until it is ready.
    #[track_caller]
    pub(crate) fn start(arguments: &[&str]) -> Self {
        Self::start_with_slo("5s", arguments)
    }

    /// The same with another SLO.
    #[track_caller]
    pub(crate) fn start_with_slo(slo: &str, arguments: &[&str]) -> Self {
        let fixed = ["serve", "--listen", "127.0.0.1:0", "--slo", slo, "--until-stdin-ends"];
        Self::start_exactly(&[&fixed, arguments].concat())
    }

    /// Starts a server in an environment that has these variables, too.
    #[cfg(feature = "otel")]
    #[track_caller]
    pub(crate) fn start_in(environment: &[(&str, &str)], arguments: &[&str]) -> Self {
        let fixed = ["serve", "--listen", "127.0.0.1:0", "--slo", "5s", "--until-stdin-ends"];
        let arguments = [&fixed, arguments].concat();
        let mut command = command(&arguments);
        Self::spawn(command.envs(environment.iter().copied()), &arguments)
    }

    /// The same without any other arguments.
    #[track_caller]
    pub(crate) fn start_exactly(arguments: &[&str]) -> Self {
        Self::spawn(&mut command(arguments), arguments)
    }

    #[track_caller]
    fn spawn(command: &mut Command, arguments: &[&str]) -> Self {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the command starts");
        let mut output = BufReader::new(child.stdout.take().expect("it is piped"));
        let mut line = String::new();
        output.read_line(&mut line).expect("it can be read");
        let Ok(ready) = serde_json::from_str(&line) else {
            panic!("seawall {} does not serve: {:?}", arguments.join(" "), child.wait_with_output())
        };
        Self { child, output, ready }
    }

    /// Where it listens for the native protocol.
    pub(crate) fn address(&self) -> String {
        self.ready["address"].as_str().expect("the address is a string").to_owned()
    }

    /// Where its metrics are, for a server that has them.
    pub(crate) fn metrics(&self) -> String {
        self.ready["metrics"].as_str().expect("it shows metrics").to_owned()
    }

    /// Whether it shows none.
    pub(crate) fn says_nothing_of_metrics(&self) -> bool {
        self.ready["metrics"].is_null()
    }

    /// Where it listens for memcached's clients.
    pub(crate) fn memcached(&self) -> Option<SocketAddr> {
        let address = self.ready["memcached"].as_str()?;
        Some(address.parse().expect("it is an address"))
    }

    /// Resident memory of the server, in bytes.
    pub(crate) fn memory(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()));
        let status = status.expect("the server still runs");
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kilobytes = line.and_then(|line| line.split_whitespace().next());
        let kilobytes: u64 = kilobytes.and_then(|number| number.parse().ok()).expect("Linux says");
        kilobytes << 10
    }

    /// Sends a signal.
    #[track_caller]
    pub(crate) fn tell(&self, signal: Signal) {
        kill(pid(&self.child), signal).expect("the server still runs");
    }

    /// Sends a signal, and waits for the end.
    #[track_caller]
    pub(crate) fn signalled(mut self, signal: Signal) -> ExitStatus {
        kill(pid(&self.child), signal).expect("the server still runs");
        self.ended()
    }

    /// Sends SIGTERM; gives what the server then says on standard output and on standard error.
    #[track_caller]
    pub(crate) fn last_words(mut self) -> (String, String) {
        kill(pid(&self.child), Signal::SIGTERM).expect("the server still runs");
        let (mut output, mut errors) = (String::new(), String::new());
        self.output.read_to_string(&mut output).expect("it speaks UTF-8");
        let mut stderr = self.child.stderr.take().expect("it is piped");
        stderr.read_to_string(&mut errors).expect("it speaks UTF-8");
        assert!(self.ended().success(), "{errors}");
        (output, errors)
    }

    /// Ends the server's standard input, and waits for its end.
    #[track_caller]
    pub(crate) fn left_alone(mut self) -> ExitStatus {
        drop(self.child.stdin.take());
        self.ended()
    }

    #[track_caller]
    fn ended(&mut self) -> ExitStatus {
        let mut status = None;
        until("the server ends", || {
            status = self.child.try_wait().expect("a child can be waited for");
            status.is_some()
        });
        status.expect("it has ended")
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn pid(child: &Child) -> Pid {
    Pid::from_raw(child.id().cast_signed())
}

/// Waits until `condition` holds, which nothing announces.
#[track_caller]
pub(crate) fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < PATIENCE, "{what}: it did not happen");
        thread::sleep(Duration::from_millis(5));
    }
}

/// A port of loopback at which nobody listens.
pub(crate) fn free_port() -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("loopback has free ports");
    listener.local_addr().expect("it is bound").port()
}

/// A file in the tests' own folder; what an earlier run left in it is gone.
pub(crate) fn file(name: &str) -> PathBuf {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_file(&path);
    path
}

/// The path of such a file with this text.
pub(crate) fn file_with(name: &str, text: &str) -> String {
    let path = file(name);
    std::fs::write(&path, text).expect("the tests' folder can be written");
    path.to_str().expect("the path is UTF-8").to_owned()
}
