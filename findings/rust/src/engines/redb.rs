//! redb with its defaults: a commit is durable when it returns.

use super::Engine;
use crate::rows::Row;
use anyhow::{Result, bail};
use redb::{Database, ReadableDatabase as _, ReadableTable as _, TableDefinition};
use std::path::Path;

const TABLE: TableDefinition<u64, &str> = TableDefinition::new("rows");

/// The database.
pub struct Redb(Database);

impl Engine for Redb {
    fn create(directory: &Path) -> Result<Self> {
        let database = Database::create(directory.join("d.redb"))?;
        let transaction = database.begin_write()?;
        transaction.open_table(TABLE)?;
        transaction.commit()?;
        Ok(Redb(database))
    }

    fn open(directory: &Path) -> Result<Self> {
        Ok(Redb(Database::open(directory.join("d.redb"))?))
    }

    fn commit(&mut self, number: u64, content: &str) -> Result<()> {
        let transaction = self.0.begin_write()?;
        transaction.open_table(TABLE)?.insert(number, content)?;
        Ok(transaction.commit()?)
    }

    fn rows(&mut self) -> Result<Vec<Row>> {
        if !self.0.check_integrity()? {
            bail!("check_integrity had to repair a database that opened");
        }
        let transaction = self.0.begin_read()?;
        let table = transaction.open_table(TABLE)?;
        let mut rows = Vec::new();
        for pair in table.iter()? {
            let (number, content) = pair?;
            rows.push((number.value(), content.value().to_owned()));
        }
        Ok(rows)
    }
}
