// node-json-db with syncOnSave, one row a push: setup, run and check.
//
// usage: NODE_PATH=DIRECTORY workload.js setup|run|check DIRECTORY

"use strict";
const path = require("node:path");
const { JsonDB, Config } = require("node-json-db");
const rows = require("../lib/rows.js");

const ROWS = rows.count(3);

// The fifth argument is syncOnSave.
const database = (directory) =>
  new JsonDB(new Config(path.join(directory, "d"), true, false, "/", true));

const setup = (directory) => database(directory).push("/rows", {});

async function run(directory) {
  const db = database(directory);
  for (let number = 1; number <= ROWS; number++) {
    await db.push(`/rows/${number}`, rows.content(number));
    rows.acknowledge(number);
  }
}

async function read(directory) {
  const found = await database(directory).getData("/rows");
  return new Map(Object.entries(found).map(([key, content]) => [Number(key), content]));
}

rows.main({ setup, run, read });
