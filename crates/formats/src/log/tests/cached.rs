//! The log on a disk with a volatile cache: what is durable when a call returns.

use super::*;
use seekless_engine::io::IoError;
use seekless_engine::units::BlockNr;

/// Reads see `cache`; a power cut leaves `durable`.
struct Cached {
    cache: Cells,
    durable: Cells,
}

impl Cached {
    fn new(blocks: u64) -> Cached {
        Cached { cache: Cells::new(blocks), durable: Cells::new(blocks) }
    }

    fn cut(&mut self) {
        self.cache = self.durable.clone();
    }
}

impl Disk for Cached {
    fn blocks(&self) -> u64 {
        self.cache.blocks()
    }

    fn read(&mut self, at: BlockNr, count: u32) -> Result<Data, IoError> {
        self.cache.read(at, count)
    }

    fn write(&mut self, at: BlockNr, data: Data) -> Result<(), IoError> {
        self.cache.write(at, &data)
    }

    fn flush(&mut self) -> Result<(), IoError> {
        self.durable = self.cache.clone();
        Ok(())
    }
}

#[test]
fn a_log_that_was_made_is_durable() {
    let mut disk = Cached::new(LEAST);
    // What opening it flushes is not what is asked.
    create::create(&mut disk, &options()).expect("it is large enough");
    disk.cut();
    assert_eq!(all(&mut Log::open(&mut disk).expect("a log")), []);
}

/// A process is killed, another one finds what the first has left in the cache, and then the power
/// goes.
#[test]
fn records_that_are_found_in_a_cache_are_durable() {
    // With one of these lengths a record fills a block, so that the writer goes on behind it and
    // begins no epoch, which flushes.
    for length in 3700..=3840 {
        let mut disk = Cached::new(LEAST);
        let mut log = Log::create(&mut disk, &options()).expect("it is large enough");
        for number in 0..10 {
            log.append(&vec![number; length]).expect("space");
        }
        drop(log);
        let found = all(&mut Log::open(&mut disk).expect("a log"));
        assert!(!found.is_empty(), "units go out as they fill");
        disk.cut();
        assert_eq!(all(&mut Log::open(&mut disk).expect("a log")), found, "{length}");
    }
}

#[test]
fn a_sync_of_many_records_flushes_once() {
    struct Counted<'d>(&'d mut Cached, u32);
    impl Disk for Counted<'_> {
        fn blocks(&self) -> u64 {
            self.0.blocks()
        }
        fn read(&mut self, at: BlockNr, count: u32) -> Result<Data, IoError> {
            self.0.read(at, count)
        }
        fn write(&mut self, at: BlockNr, data: Data) -> Result<(), IoError> {
            self.0.write(at, data)
        }
        fn flush(&mut self) -> Result<(), IoError> {
            self.1 += 1;
            self.0.flush()
        }
    }
    let mut disk = Cached::new(LEAST);
    let log = Log::create(&mut disk, &options()).expect("it is large enough").on(());
    let mut log = log.on(Counted(&mut disk, 0));
    for number in 0..30 {
        log.append(&record(number, 800)).expect("space");
    }
    log.sync().expect("memory");
    assert_eq!(log.disk.1, 1);
    log.sync().expect("nothing is left to write");
    assert_eq!(log.disk.1, 1);
}
