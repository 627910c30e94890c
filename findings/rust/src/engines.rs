//! The databases, one module each, behind one trait.

pub mod fjall;
pub mod jammdb;
pub mod persy;
pub mod redb;
pub mod sled;
pub mod tantivy;

use crate::rows::Row;
use anyhow::Result;
use std::path::Path;

/// A database that holds rows.
pub trait Engine: Sized {
    /// How many rows a workload commits.
    const ROWS: u64 = 20;

    /// Makes an empty database in a directory.
    ///
    /// # Errors
    /// What the database reports.
    fn create(directory: &Path) -> Result<Self>;

    /// Opens the database.
    ///
    /// # Errors
    /// What the database reports.
    fn open(directory: &Path) -> Result<Self>;

    /// Commits one row, durably by the documentation of the database.
    ///
    /// # Errors
    /// What the database reports.
    fn commit(&mut self, number: u64, content: &str) -> Result<()>;

    /// All rows, after the integrity check of the database, if it has one.
    ///
    /// # Errors
    /// What the database reports.
    fn rows(&mut self) -> Result<Vec<Row>>;
}
