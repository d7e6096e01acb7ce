// Upload a package into the bucket `skills` and wait for the result: node upload.mjs skill.zip
import { readFile } from "node:fs/promises";
import { basename } from "node:path";
import { jetstream, jetstreamManager } from "@nats-io/jetstream";
import { Objm } from "@nats-io/obj";
import { main, words } from "./skillbus.mjs";

const [path] = words("upload.mjs PACKAGE.zip");
const name = `default/${basename(path)}`; // <project>/<anything>.zip

await main(async (nc) => {
  const data = await readFile(path);
  // Read from the next event on: the upload causes no earlier one.
  const stream = await (await jetstreamManager(nc)).streams.info("SKILLBUS_EVT");
  const consumer = await jetstream(nc).consumers.get("SKILLBUS_EVT", {
    filter_subjects: ["skillbus.evt.upload.*.*"],
    deliver_policy: "by_start_sequence",
    opt_start_seq: stream.state.last_seq + 1,
  });
  await (await new Objm(nc).open("skills")).putBlob({ name }, data);
  return outcome(await consumer.fetch({ max_messages: 1000, expires: 30_000 }));
});

async function outcome(events) {
  for await (const event of events) {
    const fact = event.json();
    if (fact.source !== name) continue;
    if (event.subject.includes(".taken.")) {
      console.log(`${fact.outcome} ${fact.name}`);
      return 0;
    }
    for (const finding of fact.errors) console.error(`${finding.code}: ${finding.message}`);
    return 1;
  }
  console.error("No event within 30 s: check that the indexer is running.");
  return 1;
}
