// SQLite of node-sqlite3-wasm with synchronous=EXTRA, one row a transaction: setup, run and check.
//
// usage: NODE_PATH=DIRECTORY workload.js setup|run|check DIRECTORY

"use strict";
const path = require("node:path");
const { Database } = require("node-sqlite3-wasm");
const rows = require("../lib/rows.js");

const ROWS = rows.count(4);

function database(directory) {
  const db = new Database(path.join(directory, "d.db"));
  db.exec("PRAGMA synchronous=EXTRA");
  return db;
}

function setup(directory) {
  const db = database(directory);
  db.exec("CREATE TABLE rows (number INTEGER PRIMARY KEY, content TEXT)");
  db.close();
}

function run(directory) {
  const db = database(directory);
  for (let number = 1; number <= ROWS; number++) {
    db.run("INSERT INTO rows VALUES (?, ?)", [number, rows.content(number)]);
    rows.acknowledge(number);
  }
  db.close();
}

function read(directory) {
  const db = database(directory);
  const [result] = db.all("PRAGMA integrity_check");
  if (result.integrity_check !== "ok") throw new Error(result.integrity_check);
  const found = db.all("SELECT number, content FROM rows");
  return new Map(found.map((row) => [row.number, row.content]));
}

rows.main({ setup, run, read });
