//! The worked examples of section 6.2: measured times in, expected gains out.
//!
//! The paper takes averages of a simulation, puts them into its cost model and compares the outcome
//! with the throughput that was simulated (claims H27 and H28). The arithmetic is a function of its
//! own, because it also applies to other measured times.

/// The measured values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measured {
    /// Pages in a segment, *S*.
    pub pages: f64,
    /// Mean time of a page, in milliseconds.
    pub page_ms: f64,
    /// Mean time of a segment, in milliseconds.
    pub segment_ms: f64,
    /// Share of the time in which the disks were idle: pages keep one of several disks busy,
    /// segments all of them.
    pub idle: f64,
    /// Share of live pages in the segments that were cleaned.
    pub cleaning_utilisation: f64,
    /// Share of the requests to the disks that write.
    pub write_share: f64,
}

impl Measured {
    /// Section 6.2: LFS on the atlas10k at 95 % (claim H27).
    pub const LFS_AT_95: Measured = Measured {
        pages: 128.0,
        page_ms: 5.6,
        segment_ms: 27.3,
        idle: 0.3,
        cleaning_utilisation: 0.884,
        write_share: 0.42,
    };

    /// Section 6.2: HyLog on the atlas10k at 98 % (claim H28); [`HOT_WRITES`] of its writes are
    /// hot.
    pub const HYLOG_AT_98: Measured = Measured {
        pages: 128.0,
        page_ms: 5.8,
        segment_ms: 27.2,
        idle: 0.225,
        cleaning_utilisation: 0.934,
        write_share: 0.42,
    };

    /// Section 6.2: LFS in the same place as [`Measured::HYLOG_AT_98`] (claim H28).
    pub const LFS_AT_98: Measured =
        Measured { cleaning_utilisation: 0.962, ..Measured::HYLOG_AT_98 };

    /// *η* from measured times, *S·T_pg/T_seg* (section 4.2).
    pub fn efficiency(&self) -> f64 {
        self.pages * self.page_ms / self.segment_ms
    }

    /// *η/(1 − P_idle)* (section 4.2).
    pub fn adjusted_efficiency(&self) -> f64 {
        self.efficiency() / (1.0 - self.idle)
    }

    /// Segments that the cleaner reads and writes for each segment of new data.
    pub fn cleaner_segments(&self) -> f64 {
        (1.0 + self.cleaning_utilisation) / (1.0 - self.cleaning_utilisation)
    }

    /// Share of the cleaner in all segments read and written.
    pub fn cleaner_share(&self) -> f64 {
        self.cleaner_segments() / (1.0 + self.cleaner_segments())
    }

    /// How much faster writing to the log is than writing in place.
    pub fn log_ratio(&self) -> f64 {
        self.adjusted_efficiency() * (1.0 - self.cleaning_utilisation) / 2.0
    }

    /// The same for all writes if the share `hot` of them goes to the log and the rest in place:
    /// rates averaged, as the paper does.
    pub fn write_ratio(&self, hot: f64) -> f64 {
        1.0 - hot + hot * self.log_ratio()
    }

    /// The same with times averaged, which is equation (8).
    pub fn write_ratio_by_time(&self, hot: f64) -> f64 {
        1.0 / (1.0 - hot + hot / self.log_ratio())
    }

    /// Throughput of all requests over that of writing in place, if writes are `ratio` times as
    /// fast and reads as fast as before.
    pub fn throughput(&self, ratio: f64) -> f64 {
        1.0 / (1.0 - self.write_share + self.write_share / ratio)
    }
}

/// Share of the writes that went to hot pages in [`Measured::HYLOG_AT_98`].
pub const HOT_WRITES: f64 = 0.582;
