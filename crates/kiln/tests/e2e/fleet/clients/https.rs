//! HTTPS: certificates that are replaced, both versions of HTTP, compression, clients of ours with an authority
//! of their own.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::Command;

use kiln_testkit::certificates::Certificates;

use super::super::world::PATIENCE;
use super::{Installation, Kind, World};

/// Asks with HTTP/2, then with HTTP/1 and compression, then holds a connection while the certificate changes.
const NODE: &str = r"
const http2 = require('node:http2'), https = require('node:https'), tls = require('node:tls'), fs = require('node:fs');
const assert = require('node:assert/strict'), zlib = require('node:zlib');
const {ADDRESS, TOKEN, CERT, KEY, NEW_CERT, NEW_KEY} = process.env;
const port = new URL(ADDRESS).port;
const authorization = `Bearer ${TOKEN}`;
const ask = (session, path, more = {}) => new Promise((resolve, reject) => {
  const request = session.request({':path': path, authorization, ...more});
  const pieces = [];
  let head;
  request.on('response', headers => { head = headers; });
  request.on('data', piece => pieces.push(piece));
  request.on('end', () => resolve([head, Buffer.concat(pieces)]));
  request.on('error', reject);
});
const serial = () => new Promise((resolve, reject) => {
  const socket = tls.connect({host: '127.0.0.1', port}, () => { resolve(socket.getPeerCertificate().serialNumber); socket.end(); });
  socket.on('error', reject);
});
(async () => {
  const session = http2.connect(ADDRESS);
  const [head, body] = await ask(session, '/api/v1/me');
  assert.equal(session.alpnProtocol, 'h2');
  assert.equal(head[':status'], 200);
  assert.equal(JSON.parse(body).name, 'admin');
  // Many at once on one connection.
  const answers = await Promise.all(Array.from({length: 200}, () => ask(session, '/api/v3/repos/acme/app')));
  assert.ok(answers.every(([head]) => head[':status'] === 200));
  // Packed as asked for.
  for (const [coding, unpack] of [['gzip', zlib.gunzipSync]]) {
    const [head, body] = await ask(session, '/api/openapi.json', {'accept-encoding': coding});
    assert.equal(head['content-encoding'], coding);
    assert.match(head.vary, /accept-encoding/);
    const plain = unpack(body);
    assert.equal(JSON.parse(plain).openapi.slice(0, 3), '3.1');
    assert.ok(body.length * 4 < plain.length, `${body.length} of ${plain.length}`);
  }
  {
    const [head, body] = await ask(session, '/api/openapi.json', {'accept-encoding': 'zstd, gzip;q=0.5'});
    assert.equal(head['content-encoding'], 'zstd');
    assert.deepEqual([...body.subarray(0, 4)], [0x28, 0xb5, 0x2f, 0xfd]);
    // Older versions of Node cannot unpack it.
    if (zlib.zstdDecompressSync) assert.equal(JSON.parse(zlib.zstdDecompressSync(body)).openapi.slice(0, 3), '3.1');
  }
  const [events] = await new Promise(resolve => {
    const request = session.request({':path': '/api/events', authorization, accept: 'text/event-stream', 'accept-encoding': 'gzip'});
    request.on('response', headers => { resolve([headers]); request.close(); });
  });
  assert.equal(events['content-encoding'], undefined);
  // HTTP/1 as well.
  const version = await new Promise((resolve, reject) => https.get(`${ADDRESS}/health`, answer => { answer.resume(); resolve(answer.httpVersion); }).on('error', reject));
  assert.equal(version, '1.1');
  // The certificate changes: new connections see the new one, and the old one goes on.
  const before = await serial();
  fs.renameSync(NEW_CERT, CERT);
  fs.renameSync(NEW_KEY, KEY);
  while (await serial() === before) await new Promise(resolve => setTimeout(resolve, 100));
  const [after] = await ask(session, '/api/v1/me');
  assert.equal(after[':status'], 200);
  session.close();
  console.log('all is well');
})().catch(error => { console.error(error); process.exit(1); });
";

#[test]
fn https_speaks_both_versions_packs_and_takes_over_new_certificates() {
    let it = Installation::new(Kind::Sqlite);
    let (new_cert, new_key) = it.certificates.make("new", "DNS:localhost,IP:127.0.0.1");
    let of = |end: &str| it.world.place.path().join("certificates").join(format!("server.{end}"));
    let mut node = Command::new("timeout");
    node.args(["60", "node", "-e", NODE])
        .env("ADDRESS", &it.server.address)
        .env("CERT", of("pem"))
        .env("KEY", of("key"))
        .env("NEW_CERT", new_cert)
        .env("NEW_KEY", new_key);
    assert_eq!(it.succeeds(&mut node).trim(), "all is well");
    // Whoever forgets the `s` is told.
    let host = it.server.address.trim_start_matches("https://");
    let mut stream = TcpStream::connect(host).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n").unwrap();
    let mut said = String::new();
    stream.read_to_string(&mut said).unwrap();
    assert!(said.starts_with("HTTP/1.1 400") && said.contains(&it.server.address), "{said}");
    // Our own command line trusts whom it is told to trust, and nobody else.
    let ask = |ca: Option<PathBuf>| {
        let mut command = it.world.place.command("", &["runs", "--server", &it.server.address]);
        command.env("KILN_TOKEN", it.server.token()).env_remove("SSL_CERT_FILE");
        if let Some(ca) = ca {
            command.env("KILN_CA", ca);
        }
        command.output().unwrap()
    };
    assert!(ask(Some(it.certificates.authority())).status.success());
    let refused = String::from_utf8_lossy(&ask(None).stderr).into_owned();
    assert!(refused.contains("is not trusted"), "{refused}");
}

/// What is wrong with the files is said before anything starts, with the name of the setting.
#[test]
fn a_certificate_that_cannot_be_used_is_refused_at_the_start() {
    let world = World::in_one_place();
    let certificates = Certificates::new(world.place.path());
    let (cert, key) = certificates.make("one", "DNS:localhost");
    let (_, other) = certificates.make("two", "DNS:localhost");
    let check = |arguments: &[&str], expect: &str| {
        let all = [&["config", "check"], arguments].concat();
        let output = world.place.command("", &all).output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned()
            + &String::from_utf8_lossy(&output.stderr);
        assert_eq!((output.status.code(), said.contains(expect)), (Some(1), true), "{said}");
    };
    check(
        &["--tls-cert", &cert, "--tls-key", &other],
        "--tls-key: `tls_key`: this is not the key of",
    );
    check(&["--tls-cert", &cert], "a certificate needs its key; set `tls_key`");
    check(&["--tls-key", &key], "a key needs its certificate; set `tls_cert`");
    check(&["--tls-cert", "/none.pem", "--tls-key", &key], "`/none.pem` cannot be read");
}

/// `kiln up` reaches itself by its public address, with an authority of its own.
#[test]
fn kiln_up_works_with_a_certificate_of_an_own_authority() {
    let world = World::in_one_place();
    let certificates = Certificates::new(world.place.path());
    let (cert, key) = certificates.make("up", "DNS:localhost,IP:127.0.0.1");
    let ca = format!("ca_file={}", certificates.authority().display());
    let data = world.place.path().join("up").to_string_lossy().into_owned();
    let up = world.start(&[
        "up",
        "--json",
        "--data",
        &data,
        "--listen",
        "127.0.0.1:0",
        "--tls-cert",
        &cert,
        "--tls-key",
        &key,
        "--set",
        &ca,
    ]);
    let ended = up.json_with("conclusion");
    assert_eq!(ended["conclusion"], "success", "{ended}");
    let output = world
        .place
        .command("", &["runs", "--json"])
        .env("KILN_DATA", &data)
        .env_remove("SSL_CERT_FILE")
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    up.stop();
}
