//! Numbers of paper 001, read from the drawings of its figures.

/// A system of paper 001.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct System {
    /// Its name in the paper.
    pub name: &'static str,
    /// The policy that is the same.
    pub policy: &'static str,
}

const fn system(name: &'static str, policy: &'static str) -> System {
    System { name, policy }
}

/// The systems, in the order of the tables here.
pub const SYSTEMS: [System; 8] = [
    system("FFS", "sync"),
    system("FFS-async", "async"),
    system("Soft-Updates", "soft"),
    system("LFFS-file", "lffs-file"),
    system("LFFS-wafs-1sync", "wafs-1sync"),
    system("LFFS-wafs-2sync", "wafs-2sync"),
    system("LFFS-wafs-1async", "wafs-1async"),
    system("LFFS-wafs-2async", "wafs-2async"),
];

/// Sizes of files in KB in figures 1 and 2.
pub const SIZES_KB: [u64; 13] = [2, 4, 8, 16, 32, 64, 96, 104, 128, 256, 512, 1024, 4096];

/// Figure 1: MB/s when files are made.
pub const CREATE: [[f64; 8]; 13] = [
    [0.22, 1.59, 1.28, 1.35, 0.28, 0.32, 1.28, 1.53],
    [0.52, 3.12, 2.65, 2.64, 0.54, 0.61, 2.40, 3.01],
    [1.02, 5.73, 5.24, 5.10, 1.06, 1.24, 4.44, 5.43],
    [1.94, 8.96, 8.40, 7.59, 2.01, 2.43, 6.85, 8.49],
    [3.52, 12.40, 11.46, 10.41, 3.54, 4.65, 9.32, 12.12],
    [3.74, 18.07, 18.18, 13.14, 3.87, 9.63, 17.54, 17.96],
    [4.75, 12.78, 13.02, 10.02, 4.92, 11.01, 11.93, 12.55],
    [3.77, 10.41, 10.70, 6.80, 4.56, 9.15, 9.80, 9.93],
    [4.28, 11.83, 13.47, 9.82, 7.01, 11.65, 11.75, 12.39],
    [6.80, 15.33, 14.78, 11.86, 10.38, 15.12, 14.59, 14.90],
    [9.96, 16.57, 17.05, 12.69, 11.54, 16.33, 15.92, 16.38],
    [11.71, 17.09, 17.46, 12.83, 11.27, 16.98, 16.88, 16.85],
    [14.33, 15.79, 15.44, 11.37, 11.39, 15.90, 15.42, 15.87],
];

/// Figure 2: files removed per second, in thousands.
pub const DELETE: [[f64; 8]; 13] = [
    [0.13, 2.67, 3.17, 1.81, 0.15, 0.16, 2.01, 2.13],
    [0.16, 3.17, 4.39, 2.20, 0.14, 0.16, 2.33, 2.58],
    [0.16, 3.26, 3.23, 2.20, 0.15, 0.17, 2.19, 2.29],
    [0.16, 3.11, 3.40, 2.20, 0.15, 0.17, 2.47, 2.43],
    [0.16, 3.09, 3.88, 2.14, 0.15, 0.17, 2.32, 2.49],
    [0.16, 2.93, 3.75, 2.08, 0.15, 0.16, 1.99, 1.95],
    [0.16, 2.48, 3.62, 1.81, 0.15, 0.16, 1.89, 1.89],
    [0.10, 0.41, 3.61, 0.38, 0.07, 0.16, 0.41, 0.42],
    [0.10, 0.36, 3.65, 0.36, 0.07, 0.16, 0.37, 0.37],
    [0.10, 0.37, 3.57, 0.32, 0.08, 0.15, 0.23, 0.24],
    [0.10, 0.46, 3.57, 0.25, 0.07, 0.13, 0.28, 0.30],
    [0.07, 0.30, 3.89, 0.20, 0.07, 0.12, 0.22, 0.22],
    [0.05, 0.14, 4.18, 0.10, 0.05, 0.07, 0.10, 0.10],
];

/// Figure 3: empty files made and removed per second.
pub const PAIRS: [f64; 8] = [80.0, 9142.0, 7708.0, 6795.0, 80.0, 80.0, 4418.0, 4271.0];

/// The column of a policy, if the paper has such a system.
pub fn column(policy: &str) -> Option<usize> {
    SYSTEMS.iter().position(|system| system.policy == policy)
}
