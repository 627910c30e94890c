// lmdb-js with its defaults, one row a flush: setup, run and check.
//
// usage: workload.js setup|run|check DIRECTORY

"use strict";
const path = require("node:path");
const { open } = require("lmdb");
const rows = require("../lib/rows.js");

const ROWS = rows.count(4);

const database = (directory) => open({ path: path.join(directory, "d"), mapSize: 16 << 20 });

async function setup(directory) {
  const db = database(directory);
  await db.put("made", true);
  await db.flushed;
  await db.close();
}

async function run(directory) {
  const db = database(directory);
  for (let number = 1; number <= ROWS; number++) {
    await db.put(number, rows.content(number));
    // The documentation: resolved when the write is on the disk.
    await db.flushed;
    rows.acknowledge(number);
  }
  await db.close();
}

async function read(directory) {
  const found = new Map();
  for (const { key, value } of database(directory).getRange()) {
    if (key !== "made") found.set(key, value);
  }
  return found;
}

rows.main({ setup, run, read });
