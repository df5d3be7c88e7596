// Drives the real Stagehand on the tabs of a browser that is there already.
//
//   node ask_stagehand.mjs PACKAGE_FOLDER BROWSER_WEBSOCKET_URL
//
// PACKAGE_FOLDER holds node_modules. A line of JSON on stdin is a question, a line on stdout its answer:
//
//   {"do": "snapshot", "target", "into", "options"}   its snapshot of a tab, written into a file
//   {"do": "time", "target", "runs"}                  CPU of its own code on one and the same replies of the browser
//   {"do": "watch"}                                   answers once it knows of every tab so far
//
// Stagehand attaches itself to each tab when the tab is made, before anything is loaded.
import fs from "node:fs";
import path from "node:path";
import readline from "node:readline";
import { pathToFileURL } from "node:url";

const [folder, cdpUrl] = process.argv.slice(2);
const PACKAGE = path.join(folder, "node_modules/@browserbasehq/stagehand");
const load = (name) => import(pathToFileURL(path.join(PACKAGE, name)).href);
const { Stagehand } = await load("dist/esm/index.js");
const snapshots = await load("dist/esm/lib/v3/understudy/a11y/snapshot/capture.js");
const version = JSON.parse(fs.readFileSync(path.join(PACKAGE, "package.json"))).version;
const PATIENCE_MS = 20000;

const stagehand = new Stagehand({
  env: "LOCAL", verbose: 0, disablePino: true, logger: () => {}, localBrowserLaunchOptions: { cdpUrl },
});
await stagehand.init();

const tick = () => new Promise((resolve) => setTimeout(resolve, 20));

/** The page of a tab; the id of a tab is that of its main frame. */
async function pageOf(target) {
  for (let waited = 0; waited < PATIENCE_MS; waited += 20) {
    const page = stagehand.context.pages().find((p) => p.targetId() === target || p.mainFrameId() === target);
    if (page) return page;
    await tick();
  }
  throw new Error(`it knows no tab ${target}`);
}

/** Calls `each(session, send)` for every distinct session of a page, and undoes it all afterwards. */
async function withSessions(page, each, work) {
  const before = new Map();
  for (const frame of page.listAllFrameIds()) {
    const session = page.getSessionForFrame(frame);
    if (before.has(session)) continue;
    const own = Object.hasOwn(session, "send");
    before.set(session, own ? session.send : null);
    session.send = each(session, session.send.bind(session));
  }
  try {
    return await work();
  } finally {
    for (const [session, send] of before) {
      if (send) session.send = send;
      else delete session.send;
    }
  }
}

const keyOf = (session, method, params) => `${session.id ?? "root"} ${method} ${JSON.stringify(params ?? {})}`;

const doing = {
  async watch({ target }) {
    await pageOf(target);
    return {};
  },

  async snapshot({ target, into, options }) {
    const page = await pageOf(target);
    const calls = {};
    const failed = [];
    const count = (session, send) => async (method, params) => {
      calls[method] = (calls[method] ?? 0) + 1;
      try {
        return await send(method, params);
      } catch (error) {
        failed.push([method, String(error?.message ?? error)]);
        throw error;
      }
    };
    const made = await withSessions(page, count, () => snapshots.captureHybridSnapshot(page, options ?? {}));
    const context = snapshots.buildFrameContext(page);
    const frames = context.frames.map((id) => ({
      id, ordinal: page.getOrdinal(id), parent: context.parentByFrame.get(id) ?? null,
      session: page.getSessionForFrame(id).id ?? "root",
    }));
    const said = {
      version, frames, calls, failed, tree: made.combinedTree,
      xpath_map: Object.entries(made.combinedXpathMap), url_map: Object.entries(made.combinedUrlMap),
    };
    fs.writeFileSync(into, JSON.stringify(said));
    return {};
  },

  async time({ target, runs }) {
    const page = await pageOf(target);
    const texts = new Map();
    const record = (session, send) => async (method, params) => {
      const reply = await send(method, params);
      texts.set(keyOf(session, method, params), JSON.stringify(reply ?? {}));
      return reply;
    };
    await withSessions(page, record, () => snapshots.captureHybridSnapshot(page, {}));
    const own = [], parsing = [];
    for (let run = 0; run < runs; run++) {
      const begun = process.cpuUsage();
      const replies = new Map([...texts].map(([key, text]) => [key, JSON.parse(text)]));
      parsing.push(sum(process.cpuUsage(begun)));
      global.gc?.();
      const replay = (session) => async (method, params) => replies.get(keyOf(session, method, params)) ?? {};
      own.push(
        await withSessions(page, replay, async () => {
          const started = process.cpuUsage();
          await snapshots.captureHybridSnapshot(page, {});
          return sum(process.cpuUsage(started));
        }),
      );
    }
    return { own_ms: own, parsing_ms: parsing };
  },
};

const sum = ({ user, system }) => (user + system) / 1000;

const say = (answer) => process.stdout.write(JSON.stringify(answer) + "\n");
say({ version });
for await (const line of readline.createInterface({ input: process.stdin })) {
  const question = JSON.parse(line);
  try {
    say(await doing[question.do](question));
  } catch (error) {
    say({ error: String(error?.message ?? error).slice(0, 500) });
  }
}
process.exit(0);
