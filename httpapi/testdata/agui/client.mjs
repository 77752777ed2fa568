// A chat by AG-UI's own client, against the handler whose address is the first
// argument. It prints what the client shows at the end of each run. The client
// refuses what breaks the protocol's order, and each event is checked against
// the protocol's schema; what the client warns of, is an error as well.
import { createRequire } from "node:module";

const require = createRequire(process.argv[3]); // where the client is installed
const { HttpAgent, buildResumeArray } = require("@ag-ui/client");
const { EventSchema } = require("@ag-ui/core/schemas");

const faults = [];
for (const how of ["warn", "error"]) console[how] = (...what) => faults.push(what.join(" "));

const agent = new HttpAgent({
  url: process.argv[2],
  threadId: "thread-of-node",
  headers: { "X-User": "ada" },
});

function say(content) {
  agent.addMessage({ id: crypto.randomUUID(), role: "user", content });
}

async function run(parameters = {}) {
  const types = [];
  await agent.runAgent(parameters, {
    onEvent({ event }) {
      types.push(event.type);
      const read = EventSchema.safeParse(event);
      if (!read.success) faults.push(JSON.stringify(event) + ": " + read.error.message);
    },
    onRunFailed({ error }) {
      faults.push(error.message);
    },
  });
  console.log(JSON.stringify({
    types,
    interrupts: agent.pendingInterrupts.map((i) => i.reason),
    messages: agent.messages.map((m) => m.role + ": " + (m.content ?? "") +
      (m.toolCalls ?? []).map((c) => " " + c.function.name + c.function.arguments).join("")),
  }));
}

async function answer(status, payload) {
  const answers = {};
  for (const i of agent.pendingInterrupts) answers[i.id] = { status, payload };
  await run({ resume: buildResumeArray(agent.pendingInterrupts, answers) });
}

say("pay");
await run();
await answer("resolved", { approved: true });
say("ask");
await run();
await answer("cancelled");
say("report");
await run();
agent.setMessages([]); // as after the page was loaded again
await run();
for (const f of faults) console.log(JSON.stringify({ fault: f }));
