//! sled with a flush after each row.

use super::Engine;
use crate::rows::Row;
use anyhow::Result;
use std::path::Path;

/// The database.
pub struct Sled(sled::Db);

impl Engine for Sled {
    fn create(directory: &Path) -> Result<Self> {
        let sled = Sled::open(directory)?;
        sled.0.flush()?;
        Ok(sled)
    }

    fn open(directory: &Path) -> Result<Self> {
        let path = directory.join("db");
        Ok(Sled(sled::Config::new().path(path).flush_every_ms(None).open()?))
    }

    fn commit(&mut self, number: u64, content: &str) -> Result<()> {
        self.0.insert(number.to_be_bytes(), content)?;
        self.0.flush()?;
        Ok(())
    }

    fn rows(&mut self) -> Result<Vec<Row>> {
        self.0.verify_integrity()?;
        let mut rows = Vec::new();
        for pair in self.0.iter() {
            let (key, value) = pair?;
            let number = u64::from_be_bytes(key.as_ref().try_into()?);
            rows.push((number, String::from_utf8_lossy(&value).into_owned()));
        }
        Ok(rows)
    }
}
