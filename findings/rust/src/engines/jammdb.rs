//! jammdb with one row a transaction.

use super::Engine;
use crate::rows::Row;
use anyhow::Result;
use jammdb::DB;
use std::path::Path;

const BUCKET: &str = "rows";

/// The database.
pub struct Jammdb(DB);

impl Engine for Jammdb {
    fn create(directory: &Path) -> Result<Self> {
        let jammdb = Jammdb::open(directory)?;
        let transaction = jammdb.0.tx(true)?;
        transaction.create_bucket(BUCKET)?;
        transaction.commit()?;
        Ok(jammdb)
    }

    fn open(directory: &Path) -> Result<Self> {
        Ok(Jammdb(DB::open(directory.join("d.jammdb"))?))
    }

    fn commit(&mut self, number: u64, content: &str) -> Result<()> {
        let transaction = self.0.tx(true)?;
        transaction.get_bucket(BUCKET)?.put(number.to_be_bytes(), content)?;
        Ok(transaction.commit()?)
    }

    fn rows(&mut self) -> Result<Vec<Row>> {
        self.0.check()?;
        let transaction = self.0.tx(false)?;
        let bucket = transaction.get_bucket(BUCKET)?;
        let mut rows = Vec::new();
        for pair in bucket.kv_pairs() {
            let number = u64::from_be_bytes(pair.key().try_into()?);
            rows.push((number, String::from_utf8_lossy(pair.value()).into_owned()));
        }
        Ok(rows)
    }
}
