//! How well the time of a simulated disk is kept, on a client's own clock: `punctual [DISK]
//! [SECONDS]`. A server with the whole disk runs on one thread, a client on another asks for random
//! blocks of 4 KiB through the socket and takes the time of each, from before the request is sent
//! until its answer is there. What the model says of the same request is taken down where the disk
//! answers. One line for each queue depth: depth, requests, then by how much the two differ either
//! way in microseconds, the median, the 99th percentile and the most, separated by tabs. Depth 0 is
//! what the machine itself takes: the way there and back between two threads that sleep, without a
//! disk or a server, in turns with the requests. `cargo xtask bench emulated` prints them.

use seekless_disk::{Disk, Spec, specs};
use seekless_engine::device::medium::Flat;
use seekless_engine::device::{Device, DeviceStatus};
use seekless_engine::io::{Done, Io, Tag};
use seekless_engine::node::Node;
use seekless_engine::rng::Rng;
use seekless_engine::units::{BLOCK_BYTES, BlockNr, Time};
use seekless_fs::block::plain::Plain;
use seekless_serve::driver::{Driver, Listener, Parts, echoes, measure_compensation, pin};
use seekless_serve::nbd::Export;
use seekless_serve::nbd::client::Client;
use seekless_serve::status::Served;
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const DEPTHS: [usize; 2] = [1, 32];
/// The time is cut into so many rounds, each with its share of everything: a machine that others
/// use is not the same a minute later.
const ROUNDS: u32 = 10;

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// What the model said each block took, in nanoseconds.
type Said = Arc<Mutex<BTreeMap<BlockNr, Time>>>;

/// A disk whose answers are taken down.
#[derive(Debug)]
struct Watched {
    disk: Disk,
    under_way: BTreeMap<Tag, BlockNr>,
    said: Said,
}

impl Device for Watched {
    fn blocks(&self) -> u64 {
        self.disk.blocks()
    }

    fn submit(&mut self, now: Time, io: Io) {
        self.under_way.insert(io.tag, io.at);
        self.disk.submit(now, io);
    }

    fn reap(&mut self, now: Time, done: &mut Vec<Done>) {
        let before = done.len();
        self.disk.reap(now, done);
        if done.len() == before {
            return;
        }
        let mut said = self.said.lock().expect("the client does not panic while it looks");
        for one in &done[before..] {
            let at = self.under_way.remove(&one.tag).expect("an answer has a request");
            said.insert(at, one.spent.total_ns());
        }
    }

    fn next_event(&self) -> Option<Time> {
        self.disk.next_event()
    }

    fn volatile(&self) -> bool {
        self.disk.volatile()
    }

    fn status(&self) -> &dyn DeviceStatus {
        self
    }
}

impl DeviceStatus for Watched {}

/// Serves the disk until the caller closes the other end of `stop`. Server and client have a
/// processor each, where there are two.
fn serve(spec: &Spec, listener: UnixListener, stop: OwnedFd, said: Said) -> Result<(), Failure> {
    let compensation_ns = measure_compensation();
    pin(0);
    let blocks = spec.capacity_blocks();
    let disk = Disk::new(spec, Box::new(Flat::new(blocks)))?;
    let device = Watched { disk, under_way: BTreeMap::new(), said };
    let export = Export {
        name: String::new(),
        description: String::new(),
        size_bytes: blocks * BLOCK_BYTES as u64,
        read_only: false,
        rotational: true,
        multi_conn: true,
        minimum_block: 1,
        preferred_block: BLOCK_BYTES as u32,
        maximum_payload: 32 << 20,
    };
    let parts = Parts {
        node: Node::new(Box::new(Plain::new(blocks)), vec![Box::new(device)], 1),
        export,
        listener: Listener::Unix(listener),
        device_fds: Vec::new(),
        simulated: true,
        compensation_ns,
        stop_fd: stop,
        most_connections: 4,
        power: None,
        control: None,
        served: Served::default(),
        usr1_fd: None,
        members: None,
        again: None,
    };
    Driver::new(parts)?.run()?;
    Ok(())
}

/// Random reads with `depth` under way; what each took, by block.
fn ask(
    client: &mut Client,
    depth: usize,
    time: Duration,
    asked: &mut BTreeSet<BlockNr>,
    rng: &mut Rng,
) -> Result<Vec<(BlockNr, Duration)>, Failure> {
    let blocks = client.size_bytes() / BLOCK_BYTES as u64;
    let mut block = [0; BLOCK_BYTES];
    let (mut under_way, mut took) = (BTreeMap::new(), Vec::new());
    let begin = Instant::now();
    loop {
        while under_way.len() < depth && begin.elapsed() < time {
            let at = rng.below(blocks);
            // A block that is asked for once is known by its number.
            if asked.insert(at) {
                let sent = Instant::now();
                let handle = client.send_read(at * BLOCK_BYTES as u64, BLOCK_BYTES as u32)?;
                under_way.insert(handle, (at, sent));
            }
        }
        if under_way.is_empty() {
            return Ok(took);
        }
        let handle = client.receive_read(&mut block)?;
        let (at, sent) = under_way.remove(&handle).ok_or("an answer to nothing")?;
        took.push((at, sent.elapsed()));
    }
}

/// Prints a line.
fn report(depth: usize, mut times: Vec<Duration>) {
    times.sort_unstable();
    let at = |share: f64| {
        let index = ((times.len() - 1) as f64 * share).round() as usize;
        times[index].as_secs_f64() * 1e6
    };
    let (median, p99, most) = (at(0.5), at(0.99), at(1.0));
    println!("{depth}\t{}\t{median:.1}\t{p99:.1}\t{most:.1}", times.len());
}

fn main() -> Result<(), Failure> {
    let mut args = std::env::args().skip(1);
    let disk = args.next().unwrap_or_else(|| "desktop7200".to_owned());
    let seconds = args.next().map_or(Ok(10), |text| text.parse())?;
    let spec = specs::find(&disk).ok_or("no disk of that name comes with the program")?;
    let said = Said::default();
    let path = std::env::temp_dir().join(format!("punctual-{}.sock", std::process::id()));
    let listener = UnixListener::bind(&path)?;
    listener.set_nonblocking(true)?;
    let (mut end, stop) = UnixStream::pair()?;
    let server = {
        let said = Arc::clone(&said);
        std::thread::spawn(move || serve(&spec, listener, stop.into(), said))
    };
    let mut client = Client::connect(&path)?;
    std::fs::remove_file(&path)?;
    let (mut asked, mut rng) = (BTreeSet::new(), Rng::stream(1, "punctual"));
    let time = Duration::from_secs(seconds) / ROUNDS;
    let mut echoed = Vec::new();
    let mut apart = DEPTHS.map(|_| Vec::new());
    for _ in 0..ROUNDS {
        echoed.extend(echoes()?);
        for (depth, apart) in DEPTHS.iter().zip(&mut apart) {
            let took = std::thread::scope(|scope| {
                let (client, asked, rng) = (&mut client, &mut asked, &mut rng);
                let asking = scope.spawn(move || {
                    pin(1);
                    ask(client, *depth, time, asked, rng)
                });
                asking.join().map_err(|_| "the client has panicked")?
            })?;
            let said = said.lock().map_err(|_| "the server has panicked")?;
            for (at, seen) in &took {
                let model = Duration::from_nanos(*said.get(at).ok_or("a read that no disk did")?);
                apart.push(seen.abs_diff(model));
            }
        }
    }
    report(0, echoed);
    DEPTHS.into_iter().zip(apart).for_each(|(depth, apart)| report(depth, apart));
    client.disconnect()?;
    end.write_all(&[0])?;
    server.join().map_err(|_| "the server has panicked")??;
    Ok(())
}
