"use strict";
// The pages work without this file, but for live progress, the plan and the actions: what asks for
// one is disabled until this file listens, so that no click is lost.
// All text goes in through textContent: nothing that a model wrote becomes markup.

// The prefix under which a proxy serves the pages: that of this file's own address.
const ROOT = new URL("..", document.currentScript.src).pathname.replace(/\/$/, "");

const number = (value) => Math.round(value).toLocaleString("en-GB");

function duration(seconds) {
  if (seconds === null || seconds === undefined) return "";
  if (seconds < 90) return `${Math.ceil(seconds)} s`;
  if (seconds < 5400) return `${Math.round(seconds / 60)} min`;
  return `${(seconds / 3600).toFixed(1)} h`;
}

async function call(method, path, body, type) {
  const options = { method, headers: {} };
  if (body !== undefined) { options.body = body; options.headers["content-type"] = type; }
  const answer = await fetch(path, options);
  const text = await answer.text();
  let reply = null;
  try { reply = text ? JSON.parse(text) : null; } catch { /* not JSON */ }
  if (!answer.ok) {
    const error = reply && reply.error;
    throw new Error(error ? error.message + (error.fix ? ` → ${error.fix}` : "") : `status ${answer.status}`);
  }
  return reply;
}

// ------------------------------------------------------------------ one validation, live

function stageRow(stage) {
  const rate = stage.rate > 0 ? `${stage.rate.toFixed(1)}/s` : "";
  const counts = [`${number(stage.done)} of ${number(stage.total)}`, rate].filter(Boolean).join(" · ");
  const bar = make("progress", { max: stage.total || 1, "aria-label": stage.label });
  bar.value = stage.done;
  return make("li", {}, make("div", { class: "line" },
    make("span", { text: stage.label }), make("span", { text: counts })), bar);
}

function showState(v) {
  const state = $("state");
  state.textContent = v.state;
  state.className = `state ${v.state}`;
  $("phase").textContent = v.progress.phase;
  const left = v.progress.seconds_left;
  $("left").textContent = left ? `${v.progress.left_is} ${duration(left)} left` : "";
  $("progress-note").textContent = v.progress.note;
  $("progress-note").hidden = !v.progress.note;
  $("stages").replaceChildren(...v.progress.stages.map(stageRow));
  for (const name of ["candidates", "judgements", "input_tokens", "output_tokens", "errors", "unparsed"]) {
    $(`count-${name}`).textContent = number(v.counts[name]);
  }
  drawProgress(v.progress.curve);
  $("count-cost").textContent = v.counts.cost ? `$ ${v.counts.cost.toFixed(2)}` : "–";
}

function live(root) {
  const base = `/validations/${root.dataset.id}`;
  const look = async () => {
    const v = await call("GET", `${ROOT}/v1${base}`).catch(() => null);
    if (v && ["done", "failed", "cancelled"].includes(v.state)) { location.reload(); return; }
    if (v) showState(v);
    setTimeout(look, document.hidden ? 15000 : 1500);
  };
  look();
}

function actions() {
  for (const button of document.querySelectorAll("button[data-call]")) {
    button.addEventListener("click", async () => {
      if (button.dataset.sure && !confirm(button.dataset.sure)) return;
      button.disabled = true;
      const body = button.dataset.body;
      try {
        await call(button.dataset.call, button.dataset.path, body, body && "application/json");
        location.assign(button.dataset.then || location.pathname);
      } catch (error) {
        $("action-error").textContent = error.message;
        $("action-error").hidden = false;
        button.disabled = false;
      }
    });
    button.disabled = false;
  }
}

// ------------------------------------------------------------------ writing an experiment

function planTable(models) {
  const cells = (row) => [row.name, number(row.to_do), number(row.reply_tokens)];
  const rows = models.map((row) => make("tr", {}, ...cells(row).map((text, at) =>
    make(at ? "td" : "th", { text, scope: at ? null : "row" }))));
  const head = ["model", "calls", "tokens written"].map((t) => make("th", { text: t, scope: "col" }));
  return make("div", { class: "scroll" }, make("table", { class: "plan-table" },
    make("thead", {}, make("tr", {}, ...head)), make("tbody", {}, ...rows)));
}

function showPlan(plan) {
  const models = [...plan.policies, ...plan.rewarders], totals = plan.totals;
  const lines = [`${number(plan.questions.count)} questions`,
    ...plan.pairs.map((rows) => `${number(rows.count)} pairs of ${rows.name}`)].join(", ");
  const cost = [`at most ${number(totals.calls)} calls`,
    totals.gpu_hours >= 0.05 ? `about ${totals.gpu_hours.toFixed(1)} GPU hours` : "",
    totals.dollars ? `about $ ${totals.dollars.toFixed(2)}` : ""].filter(Boolean).join("; ");
  const assumed = make("details", { class: "more" }, make("summary", { text: "What this is based on" }),
    make("ul", { class: "note" }, ...plan.assumptions.map((text) => make("li", { text }))));
  $("plan").replaceChildren(
    make("p", { class: "fine", text: `Valid: ${lines}.` }), make("p", { text: `${cost}.` }),
    ...plan.warnings.map((text) => make("p", { class: "note", text })), planTable(models), assumed);
}

function writing(form) {
  const area = form.experiment, submit = form.querySelector("button[type=submit]");
  const type = "application/yaml";
  let timer = 0, latest = 0;
  const check = async () => {
    const request = ++latest;
    try {
      const plan = await call("POST", `${ROOT}/v1/plan`, area.value, type);
      if (request !== latest) return;
      showPlan(plan);
      submit.disabled = false;
    } catch (error) {
      if (request !== latest) return;
      $("plan").replaceChildren(make("p", { class: "error", text: error.message }));
      submit.disabled = true;
    }
  };
  area.addEventListener("input", () => { clearTimeout(timer); submit.disabled = true; timer = setTimeout(check, 350); });
  for (const select of form.querySelectorAll("select[data-key]")) {
    select.addEventListener("change", () => {
      if (!select.value) return;
      area.value = insert(area.value, select.dataset.key, select.value);
      select.value = "";
      area.dispatchEvent(new Event("input"));
    });
    select.disabled = false;
  }
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    submit.disabled = true;
    try {
      const validation = await call("POST", `${ROOT}/v1/validations`, area.value, type);
      location.assign(`${ROOT}/validations/${validation.id}`);
    } catch (error) {
      $("plan").replaceChildren(make("p", { class: "error", text: error.message }));
      submit.disabled = false;
    }
  });
  check();
}

// Adds "- NAME" under a key of the YAML, or the key itself where it is missing.
function insert(text, key, name) {
  const lines = text.replace(/\s*$/, "").split("\n");
  const at = lines.findIndex((line) => line.startsWith(`${key}:`));
  if (at < 0) return `${lines.join("\n")}\n${key}:\n- ${name}\n`;
  if (/^\w+:\s*\[\s*\]\s*$/.test(lines[at])) lines[at] = `${key}:`;
  let end = at + 1;
  while (end < lines.length && /^(\s|-|#|$)/.test(lines[end])) end += 1;
  const like = lines.slice(at + 1, end).find((line) => /^\s*-/.test(line));
  lines.splice(end, 0, `${like ? like.match(/^\s*/)[0] : ""}- ${name}`);
  return `${lines.join("\n")}\n`;
}

function filtering(form) {
  form.hidden = false;
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("input", () => {
    const words = form.words.value.toLowerCase().split(/\s+/), cards = [...document.querySelectorAll("article.card")];
    for (const card of cards) {
      const text = card.textContent.toLowerCase(), { kind, engine } = card.dataset;
      card.hidden = !(words.every((word) => text.includes(word))
        && ["", kind].includes(form.kind.value) && ["", engine].includes(form.engine.value));
    }
    for (const group of document.querySelectorAll(".group")) group.hidden = !group.querySelector("article.card:not([hidden])");
    $("matches").textContent = `${cards.filter((card) => !card.hidden).length} of ${cards.length} cards`;
  });
}

// The address that a new server prints holds the token behind "#", which no browser sends.
function signIn(form) {
  const token = location.hash.slice(1);
  if (!token.startsWith("bon_")) return;
  history.replaceState(null, "", location.pathname + location.search);
  form.token.value = token;
  form.requestSubmit();
}

theme();
actions();
document.querySelectorAll("main table").forEach(folded);
if ($("login")) signIn($("login"));
if ($("filter")) filtering($("filter"));
if ($("live")) live($("live"));
if ($("write")) writing($("write"));
if ($("refresh")) setTimeout(() => { if (!document.hidden) location.reload(); }, 10000);
