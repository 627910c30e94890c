// Rows with content that follows from their number, for workloads and checks in JavaScript. The
// scheme is the one of rows.py.

"use strict";
const crypto = require("node:crypto");
const fs = require("node:fs");

// Exit codes of a check, both bad to `seekless crash-test`.
const LOST = 1;
const DAMAGED = 3;

// How many rows a workload commits: ROWS of the environment, else the usual number.
const count = (usual) => Number(process.env.ROWS || usual);

// The 512 characters of row `number`.
function content(number) {
  const part = (index) =>
    crypto.createHash("sha256").update(`row ${number} part ${index}`).digest("hex");
  return Array.from({ length: 8 }, (_, index) => part(index)).join("");
}

// Records that row `number` is committed.
function acknowledge(number) {
  fs.appendFileSync(process.env.SEEKLESS_ACKS, `${number}\n`);
}

function end(code, message) {
  fs.writeSync(1, `${message}\n`);
  process.exit(code);
}

// Ends the check with the verdict about `rows`, a map of numbers to content.
function judge(rows) {
  for (let number = 1; number <= rows.size; number++) {
    if (!rows.has(number)) {
      end(DAMAGED, `damaged: row ${number} is missing, but a later row is there`);
    }
    if (rows.get(number) !== content(number)) {
      end(DAMAGED, `damaged: row ${number} has other content`);
    }
  }
  const acknowledged = Number(process.env.SEEKLESS_ACKED || 0);
  if (rows.size < acknowledged) {
    const last = `row ${rows.size} is the last one there`;
    end(LOST, `lost: row ${acknowledged} is acknowledged, ${last}`);
  }
  end(0, `good: ${rows.size} rows`);
}

// Does what the last two words of the command line say: setup, run or check, and a directory.
async function main({ setup, run, read }) {
  const [action, directory] = process.argv.slice(-2);
  if (action !== "check") return action === "setup" ? setup(directory) : run(directory);
  let rows;
  try {
    rows = await read(directory);
  } catch (error) {
    const cause = error.cause ? `: ${error.cause.message}` : "";
    end(DAMAGED, `damaged: ${error.message}${cause}`.replace(/\s+/g, " "));
  }
  judge(rows);
}

module.exports = { acknowledge, content, count, main };
