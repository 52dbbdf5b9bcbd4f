//! A runner and its server with somebody between them who says things twice, late, and in another order.

use std::io::{self, BufRead, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use kiln_testkit::dice::Dice;

use super::load::{Load, SHORT_LEASE, Storm, close, figure, is_long};
use super::{Kind, World, on_both};

/// The longest that a word is held back, in milliseconds; in the long form some are for far longer than a lease.
const LATE: u64 = 400;
const VERY_LATE: u64 = 30_000;

fn lateness(dice: &mut Dice) -> Duration {
    let most = if is_long() && dice.percent(3) { VERY_LATE } else { LATE };
    Duration::from_millis(dice.below(most))
}

/// A whole request, as it came.
struct Request {
    /// The first line and all headers but those about the connection.
    head: String,
    body: Vec<u8>,
}

impl Request {
    /// The next one of a connection; none when that has ended.
    fn read(from: &mut impl BufRead) -> io::Result<Option<Self>> {
        let (mut head, mut length, mut chunked) = (String::new(), 0, false);
        loop {
            let mut line = String::new();
            if from.read_line(&mut line)? == 0 {
                return Ok(None);
            }
            if line == "\r\n" {
                break;
            }
            let (name, value) = line.split_once(':').unwrap_or((&line, ""));
            match name.to_ascii_lowercase().as_str() {
                "content-length" => length = value.trim().parse().unwrap_or(0),
                "transfer-encoding" => chunked = true,
                "connection" => {}
                _ => head.push_str(&line),
            }
        }
        let body = if chunked { chunks(from)? } else { exactly(from, length)? };
        Ok(Some(Self { head, body }))
    }

    /// Says it to the server, and returns all that this answers.
    fn say(&self, server: &str) -> io::Result<Vec<u8>> {
        let mut stream = TcpStream::connect(server)?;
        let Self { head, body } = self;
        let about = format!("content-length: {}\r\nconnection: close\r\n\r\n", body.len());
        stream.write_all(head.as_bytes())?;
        stream.write_all(about.as_bytes())?;
        stream.write_all(body)?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer)?;
        Ok(answer)
    }

    /// Whether it asks for work, which is held back by the server already.
    fn is_patient(&self) -> bool {
        self.head.contains("/jobs/claim") || self.head.contains("/heartbeat")
    }
}

fn exactly(from: &mut impl BufRead, length: usize) -> io::Result<Vec<u8>> {
    let mut body = vec![0; length];
    from.read_exact(&mut body)?;
    Ok(body)
}

fn chunks(from: &mut impl BufRead) -> io::Result<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let mut line = String::new();
        from.read_line(&mut line)?;
        let size = usize::from_str_radix(line.trim(), 16).map_err(io::Error::other)?;
        body.extend(exactly(from, size)?);
        exactly(from, 2)?;
        if size == 0 {
            return Ok(body);
        }
    }
}

/// Counts what was done to words on their way.
#[derive(Default)]
struct Mischief {
    twice: AtomicU64,
    late: AtomicU64,
    unheard: AtomicU64,
    /// Everything goes through as it is.
    over: AtomicBool,
}

struct Proxy {
    address: String,
    mischief: Arc<Mischief>,
}

impl Proxy {
    fn before(server: &str, mut dice: Dice) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has free ports");
        let port = listener.local_addr().expect("it listens").port();
        let mischief = Arc::new(Mischief::default());
        let (server, shared) = (server.to_owned(), Arc::clone(&mischief));
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (server, mischief, dice) = (server.clone(), Arc::clone(&shared), dice.fork());
                // Whoever breaks off does so for a reason.
                thread::spawn(move || drop(connection(stream, &server, &mischief, dice)));
            }
        });
        Self { address: format!("http://127.0.0.1:{port}"), mischief }
    }
}

fn connection(
    mut stream: TcpStream,
    server: &str,
    mischief: &Mischief,
    mut dice: Dice,
) -> io::Result<()> {
    let mut from = BufReader::new(stream.try_clone()?);
    let Some(request) = Request::read(&mut from)? else { return Ok(()) };
    let pause = |dice: &mut Dice| thread::sleep(lateness(dice));
    let calm = mischief.over.load(Ordering::Relaxed);
    // What is said at once elsewhere overtakes it.
    if !calm && !request.is_patient() && dice.percent(30) {
        mischief.late.fetch_add(1, Ordering::Relaxed);
        pause(&mut dice);
    }
    let answer = request.say(server)?;
    if !calm && dice.percent(10) {
        // It was done, and whoever asked does not hear of it.
        mischief.unheard.fetch_add(1, Ordering::Relaxed);
        return Ok(());
    }
    stream.write_all(&answer)?;
    drop(stream);
    if !calm && dice.percent(30) {
        // Said once more, when others have spoken meanwhile.
        mischief.twice.fetch_add(1, Ordering::Relaxed);
        pause(&mut dice);
        request.say(server)?;
    }
    Ok(())
}

on_both! {
    /// PEERS 4
    fn words_that_come_twice_late_and_in_another_order_change_nothing(world) {
        world.set("KILN_FAULT_LEASE", SHORT_LEASE.to_string());
        let mut storm = Storm::new(4, 0);
        let server = world.server("server");
        let proxy = Proxy::before(&server.listen(), storm.dice.fork());
        let more = ["--jobs", "2"];
        let runner = world.runner_at(&server, &proxy.address, "one", &["linux"], &more);
        let mut load = Load::new(&world, &server, 3);
        load.trigger(&server, storm.runs);
        // A question for work that comes again when its job is through is a new one: what it is given, nobody
        // knows of, until that lease is over.
        load.audit(&server);
        let Mischief { twice, late, unheard, over } = &*proxy.mischief;
        let [twice, late, unheard] = [twice, late, unheard].map(|it| it.load(Ordering::Relaxed));
        figure(&format!("{twice} words came twice, {late} late, {unheard} were never answered"));
        assert!(twice > 10 && late > 10 && unheard > 3, "{twice} {late} {unheard}");
        over.store(true, Ordering::Relaxed);
        close(&world, vec![server], vec![runner]);
    }
}
