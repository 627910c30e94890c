// PGlite in a directory, one row a commit: setup, run and check.
//
// usage: NODE_PATH=DIRECTORY workload.js setup|run|check DIRECTORY

"use strict";
const path = require("node:path");
const { PGlite } = require("@electric-sql/pglite");
const rows = require("../lib/rows.js");

const ROWS = rows.count(2);

const database = (directory) => PGlite.create(path.join(directory, "d"));

async function setup(directory) {
  const db = await database(directory);
  await db.exec("CREATE TABLE rows (number int PRIMARY KEY, content text)");
  await db.exec("CHECKPOINT");
  await db.close();
}

async function run(directory) {
  const db = await database(directory);
  for (let number = 1; number <= ROWS; number++) {
    await db.query("INSERT INTO rows VALUES ($1, $2)", [number, rows.content(number)]);
    rows.acknowledge(number);
  }
  await db.close();
}

async function read(directory) {
  const db = await database(directory);
  const found = await db.query("SELECT number, content FROM rows");
  return new Map(found.rows.map((row) => [row.number, row.content]));
}

rows.main({ setup, run, read });
