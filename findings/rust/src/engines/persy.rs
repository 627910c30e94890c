//! persy with one row a transaction.

use super::Engine;
use crate::rows::Row;
use anyhow::{Result, anyhow};
use persy::{Config, Persy, ValueMode};
use std::path::Path;

const INDEX: &str = "rows";

/// The database.
pub struct PersyFile(Persy);

impl Engine for PersyFile {
    fn create(directory: &Path) -> Result<Self> {
        Persy::create(directory.join("d.persy")).map_err(said)?;
        let persy = PersyFile::open(directory)?;
        let mut transaction = persy.0.begin().map_err(said)?;
        transaction.create_index::<u64, String>(INDEX, ValueMode::Replace).map_err(said)?;
        transaction.prepare().map_err(said)?.commit().map_err(said)?;
        Ok(persy)
    }

    fn open(directory: &Path) -> Result<Self> {
        let persy = Persy::open(directory.join("d.persy"), Config::new()).map_err(said)?;
        Ok(PersyFile(persy))
    }

    fn commit(&mut self, number: u64, content: &str) -> Result<()> {
        let mut transaction = self.0.begin().map_err(said)?;
        transaction.put::<u64, String>(INDEX, number, content.to_owned()).map_err(said)?;
        transaction.prepare().map_err(said)?.commit().map_err(said)?;
        Ok(())
    }

    fn rows(&mut self) -> Result<Vec<Row>> {
        let mut rows = Vec::new();
        for (number, contents) in self.0.range::<u64, String, _>(INDEX, ..).map_err(said)? {
            rows.extend(contents.into_iter().map(|content| (number, content)));
        }
        Ok(rows)
    }
}

/// The errors of persy, which are of many types, as text.
fn said(error: impl std::fmt::Display) -> anyhow::Error {
    anyhow!("{error}")
}
