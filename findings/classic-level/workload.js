// classic-level with synchronous writes, in several new databases: setup, run and check.
//
// usage: workload.js setup|run|check DIRECTORY

"use strict";
const fs = require("node:fs");
const path = require("node:path");
const { ClassicLevel } = require("classic-level");
const rows = require("../lib/rows.js");

const DATABASES = 1;
const OPENS = 2;
const ROWS_PER_OPEN = rows.count(2);

// A number in decimal digits that sort.
const key = (number) => String(number).padStart(8, "0");

const place = (directory, index) => path.join(directory, `db${index}`);

async function database(directory, index) {
  const db = new ClassicLevel(place(directory, index), { createIfMissing: true });
  await db.open();
  return db;
}

async function setup(directory) {
  for (let index = 0; index < DATABASES; index++) fs.mkdirSync(place(directory, index));
}

async function run(directory) {
  let number = 0;
  for (let index = 0; index < DATABASES; index++) {
    for (let open = 0; open < OPENS; open++) {
      const db = await database(directory, index);
      for (let row = 0; row < ROWS_PER_OPEN; row++) {
        number += 1;
        await db.put(key(number), rows.content(number), { sync: true });
        rows.acknowledge(number);
      }
      await db.close();
    }
  }
}

async function read(directory) {
  const found = new Map();
  for (let index = 0; index < DATABASES; index++) {
    const db = await database(directory, index);
    for await (const [name, value] of db.iterator()) found.set(Number(name), value);
    await db.close();
  }
  return found;
}

rows.main({ setup, run, read });
