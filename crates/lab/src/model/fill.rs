//! Cost of a write if a compactor keeps tracks empty: each is filled until `k` of its `n` slots are
//! left, then the head switches to the next empty one.
//!
//! `n` is the slots on a track (at least 2), `k` the slots kept in reserve (`0 ≤ k < n`), `switch`
//! the cost of a track switch and `slot` the time in which a slot passes; times are in whatever
//! unit these two are, milliseconds throughout this program.

/// Largest track, in slots, for which equation (9) is valid: its fit divides by `8 - n / 96`, which
/// reaches 0 at 768. It was made for tracks of 72 to 256 sectors.
pub const LARGEST_FITTED: u32 = 767;

/// Parameters of the formulas for filling.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Costs {
    /// Slots on a track, at least 2.
    pub n: u32,
    /// Time of a track switch.
    pub switch: f64,
    /// Time in which a slot passes.
    pub slot: f64,
}

/// The reserve at which a model has its minimum.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Optimum {
    /// Slots kept in reserve.
    pub k: u32,
    /// Mean latency of a write there.
    pub latency: f64,
}

/// Equation (7), section 2.3 (claim V21): slots that pass while a track is filled from `n` down to
/// `k` free slots, if free slots lay at random at each write.
pub fn skipped(n: u32, k: u32) -> f64 {
    (k + 1..=n).map(|i| f64::from(n - i) / (1.0 + f64::from(i))).sum()
}

/// Equation (9), section 2.3 (claim V23): slots that pass on top of equation (7) because free slots
/// do *not* lie at random. A fit by the authors; `None` above [`LARGEST_FITTED`] slots, where it
/// turns negative. Its exponent *p* is `1 + n / 36` and not a share of free space: 3 for the
/// HP97560, 8.11 for the ST19101.
pub fn correction(n: u32, k: u32) -> Option<f64> {
    if n > LARGEST_FITTED {
        return None;
    }
    let size = f64::from(n);
    let filled = f64::from(n - k) - 0.5;
    let p = 1.0 + size / 36.0;
    // (filled^(p+2)) / n^p without numbers that overflow.
    Some((filled / size).powf(p) * filled * filled / ((8.0 - size / 96.0) * (p + 2.0)))
}

/// Mean slots that pass per write while a track is filled from empty by `m` writes (`1 ≤ m ≤ n`)
/// that arrive at random places and take the next free slot. Exact (claim V26).
///
/// That process is hashing with linear probing, so Knuth's theorem holds: the mean displacement of
/// the first `m` insertions is `(Q₀(n, m-1) - 1) / 2` with `Q₀(M, N) = Σ N! / ((N-k)! M^k)` (volume
/// 3, section 6.4). The paper knows only the fit of equation (10), which is off by -3 to +12 % on
/// the HP97560 and by -20 to 0 % on the ST19101, over reserves of 0 to 95 %.
pub fn probing(n: u32, m: u32) -> f64 {
    let (size, last) = (f64::from(n), f64::from(m - 1));
    let (mut sum, mut term, mut k) = (0.0, 1.0, 0.0);
    while term > 1e-17 * sum {
        sum += term;
        term *= (last - k) / size;
        k += 1.0;
    }
    (sum - 1.0) / 2.0
}

impl Costs {
    fn per_write(&self, k: u32, slots: f64) -> f64 {
        (self.switch + self.slot * slots) / f64::from(self.n - k)
    }

    /// Equation (8), section 2.3 (claim V22): mean latency of a write with equation (7). Too low if
    /// the reserve is small: 0.64 instead of 1.00 ms on the HP97560 without a reserve.
    pub fn random(&self, k: u32) -> f64 {
        self.per_write(k, skipped(self.n, k))
    }

    /// Equation (10), section 2.3 (claims V24 and V25, figure 2): equation (8) with the sum
    /// replaced by an integral and equation (9) added. `None` where equation (9) is.
    pub fn fitted(&self, k: u32) -> Option<f64> {
        let n = f64::from(self.n);
        let integral = (n + 1.0) * ((n + 2.0) / (f64::from(k) + 2.0)).ln() - f64::from(self.n - k);
        Some(self.per_write(k, integral + correction(self.n, k)?))
    }

    /// Mean latency of a write, exact (claim V26): see [`probing`].
    pub fn exact(&self, k: u32) -> f64 {
        let writes = self.n - k;
        self.switch / f64::from(writes) + self.slot * probing(self.n, writes)
    }

    /// The reserve with the least latency, by the exact form (claim V26: 62.5 % and 0.1496 ms on
    /// the HP97560, 70.7 % and 0.0114 ms on the ST19101).
    pub fn best_exact(&self) -> Optimum {
        self.best(|k| self.exact(k))
    }

    /// The reserve with the least latency, by equation (8).
    pub fn best_random(&self) -> Optimum {
        let (mut slots, n) = (0.0, f64::from(self.n));
        self.best(|k| {
            let i = f64::from(k + 1);
            slots += (n - i) / (1.0 + i);
            self.per_write(k, slots)
        })
    }

    /// The reserve with the least latency, by equation (10) (claim V24: 62.5 % and 68.0 %).
    pub fn best_fitted(&self) -> Option<Optimum> {
        correction(self.n, 0)?;
        Some(self.best(|k| self.fitted(k).unwrap_or(f64::INFINITY)))
    }

    /// The least of `latency`, which is called for every reserve from the largest down.
    fn best(&self, mut latency: impl FnMut(u32) -> f64) -> Optimum {
        let all = (0..self.n).rev().map(|k| Optimum { k, latency: latency(k) });
        all.min_by(|a, b| a.latency.total_cmp(&b.latency)).expect("a track has slots")
    }

    /// The reserve closest to a share (0 to below 1) of the track; at least one slot is filled.
    pub fn reserve(&self, share: f64) -> u32 {
        ((share * f64::from(self.n)).round() as u32).min(self.n - 1)
    }
}
