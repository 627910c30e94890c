//! fjall with `PersistMode::SyncAll` after each row.

use super::Engine;
use crate::rows::Row;
use anyhow::Result;
use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode};
use std::path::Path;

/// The database and its one keyspace.
pub struct Fjall(Database, Keyspace);

impl Engine for Fjall {
    fn create(directory: &Path) -> Result<Self> {
        let fjall = Fjall::open(directory)?;
        fjall.0.persist(PersistMode::SyncAll)?;
        Ok(fjall)
    }

    fn open(directory: &Path) -> Result<Self> {
        let database = Database::builder(directory.join("db")).open()?;
        let keyspace = database.keyspace("rows", KeyspaceCreateOptions::default)?;
        Ok(Fjall(database, keyspace))
    }

    fn commit(&mut self, number: u64, content: &str) -> Result<()> {
        self.1.insert(number.to_be_bytes(), content)?;
        Ok(self.0.persist(PersistMode::SyncAll)?)
    }

    fn rows(&mut self) -> Result<Vec<Row>> {
        let mut rows = Vec::new();
        for pair in self.1.iter() {
            let (key, value) = pair.into_inner()?;
            let number = u64::from_be_bytes(key.as_ref().try_into()?);
            rows.push((number, String::from_utf8_lossy(&value).into_owned()));
        }
        Ok(rows)
    }
}
