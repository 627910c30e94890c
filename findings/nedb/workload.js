// NeDB, one row an insert, and a compaction after some: setup, run and check.
//
// usage: NODE_PATH=DIRECTORY workload.js setup|run|check DIRECTORY

"use strict";
const path = require("node:path");
const Datastore = require("@seald-io/nedb");
const rows = require("../lib/rows.js");

const ROWS = rows.count(5);
const COMPACT_AFTER = 3;

async function database(directory) {
  const db = new Datastore({ filename: path.join(directory, "d.db") });
  await db.loadDatabaseAsync();
  return db;
}

async function run(directory) {
  const db = await database(directory);
  for (let number = 1; number <= ROWS; number++) {
    await db.insertAsync({ number, content: rows.content(number) });
    rows.acknowledge(number);
    if (number === COMPACT_AFTER) await db.compactDatafileAsync();
  }
}

async function read(directory) {
  const found = await (await database(directory)).findAsync({});
  return new Map(found.map((row) => [row.number, row.content]));
}

rows.main({ setup: database, run, read });
