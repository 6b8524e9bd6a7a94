// Prints what @asyncapi/parser finds wrong with a document, a line each; nothing and exit code 0 if it is valid.
import {readFileSync} from "node:fs";
import parserModule from "@asyncapi/parser";

const {Parser} = parserModule;
const {diagnostics} = await new Parser().parse(readFileSync(process.argv[2], "utf8"));
const faults = diagnostics.filter(({severity}) => severity <= 1); // errors and warnings
for (const {code, message, path} of faults) console.log(`${code}: ${message} at ${path.join(".")}`);
process.exitCode = faults.length ? 1 : 0;
