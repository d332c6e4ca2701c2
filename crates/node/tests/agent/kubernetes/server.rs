//! An API server of Kubernetes as far as the agent needs one: HTTPS, answers by a script.

use std::convert::Infallible;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use rcgen::{CertifiedKey, generate_simple_self_signed};
use rustls::ServerConfig;
use rustls::pki_types::PrivateKeyDer;
use serde_json::Value;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio_rustls::TlsAcceptor;

/// What was asked.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Asked {
    pub(super) method: String,
    /// Path and query.
    pub(super) path: String,
    pub(super) token: String,
    pub(super) kind: String,
    pub(super) body: Value,
}

/// What is answered.
pub(super) enum Reply {
    Json(u16, String),
    After(u16, &'static str),
    /// An answer that never comes.
    Hang,
    /// The connection ends instead.
    Close,
    /// Once somebody says so.
    Gate(oneshot::Receiver<()>, String),
}

type Script = Box<dyn FnMut(&Asked) -> Reply + Send>;

/// The server, which ends with this.
pub(super) struct Server {
    pub(super) address: SocketAddr,
    pub(super) folder: PathBuf,
    asked: Arc<Mutex<Vec<Asked>>>,
    _end: oneshot::Sender<()>,
}

impl Server {
    /// Answers by this script; its certificate and a token are put into the folder.
    pub(super) fn start(
        folder: &Path,
        script: impl FnMut(&Asked) -> Reply + Send + 'static,
    ) -> Self {
        let CertifiedKey { cert, signing_key } =
            generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).unwrap();
        fs::write(folder.join("ca.crt"), cert.pem()).unwrap();
        fs::write(folder.join("token"), "one\n").unwrap();
        let key = PrivateKeyDer::try_from(signing_key.serialize_der()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider);
        let config = config.with_safe_default_protocol_versions().unwrap().with_no_client_auth();
        let config = config.with_single_cert(vec![cert.der().clone()], key).unwrap();
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let asked = Arc::<Mutex<Vec<Asked>>>::default();
        let (end, ended) = oneshot::channel();
        let (told, bound) = std::sync::mpsc::channel();
        let state = (Arc::clone(&asked), Arc::new(Mutex::new(Box::new(script) as Script)));
        thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.unwrap().block_on(async {
                let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
                told.send(listener.local_addr().unwrap()).unwrap();
                tokio::select! {
                    () = accept(listener, acceptor, state) => {}
                    _ = ended => {}
                }
            });
        });
        let address = bound.recv().unwrap();
        Self { address, folder: folder.to_owned(), asked, _end: end }
    }

    pub(super) fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }

    /// Resizes only.
    pub(super) fn patches(&self) -> Vec<Asked> {
        self.asked().into_iter().filter(|asked| asked.method == "PATCH").collect()
    }
}

type State = (Arc<Mutex<Vec<Asked>>>, Arc<Mutex<Script>>);

async fn accept(listener: TcpListener, acceptor: TlsAcceptor, state: State) {
    loop {
        let (tcp, _) = listener.accept().await.unwrap();
        let (acceptor, state) = (acceptor.clone(), state.clone());
        tokio::spawn(async move {
            // A client that does not trust us ends here.
            let Ok(tls) = acceptor.accept(tcp).await else { return };
            let service = service_fn(move |request| answer(request, state.clone()));
            let _ = hyper::server::conn::http1::Builder::new()
                .serve_connection(TokioIo::new(tls), service)
                .await;
        });
    }
}

/// An error ends the connection.
async fn answer(
    request: Request<Incoming>,
    (all, script): State,
) -> Result<Response<Full<Bytes>>, std::io::Error> {
    let header = |name: &str| {
        let value = request.headers().get(name).and_then(|value| value.to_str().ok());
        value.unwrap_or_default().to_owned()
    };
    let (token, kind) = (header("authorization"), header("content-type"));
    let (method, path) = (request.method().to_string(), request.uri().to_string());
    let body = request.into_body().collect().await.map_err(std::io::Error::other)?.to_bytes();
    let body = serde_json::from_slice(&body).unwrap_or_default();
    let asked = Asked { method, path, token, kind, body };
    let reply = (script.lock().unwrap())(&asked);
    all.lock().unwrap().push(asked);
    let mut response = Response::builder();
    let (code, body) = match reply {
        Reply::Json(code, body) => (code, body),
        Reply::After(code, seconds) => {
            response = response.header("retry-after", seconds);
            (code, String::new())
        }
        Reply::Hang => std::future::pending::<Result<_, Infallible>>().await.unwrap(),
        Reply::Close => return Err(std::io::Error::other("as the script says")),
        Reply::Gate(gate, body) => {
            let _ = gate.await;
            (200, body)
        }
    };
    Ok(response.status(code).body(Full::new(Bytes::from(body))).unwrap())
}

/// A server on plain TCP that says something else to whoever comes.
pub(super) fn babble() -> SocketAddr {
    let (told, bound) = std::sync::mpsc::channel();
    thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.unwrap().block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            told.send(listener.local_addr().unwrap()).unwrap();
            while let Ok((mut tcp, _)) = listener.accept().await {
                let _ = tcp.write_all(b"220 mail.example ESMTP\r\n").await;
            }
        });
    });
    bound.recv().unwrap()
}
