"use strict";
// Server-sent events of the REST API: those of a reply to a request, and those of a stream that the browser follows.

// Yields the events of a reply as {name, data}.
async function* readEvents(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  let name = "message";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const lines = (rest + value).split("\n");
    rest = lines.pop();
    for (const line of lines) {
      if (line === "") name = "message";
      else if (line.startsWith("event: ")) name = line.slice(7);
      else if (line.startsWith("data: ") && line !== "data: [DONE]") yield { name, data: JSON.parse(line.slice(6)) };
    }
  }
}

// Calls the handler of each event with its data, until `ended`. Problems are shown in the place's data-error. The browser
// opens a broken stream again by itself, but not after a refusal: then a few times more, as services restart.
function followEvents(place, address, handlers, left = 12) {
  const events = new EventSource(address);
  const problem = place.querySelector("[data-error]");
  const say = (text) => { problem.textContent = text; problem.hidden = false; };
  for (const [name, handle] of Object.entries(handlers)) {
    events.addEventListener(name, (event) => {
      if (name === "ended") events.close();
      problem.hidden = true;
      handle(JSON.parse(event.data));
    });
  }
  events.addEventListener("error", (event) => {
    if (event.data) {
      const { detail, code } = JSON.parse(event.data);
      say(`${detail} (${code})`);
    }
    if (events.readyState !== EventSource.CLOSED) return;
    if (left > 0) setTimeout(() => followEvents(place, address, handlers, left - 1), 5000);
    else say(place.dataset.lostText);
  });
}
