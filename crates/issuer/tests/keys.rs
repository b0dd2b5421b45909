//! An issuer on this machine that publishes its keys over HTTPS, well or badly.

use std::{
    collections::BTreeMap,
    io::Write,
    net::Ipv4Addr,
    pin::pin,
    sync::{Arc, Mutex},
    task::{Context, Waker},
    time::Duration,
};

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use leveret_issuer::{Address, Published, Publishers, Source};
use leveret_oauth::{Keys, ProviderId, TokenError, TokenSettings, Tokens};
use leveret_runtime::Issuer;
use leveret_tls::{CertificateFiles, ClientTlsSettings, Tls, TlsSettings, Verify};
use rcgen::{CertificateParams, KeyPair};
use ring::{
    rand::SystemRandom,
    signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _},
};
use serde_json::{Value, json};
use tempfile::NamedTempFile;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
    task::JoinSet,
    time,
};
use tokio_rustls::TlsAcceptor;

const ID: ProviderId = ProviderId(0);

/// The interval within which nobody is asked twice, and a bit.
const LATER: Duration = Duration::from_secs(6);

/// What is answered at each path, byte by byte; and which paths were asked for.
#[derive(Default)]
struct Site {
    answers: BTreeMap<String, Vec<u8>>,
    asked: Vec<String>,
}

/// A server of HTTPS with a certificate for `localhost`, signed by itself.
struct Server {
    port: u16,
    site: Arc<Mutex<Site>>,
    certificate: NamedTempFile,
    _tasks: JoinSet<()>,
}

impl Server {
    async fn start() -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await;
        let listener = listener.expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let key = KeyPair::generate().expect("a key");
        let names = vec!["localhost".to_owned()];
        let params = CertificateParams::new(names).expect("good");
        let signed = params.self_signed(&key).expect("a certificate");
        let certificate = file(signed.pem().as_bytes());
        let own_key = file(key.serialize_pem().as_bytes());
        let tls = Tls::load(TlsSettings::new(CertificateFiles {
            certificate: certificate.path().to_owned(),
            key: own_key.path().to_owned(),
        }));
        let acceptor = TlsAcceptor::from(tls.expect("good").config());
        let site: Arc<Mutex<Site>> = Arc::default();
        let mut tasks = JoinSet::new();
        tasks.spawn(accept(listener, acceptor, site.clone()));
        Self {
            port,
            site,
            certificate,
            _tasks: tasks,
        }
    }

    /// Answers with 200 and this body.
    fn publish(&self, path: &str, body: &str) {
        let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", body.len());
        self.answer(path, format!("{head}{body}").into_bytes());
    }

    fn answer(&self, path: &str, answer: Vec<u8>) {
        let mut site = self.site.lock().expect("good");
        site.answers.insert(path.to_owned(), answer);
    }

    fn asked(&self) -> Vec<String> {
        self.site.lock().expect("good").asked.clone()
    }

    fn address(&self, host: &str, path: &str) -> Address {
        Address::read(&format!("https://{host}:{}{path}", self.port)).expect("good")
    }

    fn tls(&self) -> ClientTlsSettings {
        ClientTlsSettings {
            authorities: Some(self.certificate.path().to_owned()),
            ..ClientTlsSettings::default()
        }
    }

    /// One who asks for the keys at `/keys`.
    fn asker(&self) -> Asker {
        let place = self.address("localhost", "/keys");
        Asker::new(Source::Keys(place), self.tls())
    }
}

fn file(content: &[u8]) -> NamedTempFile {
    let mut file = NamedTempFile::new().expect("a file");
    file.write_all(content).expect("room");
    file
}

async fn accept(listener: TcpListener, acceptor: TlsAcceptor, site: Arc<Mutex<Site>>) {
    let mut connections = JoinSet::new();
    while let Ok((socket, _)) = listener.accept().await {
        let (acceptor, site) = (acceptor.clone(), site.clone());
        connections.spawn(async move {
            let Ok(mut socket) = acceptor.accept(socket).await else {
                return;
            };
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                match socket.read_u8().await {
                    Ok(octet) => head.push(octet),
                    Err(_) => return,
                }
            }
            let head = String::from_utf8(head).expect("text");
            let path = head.split(' ').nth(1).expect("a path").to_owned();
            let answer = {
                let mut site = site.lock().expect("good");
                site.asked.push(path.clone());
                site.answers.get(&path).cloned()
            };
            match answer {
                Some(answer) => {
                    let _ = socket.write_all(&answer).await;
                    let _ = socket.shutdown().await;
                }
                // Says nothing, and does not hang up.
                None => std::future::pending().await,
            }
        });
    }
}

/// Tokens, and who asks for their keys.
struct Asker {
    tokens: Arc<Tokens>,
    publishers: Arc<Publishers>,
}

impl Asker {
    fn new(source: Source, tls: ClientTlsSettings) -> Self {
        let settings = TokenSettings::new("rabbitmq");
        let tokens = Arc::new(Tokens::new(settings, Keys::default()));
        let published = Published {
            name: "issuer".to_owned(),
            id: ID,
            source,
            tls,
        };
        let publishers = Publishers::new(vec![published], &tokens);
        Self {
            tokens,
            publishers: publishers.into(),
        }
    }

    async fn renew(&self) -> bool {
        self.publishers.renew_keys(ID).await
    }

    /// The same when the interval is over.
    async fn renew_later(&self) -> bool {
        time::pause();
        time::advance(LATER).await;
        time::resume();
        self.renew().await
    }

    fn takes(&self, signer: &Signer) -> bool {
        let read = self.tokens.read(signer.token().as_bytes());
        assert!(
            matches!(read, Ok(_) | Err(TokenError::UnknownKey)),
            "{read:?}"
        );
        read.is_ok()
    }
}

/// Who signs tokens, with a key of this id.
struct Signer {
    id: &'static str,
    pair: EcdsaKeyPair,
}

impl Signer {
    fn new(id: &'static str) -> Self {
        let algorithm = &ECDSA_P256_SHA256_FIXED_SIGNING;
        let random = SystemRandom::new();
        let document = EcdsaKeyPair::generate_pkcs8(algorithm, &random).expect("a key");
        let pair = EcdsaKeyPair::from_pkcs8(algorithm, document.as_ref(), &random);
        let pair = pair.expect("a key");
        Self { id, pair }
    }

    fn set(&self) -> String {
        let point = self.pair.public_key().as_ref();
        let (x, y) = (base64(&point[1..33]), base64(&point[33..]));
        let key =
            json!({"kty": "EC", "crv": "P-256", "use": "sig", "kid": self.id, "x": x, "y": y});
        json!({"keys": [key]}).to_string()
    }

    fn token(&self) -> String {
        let part = |value: Value| base64(value.to_string().as_bytes());
        let header = part(json!({"alg": "ES256", "kid": self.id}));
        let claims = part(json!({"aud": "rabbitmq", "exp": 4_000_000_000_u64}));
        let text = format!("{header}.{claims}");
        let signature = self.pair.sign(&SystemRandom::new(), text.as_bytes());
        format!("{text}.{}", base64(signature.expect("good").as_ref()))
    }
}

fn base64(octets: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(octets)
}

#[tokio::test]
async fn keys_are_where_the_operator_says() {
    let (server, signer) = (Server::start().await, Signer::new("a"));
    server.publish("/keys", &signer.set());
    let asker = server.asker();
    assert!(!asker.takes(&signer));
    assert!(asker.renew().await);
    assert!(asker.takes(&signer));
    assert_eq!(server.asked(), ["/keys"]);
}

#[tokio::test]
async fn keys_are_where_the_issuer_says() {
    let (server, signer) = (Server::start().await, Signer::new("a"));
    server.publish("/keys", &signer.set());
    let place = server.address("localhost", "/keys").to_string();
    let document = json!({"issuer": "x", "jwks_uri": place}).to_string();
    server.publish("/realm/.well-known/openid-configuration", &document);
    let issuer = server.address("localhost", "/realm");
    let source = Source::Discovery(issuer.discovery(None, &[]).expect("good"));
    let asker = Asker::new(source, server.tls());
    assert!(asker.renew().await);
    assert!(asker.takes(&signer));
    let expected = ["/realm/.well-known/openid-configuration", "/keys"];
    assert_eq!(server.asked(), expected);
}

#[tokio::test]
async fn sc53_an_issuer_cannot_send_us_to_what_is_no_https() {
    let (server, signer) = (Server::start().await, Signer::new("a"));
    let asker = Asker::new(
        Source::Discovery(server.address("localhost", "/document")),
        server.tls(),
    );
    for place in [
        "http://localhost/keys",
        "file:///etc/passwd",
        r"\\host\share",
        "",
    ] {
        server.publish("/document", &json!({"jwks_uri": place}).to_string());
        assert!(!asker.renew_later().await, "{place}");
    }
    server.publish("/document", "{}");
    assert!(!asker.renew_later().await);
    server.publish("/document", "no JSON");
    assert!(!asker.renew_later().await);
    assert_eq!(server.asked(), ["/document"; 6]);
    assert!(!asker.takes(&signer));
}

#[tokio::test]
async fn who_publishes_keys_has_a_certificate_that_leads_to_an_authority() {
    let (server, other) = (Server::start().await, Server::start().await);
    let signer = Signer::new("a");
    server.publish("/keys", &signer.set());
    let ask = async |host: &str, tls: ClientTlsSettings| {
        let asker = Asker::new(Source::Keys(server.address(host, "/keys")), tls);
        asker.renew().await
    };
    assert!(ask("localhost", server.tls()).await);
    assert!(!ask("localhost", other.tls()).await, "of another authority");
    assert!(!ask("127.0.0.1", server.tls()).await, "of another name");
    let of_system = ClientTlsSettings::default();
    assert!(
        !ask("localhost", of_system).await,
        "of nobody the system knows"
    );
    let missing = ClientTlsSettings {
        authorities: Some("/nowhere".into()),
        ..server.tls()
    };
    assert!(!ask("localhost", missing).await, "no file");
    assert_eq!(server.asked(), ["/keys"], "nobody else was asked anything");
    let anybody = ClientTlsSettings {
        verify: Verify::None,
        ..ClientTlsSettings::default()
    };
    assert!(ask("127.0.0.1", anybody).await, "as the operator said");
}

#[tokio::test]
async fn an_answer_that_is_no_set_of_keys_leaves_those_that_are_known() {
    let (server, signer) = (Server::start().await, Signer::new("a"));
    let asker = server.asker();
    server.publish("/keys", &signer.set());
    assert!(asker.renew().await);
    let set = Signer::new("b").set();
    let with_head = |head: &str| format!("HTTP/1.1 {head}\r\n\r\n{set}").into_bytes();
    let long = format!("content-length: {}", set.len());
    let large = format!("{{\"keys\": [], \"x\": \"{}\"}}", "x".repeat(1024 * 1024));
    let mut endless = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n".to_vec();
    for _ in 0..40 {
        endless.extend_from_slice(b"10000\r\n");
        endless.extend_from_slice(&[b' '; 0x10000]);
        endless.extend_from_slice(b"\r\n");
    }
    for (what, answer) in [
        ("an error", with_head(&format!("500 Oops\r\n{long}"))),
        ("not found", with_head(&format!("404 No\r\n{long}"))),
        ("other success", with_head(&format!("203 Maybe\r\n{long}"))),
        (
            "elsewhere",
            with_head(&format!("302 Found\r\nlocation: /other\r\n{long}")),
        ),
        (
            "cut off",
            with_head(&format!("200 OK\r\ncontent-length: {}", set.len() + 1)),
        ),
        (
            "too large",
            format!(
                "HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{large}",
                large.len()
            )
            .into_bytes(),
        ),
        ("too large in parts", endless),
        ("no HTTP", b"no HTTP\r\n\r\n".to_vec()),
        ("nothing", Vec::new()),
        (
            "no key of use",
            b"HTTP/1.1 200 OK\r\ncontent-length: 11\r\n\r\n{\"keys\":[]}".to_vec(),
        ),
    ] {
        server.answer("/keys", answer);
        assert!(!asker.renew_later().await, "{what}");
        assert!(asker.takes(&signer), "{what}");
    }
    assert!(!server.asked().contains(&"/other".to_owned()));
    server.publish("/keys", &set);
    assert!(asker.renew_later().await);
    assert!(!asker.takes(&signer), "it has been taken back");
}

#[tokio::test]
async fn however_many_come_with_a_key_that_is_not_known_the_issuer_is_asked_once() {
    let server = Server::start().await;
    let asker = server.asker();
    server.publish("/keys", &Signer::new("a").set());
    let mut logins = JoinSet::new();
    for _ in 0..100 {
        let publishers = asker.publishers.clone();
        logins.spawn(async move { publishers.renew_keys(ID).await });
    }
    assert!(logins.join_all().await.iter().all(|found| *found));
    assert_eq!(server.asked().len(), 1);
    assert!(asker.renew_later().await);
    assert_eq!(server.asked().len(), 2);
    assert!(!asker.publishers.renew_keys(ProviderId(1)).await);
    assert_eq!(server.asked().len(), 2);
}

#[tokio::test]
async fn who_hangs_up_does_not_keep_others_from_the_answer() {
    let (server, signer) = (Server::start().await, Signer::new("a"));
    server.publish("/keys", &signer.set());
    let asker = server.asker();
    // Asked, and given up before there can be an answer: nothing of it runs before this task waits.
    let asking = pin!(asker.renew());
    assert!(
        asking
            .poll(&mut Context::from_waker(Waker::noop()))
            .is_pending()
    );
    assert!(asker.renew().await);
    assert!(asker.takes(&signer));
    assert_eq!(server.asked().len(), 1);
}

#[tokio::test]
async fn an_issuer_that_says_nothing_is_not_waited_for() {
    let server = Server::start().await;
    let asker = server.asker();
    let asking = tokio::spawn({
        let publishers = asker.publishers.clone();
        async move { publishers.renew_keys(ID).await }
    });
    while server.asked().is_empty() {
        tokio::task::yield_now().await;
    }
    time::pause();
    time::advance(Duration::from_secs(10)).await;
    time::resume();
    assert!(!asking.await.expect("no panic"));
    let nobody = Address::read("https://localhost:1/keys").expect("good");
    let asker = Asker::new(Source::Keys(nobody), ClientTlsSettings::default());
    assert!(!asker.renew().await);
}

#[tokio::test]
async fn keys_are_asked_for_at_the_start_and_from_time_to_time() {
    let (server, first, second) = (Server::start().await, Signer::new("a"), Signer::new("b"));
    server.publish("/keys", &first.set());
    let asker = server.asker();
    let fresh = tokio::spawn(asker.publishers.clone().keep_fresh());
    while !asker.takes(&first) {
        tokio::task::yield_now().await;
    }
    server.publish("/keys", &second.set());
    time::pause();
    time::advance(Duration::from_secs(60 * 60 + 1)).await;
    time::resume();
    while !asker.takes(&second) {
        tokio::task::yield_now().await;
    }
    assert!(!asker.takes(&first));
    fresh.abort();
}
