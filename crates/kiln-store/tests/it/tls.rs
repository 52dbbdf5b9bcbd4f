//! Encrypted connections to PostgreSQL, and what is said where there can be none.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use kiln_store::{Options, Store, Tx};
use kiln_testkit::certificates::Certificates;
use kiln_testkit::cluster::Cluster;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

fn open(url: &str) -> Result<Store, String> {
    let options = Options::Postgres { url: url.to_owned(), connections: 2 };
    Store::open(&options).map_err(|error| error.to_string())
}

/// Whether what asks is encrypted; otherwise why there is no connection.
async fn is_encrypted(url: &str) -> Result<bool, String> {
    let look = async |tx: &mut Tx<'_>| {
        let sql = "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()";
        tx.one("connection", sql, &[]).await?.get::<bool>(0)
    };
    let store = open(url)?;
    // What cannot work is not tried again and again.
    let answer = tokio::time::timeout(Duration::from_secs(30), store.read(look)).await;
    answer.expect("it says at once what is wrong").map_err(|error| error.to_string())
}

/// A server before the given one that says it speaks TLS and then does not. Counts who asked for it.
async fn broken_tls(to: String) -> (u16, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (port, asked) = (listener.local_addr().unwrap().port(), Arc::new(AtomicUsize::new(0)));
    let counted = Arc::clone(&asked);
    tokio::spawn(async move {
        while let Ok((mut near, _)) = listener.accept().await {
            let (to, asked) = (to.clone(), Arc::clone(&counted));
            tokio::spawn(async move {
                let mut first = [0; 8];
                near.read_exact(&mut first).await.unwrap();
                // The number by which a client asks for TLS.
                if first[4..] == 80_877_103_u32.to_be_bytes() {
                    asked.fetch_add(1, Ordering::SeqCst);
                    let _ = near.write_all(b"Sno such thing").await;
                    return;
                }
                let mut far = TcpStream::connect(to).await.unwrap();
                far.write_all(&first).await.unwrap();
                let _ = tokio::io::copy_bidirectional(&mut near, &mut far).await;
            });
        }
    });
    (port, asked)
}

/// Where TLS is wished for and no more, one that fails is no reason to have no connection; where it is demanded, it is.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_only_preferred_is_done_without_when_it_fails() {
    let cluster = Cluster::new().await;
    let url = cluster.url();
    let (before, rest) = url.split_once('@').unwrap();
    let (host, path) = rest.split_once('/').unwrap();
    let (port, asked) = broken_tls(host.to_owned()).await;
    let url = |query: &str| format!("{before}@127.0.0.1:{port}/{path}{query}");
    for query in ["", "?sslmode=prefer"] {
        let before = asked.load(Ordering::SeqCst);
        assert_eq!(is_encrypted(&url(query)).await, Ok(false), "{query}");
        assert!(asked.load(Ordering::SeqCst) > before, "it was tried first");
    }
    for mode in ["require", "verify-full"] {
        let refused = is_encrypted(&url(&format!("?sslmode={mode}"))).await.unwrap_err();
        assert!(refused.contains("TLS"), "{refused}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_are_as_protected_as_the_address_asks() {
    let place = tempfile::tempdir().unwrap();
    let certificates = Certificates::new(place.path());
    let mut cluster = Cluster::new().await;
    let url = |query: &str| format!("{}{query}", cluster.url());
    assert_eq!(is_encrypted(&url("")).await, Ok(false), "it speaks no TLS yet");
    assert_eq!(is_encrypted(&url("?sslmode=prefer")).await, Ok(false));
    for mode in ["require", "verify-ca", "verify-full"] {
        let ca = certificates.authority().display().to_string();
        let refused =
            is_encrypted(&url(&format!("?sslmode={mode}&sslrootcert={ca}"))).await.unwrap_err();
        assert!(refused.contains("`ssl = on`") && refused.contains("sslmode=disable"), "{refused}");
    }

    let (cert, key) = certificates.make("database", "IP:127.0.0.1");
    cluster.encrypt(&cert, &key).await;
    let ca = format!("sslrootcert={}", certificates.authority().display());
    let url = |query: &str| format!("{}?{query}", cluster.url());
    assert_eq!(is_encrypted(&cluster.url()).await, Ok(true), "what is there is used");
    assert_eq!(is_encrypted(&url("sslmode=disable")).await, Ok(false));
    assert_eq!(is_encrypted(&url("sslmode=require")).await, Ok(true));
    for mode in ["require", "verify-ca", "verify-full"] {
        assert_eq!(is_encrypted(&url(&format!("sslmode={mode}&{ca}"))).await, Ok(true), "{mode}");
    }
    // Its authority is none of those that the system knows, nor another of ours.
    let other = place.path().join("other");
    std::fs::create_dir(&other).unwrap();
    let other = format!("sslrootcert={}", Certificates::new(&other).authority().display());
    for query in ["sslmode=verify-full", "sslmode=verify-ca", &format!("sslmode=require&{other}")] {
        let refused = is_encrypted(&url(query)).await.unwrap_err();
        assert!(refused.contains("name the file of its authority"), "{query}: {refused}");
    }

    let (cert, key) = certificates.make("elsewhere", "DNS:db.example");
    cluster.encrypt(&cert, &key).await;
    let url = |query: &str| format!("{}?{query}&{ca}", cluster.url());
    assert_eq!(is_encrypted(&url("sslmode=verify-ca")).await, Ok(true), "the name does not matter");
    let refused = is_encrypted(&url("sslmode=verify-full")).await.unwrap_err();
    assert!(refused.contains("another host") && refused.contains("db.example"), "{refused}");
}

/// The connection for hints and the one that leads are no way around it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_connection_is_encrypted() {
    let place = tempfile::tempdir().unwrap();
    let certificates = Certificates::new(place.path());
    let mut cluster = Cluster::new().await;
    let (cert, key) = certificates.make("database", "IP:127.0.0.1");
    cluster.encrypt(&cert, &key).await;
    let ca = certificates.authority().display().to_string();
    let store = open(&format!("{}?sslmode=verify-full&sslrootcert={ca}", cluster.url())).unwrap();
    store.migrate().await.unwrap();
    let _ears = store.subscribe();
    let mut leadership = store.leadership("a test");
    assert!(tokio::time::timeout(Duration::from_secs(30), leadership.changed()).await.unwrap());
    let look = async |tx: &mut Tx<'_>| {
        let sql = "SELECT a.application_name, s.ssl FROM pg_stat_activity AS a JOIN pg_stat_ssl AS s USING (pid)
                   WHERE a.application_name LIKE 'kiln%' ORDER BY 1";
        let rows = tx.rows(sql, &[]).await?;
        rows.iter().map(|row| Ok((row.get(0)?, row.get(1)?))).collect()
    };
    let mut found: Vec<(String, bool)> = Vec::new();
    for _ in 0..300 {
        found = store.read(look).await.unwrap();
        if found.iter().any(|(name, _)| name == "kiln hints") {
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    for name in ["kiln", "kiln hints", "kiln leader"] {
        assert!(found.contains(&(name.to_owned(), true)), "{name}: {found:?}");
    }
    assert!(found.iter().all(|(_, encrypted)| *encrypted), "{found:?}");
}

/// Before anything is asked of a database.
#[tokio::test]
async fn a_file_of_an_authority_that_is_none_is_named() {
    let place = tempfile::tempdir().unwrap();
    let check = |content: Option<&str>, word: &str| {
        let file = place.path().join("ca.pem");
        if let Some(content) = content {
            std::fs::write(&file, content).unwrap();
        }
        let url =
            format!("postgres://me:secret@db/x?sslmode=verify-ca&sslrootcert={}", file.display());
        let said = open(&url).unwrap_err();
        assert!(
            said.contains(word) && said.contains("ca.pem") && !said.contains("secret"),
            "{said}"
        );
    };
    check(None, "cannot be read");
    check(Some("nothing of use"), "no certificate in PEM");
    check(Some("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"), "sslrootcert");
}
