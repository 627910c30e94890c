// node-persist, one row a call of setItem: setup, run and check.
//
// usage: NODE_PATH=DIRECTORY workload.js setup|run|check DIRECTORY

"use strict";
const path = require("node:path");
const storage = require("node-persist");
const rows = require("../lib/rows.js");

const ROWS = rows.count(4);

const open = (directory) => storage.init({ dir: path.join(directory, "d") });

async function run(directory) {
  await open(directory);
  for (let number = 1; number <= ROWS; number++) {
    await storage.setItem(String(number), rows.content(number));
    rows.acknowledge(number);
  }
}

async function read(directory) {
  await open(directory);
  const keys = await storage.keys();
  const pairs = keys.map(async (key) => [Number(key), await storage.getItem(key)]);
  return new Map(await Promise.all(pairs));
}

rows.main({ setup: open, run, read });
