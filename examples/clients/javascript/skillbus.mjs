// Shared by the programs in this folder: the connection, and requests that throw their errors.
import { randomBytes } from "node:crypto";
import { readFile } from "node:fs/promises";
import { connect, headers, nkeyAuthenticator, NoRespondersError } from "@nats-io/transport-node";

// Connect to NATS_URL, or to the server that wrote connection.json into its data directory (`skillbus up`).
export async function open() {
  const { NATS_URL, NATS_TOKEN, NATS_SEED_FILE, NATS_CA_FILE, SKILLBUS_DATA = "data" } = process.env;
  if (NATS_URL) {
    const seed = NATS_SEED_FILE && (await readFile(NATS_SEED_FILE, "utf8")).trim();
    const authenticator = seed ? nkeyAuthenticator(new TextEncoder().encode(seed)) : undefined;
    const tls = NATS_CA_FILE ? { caFile: NATS_CA_FILE, handshakeFirst: true } : undefined;
    return connect({ servers: NATS_URL.split(","), token: NATS_TOKEN, authenticator, tls });
  }
  const path = `${SKILLBUS_DATA}/connection.json`;
  const note = await readFile(path, "utf8").catch((error) => {
    throw new Error(`${path} cannot be read (${error.code}): start skillbus, or set SKILLBUS_DATA or NATS_URL`);
  });
  const { nats_url, nats_token } = JSON.parse(note);
  return connect({ servers: nats_url, token: nats_token });
}

// Run a program: `work` gets the connection and returns the exit code. An error is printed, and the exit code is 1.
export async function main(work) {
  let nc;
  try {
    nc = await open();
    process.exitCode = (await work(nc)) ?? 0;
  } catch (error) {
    const details = Object.keys(error.details ?? {}).length ? ` ${JSON.stringify(error.details)}` : "";
    console.error(`${error.message}${details}`);
    process.exitCode = 1;
  } finally {
    if (nc && !nc.isClosed()) await nc.drain();
  }
}

// Return the arguments of the command line, or exit with code 2 if there are too few.
export function words(usage, least = 1) {
  const given = process.argv.slice(2);
  if (given.length >= least) return given;
  console.error(`usage: node ${usage}`);
  process.exit(2);
}

export class SkillbusError extends Error {
  constructor({ code, message, retryable, details = {} }, status) {
    super(`${code}: ${message}`);
    Object.assign(this, { code, status, retryable, details });
  }
}

// Send a request and return the reply. A reply is an error if it has the header Nats-Service-Error-Code.
export async function send(nc, subject, body, { timeoutMs = 10_000, type = "application/json" } = {}) {
  const h = headers();
  h.set("Content-Type", type);
  h.set("Skillbus-Deadline-Ms", String(Date.now() + timeoutMs));
  h.set("traceparent", `00-${randomBytes(16).toString("hex")}-${randomBytes(8).toString("hex")}-01`);
  const reply = await nc.request(subject, body, { timeout: timeoutMs, headers: h }).catch((error) => {
    if (!(error.cause instanceof NoRespondersError || error instanceof NoRespondersError)) throw error;
    const message = `No service answers ${subject}: check that it is running.`;
    throw new SkillbusError({ code: "unavailable", message, retryable: true }, 503);
  });
  const status = reply.headers?.get("Nats-Service-Error-Code");
  if (status) throw new SkillbusError(reply.json().error, Number(status));
  return reply;
}

export async function ask(nc, subject, request, options) {
  return (await send(nc, subject, JSON.stringify(request), options)).json();
}
