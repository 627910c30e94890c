// AceBase with its own file format, one row a call of set: setup, run and check.
//
// usage: NODE_PATH=DIRECTORY workload.js setup|run|check DIRECTORY

"use strict";
const { AceBase } = require("acebase");
const rows = require("../lib/rows.js");

const ROWS = rows.count(3);

async function database(directory) {
  const db = new AceBase("d", { logLevel: "error", storage: { path: directory } });
  await db.ready();
  return db;
}

async function setup(directory) {
  const db = await database(directory);
  await db.ref("begin").set("0");
  await db.close();
}

async function run(directory) {
  const db = await database(directory);
  for (let number = 1; number <= ROWS; number++) {
    await db.ref(`rows/r${number}`).set(rows.content(number));
    rows.acknowledge(number);
  }
  await db.close();
}

async function read(directory) {
  const db = await database(directory);
  const found = (await db.ref("rows").get()).val() || {};
  return new Map(Object.entries(found).map(([key, content]) => [Number(key.slice(1)), content]));
}

rows.main({ setup, run, read });
