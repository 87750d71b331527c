// The log of changes, sign-ins, and rejected requests: one line of JSON each. Keeps the last entries for a page.
const KEPT = 500;
const SHOWN = 300;   // characters of the fields of a form

export class Journal {
  constructor(log) {
    this.log = log;
    this.entries = [];   // the newest entry is last
  }

  add(entry) {
    this.log(JSON.stringify(entry));
    this.entries.push({ ...entry, said: entry.said && JSON.stringify(entry.said).slice(0, SHOWN) });
    if (this.entries.length > KEPT) this.entries.shift();
  }
}
