// Chats with OpenAI's own client: whole, streamed, with a tool of the caller, and cancelled.
//
//     SKILLBUS_URL=http://127.0.0.1:8080 SKILLBUS_API_KEY=... node chat.mjs "What is 17 * 23?"
//
// Prints a line of JSON for each of them.

import OpenAI from "openai";

const question = process.argv[2];
if (!question) {
  console.error("usage: node chat.mjs QUESTION");
  process.exit(2);
}
const client = new OpenAI({
  baseURL: `${process.env.SKILLBUS_URL ?? "http://127.0.0.1:8080"}/v1`,
  apiKey: process.env.SKILLBUS_API_KEY ?? "none",
  maxRetries: 0,
});
const messages = [{ role: "user", content: question }];

/** Ask once, and print the answer with its usage. */
async function ask() {
  const reply = await client.chat.completions.create({ model: "auto", messages });
  const [choice] = reply.choices;
  return { text: choice.message.content, finish: choice.finish_reason, tokens: reply.usage.total_tokens };
}

/** Read a stream to its end. */
async function stream() {
  const chunks = await client.chat.completions.create({
    model: "auto",
    messages,
    stream: true,
    stream_options: { include_usage: true },
  });
  let text = "";
  let tokens = 0;
  for await (const chunk of chunks) {
    text += chunk.choices[0]?.delta?.content ?? "";
    tokens = chunk.usage?.total_tokens ?? tokens;
  }
  return { text, tokens };
}

/** Let the client call a function of ours, as its own helper does it. */
async function callTool() {
  const called = [];
  const runner = client.chat.completions.runTools({
    model: "auto",
    messages,
    tools: [
      {
        type: "function",
        function: {
          name: "get_weather",
          description: "Weather of a city.",
          parameters: { type: "object", properties: { city: { type: "string" } } },
          parse: JSON.parse,
          function: ({ city }) => {
            called.push(city);
            return "rain";
          },
        },
      },
    ],
  });
  return { text: await runner.finalContent(), called };
}

/** Leave a stream after its first text, which cancels the turn. */
async function cancel() {
  const chunks = await client.chat.completions.create({ model: "auto", messages, stream: true });
  let text = "";
  for await (const chunk of chunks) {
    text = chunk.choices[0]?.delta?.content ?? "";
    if (text) chunks.controller.abort();
  }
  return { text };
}

for (const step of [ask, stream, callTool, cancel]) {
  console.log(JSON.stringify({ step: step.name, ...(await step()) }));
}
