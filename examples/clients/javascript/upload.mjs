// Upload a package into the bucket `skills` and wait for the result: node upload.mjs skill.zip
import { readFile } from "node:fs/promises";
import { basename } from "node:path";
import { jetstream } from "@nats-io/jetstream";
import { Objm } from "@nats-io/obj";
import { main, words } from "./skillbus.mjs";

const [path] = words("upload.mjs PACKAGE.zip");
const name = `default/${basename(path)}`; // <project>/<anything>.zip

await main(async (nc) => {
  const data = await readFile(path);
  const outcome = waitForOutcome(nc); // listen before the upload: its events come after it
  // In a deployment with accounts JetStream has a domain: NATS_DOMAIN=skillbus.
  const bucket = await new Objm(jetstream(nc, { domain: process.env.NATS_DOMAIN })).open("skills");
  await bucket.putBlob({ name }, data);
  const { subject, fact } = await outcome;
  if (subject.includes(".taken.")) {
    console.log(`${fact.outcome} ${fact.name}`);
    return 0;
  }
  for (const finding of fact.errors) console.error(`${finding.code}: ${finding.message}`);
  return 1;
});

function waitForOutcome(nc) {
  return new Promise((resolve, reject) => {
    const late = new Error("No event within 30 s: check that the indexer is running.");
    setTimeout(() => reject(late), 30_000).unref();
    const callback = (error, message) => {
      if (error) return reject(error);
      const fact = message.json();
      if (fact.source === name) resolve({ subject: message.subject, fact });
    };
    for (const kind of ["taken", "rejected"]) nc.subscribe(`skillbus.evt.upload.${kind}.*`, { callback });
  });
}
