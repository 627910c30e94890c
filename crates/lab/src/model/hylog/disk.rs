//! The disk as the cost model sees it: a positioning time, a bandwidth, and sizes.

use super::super::ModelError;
use super::{efficiency, efficiency_limit, segment_size, transfer_inefficiency};
use seekless_disk::drive::Request;
use seekless_disk::{Drive, Spec, SpecError};
use seekless_engine::io::Op;
use seekless_engine::rng::Rng;
use seekless_engine::units::{MILLIS, SECTOR_BYTES, Time};

/// The share of the limit of *η* that equation (6) stands for.
pub const ALPHA: f64 = 0.8;

/// Writes that measure the cost of a page, and of a long request.
const PAGE_TRIALS: u32 = 4000;
const LONG_TRIALS: u32 = 400;
/// Sectors of a long request (4 MiB): so long that its transfer can be separated from its
/// positioning.
const LONG_SECTORS: u64 = 8192;

/// A disk with sizes of page and segment. Section 3.1: a request takes the positioning time and its
/// transfer, nothing else.
#[derive(Clone, Debug, PartialEq)]
pub struct Disk {
    name: String,
    positioning_ms: f64,
    mb_per_s: f64,
    page_bytes: f64,
    segment_bytes: f64,
}

fn above_zero(what: &'static str, value: f64, most: f64) -> Result<f64, ModelError> {
    let range = "above 0, and no more than a disk can have";
    let fits = value > 0.0 && value <= most;
    if fits { Ok(value) } else { Err(ModelError::Range { what, value, range }) }
}

impl Disk {
    /// A disk with a positioning time in milliseconds and a bandwidth in 10⁶ bytes per second,
    /// pages of `page_bytes` bytes, and segments of `segment_bytes` bytes or by default of
    /// [`Disk::recommended_bytes`] with [`ALPHA`].
    ///
    /// # Errors
    /// Numbers that no disk can have, and segments that are not a whole number of pages.
    pub fn new(
        name: &str,
        positioning_ms: f64,
        mb_per_s: f64,
        page_bytes: f64,
        segment_bytes: Option<f64>,
    ) -> Result<Disk, ModelError> {
        let mut disk = Disk {
            name: name.to_owned(),
            positioning_ms: above_zero("positioning time in ms", positioning_ms, 1000.0)?,
            mb_per_s: above_zero("bandwidth in MB/s", mb_per_s, 1e6)?,
            page_bytes: above_zero("page in bytes", page_bytes, 1e9)?,
            segment_bytes: page_bytes,
        };
        let segment = segment_bytes.unwrap_or_else(|| disk.recommended_bytes(ALPHA));
        let pages = above_zero("segment in bytes", segment, 1e12)? / page_bytes;
        if pages < 1.0 || pages.fract() != 0.0 {
            let (what, range) = ("pages in a segment", "a whole number, at least 1");
            return Err(ModelError::Range { what, value: pages, range });
        }
        disk.segment_bytes = segment;
        Ok(disk)
    }

    /// The three disks of table 1 and the speculation about 2008 of table 5, with the segments that
    /// the paper chose (claims H3, H4 and H23). One KB is 1000 bytes throughout, pages have 8 KB:
    /// only this reproduces the paper's numbers.
    pub fn of_the_paper() -> Vec<Disk> {
        let disk = |name: &str, positioning_ms, mb_per_s, segment_kb: f64| Disk {
            name: name.to_owned(),
            positioning_ms,
            mb_per_s,
            page_bytes: 8e3,
            segment_bytes: segment_kb * 1e3,
        };
        vec![
            disk("RZ26 (1991)", 15.0, 2.3, 128.0),
            disk("atlas10k (1999)", 8.6, 20.4, 512.0),
            disk("X15 36LP (2003)", 5.6, 61.0, 1024.0),
            disk("future (2008)", 3.25, 198.0, 2048.0),
        ]
    }

    /// The disk of a specification. Page writes and long writes to random addresses are run one
    /// after the other on the simulated drive, and their times give the two numbers of the model.
    /// Writes are forced to the platter, because the model has no cache.
    ///
    /// # Errors
    /// A specification that cannot be simulated, and sizes that do not fit together.
    pub fn measured(
        spec: &Spec,
        page_bytes: u64,
        segment_bytes: Option<u64>,
        name: &str,
    ) -> Result<Disk, MeasureError> {
        let page = page_bytes.div_ceil(SECTOR_BYTES as u64).max(1);
        // Round to whole sectors of the disk's own size.
        let long = LONG_SECTORS.min(spec.capacity_sectors() / 8 / 8 * 8).max(2 * page);
        if long * 2 > spec.capacity_sectors() {
            let (what, value) = ("page in bytes", page_bytes as f64);
            let range = "a small part of the disk";
            return Err(ModelError::Range { what, value, range }.into());
        }
        let page_ms = mean_ms(spec, page, PAGE_TRIALS)?;
        let long_ms = mean_ms(spec, long, LONG_TRIALS)?;
        let bytes = ((long - page) * SECTOR_BYTES as u64) as f64;
        let mb_per_s = bytes / (long_ms - page_ms) / 1e3;
        let positioning_ms = page_ms - page_bytes as f64 / mb_per_s / 1e3;
        let segment = segment_bytes.map(|bytes| bytes as f64);
        Ok(Disk::new(name, positioning_ms, mb_per_s, page_bytes as f64, segment)?)
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The same disk with segments of so many bytes.
    ///
    /// # Errors
    /// Segments that are not a whole number of pages.
    pub fn with_segment(&self, bytes: f64) -> Result<Disk, ModelError> {
        Disk::new(&self.name, self.positioning_ms, self.mb_per_s, self.page_bytes, Some(bytes))
    }

    /// *T_pos*: mean seek and half a turn, in milliseconds.
    pub fn positioning_ms(&self) -> f64 {
        self.positioning_ms
    }

    /// *B*, in 10⁶ bytes per second.
    pub fn mb_per_s(&self) -> f64 {
        self.mb_per_s
    }

    /// *P*, in bytes.
    pub fn page_bytes(&self) -> f64 {
        self.page_bytes
    }

    /// *S·P*, in bytes.
    pub fn segment_bytes(&self) -> f64 {
        self.segment_bytes
    }

    /// *S*, at least 1.
    pub fn pages(&self) -> f64 {
        self.segment_bytes / self.page_bytes
    }

    /// *T_pos·B*, the disk performance product, in bytes.
    pub fn product_bytes(&self) -> f64 {
        self.positioning_ms * self.mb_per_s * 1e3
    }

    /// *T_pg*: a page in place, in milliseconds (claim H1).
    pub fn page_ms(&self) -> f64 {
        self.positioning_ms + self.page_bytes / self.mb_per_s / 1e3
    }

    /// *T_seg*: a segment, in milliseconds (claim H1).
    pub fn segment_ms(&self) -> f64 {
        self.positioning_ms + self.segment_bytes / self.mb_per_s / 1e3
    }

    /// *η*, equation (1).
    pub fn efficiency(&self) -> f64 {
        efficiency(self.pages(), self.page_bytes, self.product_bytes())
    }

    /// The limit of *η* for segments without end.
    pub fn efficiency_limit(&self) -> f64 {
        efficiency_limit(self.page_bytes, self.product_bytes())
    }

    /// The size of a segment that reaches the share `alpha` of that limit, in bytes; equation (6)
    /// for 0.8.
    pub fn exact_bytes(&self, alpha: f64) -> f64 {
        segment_size(alpha, self.product_bytes())
    }

    /// The same rounded to the nearest number of pages that is a power of two (claim H4: 128, 512
    /// and 1024 KB for the three disks of the paper).
    pub fn recommended_bytes(&self, alpha: f64) -> f64 {
        let pages = (self.exact_bytes(alpha) / self.page_bytes).max(1.0);
        let below = pages.log2().floor().exp2();
        let nearest = if pages - below <= 2.0 * below - pages { below } else { 2.0 * below };
        nearest * self.page_bytes
    }

    /// Time of a segment over that of its transfer alone.
    pub fn transfer_inefficiency(&self) -> f64 {
        transfer_inefficiency(self.segment_bytes, self.product_bytes())
    }
}

/// Why a specification does not give a disk of the model.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum MeasureError {
    /// It cannot be simulated.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// The numbers do not fit the model.
    #[error(transparent)]
    Model(#[from] ModelError),
}

/// Mean time of `trials` writes of so many sectors to random places, one after the other.
fn mean_ms(spec: &Spec, sectors: u64, trials: u32) -> Result<f64, SpecError> {
    let mut drive = Drive::new(spec)?;
    let mut rng = Rng::stream(1, "cost model");
    let places = drive.sectors().min(spec.capacity_sectors()) / sectors;
    let (mut now, mut sum): (Time, Time) = (0, 0);
    let mut done = Vec::new();
    for tag in 0..u64::from(trials) {
        let lbn = rng.below(places) * sectors;
        // Requests are few thousand sectors long: see the callers.
        let request = Request { tag, op: Op::Write, lbn, sectors: sectors as u32, fua: true };
        drive.submit(now, request).expect("the place was drawn from those that the disk has");
        let began = now;
        while done.is_empty() {
            now = drive.next_event().expect("a command is being served");
            drive.advance(now, &mut done);
        }
        done.clear();
        sum += now - began;
    }
    Ok(sum as f64 / f64::from(trials) / MILLIS as f64)
}
