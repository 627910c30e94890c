// LokiJS with its adapter for files, saved after each row: setup, run and check.
//
// usage: NODE_PATH=DIRECTORY workload.js setup|run|check DIRECTORY

"use strict";
const path = require("node:path");
const { promisify } = require("node:util");
const Loki = require("lokijs");
const rows = require("../lib/rows.js");

const ROWS = rows.count(3);

async function database(directory) {
  const db = new Loki(path.join(directory, "d.json"), { adapter: new Loki.LokiFsAdapter() });
  const load = promisify((done) => db.loadDatabase({}, done));
  const error = await load();
  if (error) throw error;
  return db;
}

const save = (db) => promisify((done) => db.saveDatabase(done))();
const collection = (db) => db.getCollection("rows") || db.addCollection("rows");

async function setup(directory) {
  const db = await database(directory);
  collection(db);
  await save(db);
}

async function run(directory) {
  const db = await database(directory);
  for (let number = 1; number <= ROWS; number++) {
    collection(db).insert({ number, content: rows.content(number) });
    await save(db);
    rows.acknowledge(number);
  }
}

async function read(directory) {
  const found = collection(await database(directory)).find();
  return new Map(found.map((row) => [row.number, row.content]));
}

rows.main({ setup, run, read });
