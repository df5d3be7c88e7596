// Draws the task list into #app, a little after the page has loaded, as applications do.

const tasks = [
  "Wind the clockwork", "Trim the wick", "Clean the lens", "Fill the oil tank", "Log the weather", "Feed the cat",
  "Paint the north door", "Answer the harbour master", "Mend the flag line", "Count the passing ships",
].map((title, index) => ({ title, done: index % 4 === 1 }));
const app = document.getElementById("app");
let shown = "all";

function element(name, attributes, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else made.setAttribute(key, value);
  }
  made.append(...children);
  return made;
}

function tab(name) {
  const look = name === shown ? { "aria-pressed": "true" } : { "aria-pressed": "false", class: "plain" };
  return element("button", { type: "button", ...look, onclick: () => { shown = name; draw(); } }, name);
}

function item(task) {
  return element("li", task.done ? { class: "done" } : {},
    element("span", {}, task.title),
    element("button", { type: "button", onclick: () => { task.done = !task.done; draw(); } }, task.done ? "Undo" : "Done"),
    element("button", { type: "button", class: "plain", "aria-label": `Remove ${task.title}`,
      onclick: () => { tasks.splice(tasks.indexOf(task), 1); draw(); } }, "Remove"));
}

function draw() {
  const visible = tasks.filter((task) => shown === "all" || task.done === (shown === "done"));
  app.replaceChildren(
    element("h1", {}, "Tasks of the keeper"),
    element("p", { class: "lead", role: "status" }, `${tasks.filter((task) => !task.done).length} of ${tasks.length} still open`),
    element("div", { class: "tabs" }, tab("all"), tab("open"), tab("done")),
    element("ul", { class: "tasks" }, ...visible.map(item)),
  );
}

// The dots move while the tasks are on their way, so the page is not quiet before they are there.
let waited = 0;
app.textContent = "Loading";
const waiting = setInterval(() => {
  waited += 1;
  app.textContent = `Loading${".".repeat(waited)}`;
  if (waited === 10) {
    clearInterval(waiting);
    draw();
  }
}, 50);
