// lowdb, one row a write: setup, run and check.
//
// usage: MODULES=DIRECTORY workload.mjs setup|run|check DIRECTORY

import { createRequire } from "node:module";
import path from "node:path";

const { JSONFilePreset } = await import(path.join(process.env.MODULES, "lowdb/lib/node.js"));
const rows = createRequire(import.meta.url)("../lib/rows.js");

const ROWS = rows.count(3);

const database = (directory) => JSONFilePreset(path.join(directory, "d.json"), { rows: [] });

async function setup(directory) {
  await (await database(directory)).write();
}

async function run(directory) {
  const db = await database(directory);
  for (let number = 1; number <= ROWS; number++) {
    db.data.rows.push([number, rows.content(number)]);
    await db.write();
    rows.acknowledge(number);
  }
}

async function read(directory) {
  return new Map((await database(directory)).data.rows);
}

rows.main({ setup, run, read });
